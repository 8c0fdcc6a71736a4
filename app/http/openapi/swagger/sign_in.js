// The session of this tab: its access token is renewed before it expires, and it ends with the tab.

const TOKEN_URL = "/api/oauth/token";
const STORAGE_KEY = "quartermaster.sign-in";
const SHA256_HEX = /^[0-9a-f]{64}$/i;
// The fraction of its lifetime after which an access token is renewed.
const RENEWAL_FRACTION = 0.5;

// name, accessToken, refreshToken and dueAt; null while nobody is signed in.
let session = JSON.parse(sessionStorage.getItem(STORAGE_KEY));
let renewing = null;
let notify = () => {};
// A duplicated tab copies sessionStorage, and with it the refresh token, which works only once: the
// tab that uses it sends the new tokens to the others.
const channel = new BroadcastChannel(STORAGE_KEY);
channel.onmessage = ({ data }) => {
  if (session?.refreshToken === data.former) store(data.next);
};

class RefusedError extends Error {}

/** Call back now and at every change: is somebody signed in, and did the server end the session? */
export function subscribe(callback) {
  notify = callback;
  notify({ isSignedIn: Boolean(session), isEnded: false });
}

export const name = () => session?.name;
export const accessToken = () => session?.accessToken;

function store(next, isEnded = false) {
  session = next;
  if (session) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(session));
  else sessionStorage.removeItem(STORAGE_KEY);
  notify({ isSignedIn: Boolean(session), isEnded });
}

async function requestTokens(name, fields) {
  const response = await fetch(TOKEN_URL, { method: "POST", body: new URLSearchParams(fields) });
  const body = await response.json();
  // 400 and 403 are final; 429 and 503 are worth a retry.
  if (!response.ok) throw new (response.status < 429 ? RefusedError : Error)(body.Message);
  return {
    name,
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    dueAt: Date.now() + body.expires_in * 1000 * RENEWAL_FRACTION,
  };
}

// The API takes the SHA-256 of a password. crypto.subtle exists in secure contexts only (https and
// localhost): elsewhere the user has to enter the hash, so that no password is ever sent.
export async function sha256(password) {
  if (SHA256_HEX.test(password)) return password;
  if (!globalThis.crypto?.subtle) {
    throw new Error("This page is not served over https: type the SHA-256 of the password in hex.");
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(password));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function signInWithPassword(username, password) {
  const fields = { grant_type: "password", username, password: await sha256(password) };
  store(await requestTokens(username, fields));
}

export function signInWithToken(accessToken) {
  store({ name: "the owner of an access token", accessToken, dueAt: Infinity });
}

/** Forget the tokens, and revoke them on the server, in case somebody else has seen them. */
export function signOut() {
  const { name, accessToken, refreshToken } = session;
  store(null);
  if (!refreshToken) return;
  const url = `${TOKEN_URL}/${encodeURIComponent(name)}/${refreshToken}`;
  fetch(url, { method: "DELETE", headers: { Authorization: `Bearer ${accessToken}` } }).catch(() => {});
}

/**
 * Renew an access token that is about to expire. Called before a request and never while the page
 * loads: a reload during the renewal would lose the new refresh token after the old one was used.
 */
export function renewIfDue() {
  return session && Date.now() >= session.dueAt ? renew() : undefined;
}

/** After a 401, find out by a renewal whether the session was ended. */
export function handleUnauthorized() {
  if (session) return session.refreshToken ? renew() : store(null, true);
}

function renew() {
  renewing ??= exchangeRefreshToken().finally(() => (renewing = null));
  return renewing;
}

async function exchangeRefreshToken() {
  const { name, refreshToken } = session;
  try {
    const fields = { grant_type: "refresh_token", refresh_token: refreshToken };
    const next = await requestTokens(name, fields);
    channel.postMessage({ former: refreshToken, next });
    store(next);
  } catch (error) {
    // Any other error, such as a lost connection, does not end the session: the next request retries.
    if (error instanceof RefusedError) store(null, true);
  }
}
