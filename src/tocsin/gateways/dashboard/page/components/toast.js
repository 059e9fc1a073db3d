/** Short notifications that disappear after some seconds; screen readers announce them. */
import { html } from "../lib/html.js";
import { createStore, useStore } from "../lib/store.js";

const STAYS_MS = { ok: 4000, bad: 10000 };
const SHOWN_MAX = 4;
const toasts = createStore({ items: [] });
let number = 0;

/** Show a notification; `tone` is `ok` or `bad`. */
export function toast(text, tone = "ok") {
  const key = ++number;
  toasts.set(({ items }) => ({ items: [...items, { key, text, tone }].slice(-SHOWN_MAX) }));
  setTimeout(() => dismiss(key), STAYS_MS[tone] ?? STAYS_MS.ok);
}

const dismiss = (key) => toasts.set(({ items }) => ({ items: items.filter((item) => item.key !== key) }));

/** The place where notifications appear; rendered once per page. */
export function Toasts() {
  const { items } = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${items.map(
      (item) => html`<div key=${item.key} class="toast ${item.tone}">
        <span>${item.text}</span>
        <button type="button" class="icon-button" aria-label="Dismiss" onClick=${() => dismiss(item.key)}>×</button>
      </div>`,
    )}
  </div>`;
}
