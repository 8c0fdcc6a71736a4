"use strict";

const HASHED = /^[0-9a-f]{64}$/i;

async function sha256(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// People type a password; the API takes its hash. Browsers hash on https and on localhost only:
// elsewhere the hash itself has to be typed, and nothing else leaves the page.
async function hashPassword(request) {
  if (!request.url.endsWith("/api/oauth/token") || typeof request.body !== "string") return request;
  const form = new URLSearchParams(request.body);
  const password = form.get("password");
  if (password && !HASHED.test(password)) {
    if (!globalThis.crypto?.subtle) {
      throw new Error("This page is not served over https: type the SHA-256 of the password in hex.");
    }
    form.set("password", await sha256(password));
    request.body = form.toString();
  }
  return request;
}

const place = document.getElementById("swagger-ui");
globalThis.ui = SwaggerUIBundle({
  url: place.dataset.specification,
  domNode: place,
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  presets: [SwaggerUIBundle.presets.apis],
  requestInterceptor: hashPassword,
  tryItOutEnabled: true,
  validatorUrl: null,
});
