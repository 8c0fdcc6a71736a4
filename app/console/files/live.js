// The preview of a form while it is typed: the server renders the page, and parts of it are taken over.
import { localTimes } from "./times.js";

const PAUSE_MS = 350;
// Sent to the other forms: what they have previewed is no longer shown in the slots.
const PREVIEWING = "previewing";

export function livePreview(form) {
  const parts = form.dataset.live.split(" ");
  const untouched = new Map(parts.map((id) => [id, document.getElementById(id)?.cloneNode(true)]));
  let timer = 0;
  let asked = 0;

  function take(id, fresh) {
    const old = document.getElementById(id);
    if (!old || !fresh) return;
    old.replaceChildren(...fresh.cloneNode(true).childNodes);
    localTimes(old);
  }

  async function preview() {
    const turn = ++asked;
    const fields = new URLSearchParams(new FormData(form));
    if (!fields.get("itemid") || !fields.get("quantity")) {
      parts.forEach((id) => take(id, untouched.get(id)));
      return;
    }
    fields.set("preview", "1");
    const answer = await fetch(form.action, { method: "POST", body: fields, redirect: "error" }).catch(() => null);
    if (!answer || answer.status === 401 || turn !== asked || form.ariaBusy === "true") return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (turn !== asked) return;
    document.dispatchEvent(new CustomEvent(PREVIEWING, { detail: form }));
    parts.forEach((id) => take(id, page.getElementById(id)));
  }

  const later = () => { clearTimeout(timer); timer = setTimeout(preview, PAUSE_MS); };
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  document.addEventListener(PREVIEWING, ({ detail }) => {
    if (detail === form) return;
    asked++;
    parts.forEach((id) => take(id, untouched.get(id)));
  });
}
