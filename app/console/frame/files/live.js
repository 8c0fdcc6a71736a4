// The preview of a form while it is typed: the server renders the page, and parts of it are taken over.
import { localTimes } from "./times.js";
import { copyButtons } from "./forms.js";

const PAUSE_MS = 350;
// Others change the player too: what is shown is asked for again.
const RENEW_MS = 5000;
const MOST_RENEWALS = 60;
// Sent to the other forms: what they have previewed is no longer shown in the slots.
const PREVIEWING = "previewing";
const SIGNED_OUT = "No preview: you are no longer signed in. Your input is restored after you sign in.";
const CHANGED = "No preview: this page is out of date. Reload it.";
const OLD = "No preview: nothing was typed for a while. Press Preview to update it.";
const AWAY = "No preview: the server does not respond. The page is retrying.";

export function livePreview(form) {
  const parts = form.dataset.live.split(" ");
  const box = document.getElementById(parts.find((id) => id.startsWith("preview-")));
  const untouched = new Map(parts.map((id) => [id, document.getElementById(id)?.cloneNode(true)]));
  const taken = new Map(parts.map((id) => [id, untouched.get(id)?.innerHTML]));
  let timer = 0;
  let asked = 0;
  let renewals = 0;

  function take(id, fresh) {
    const old = document.getElementById(id);
    const isNew = fresh && taken.get(id) !== fresh.innerHTML;
    // What stays the same is not told again, and nothing goes away under the hands of somebody.
    if (!old || !isNew || old.contains(document.activeElement)) return;
    taken.set(id, fresh.innerHTML);
    const isOpen = old.querySelector("details")?.open;
    old.replaceChildren(...fresh.cloneNode(true).childNodes);
    if (isOpen) old.querySelector("details")?.setAttribute("open", "");
    localTimes(old);
    copyButtons(old);
  }

  function reset() {
    parts.forEach((id) => take(id, untouched.get(id)));
    box.ariaBusy = "false";
  }

  function showNone(why) {
    parts.filter((id) => id !== box.id).forEach((id) => take(id, untouched.get(id)));
    taken.delete(box.id);
    if (box.textContent !== why) box.textContent = why;
    box.ariaBusy = "false";
  }

  function whyNone(status) {
    if (status === 401) return SIGNED_OUT;
    return !status || status >= 429 ? AWAY : CHANGED;
  }

  async function ask(fields) {
    const answer = await fetch(form.action, { method: "POST", body: fields, redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { status: answer.status, page };
  }

  async function preview() {
    const turn = ++asked;
    const fields = new URLSearchParams(new FormData(form));
    if (!fields.get("itemid") || !fields.get("quantity")) return reset();
    fields.set("preview", "1");
    const answer = await ask(fields).catch(() => null);
    if (turn !== asked || form.ariaBusy === "true") return;
    document.dispatchEvent(new CustomEvent(PREVIEWING, { detail: form }));
    if (answer?.page.getElementById(box.id)) {
      parts.forEach((id) => take(id, answer.page.getElementById(id)));
      box.ariaBusy = "false";
    } else showNone(whyNone(answer?.status));
    if (![SIGNED_OUT, CHANGED].includes(box.textContent)) timer = setTimeout(renew, RENEW_MS);
  }

  function renew() {
    if (document.hidden) document.addEventListener("visibilitychange", renew, { once: true });
    else if (++renewals > MOST_RENEWALS) showNone(OLD);
    else preview();
  }

  function later() {
    asked++;
    renewals = 0;
    clearTimeout(timer);
    // Until the answer comes, what is shown is that of another text.
    box.ariaBusy = "true";
    timer = setTimeout(preview, PAUSE_MS);
  }

  form.addEventListener("input", later);
  form.addEventListener("change", later);
  document.addEventListener(PREVIEWING, ({ detail }) => {
    if (detail === form) return;
    asked++;
    clearTimeout(timer);
    reset();
  });
}
