/** Whether an agent has its always-on listener up (SPEC-071 §11). */
import { Chip } from "./basics.js";
import { html } from "../lib/html.js";

/** A daemon is live, shutting down once its window is closed, orphaned without a heartbeat. */
export function Listener({ sessions }) {
  const daemons = sessions.filter(({ kind }) => kind === "daemon");
  if (!daemons.length) return html`<span class="muted">no daemon</span>`;
  if (daemons.every(({ fresh }) => !fresh)) return html`<${Chip} tone="bad">orphaned<//>`;
  return daemons.some(({ fresh, window }) => fresh && window > 0) ? html`<${Chip} tone="ok">daemon<//>` : html`<${Chip} tone="warn">shutting down<//>`;
}
