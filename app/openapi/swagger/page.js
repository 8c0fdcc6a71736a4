import * as signIn from "./sign_in.js";

const found = (id) => document.getElementById(id);
const place = found("swagger-ui");
const dialog = found("sign-in");

// Swagger UI's own dialog asks for a client id, a secret and scopes, which are of no use here.
const OurDialog = () => ({
  components: { ServersContainer: () => null },
  statePlugins: {
    auth: { wrapActions: { showDefinitions: () => openDialog } },
  },
});

const ui = SwaggerUIBundle({
  url: place.dataset.specification,
  domNode: place,
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  plugins: [OurDialog],
  presets: [SwaggerUIBundle.presets.apis],
  requestInterceptor: prepare,
  responseInterceptor: lookAt,
  tryItOutEnabled: true,
  validatorUrl: null,
});

function asksForToken(request) {
  const { pathname } = new URL(request.url, location);
  return pathname === "/api/oauth/token" && typeof request.body === "string";
}

async function prepare(request) {
  if (asksForToken(request)) {
    const form = new URLSearchParams(request.body);
    if (form.get("password")) form.set("password", await signIn.hashed(form.get("password")));
    request.body = form.toString();
  } else if (request.headers?.Authorization) {
    await signIn.renewed();
    const token = signIn.accessToken();
    if (token) request.headers.Authorization = `Bearer ${token}`;
    else delete request.headers.Authorization;
  }
  return request;
}

async function lookAt(response) {
  if (response.status === 401) await signIn.denied();
  return response;
}

signIn.watch(({ isSignedIn, isEnded }) => {
  const schema = { type: "http", scheme: "bearer" };
  const bearer = { name: "bearer", schema, value: signIn.accessToken() };
  if (isSignedIn) ui.authActions.authorize({ bearer });
  else if (ui.authSelectors.authorized().size) ui.authActions.logout(["bearer"]);
  found("ended").hidden = !isEnded;
  found("signed-in").hidden = !isSignedIn;
  found("signed-out").hidden = isSignedIn;
  found("who").textContent = signIn.name() ?? "";
});

function openDialog() {
  found("fault").textContent = "";
  dialog.showModal();
}

dialog.addEventListener("close", () => dialog.querySelectorAll("form").forEach((form) => form.reset()));

function onSubmit(form, act) {
  found(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const { elements, lastElementChild } = event.target;
    const buttons = lastElementChild.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      await act(elements);
      dialog.close();
    } catch (error) {
      found("fault").textContent = error.message;
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  });
}

onSubmit("by-password", ({ username, password }) => signIn.withPassword(username.value, password.value));
onSubmit("by-token", ({ token }) => signIn.withToken(token.value.trim()));
onSubmit("signed-in", () => signIn.out());
found("again").addEventListener("click", openDialog);
dialog.querySelectorAll(".close").forEach((button) => button.addEventListener("click", () => dialog.close()));
