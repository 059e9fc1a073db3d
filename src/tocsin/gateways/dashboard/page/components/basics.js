/** The small things that pages are made of: cards, tiles, chips, notes. */
import { html, useState } from "../lib/html.js";
import { levelName } from "../lib/format.js";
import { toast } from "./toast.js";

/** A part of a page with a heading; `tools` stand at its right. */
export function Card({ title, hint, tools, class: name = "", children, id }) {
  return html`<section class="card ${name}" aria-label=${title} id=${id}>
    ${title &&
    html`<header class="card-head">
      <h2>${title}</h2>
      ${hint && html`<p class="muted small">${hint}</p>`}
      ${tools && html`<div class="tools">${tools}</div>`}
    </header>`}
    ${children}
  </section>`;
}

/** A number with a name; `tone` is `ok`, `warn`, `bad` or `info`. */
export function Tile({ label, value, unit, detail, tone = "", flag }) {
  return html`<div class="tile ${tone}">
    <div class="tile-label">${label}${flag && html` <span class="flag">${flag}</span>`}</div>
    <div class="tile-value">${value}${unit && html`<span class="unit">${unit}</span>`}</div>
    ${detail && html`<div class="tile-detail">${detail}</div>`}
  </div>`;
}

/** A word with a colour; the word says all, the colour only helps. */
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

/** Where a message is in its life. */
export const State = ({ state }) => html`<${Chip} tone=${STATES[state] ?? ""}>${state}<//>`;

const PRESENCE = {
  available: ["ok", "available"],
  not_available_stale: ["warn", "stale"],
  not_available_offline: ["mute", "offline"],
};

/** Whether an agent is there. */
export function Presence({ presence }) {
  const [tone, word] = PRESENCE[presence] ?? ["", presence];
  return html`<span class="presence ${tone}"><span class="dot" aria-hidden="true"></span>${word}</span>`;
}

/** Says that there is nothing, and why that may be. */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p class="muted">${children}</p>`}</div>`;

/** Says what went wrong. */
export const Note = ({ error, again }) =>
  error &&
  html`<div class="note bad" role="alert">
    <p>${error.message}${error.code && html` <code>${error.code}</code>`}</p>
    ${again && html`<button type="button" class="button" onClick=${again}>Try again</button>`}
  </div>`;

/** A question's answer, or that it is on its way, or what went wrong. */
export function Answer({ of, empty, children }) {
  if (of.error && of.data === null) return html`<${Note} error=${of.error} again=${of.reload} />`;
  if (of.data === null) return html`<p class="loading" aria-busy="true">Loading …</p>`;
  if (empty && empty(of.data)) return children(of.data, true);
  return html`${of.error && html`<${Note} error=${of.error} />`}${children(of.data, false)}`;
}

/**
 * A button that does something which takes time, and says what became of it.
 *
 * While it is busy it takes no click but stays enabled: a disabled button would lose the focus that a dialog gives back.
 */
export function Action({ label, run, done, tone = "", disabled = false, title, small = false }) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    if (busy) return;
    setBusy(true);
    try {
      const said = await run();
      if (said !== false) toast(typeof done === "function" ? done(said) : (done ?? `${label}: done`), "ok");
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class="button ${tone} ${small ? "small" : ""}" disabled=${disabled} aria-busy=${busy} title=${title} onClick=${click}>${label}</button>`;
}

/** A bar that shows how much of something there is. */
export function Meter({ value, max, label, tone = "" }) {
  const share = max > 0 ? Math.max(0, Math.min(1, value / max)) : 0;
  return html`<div class="meter ${tone}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${max} aria-valuenow=${value}>
    <div class="meter-fill" style=${{ width: `${share * 100}%` }}></div>
  </div>`;
}

/** JSON as text, never as anything else. */
export const Json = ({ value }) => html`<pre class="json" tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
