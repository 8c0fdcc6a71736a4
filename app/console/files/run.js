// Runs a batch from its page: the server carries out what fits into two seconds, and is asked again until all is done.
import { localTimes } from "./times.js";

// The server, or the way to it, may be away for a while: whatever was done is not done again.
const RETRY_MS = 2000;
const MOST_FAILURES = 60;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function runBatch(form) {
  const key = `run ${form.getAttribute("action")}`;
  const button = form.querySelector(".do");
  const label = button.textContent;
  const status = document.getElementById("run-status");
  let isRunning = false;
  // Counts the starts: a loop that was paused while it waited ends, though another one runs by then.
  let starts = 0;

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  function stop(text) {
    isRunning = false;
    sessionStorage.removeItem(key);
    button.textContent = label;
    say(text);
  }

  async function ask() {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.action, { method: "POST", body });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { answer, page };
  }

  function take(page) {
    const old = document.getElementById("progress");
    const fresh = page.getElementById("progress");
    if (!fresh) return;
    // This tab asks often enough by itself.
    delete old.dataset.follow;
    old.replaceChildren(...fresh.childNodes);
    localTimes(old);
  }

  async function run() {
    isRunning = true;
    const mine = ++starts;
    const isOver = () => !isRunning || mine !== starts;
    sessionStorage.setItem(key, "1");
    button.textContent = "Pause";
    say("It runs. Stay on this page, or leave it: whoever opens it next can go on.");
    for (let failures = 0; !isOver();) {
      const found = await ask().catch(() => null);
      if (isOver()) return;
      if (!found || found.answer.status === 503) {
        if (++failures > MOST_FAILURES) return stop("The server does not answer. Go on when it does.");
        say("The server is busy or away. It goes on by itself.");
        await pause(1000 * Number(found?.answer.headers.get("Retry-After")) || RETRY_MS);
        continue;
      }
      failures = 0;
      const { answer, page } = found;
      if (!answer.ok) {
        const why = page.querySelector(".refusal p, .door p[dir]")?.textContent;
        return stop(why ?? "It could not go on. Open the page again.");
      }
      take(page);
      // While rows are left, the page has the form that carries them out.
      if (!page.getElementById(form.id)) {
        sessionStorage.removeItem(key);
        return location.replace(answer.url);
      }
      say("It runs. Stay on this page, or leave it: whoever opens it next can go on.");
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isRunning) stop("Paused. What is left is not done before somebody goes on.");
    else run();
  });
  // After a reload, this tab goes on with what it had begun.
  if (sessionStorage.getItem(key)) run();
}
