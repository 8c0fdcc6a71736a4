// Times in the reader's zone; the title keeps UTC at hand.
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];
const RECENT_SECONDS = 7 * 86400;

function ago(date) {
  const seconds = (date - Date.now()) / 1000;
  if (Math.abs(seconds) > RECENT_SECONDS) return moment.format(date);
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return "just now";
}

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const isRelative = "relative" in time.dataset;
    time.textContent = isRelative ? ago(date) : ("clock" in time.dataset ? clock : moment).format(date);
    // Asked again, it must not add to what it has said before.
    time.dataset.utc ??= time.title;
    if (isRelative) time.title = `${moment.format(date)} (${time.dataset.utc})`;
  }
}

// Once on each page, the zone of all its times.
export function nameZone() {
  const options = { timeZoneName: "shortOffset" };
  const parts = new Intl.DateTimeFormat("en", options).formatToParts(new Date());
  const offset = parts.find(({ type }) => type === "timeZoneName").value.replace("GMT", "UTC");
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  for (const place of document.querySelectorAll("[data-zone]")) {
    place.textContent = timeZone === "UTC" ? timeZone : `${timeZone} (now ${offset})`;
  }
}

// The server divides the time of a report into days, so it needs the name of the zone.
export function sendZone() {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  const url = new URL(location);
  if (!document.querySelector("[data-own-zone]") || url.searchParams.has("zone") || timeZone === "UTC") return;
  url.searchParams.set("zone", timeZone);
  location.replace(url);
}

// Fields for times come from the server in UTC, and are sent to it so; in between they are local.
export function localFields() {
  document.querySelectorAll("input[type=datetime-local]").forEach(localField);
  document.querySelectorAll("[data-utc-note]").forEach((note) => note.remove());
}

function localField(input) {
  const given = input.value && new Date(`${input.value}Z`);
  if (given) input.defaultValue = localText(given);
  // As the browser writes it.
  const shown = input.defaultValue = input.value;
  input.form.addEventListener("formdata", ({ formData }) => {
    // When clocks are set back, two moments have the same local time: what nobody has changed stays as it was given.
    const date = input.value === shown ? given : input.value && new Date(input.value);
    formData.set(input.name, date ? date.toISOString().replace(/(:00)?\.000Z$/, "Z") : "");
  });
}

function localText(date) {
  const local = new Date(date.getTime() - 60000 * date.getTimezoneOffset());
  return local.toISOString().replace("Z", "");
}
