/** The address: `#/messages/msg_1?state=queued` is page `messages`, parts `["msg_1"]`, query `{state: "queued"}`. */
import { createStore, useStore } from "./store.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...parts] = path.split("/").map(decodeSafely);
  return { page: page || "overview", parts: parts.filter(Boolean), query: Object.fromEntries(new URLSearchParams(query)) };
}

function decodeSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const route = createStore(read());
addEventListener("hashchange", () => route.set(() => read()));

/** Return the current route; the component is drawn again when it changes. */
export const useRoute = () => useStore(route);

/** Return the address of a page. */
export function href(page, parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = [page, ...[parts].flat()].map(encodeURIComponent).join("/");
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** Go to a page; `replace` replaces the current entry of the browser's history. */
export function go(page, parts, query, { replace = false } = {}) {
  const address = href(page, parts, query);
  if (replace) {
    history.replaceState(null, "", address);
    route.set(() => read());
  } else {
    location.hash = address;
  }
}
