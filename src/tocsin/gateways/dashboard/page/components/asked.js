/** Buttons that open a dialog before they act. */
import { html, useState } from "../lib/html.js";
import { ask } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * A button that opens a dialog and then runs an action.
 *
 * `question` is the argument of `ask`; `run(answer)` is the action; `done` is the notification shown afterwards, or a
 * function that makes it from the result of `run`.
 */
export function Asked({ label, question, run, done, tone = "", title, small = false, disabled = false }) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    const answer = await ask(question);
    if (answer === null) return;
    setBusy(true);
    try {
      const result = await run(answer);
      toast(typeof done === "function" ? done(result) : done, "ok");
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class="button ${tone} ${small ? "small" : ""}" disabled=${disabled || busy} aria-busy=${busy} title=${title} onClick=${click}>${label}</button>`;
}
