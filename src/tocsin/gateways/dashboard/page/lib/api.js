/**
 * HTTP calls to the hub, authenticated by the browser session.
 *
 * Every call has the header `Tocsin-Dashboard`, which pages of other sites cannot send. An error response is thrown as a
 * Problem with all fields of the problem document.
 */

import { projectHeaders } from "./project.js";

/** An error response of the hub: a problem document (RFC 9457). */
export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? "The hub returned an unexpected response.");
    Object.assign(this, { code: "", title: "", status: 0, retryable: false, facts: {} }, document);
  }
}

const HEADERS = { "Tocsin-Dashboard": "1" };

/** Call the hub in the project that the page shows; with `home` in the project of the session. */
async function call(method, path, { query, body, signal, headers, home } = {}) {
  const url = query ? `${path}?${new URLSearchParams(given(query))}` : path;
  let answer;
  try {
    answer = await fetch(url, {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      headers: { ...HEADERS, ...(home ? {} : projectHeaders), ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No answer", detail: "The hub does not answer.", retryable: true });
  }
  if (answer.status === 401) {
    location.assign("/sign-in");
    throw new Problem({ title: "Signed out", detail: "Your session has ended. Sign in again.", status: 401 });
  }
  const json = /json/.test(answer.headers.get("content-type") ?? "");
  const content = answer.status === 204 ? null : json ? await answer.json() : await answer.text();
  if (!answer.ok) throw new Problem(json ? content : { title: `Status ${answer.status}`, status: answer.status });
  return content;
}

/** Remove the parameters without a value from a query. */
function given(query) {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

export const api = {
  get: (path, query, more) => call("GET", path, { query, ...more }),
  post: (path, body = {}, more) => call("POST", path, { body, ...more }),
  put: (path, body = {}, more) => call("PUT", path, { body, ...more }),
  delete: (path, more) => call("DELETE", path, { ...more }),
};

/** Encode a name as a segment of a path. */
export const segment = (text) => encodeURIComponent(text);

/** Sign out and open the sign-in page. */
export async function signOut() {
  await call("POST", "/sign-out", { home: true }).catch(() => {});
  location.assign("/sign-in");
}
