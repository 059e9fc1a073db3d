/** A message's life, one happening after another: what was decided, by which rule, and which threshold it crossed. */
import { Chip } from "./basics.js";
import { clock, duration, levelName, millis, moment, words } from "../lib/format.js";
import { html } from "../lib/html.js";

const seconds = (us) => duration(us / 1e6);

const RULES = {
  as_requested: () => "The sender asked for this priority, and its role may use it.",
  contract_default: () => "The sender named no priority: the contract of its type gives one.",
  role_cap: ({ requested, priority }) => `The sender asked for ${levelName(requested)}, which is over what its role may use: lowered to ${levelName(priority)}.`,
  gaming: ({ requested }) => `The sender asked for ${levelName(requested)}, but has sent too much at high priority lately: its messages count as Info.`,
  confirmation: () => "A confirmation costs nothing.",
};

const PATHS = {
  pushed_to_ws: "The recipient had a session to push to.",
  buffered_for_piggyback: "The recipient polls: it waits for its next call.",
  queued_offline: "The recipient was not there: it waits until it comes, or until its time is over.",
};

const HOW = {
  receipt: "The recipient's client confirmed receipt.",
  next_call: "The recipient's next call was the receipt.",
  ack: "Its acknowledgement says that it arrived.",
  nack: "Its rejection says that it arrived.",
  response: "Its answer says that it arrived.",
};

const CAUSES = {
  session_ended: "Its session ended without a receipt.",
  receipt_timeout: "No receipt came in time.",
  ack_timeout: "No acknowledgement came in time.",
  nack: "The recipient rejected it for now.",
};

const EXPIRED = { ttl: "Its time to live was over before it was delivered.", stale: "Its importance had decayed away." };

/** For each kind: a title, a tone, the reason in a sentence, and the numbers that it went by. */
const KINDS = {
  MessageAccepted: (facts) => ({
    title: facts.held ? `Held for approval: ${words(facts.held)}` : "Accepted",
    tone: facts.held ? "warn" : "info",
    why: [RULES[facts.rule]?.(facts), facts.held ? "Its type is a handoff point: a director or a human must approve it." : PATHS[facts.publish_path]],
    rule: facts.rule,
    numbers: [
      facts.requested !== undefined && ["asked for", levelName(facts.requested)],
      facts.priority !== undefined && ["granted", levelName(facts.priority)],
      facts.tokens !== null && ["tokens left", Math.floor(facts.tokens)],
      facts.critical_quota !== null && ["Critical quota left", facts.critical_quota.toFixed(1)],
      facts.blocking_quota !== null && ["Blocking quota left", facts.blocking_quota.toFixed(1)],
    ],
  }),
  MessageReleased: ({ by, expires_at, payload }) => ({
    title: `Approved by ${by}`,
    tone: "ok",
    why: [payload ? "It goes with a changed payload." : "It goes as it is.", "Its time to live counts from here."],
    rule: "approval",
    numbers: [["expires", moment(expires_at)]],
  }),
  MessageOffered: ({ offer, level, waited_us, pushed, session }) => ({
    title: pushed ? "Pushed at once" : offer > 1 ? `Offered again, for the ${ordinal(offer)} time` : "Offered",
    tone: "info",
    why: [pushed ? "It went out within its own send." : "It was the most urgent of what waited for its recipient."],
    numbers: [["waited", seconds(waited_us)], ["counted as", levelName(level)], ["session", session]],
  }),
  MessageDelivered: ({ how }) => ({ title: "Delivered", tone: "ok", why: [HOW[how]], rule: how }),
  MessageAcknowledged: ({ status, latency_us, notes }) => ({
    title: `Acknowledged: ${status}`,
    tone: "ok",
    why: [status === "response" ? "An answer in its thread implied it." : null, notes && `“${notes}”`],
    numbers: [["after", seconds(latency_us)]],
  }),
  MessageProcessed: ({ how, latency_us }) => ({ title: "Processed", tone: "ok", why: [how === "response" ? "The response in its thread says so." : "Its recipient is done with it."], rule: how, numbers: [["after", seconds(latency_us)]] }),
  MessageRejected: ({ reason, code, can_retry, suggested_fix }) => ({
    title: "Rejected by its recipient",
    tone: "bad",
    why: [`“${reason}”`, can_retry ? "Another attempt may help." : "Another attempt will not help.", suggested_fix && `Suggested: ${suggested_fix}`],
    rule: code,
  }),
  MessageRequeued: ({ cause, attempts, attempts_max, ready_at, threshold_s }) => ({
    title: "Back in the queue",
    tone: "warn",
    why: [CAUSES[cause]],
    rule: cause,
    numbers: [threshold_s > 0 && ["allowed", duration(threshold_s)], ["retries", `${attempts} of ${attempts_max}`], ready_at > 0 && ["again at", clock(ready_at)]],
  }),
  MessageReady: () => ({ title: "Ready for another attempt", why: ["Its backoff is over."] }),
  MessageBoosted: ({ old_level, new_level, overdue, threshold_s, age_us, rule, boosts }) => ({
    title: old_level === new_level ? "Overdue" : `Raised: ${levelName(old_level)} → ${levelName(new_level)}`,
    tone: "warn",
    why: [overdue ? "It has waited so long that it now goes first in its level." : "It has waited so long that it counts for more."],
    rule,
    numbers: [["threshold", duration(threshold_s)], ["age", seconds(age_us)], ["times", boosts]],
  }),
  MessageExpired: ({ reason, due_at, importance, threshold }) => ({
    title: "Expired",
    tone: "mute",
    why: [EXPIRED[reason]],
    rule: reason,
    numbers: reason === "stale" ? [["importance left", importance.toFixed(2)], ["threshold", threshold]] : [["due", moment(due_at)]],
  }),
  MessageRecalled: ({ by }) => ({ title: `Recalled by ${by}`, tone: "mute", why: ["It had not been offered to anybody: nobody has seen it."] }),
  MessageDied: ({ reason, code, attempts, detail }) => ({ title: "Dead letter", tone: "bad", why: [detail], rule: reason, numbers: [["code", code], ["retries used", attempts]] }),
  DeadLetterRedriven: ({ by, expires_at, recipient_state }) => ({
    title: `Redriven by ${by}`,
    tone: "info",
    why: ["It is queued again, with a fresh time to live and fresh retries."],
    numbers: [["expires", moment(expires_at)], ["recipient", words(recipient_state)]],
  }),
  DeadLetterPurged: ({ reason }) => ({ title: "Dropped for good", tone: "mute", why: [reason === "age" ? "It had been a dead letter for too long." : "There were too many dead letters."], rule: reason }),
  PriorityInherited: ({ agent, new_level, waiter, through }) => ({
    title: `Raised to ${levelName(new_level)}, lent`,
    tone: "warn",
    why: [`${waiter} waits for ${agent} and lends it its priority.`],
    rule: "inheritance",
    numbers: [["through", through]],
  }),
  PriorityRestored: ({ agent }) => ({ title: "What was lent is given back", why: [`Nobody so urgent waits for ${agent} any more.`], rule: "inheritance" }),
};

const ordinal = (number) => `${number}${{ 1: "st", 2: "nd", 3: "rd" }[number] ?? "th"}`;

/** Draw a life. */
export function Timeline({ life }) {
  return html`<ol class="timeline">
    ${life.map((happening, place) => html`<${Happening} key=${happening.seq} happening=${happening} before=${life[place - 1]} />`)}
  </ol>`;
}

function Happening({ happening, before }) {
  const { kind, facts, at, seq } = happening;
  const { title, tone = "", why = [], rule, numbers = [] } = KINDS[kind]?.(facts) ?? { title: words(kind), numbers: Object.entries(facts).map(([name, value]) => [words(name), String(value)]) };
  const since = before ? (millis(at) - millis(before.at)) / 1000 : 0;
  return html`<li class="happening ${tone}" data-kind=${kind}>
    <div class="row"><strong>${title}</strong>${rule && html`<${Chip} title="rule">${rule}<//>`}<span class="spread"></span>
      <time class="muted small" datetime=${at} title=${`${moment(at)}, event ${seq}`}>${clock(at)}${since >= 0.0005 ? html` <span class="since">+${duration(since)}</span>` : ""}</time>
    </div>
    ${why.filter(Boolean).map((sentence) => html`<p>${sentence}</p>`)}
    ${numbers.filter(Boolean).length > 0 &&
    html`<p class="muted small numbers">${numbers.filter(Boolean).map(([name, value]) => html`<span key=${name}>${name} <b>${value}</b></span>`)}</p>`}
  </li>`;
}
