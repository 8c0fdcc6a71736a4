import * as session from "./sign_in.js";

const byId = (id) => document.getElementById(id);
const container = byId("swagger-ui");
const dialog = byId("sign-in");

// Swagger UI's own dialog asks for a client id, a secret and scopes, which are of no use here.
const SignInDialogPlugin = () => ({
  components: { ServersContainer: () => null },
  statePlugins: {
    auth: { wrapActions: { showDefinitions: () => openDialog } },
  },
});

const ui = SwaggerUIBundle({
  url: container.dataset.specification,
  domNode: container,
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  plugins: [SignInDialogPlugin],
  presets: [SwaggerUIBundle.presets.apis],
  requestInterceptor: beforeRequest,
  responseInterceptor: afterResponse,
  tryItOutEnabled: true,
  validatorUrl: null,
});

function isTokenRequest(request) {
  const { pathname } = new URL(request.url, location);
  return pathname === "/api/oauth/token" && typeof request.body === "string";
}

async function beforeRequest(request) {
  if (isTokenRequest(request)) {
    const form = new URLSearchParams(request.body);
    if (form.get("password")) form.set("password", await session.sha256(form.get("password")));
    request.body = form.toString();
  } else if (request.headers?.Authorization) {
    await session.renewIfDue();
    const token = session.accessToken();
    if (token) request.headers.Authorization = `Bearer ${token}`;
    else delete request.headers.Authorization;
  }
  return request;
}

async function afterResponse(response) {
  if (response.status === 401) await session.handleUnauthorized();
  return response;
}

session.subscribe(({ isSignedIn, isEnded }) => {
  const schema = { type: "http", scheme: "bearer" };
  const bearer = { name: "bearer", schema, value: session.accessToken() };
  if (isSignedIn) ui.authActions.authorize({ bearer });
  else if (ui.authSelectors.authorized().size) ui.authActions.logout(["bearer"]);
  byId("ended").hidden = !isEnded;
  byId("signed-in").hidden = !isSignedIn;
  byId("signed-out").hidden = isSignedIn;
  byId("who").textContent = session.name() ?? "";
});

function openDialog() {
  byId("fault").textContent = "";
  dialog.showModal();
}

dialog.addEventListener("close", () => dialog.querySelectorAll("form").forEach((form) => form.reset()));

function onSubmit(formId, action) {
  byId(formId).addEventListener("submit", async (event) => {
    event.preventDefault();
    const { elements, lastElementChild } = event.target;
    const buttons = lastElementChild.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      await action(elements);
      dialog.close();
    } catch (error) {
      byId("fault").textContent = error.message;
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  });
}

onSubmit("by-password", ({ username, password }) => session.signInWithPassword(username.value, password.value));
onSubmit("by-token", ({ token }) => session.signInWithToken(token.value.trim()));
onSubmit("signed-in", () => session.signOut());
byId("again").addEventListener("click", openDialog);
dialog.querySelectorAll(".close").forEach((button) => button.addEventListener("click", () => dialog.close()));
