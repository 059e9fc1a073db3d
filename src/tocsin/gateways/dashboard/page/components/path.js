/** The publish path: how a message was handled when it was sent. */
import { Chip } from "./basics.js";
import { html } from "../lib/html.js";

const PATHS = {
  pushed_to_ws: ["info", "pushed"],
  buffered_for_piggyback: ["", "piggyback"],
  queued_offline: ["warn", "offline"],
};

/** Messages sent before publish paths were recorded have none. */
export function Path({ path }) {
  const [tone, label] = PATHS[path] ?? ["mute", "unknown"];
  return html`<${Chip} tone=${tone} title=${path ?? "sent before publish paths were recorded"}>${label}<//>`;
}
