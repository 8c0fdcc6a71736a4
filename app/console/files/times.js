// Times in the reader's zone; the title keeps UTC at hand.
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
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
    time.textContent = isRelative ? ago(date) : moment.format(date);
    // Asked again, it must not add to what it has said before.
    time.dataset.utc ??= time.title;
    if (isRelative) time.title = `${moment.format(date)} (${time.dataset.utc})`;
  }
}
