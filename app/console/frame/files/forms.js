// Small help for forms: sent once, refusals in sight, commands to copy, keys that lead somewhere.
const PATIENCE_MS = 4000;

export function sendOnce(form) {
  form.addEventListener("submit", (event) => {
    if (form.ariaBusy === "true") event.preventDefault();
    form.ariaBusy = "true";
    // Somebody may stop the page from loading. To send it again then is the same change.
    setTimeout(() => { form.ariaBusy = "false"; }, PATIENCE_MS);
  });
  // Back to a page that the browser has kept: the form can be sent again.
  addEventListener("pageshow", () => { form.ariaBusy = "false"; });
}

export function showRefusal() {
  const refusal = document.querySelector(".refusal[tabindex], .made[tabindex]");
  refusal?.focus();
  // Otherwise Back asks whether to send the form again. After a failure of the server, a reload sends it again.
  const here = document.getElementById("main")?.dataset.here;
  const [visit] = performance.getEntriesByType("navigation");
  if (refusal && here && visit?.responseStatus >= 400 && visit.responseStatus < 500) history.replaceState(null, "", here);
}

// The link of an invitation has its code in the fragment, which no server sees; the address bar need not keep it.
export function fillFromFragment(input) {
  if (location.hash.length < 2) return;
  input.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  document.querySelector("input[type=password]")?.focus();
}

export function copyButtons(root) {
  if (!navigator.clipboard) return;
  for (const block of root.querySelectorAll(".curl pre, .secret, [data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    if (block.dataset.copy) button.ariaLabel = block.dataset.copy;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = button.ariaLabel = "Copied";
    });
    block.after(button);
  }
}

export function shortcuts() {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      const find = document.getElementById("find");
      find?.focus();
      find?.select();
    }
  });
}

// A file that is too large is refused before it is sent: a server that does not read it would break the connection.
export function sizeLimit(input) {
  const about = document.getElementById(input.getAttribute("aria-describedby"));
  const former = about.textContent;
  const formerClass = about.className;
  const isTooLarge = () => input.files[0]?.size > Number(input.dataset.most);
  function tell() {
    about.textContent = isTooLarge() ? "This file is too large: split it into several." : former;
    about.className = isTooLarge() ? "fault" : formerClass;
    input.setAttribute("aria-invalid", String(isTooLarge()));
  }
  input.addEventListener("change", tell);
  input.form.addEventListener("submit", (event) => {
    if (!isTooLarge()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    tell();
    input.focus();
  }, { capture: true });
}
