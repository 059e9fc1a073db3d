/** Basic components of the pages: cards, tiles, chips, notes. */
import { useNow } from "../lib/clock.js";
import { html, useState } from "../lib/html.js";
import { ago, levelName, millis, moment } from "../lib/format.js";
import { toast } from "./toast.js";

/** A section of a page; its heading is its title unless it has another `heading`; `tools` are at its right. */
export function Card({ title, heading, hint, tools, class: name = "", children, id }) {
  return html`<section class="card ${name}" aria-label=${title} id=${id}>
    ${title &&
    html`<header class="card-head">
      <h2>${heading ?? title}</h2>
      ${hint && html`<p class="muted small">${hint}</p>`}
      ${tools && html`<div class="tools">${tools}</div>`}
    </header>`}
    ${children}
  </section>`;
}

/** A number with a label; `tone` is `ok`, `warn`, `bad` or `info`. */
export function Tile({ label, value, unit, detail, tone = "", flag }) {
  return html`<div class="tile ${tone}">
    <div class="tile-label">${label}${flag && html` <span class="flag">${flag}</span>`}</div>
    <div class="tile-value">${value}${unit && html`<span class="unit">${unit}</span>`}</div>
    ${detail && html`<div class="tile-detail">${detail}</div>`}
  </div>`;
}

/** A coloured label; its text must be clear without the colour. */
export const Chip = ({ tone = "", title, children }) => html`<span class="chip ${tone}" title=${title}>${children}</span>`;

/** A priority. */
export const Level = ({ level }) => html`<span class="chip level level-${levelName(level)}">${levelName(level)}</span>`;

const STATES = {
  held: "warn",
  queued: "info",
  offered: "info",
  delivered: "ok",
  acknowledged: "ok",
  processed: "ok",
  expired: "mute",
  recalled: "mute",
  dead: "bad",
};

/** The state of a message. */
export const State = ({ state }) => html`<${Chip} tone=${STATES[state] ?? ""}>${state}<//>`;

const PRESENCE = {
  available: ["ok", "available"],
  not_available_stale: ["warn", "stale"],
  not_available_offline: ["mute", "offline"],
};

/** The presence of an agent. */
export function Presence({ presence }) {
  const [tone, label] = PRESENCE[presence] ?? ["", presence];
  return html`<span class="presence ${tone}"><span class="dot" aria-hidden="true"></span>${label}</span>`;
}

/** A notice that a list is empty, with an explanation. */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p class="muted">${children}</p>`}</div>`;

/** An error message. */
export const Note = ({ error, again }) =>
  error &&
  html`<div class="note bad" role="alert">
    <p>${error.message}${error.code && html` <code>${error.code}</code>`}</p>
    ${again && html`<button type="button" class="button" onClick=${again}>Try again</button>`}
  </div>`;

/** The result of a query, or a loading notice, or an error message. */
export function Answer({ of, empty, children }) {
  if (of.error && of.data === null) return html`<${Note} error=${of.error} again=${of.reload} />`;
  if (of.data === null) return html`<p class="loading" aria-busy="true">Loading …</p>`;
  if (empty && empty(of.data)) return children(of.data, true);
  return html`${of.error && html`<${Note} error=${of.error} />`}${children(of.data, false)}`;
}

/**
 * A button that runs an action and shows a notification of its result.
 *
 * `done` is the notification, or a function that makes it from the result of `run`; none is shown if the result is false.
 * While the action runs, clicks are ignored but the button stays enabled, since a disabled button would lose the focus
 * that a closing dialog returns to it.
 */
export function Action({ label, run, done, tone = "", disabled = false, title, small = false }) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    if (busy) return;
    setBusy(true);
    try {
      const result = await run();
      if (result !== false) toast(typeof done === "function" ? done(result) : (done ?? `${label}: done`), "ok");
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class="button ${tone} ${small ? "small" : ""}" disabled=${disabled} aria-busy=${busy} title=${title} onClick=${click}>${label}</button>`;
}

/** A bar that shows a value relative to its maximum. */
export function Meter({ value, max, label, tone = "" }) {
  const share = max > 0 ? Math.max(0, Math.min(1, value / max)) : 0;
  return html`<div class="meter ${tone}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${max} aria-valuenow=${value}>
    <div class="meter-fill" style=${{ width: `${share * 100}%` }}></div>
  </div>`;
}

/** A time: how long ago it was, and exactly when on hover. */
export function When({ at, class: name = "" }) {
  const now = useNow();
  if (at === null || at === undefined) return html`<span class="muted">—</span>`;
  return html`<time class=${name} datetime=${typeof at === "string" ? at : new Date(millis(at)).toISOString()} title=${moment(at)}>${ago(at, now)}</time>`;
}

/** A button that copies a text to the clipboard. */
export function Copy({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  const click = async () => {
    if (!(await copy(text))) return toast("The browser did not allow copying: select the text instead.", "bad");
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
    return undefined;
  };
  return html`<button type="button" class="button small copy-button" aria-label=${`${label}: ${text}`} onClick=${click}>${copied ? "Copied" : label}</button>`;
}

/** Copy a text; pages that were not loaded over TLS or from this machine have no clipboard, so the old command is used. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    (document.querySelector("dialog[open]") ?? document.body).appendChild(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A command or a token to copy. */
export const Copyable = ({ text }) => html`<div class="copyable"><code tabindex="0">${text}</code><${Copy} text=${text} /></div>`;

/** JSON, shown as text. */
export const Json = ({ value }) => html`<pre class="json" tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
