/** Buttons that ask before they act. */
import { html, useState } from "../lib/html.js";
import { ask } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * A button that opens a dialog, and acts on its answer.
 *
 * `question` is what `ask` takes; `run(answer)` acts; `done` is what to say then, or makes it out of what `run` returned.
 */
export function Asked({ label, question, run, done, tone = "", title, small = false, disabled = false }) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    const answer = await ask(question);
    if (answer === null) return;
    setBusy(true);
    try {
      const said = await run(answer);
      toast(typeof done === "function" ? done(said) : done, "ok");
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class="button ${tone} ${small ? "small" : ""}" disabled=${disabled || busy} aria-busy=${busy} title=${title} onClick=${click}>${label}</button>`;
}
