// A combobox (ARIA 1.2): options from the server under a field, to choose by keys or by mouse.
const PAUSE_MS = 120;
const SHORTEST = 3;
let lists = 0;

export function suggest(input) {
  const list = document.createElement("ul");
  list.className = "options";
  list.id = `options-${++lists}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  input.after(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-expanded", "false");
  input.setAttribute("aria-controls", list.id);

  // The browser's own suggestions would hide these. Where they are turned off when a page is left, the browser does not
  // restore the field on Back.
  input.addEventListener("focus", () => { input.autocomplete = "off"; });
  input.addEventListener("blur", () => input.removeAttribute("autocomplete"));
  input.form.addEventListener("submit", () => input.removeAttribute("autocomplete"));

  let chosen = -1;
  let timer = 0;
  let asked = 0;

  const options = () => [...list.children];

  function show(isOpen) {
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) mark(-1);
  }

  function mark(place) {
    chosen = place;
    options().forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    const option = options()[place];
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function choose(option) {
    show(false);
    if (option.dataset.href) location.assign(option.dataset.href);
    else {
      input.value = option.dataset.value;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }

  async function ask() {
    const text = input.value.trim();
    const turn = ++asked;
    if (text.length < SHORTEST) return show(false);
    const answer = await fetch(`${input.dataset.suggest}?q=${encodeURIComponent(text)}`, { redirect: "error" }).catch(() => null);
    if (!answer?.ok || turn !== asked) return;
    // The server's own markup, in which every name is escaped.
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (turn !== asked) return;
    list.replaceChildren(...parsed.querySelectorAll("li"));
    options().forEach((option, number) => { option.id = `${list.id}-${number}`; });
    // One that is typed already would only hide what is below it.
    const others = options().filter((option) => option.dataset.value !== text);
    show(others.length > 0 && document.activeElement === input);
  }

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, PAUSE_MS); });
  // A press on an option keeps the focus, so whoever leaves has chosen none.
  input.addEventListener("blur", () => show(false));
  list.addEventListener("pointerdown", (event) => {
    const option = event.target.closest("li");
    if (option) { event.preventDefault(); choose(option); }
  });
  input.addEventListener("keydown", (event) => {
    const count = options().length;
    if (event.key === "Escape" && !list.hidden) { event.preventDefault(); show(false); }
    else if (event.key === "ArrowDown" && count) { event.preventDefault(); show(true); mark((chosen + 1) % count); }
    else if (event.key === "ArrowUp" && count) { event.preventDefault(); show(true); mark((chosen + count - 1) % count); }
    else if (event.key === "Enter" && !list.hidden && chosen >= 0) { event.preventDefault(); choose(options()[chosen]); }
  });
}
