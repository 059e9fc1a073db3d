/**
 * Calls to the hub, as the person who is signed in.
 *
 * Every call says that it comes from this page (no foreign page can), and that it is no receipt of what the same person
 * may have been handed out elsewhere. A refusal is thrown as a Problem, with all that the hub says about it.
 */

/** What the hub refused, and why (RFC 9457). */
export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? "The hub did not answer as expected.");
    Object.assign(this, { code: "", title: "", status: 0, retryable: false, facts: {} }, document);
  }
}

const HEADERS = { "Tocsin-Dashboard": "1", "Tocsin-Receipts": "explicit" };

async function call(method, path, { query, body, signal, headers } = {}) {
  const url = query ? `${path}?${new URLSearchParams(given(query))}` : path;
  let answer;
  try {
    answer = await fetch(url, {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      headers: { ...HEADERS, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No answer", detail: "The hub does not answer.", retryable: true });
  }
  if (answer.status === 401) {
    location.assign("/sign-in");
    throw new Problem({ title: "Signed out", detail: "Sign in again.", status: 401 });
  }
  const json = /json/.test(answer.headers.get("content-type") ?? "");
  const content = answer.status === 204 ? null : json ? await answer.json() : await answer.text();
  if (!answer.ok) throw new Problem(json ? content : { title: `Status ${answer.status}`, status: answer.status });
  return content;
}

/** Leave out of a query what was not said. */
function given(query) {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

export const api = {
  get: (path, query, more) => call("GET", path, { query, ...more }),
  post: (path, body = {}, more) => call("POST", path, { body, ...more }),
  put: (path, body = {}, more) => call("PUT", path, { body, ...more }),
  delete: (path, more) => call("DELETE", path, { ...more }),
};

/** Put a name into a path. */
export const segment = (text) => encodeURIComponent(text);

/** Sign out, and go where one can sign in again. */
export async function signOut() {
  await call("POST", "/sign-out").catch(() => {});
  location.assign("/sign-in");
}
