// What was typed survives the end of a session: it waits in this tab until the same account has signed in again and
// opens the same page. Nothing is sent by itself, and no password, no code and no file is kept.
const TYPED = "quartermaster typed";
const KEPT = "quartermaster kept";
const SKIPPED = ["hidden", "password", "file", "submit", "button"];

export function drafts() {
  const { account, here, signIn } = document.getElementById("main").dataset;
  if (signIn) keep(signIn);
  if (!account) return;
  const page = here.split("?")[0];
  sessionStorage.removeItem(TYPED);
  restore(account, page);
  rememberOnLeave(account, page);
}

function read(key) {
  return JSON.parse(sessionStorage.getItem(key));
}

// A form that was refused for want of a session was not carried out. One that led here by itself, as a sign-out, was.
function keep(signIn) {
  const typed = read(TYPED);
  sessionStorage.removeItem(TYPED);
  if (!typed || (typed.isSent && signIn !== "refused")) return;
  sessionStorage.setItem(KEPT, JSON.stringify(typed));
  // A page that refuses a form has a hint for browsers without scripts, which this one replaces.
  const hint = document.getElementById("hint-typed") ?? document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Your input is restored in its form after you sign in.";
  if (!hint.isConnected) (document.querySelector("#main h1 + p") ?? document.querySelector("#main h1")).after(hint);
}

function rememberOnLeave(account, page) {
  let isSent = false;
  addEventListener("submit", () => { isSent = true; });
  addEventListener("input", () => { isSent = false; });
  addEventListener("pagehide", () => {
    const forms = Object.fromEntries([...document.querySelectorAll("main form[method=post][id]")]
      .filter(isTyped).map((form) => [form.id, valuesOf(form)]));
    if (Object.keys(forms).length) sessionStorage.setItem(TYPED, JSON.stringify({ account, page, isSent, forms }));
  });
}

function fieldsOf(form) {
  const isKept = (field) => !SKIPPED.includes(field.type) && field.autocomplete !== "one-time-code";
  return [...form.elements].filter((field) => field.name && isKept(field));
}

// The server marks a form that it shows with what was typed before.
function isTyped(form) {
  return "typed" in form.dataset || fieldsOf(form).some((field) => {
    // No option may be selected by the markup, and then the browser has selected the first one.
    if (field.options) return field.selectedIndex > 0 && !field.selectedOptions[0].defaultSelected;
    return field.checked !== field.defaultChecked || field.value !== field.defaultValue;
  });
}

function valuesOf(form) {
  const isGiven = (field) => field.type !== "radio" || field.checked;
  return fieldsOf(form).filter(isGiven).map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
}

function restore(account, page) {
  const kept = read(KEPT);
  if (!kept || (kept.account === account && kept.page !== page)) return;
  sessionStorage.removeItem(KEPT);
  if (kept.account !== account) return;
  const forms = Object.entries(kept.forms).map(([id, values]) => [document.getElementById(id), values]);
  forms.filter(([form]) => form).forEach(([form, values]) => fill(form, values));
  document.querySelector(".restored")?.scrollIntoView({ block: "center" });
}

function fill(form, values) {
  for (const [name, value] of values) {
    const field = form.elements.namedItem(name);
    if (field?.type === "checkbox") field.checked = value;
    else if (field) field.value = value;
  }
  const note = document.createElement("p");
  note.className = "restored";
  note.setAttribute("role", "status");
  note.textContent = "Your input from before the sign-in is restored. It was not sent.";
  form.prepend(note);
  for (let part = form; part; part = part.parentElement) if (part.localName === "details") part.open = true;
  // The preview begins as if it were typed.
  form.dispatchEvent(new Event("input", { bubbles: true }));
}
