// Parts of a page that change by themselves. The server renders the page again, and the parts are taken over.
import { localTimes } from "./times.js";
import { copyButtons, sendOnce } from "./forms.js";

const ANSWER_MS = 1000;
const RUNNING_MS = 2000;
const ALWAYS_MS = 5000;
// A game that has not answered by then will not.
const MOST_ASKED = 60;

export function follow() {
  const parts = [...document.querySelectorAll("[data-follow]")];
  if (!parts.length) return;
  const seen = new Map(parts.map((part) => [part, told(part)]));
  const isOn = onSwitch();
  let left = MOST_ASKED;

  async function refresh() {
    const answer = await fetch(location.href, { redirect: "error" }).catch(() => null);
    if (!answer?.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const fresh = page.getElementById(part.id);
      if (fresh && !isInUse(part)) take(part, fresh);
    }
  }

  function take(part, fresh) {
    part.dataset.follow = fresh.dataset.follow ?? "";
    const text = told(fresh);
    if (seen.get(part) !== text) {
      seen.set(part, text);
      part.replaceChildren(...fresh.childNodes);
      part.querySelectorAll("form[method=post]").forEach(sendOnce);
      copyButtons(part);
    }
    localTimes(part);
  }

  async function look() {
    const wanted = new Set(parts.map((part) => part.dataset.follow));
    if (wanted.has("answer") ? left-- <= 0 : !wanted.has("always") && !wanted.has("running")) return;
    if (!document.hidden && isOn()) await refresh();
    setTimeout(look, wanted.has("answer") ? ANSWER_MS : wanted.has("running") ? RUNNING_MS : ALWAYS_MS);
  }

  setTimeout(look, ANSWER_MS);
}

// What a part says; the tokens and keys of its forms are others each time.
function told(part) {
  return part.innerHTML.replace(/ value="[^"]*"/g, "");
}

// Nothing goes away under the hands of somebody.
function isInUse(part) {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.contains(document.activeElement) || part.querySelector("[aria-busy=true]");
}

// Whoever wants to read in peace turns it off.
function onSwitch() {
  const place = document.querySelector("[data-follow-switch]");
  if (!place) return () => true;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  const label = document.createElement("label");
  label.className = "check";
  label.append(box, " Keep up to date");
  place.append(label);
  return () => box.checked;
}
