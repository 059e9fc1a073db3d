/** The history of a message: its events in the hub's words, with the rule, the measure and the limit of every decision. */
import { Chip } from "./basics.js";
import { clock, duration, levelName, millis, moment, short, words } from "../lib/format.js";
import { html } from "../lib/html.js";

/** By kind of event: a short title, and its tone. */
const KINDS = {
  MessageAccepted: ({ held }) => (held ? [`Held for approval: ${words(held)}`, "warn"] : ["Accepted", "info"]),
  MessageReleased: ({ by }) => [`Approved by ${by}`, "ok"],
  MessageOffered: ({ pushed, offer }) => [pushed ? "Pushed" : offer > 1 ? `Handed out again (offer ${offer})` : "Handed out", "info"],
  MessageDelivered: () => ["Delivered", "ok"],
  MessageAcknowledged: ({ status }) => [`Acknowledged: ${status}`, "ok"],
  MessageProcessed: () => ["Processed", "ok"],
  MessageRejected: () => ["Rejected by the recipient", "bad"],
  MessageRequeued: () => ["Queued again", "warn"],
  MessageReady: () => ["Ready for the next attempt", ""],
  MessageBoosted: ({ old_level, new_level }) => [old_level === new_level ? "Overdue" : `Raised: ${levelName(old_level)} → ${levelName(new_level)}`, "warn"],
  MessageExpired: () => ["Expired", "mute"],
  MessageRecalled: ({ by }) => [`Recalled by ${by}`, "mute"],
  MessageDied: () => ["Dead letter", "bad"],
  DeadLetterRedriven: ({ by }) => [`Redriven by ${by}`, "info"],
  DeadLetterPurged: () => ["Deleted", "mute"],
  PriorityInherited: ({ new_level }) => [`Raised to ${levelName(new_level)} by inheritance`, "warn"],
  PriorityRestored: () => ["Inherited priority ended", ""],
};

/** By kind of event: further figures of the decision, which the sentence does not have. */
const FIGURES = {
  MessageAccepted: ({ critical_quota, blocking_quota }) => [
    critical_quota !== null && critical_quota !== undefined && ["Critical quota left", short(critical_quota)],
    blocking_quota !== null && blocking_quota !== undefined && ["Blocking quota left", short(blocking_quota)],
  ],
  MessageReleased: ({ expires_at }) => [["expires", moment(expires_at)]],
  MessageOffered: ({ level }) => [["effective priority", levelName(level)]],
  DeadLetterRedriven: ({ expires_at }) => [["expires", moment(expires_at)]],
};

/** The events of a message, oldest first. */
export function Timeline({ history }) {
  return html`<ol class="timeline">
    ${history.map((entry, place) => html`<${Entry} key=${entry.seq} entry=${entry} before=${history[place - 1]} />`)}
  </ol>`;
}

function Entry({ entry, before }) {
  const { kind, facts, at, seq, text, reason } = entry;
  const [title, tone] = KINDS[kind]?.(facts) ?? [capital(words(kind)), ""];
  const figures = (FIGURES[kind]?.(facts) ?? []).filter(Boolean);
  const since = before ? (millis(at) - millis(before.at)) / 1000 : 0;
  return html`<li class="entry ${tone}" data-kind=${kind}>
    <div class="row"><strong>${title}</strong><span class="spread"></span>
      <time class="muted small" datetime=${at} title=${`${moment(at)}, event ${seq}`}>${clock(at)}${since >= 0.0005 ? html` <span class="since">+${duration(since)}</span>` : ""}</time>
    </div>
    <p>${sentence(text)}</p>
    ${reason && html`<${Reason} reason=${reason} text=${text} />`}
    ${figures.length > 0 && html`<p class="muted small numbers">${figures.map(([name, value]) => html`<span key=${name}>${name} <b>${value}</b></span>`)}</p>`}
  </li>`;
}

/** The rule behind a decision, what was measured, and the limit. A measure without a limit is left out if the sentence has it. */
function Reason({ reason: { rule, measured, limit }, text }) {
  return html`<dl class="reason">
    <div><dt>rule</dt><dd><${Chip} title=${rule}>${words(rule)}<//></dd></div>
    ${measured && (limit || !text.includes(measured)) && html`<div><dt>measured</dt><dd>${measured}</dd></div>`}
    ${limit && html`<div><dt>limit</dt><dd>${limit}</dd></div>`}
  </dl>`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Begin a text with a capital letter, and end it with a full stop. */
const sentence = (text) => `${capital(text)}${/[.!?…]$/.test(text) ? "" : "."}`;
