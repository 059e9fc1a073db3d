/** The state of an agent's daemon, the session that always listens. */
import { Chip } from "./basics.js";
import { html } from "../lib/html.js";

/** A daemon without a heartbeat is orphaned; one that accepts no more messages is shutting down. */
export function Listener({ sessions }) {
  const daemons = sessions.filter(({ kind }) => kind === "daemon");
  if (!daemons.length) return html`<span class="muted">no daemon</span>`;
  if (daemons.every(({ fresh }) => !fresh)) return html`<${Chip} tone="bad">orphaned<//>`;
  return daemons.some(({ fresh, window }) => fresh && window > 0) ? html`<${Chip} tone="ok">daemon<//>` : html`<${Chip} tone="warn">shutting down<//>`;
}
