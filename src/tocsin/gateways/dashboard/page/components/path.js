/** The way a message took at its send (SPEC-071 §4.5). */
import { Chip } from "./basics.js";
import { html } from "../lib/html.js";

const PATHS = {
  pushed_to_ws: ["info", "pushed"],
  buffered_for_piggyback: ["", "piggyback"],
  queued_offline: ["warn", "offline"],
};

/** Rows from before this was kept do not know it. */
export function Path({ path }) {
  const [tone, word] = PATHS[path] ?? ["mute", "unknown"];
  return html`<${Chip} tone=${tone} title=${path ?? "sent before publish paths were kept"}>${word}<//>`;
}
