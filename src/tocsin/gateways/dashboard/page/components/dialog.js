/** Dialogs, based on the browser's dialog element, which manages the focus and closes with Escape. */
import { html, render, useEffect, useRef, useState } from "../lib/html.js";

/** A modal dialog, open while it is rendered. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return html`<dialog ref=${element} class="dialog ${wide ? "wide" : ""}" aria-label=${title} onCancel=${(event) => (event.preventDefault(), onClose())}>
    <header class="dialog-head">
      <h2>${title}</h2>
      <button type="button" class="icon-button" aria-label="Close" onClick=${onClose}>×</button>
    </header>
    ${children}
  </dialog>`;
}

/**
 * Open a dialog that asks for confirmation and for the values of fields.
 *
 * `fields` are `{name, label, kind ("text", "area", "select"), options, value, required, hint}`. Resolves to their
 * values, or to null if the dialog was cancelled. With `submit(values)`, an action that runs before the dialog closes, it
 * resolves to the result of that action; if the action fails, the dialog stays open and shows the error.
 */
export function ask({ title, text, fields = [], confirm = "OK", tone = "primary", submit = null }) {
  const place = document.body.appendChild(document.createElement("div"));
  return new Promise((resolve) => {
    const finish = (value) => {
      render(null, place);
      place.remove();
      resolve(value);
    };
    render(html`<${Asking} ...${{ title, text, fields, confirm, tone, run: submit, finish }} />`, place);
  });
}

function Asking({ title, text, fields, confirm, tone, run, finish }) {
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? ""])));
  const change = (name) => (event) => setValues((before) => ({ ...before, [name]: event.target.value }));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    if (run === null) return finish(values);
    setBusy(true);
    setError(null);
    try {
      return finish(await run(values));
    } catch (problem) {
      setError(problem);
      return setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${() => finish(null)}>
    <form onSubmit=${submit}>
      ${error && html`<p class="problem" role="alert">${error.message}${error.code && html` <code>${error.code}</code>`}</p>`}
      ${text && html`<p class="dialog-text">${text}</p>`}
      ${fields.map((field) => html`<${Field} key=${field.name} ...${field} value=${values[field.name]} onInput=${change(field.name)} />`)}
      <footer class="dialog-foot">
        <button type="button" class="button" onClick=${() => finish(null)}>Cancel</button>
        <button type="submit" class="button ${tone}" disabled=${busy} aria-busy=${busy}>${confirm}</button>
      </footer>
    </form>
  <//>`;
}

/** A labelled input. */
export function Field({ name, label, kind = "text", options = [], value, onInput, required = false, hint, placeholder, rows = 4, class: more = "" }) {
  const id = `field-${name}`;
  const common = { id, name, required, onInput, placeholder, "aria-describedby": hint ? `${id}-hint` : undefined };
  return html`<div class="field ${more}">
    <label for=${id}>${label}</label>
    ${kind === "area"
      ? html`<textarea ...${common} rows=${rows} value=${value}></textarea>`
      : kind === "select"
        ? html`<select ...${common} value=${value} onChange=${onInput}>
            ${options.map((option) => {
              const [key, text] = Array.isArray(option) ? option : [option, option];
              return html`<option key=${key} value=${key}>${text}</option>`;
            })}
          </select>`
        : html`<input ...${common} type=${kind} value=${value} />`}
    ${hint && html`<p class="muted small" id="${id}-hint">${hint}</p>`}
  </div>`;
}
