// The sign-in of this tab: renewed before its access token ends, kept until the tab is closed.

const TOKEN = "/api/oauth/token";
const KEPT = "quartermaster.sign-in";
const HASHED = /^[0-9a-f]{64}$/i;
// The part of its life after which an access token is exchanged for the next.
const DUE = 0.5;

// What is known of it: name, accessToken, refreshToken, dueAt; nothing while nobody is signed in.
let kept = JSON.parse(sessionStorage.getItem(KEPT));
let renewing = null;
let tell = () => {};
// A tab that was duplicated has the same refresh token, which works once: the tabs share the next.
const twins = new BroadcastChannel(KEPT);
twins.onmessage = ({ data }) => {
  if (kept?.refreshToken === data.former) keep(data.next);
};

class Refused extends Error {}

/** Call back at every change, with whether somebody is signed in and whether that was ended. */
export function watch(callback) {
  tell = callback;
  tell({ isSignedIn: Boolean(kept), isEnded: false });
}

export const name = () => kept?.name;
export const accessToken = () => kept?.accessToken;

function keep(next, isEnded = false) {
  kept = next;
  if (kept) sessionStorage.setItem(KEPT, JSON.stringify(kept));
  else sessionStorage.removeItem(KEPT);
  tell({ isSignedIn: Boolean(kept), isEnded });
}

async function ask(name, fields) {
  const response = await fetch(TOKEN, { method: "POST", body: new URLSearchParams(fields) });
  const answer = await response.json();
  // 400 and 403 are final; 429 and 503 will pass.
  if (!response.ok) throw new (response.status < 429 ? Refused : Error)(answer.Message);
  return {
    name,
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token,
    dueAt: Date.now() + answer.expires_in * 1000 * DUE,
  };
}

// People type a password; the API takes its hash. Browsers hash on https and on localhost only:
// elsewhere the hash itself has to be typed, and nothing else leaves the page.
export async function hashed(password) {
  if (HASHED.test(password)) return password;
  if (!globalThis.crypto?.subtle) {
    throw new Error("This page is not served over https: type the SHA-256 of the password in hex.");
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(password));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function withPassword(username, password) {
  const fields = { grant_type: "password", username, password: await hashed(password) };
  keep(await ask(username, fields));
}

export function withToken(accessToken) {
  keep({ name: "the owner of an access token", accessToken, dueAt: Infinity });
}

/** Forget the sign-in, and end it for whoever may have seen its tokens. */
export function out() {
  const { name, accessToken, refreshToken } = kept;
  keep(null);
  if (!refreshToken) return;
  const url = `${TOKEN}/${encodeURIComponent(name)}/${refreshToken}`;
  fetch(url, { method: "DELETE", headers: { Authorization: `Bearer ${accessToken}` } }).catch(() => {});
}

/**
 * Renew the access token where it is about to end. Done for a call and never while the page loads:
 * a reload amid it would lose the new refresh token, and the former one works no more.
 */
export function renewed() {
  return kept && Date.now() >= kept.dueAt ? renew() : undefined;
}

/** Look whether the sign-in was ended, when its access token was refused. */
export function denied() {
  if (kept) return kept.refreshToken ? renew() : keep(null, true);
}

function renew() {
  renewing ??= exchange().finally(() => (renewing = null));
  return renewing;
}

async function exchange() {
  const { name, refreshToken } = kept;
  try {
    const next = await ask(name, { grant_type: "refresh_token", refresh_token: refreshToken });
    twins.postMessage({ former: refreshToken, next });
    keep(next);
  } catch (error) {
    // Whatever else went wrong tells nothing about the sign-in: the next call tries again.
    if (error instanceof Refused) keep(null, true);
  }
}
