/** A message in a list: the beginning of its text, and from whom to whom. */
import { html } from "../lib/html.js";

/** `row` has `preview`, `sender`, `recipient` and `type`; `id` is shown on hover. */
export function MessageCell({ row, id }) {
  return html`<span class="message-cell" title=${id}>
    <span class="message-text">${row.preview || html`<span class="muted">no text</span>`}</span>
    <span class="message-way">${row.sender} → ${row.recipient} <span class="message-type">${row.type}</span></span>
  </span>`;
}
