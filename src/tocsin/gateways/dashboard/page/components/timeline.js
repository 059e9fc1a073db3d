/** The history of a message: its events, with the rule and the threshold of every decision. */
import { Chip } from "./basics.js";
import { clock, duration, levelName, millis, moment, words } from "../lib/format.js";
import { html } from "../lib/html.js";

const seconds = (us) => duration(us / 1e6);

const RULES = {
  as_requested: () => "The sender requested this priority, and its role allows it.",
  contract_default: () => "The sender requested no priority, so it has the default of its message type.",
  role_cap: ({ requested, priority }) => `The sender requested ${levelName(requested)}, which its role does not allow: lowered to ${levelName(priority)}.`,
  gaming: ({ requested }) => `The sender requested ${levelName(requested)}, but has recently sent too many messages at high priority: its messages are treated as Info.`,
  confirmation: () => "Confirmations are not charged to the sender's budget.",
};

const PATHS = {
  pushed_to_ws: "It was pushed to an open session of the recipient.",
  buffered_for_piggyback: "The recipient polls: the message waits for its next call.",
  queued_offline: "The recipient was offline: the message waits until it connects, or until the message expires.",
};

const HOW = {
  receipt: "The recipient's client confirmed receipt.",
  next_call: "The recipient's next call confirmed receipt.",
  ack: "The recipient's acknowledgement confirmed receipt.",
  nack: "The recipient's rejection confirmed receipt.",
  response: "The recipient's answer confirmed receipt.",
};

const CAUSES = {
  session_ended: "The session ended before receipt was confirmed.",
  receipt_timeout: "Receipt was not confirmed in time.",
  ack_timeout: "It was not acknowledged in time.",
  nack: "The recipient rejected it temporarily.",
};

const EXPIRED = { ttl: "Its time to live ended before it was delivered.", stale: "Its importance decayed below the threshold." };

/** By kind of event: title, tone, reasons in sentences, rule, and the numbers that the decision used. */
const KINDS = {
  MessageAccepted: (facts) => ({
    title: facts.held ? `Held for approval: ${words(facts.held)}` : "Accepted",
    tone: facts.held ? "warn" : "info",
    why: [RULES[facts.rule]?.(facts), facts.held ? "Messages of this type need the approval of a director or a human." : PATHS[facts.publish_path]],
    rule: facts.rule,
    numbers: [
      facts.requested !== undefined && ["requested", levelName(facts.requested)],
      facts.priority !== undefined && ["granted", levelName(facts.priority)],
      facts.tokens !== null && ["tokens left", Math.floor(facts.tokens)],
      facts.critical_quota !== null && ["Critical quota left", facts.critical_quota.toFixed(1)],
      facts.blocking_quota !== null && ["Blocking quota left", facts.blocking_quota.toFixed(1)],
    ],
  }),
  MessageReleased: ({ by, expires_at, payload }) => ({
    title: `Approved by ${by}`,
    tone: "ok",
    why: [payload ? "The payload was changed." : "The payload was not changed.", "Its time to live starts now."],
    rule: "approval",
    numbers: [["expires", moment(expires_at)]],
  }),
  MessageOffered: ({ offer, level, waited_us, pushed, session }) => ({
    title: pushed ? "Pushed immediately" : offer > 1 ? `Offered again (offer ${offer})` : "Offered",
    tone: "info",
    why: [pushed ? "It was handed out as soon as it was accepted." : "It was the most urgent message waiting for the recipient."],
    numbers: [["waited", seconds(waited_us)], ["effective priority", levelName(level)], ["session", session]],
  }),
  MessageDelivered: ({ how }) => ({ title: "Delivered", tone: "ok", why: [HOW[how]], rule: how }),
  MessageAcknowledged: ({ status, latency_us, notes }) => ({
    title: `Acknowledged: ${status}`,
    tone: "ok",
    why: [status === "response" ? "An answer in the same thread acknowledged it." : null, notes && `“${notes}”`],
    numbers: [["after", seconds(latency_us)]],
  }),
  MessageProcessed: ({ how, latency_us }) => ({ title: "Processed", tone: "ok", why: [how === "response" ? "A response in the same thread marked it as processed." : "The recipient marked it as processed."], rule: how, numbers: [["after", seconds(latency_us)]] }),
  MessageRejected: ({ reason, code, can_retry, suggested_fix }) => ({
    title: "Rejected by the recipient",
    tone: "bad",
    why: [`“${reason}”`, can_retry ? "It may be delivered again." : "It must not be delivered again.", suggested_fix && `Suggested fix: ${suggested_fix}`],
    rule: code,
  }),
  MessageRequeued: ({ cause, attempts, attempts_max, ready_at, threshold_s }) => ({
    title: "Queued again",
    tone: "warn",
    why: [CAUSES[cause]],
    rule: cause,
    numbers: [threshold_s > 0 && ["time limit", duration(threshold_s)], ["retries", `${attempts} of ${attempts_max}`], ready_at > 0 && ["next attempt", clock(ready_at)]],
  }),
  MessageReady: () => ({ title: "Ready for the next attempt", why: ["The retry delay has ended."] }),
  MessageBoosted: ({ old_level, new_level, overdue, threshold_s, age_us, rule, boosts }) => ({
    title: old_level === new_level ? "Overdue" : `Raised: ${levelName(old_level)} → ${levelName(new_level)}`,
    tone: "warn",
    why: [overdue ? "It has waited so long that it is now first at its priority." : "It has waited so long that its priority was raised."],
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
  MessageRecalled: ({ by }) => ({ title: `Recalled by ${by}`, tone: "mute", why: ["It had not been handed out, so the recipient has not seen it."] }),
  MessageDied: ({ reason, code, attempts, detail }) => ({ title: "Dead letter", tone: "bad", why: [detail], rule: reason, numbers: [["code", code], ["retries used", attempts]] }),
  DeadLetterRedriven: ({ by, expires_at, recipient_state }) => ({
    title: `Redriven by ${by}`,
    tone: "info",
    why: ["It is queued again, with its full time to live and all its retries."],
    numbers: [["expires", moment(expires_at)], ["recipient", words(recipient_state)]],
  }),
  DeadLetterPurged: ({ reason }) => ({ title: "Deleted", tone: "mute", why: [reason === "age" ? "The retention time of dead letters had passed." : "The maximum number of dead letters was exceeded."], rule: reason }),
  PriorityInherited: ({ agent, new_level, waiter, through }) => ({
    title: `Raised to ${levelName(new_level)} by inheritance`,
    tone: "warn",
    why: [`${waiter} waits for ${agent}, which inherits its priority.`],
    rule: "inheritance",
    numbers: [["through", through]],
  }),
  PriorityRestored: ({ agent }) => ({ title: "Inherited priority ended", why: [`No agent with that priority waits for ${agent} any more.`], rule: "inheritance" }),
};

/** The events of a message, oldest first. */
export function Timeline({ history }) {
  return html`<ol class="timeline">
    ${history.map((entry, place) => html`<${Entry} key=${entry.seq} entry=${entry} before=${history[place - 1]} />`)}
  </ol>`;
}

function Entry({ entry, before }) {
  const { kind, facts, at, seq } = entry;
  const { title, tone = "", why = [], rule, numbers = [] } = KINDS[kind]?.(facts) ?? { title: words(kind), numbers: Object.entries(facts).map(([name, value]) => [words(name), String(value)]) };
  const since = before ? (millis(at) - millis(before.at)) / 1000 : 0;
  return html`<li class="entry ${tone}" data-kind=${kind}>
    <div class="row"><strong>${title}</strong>${rule && html`<${Chip} title="rule">${rule}<//>`}<span class="spread"></span>
      <time class="muted small" datetime=${at} title=${`${moment(at)}, event ${seq}`}>${clock(at)}${since >= 0.0005 ? html` <span class="since">+${duration(since)}</span>` : ""}</time>
    </div>
    ${why.filter(Boolean).map((sentence) => html`<p>${sentence}</p>`)}
    ${numbers.filter(Boolean).length > 0 &&
    html`<p class="muted small numbers">${numbers.filter(Boolean).map(([name, value]) => html`<span key=${name}>${name} <b>${value}</b></span>`)}</p>`}
  </li>`;
}
