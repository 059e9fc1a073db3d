/** The human inbox: escalations, approval requests, messages to the person who is signed in, and sending messages. */
import { Asked } from "../components/asked.js";
import { Action, Answer, Card, Chip, Empty, Json, Level, When } from "../components/basics.js";
import { compose, joined, textOf } from "../components/compose.js";
import { api, segment } from "../lib/api.js";
import { useNow } from "../lib/clock.js";
import { count, countdown, metricName, millis, moment, words } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { live } from "../lib/live.js";
import { useQuery } from "../lib/query.js";
import { href } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const SHOWN_MAX = 100;
/** Sender of the messages that the bus itself sends. */
const BUS = "tocsin";
const STATES = "queued,offered,delivered,acknowledged";

export default function Inbox() {
  const escalations = useQuery("/v1/escalations", { limit: SHOWN_MAX }, { areas: ["escalation"], atMostEvery: 1000 });
  const approvals = useQuery("/v1/approvals", { limit: SHOWN_MAX }, { areas: ["approvals"], atMostEvery: 1000 });
  return html`<div class="row page-tools">
      <button type="button" class="button primary" onClick=${() => compose()}>Write to an agent</button>
      <button type="button" class="button" onClick=${() => compose({ title: "Override: interrupt an agent's work", priority: "DirectorOverride" })}>Override …</button>
      <span class="muted small">An override is delivered before all other messages and interrupts the recipient's work.</span>
    </div>
    <div class="desk">
      <div class="stack">
        <${Card} title="Escalations" hint="Open escalations, oldest first">
          <${Answer} of=${escalations}>${({ items, next }) => html`<${Escalations} rows=${items} reload=${escalations.reload} /><${More} next=${next} />`}<//>
        <//>
        <${Card} title="Approvals" hint="Requests that a director or a human must decide">
          <${Answer} of=${approvals}>${({ items, next }) => html`<${Approvals} rows=${items} reload=${approvals.reload} /><${More} next=${next} />`}<//>
        <//>
      </div>
      <${Messages} />
    </div>`;
}

const More = ({ next }) => next !== null && html`<p class="muted small">Only the first ${count(SHOWN_MAX)} are shown.</p>`;

const Since = ({ at }) => html`<${When} class="muted small" at=${at} />`;

/** Health is among the alerts of the overview; only what a director brought to a human is shown here. */
const isHealth = ({ trigger, state }) => trigger === "health_degraded" && !state.startsWith("human");

function Escalations({ rows: all, reload }) {
  const rows = all.filter((row) => !isHealth(row));
  if (!rows.length) return html`<${Empty} title="No open escalations">A problem that agents leave unresolved is escalated to a director, then to a human.<//>`;
  return html`<ul class="items">${rows.map((row) => html`<${EscalationItem} key=${row.escalation} row=${row} reload=${reload} />`)}</ul>`;
}

/** By trigger: what an escalation is about, with the name of the resource, agent or metric. */
const SUBJECTS = {
  time_in_queue: (about) => html`Waits too long: ${about}`,
  request_timeout: (about) => html`Not answered: ${about}`,
  approval_timeout: (about) => html`Approval overdue: ${about}`,
  consensus_timeout: (about) => html`No agreement: ${about}`,
  dependency_blocked: (about) => html`Blocked: <code>${about}</code>`,
  resource_contended: (about) => html`Contended: <code>${about}</code>`,
  deadlock: (about) => html`Deadlock: <code>${about}</code>`,
  health_degraded: (about, subject) => html`Over its limit: ${metricName(subject)}`,
  priority_inflation: (about, subject) => html`Inflated priorities: <a href=${href("agents", [subject])}>${subject}</a>`,
  critical_error: (about) => html`Critical error: ${about}`,
};

function EscalationItem({ row, reload }) {
  const path = `/v1/escalations/${segment(row.escalation)}`;
  const atHuman = row.state.startsWith("human");
  const resolve = {
    title: "Resolve the escalation",
    text: row.detail,
    fields: [{ name: "resolution", label: "How it was resolved", kind: "area", required: true }],
    confirm: "Resolve",
  };
  const raise = {
    title: "Escalate to a human",
    text: row.detail,
    fields: [{ name: "reason", label: "Reason", kind: "area" }],
    confirm: "Escalate",
  };
  return html`<li class="item" data-id=${row.escalation}>
    <div class="item-head"><b>${SUBJECTS[row.trigger]?.(row.about || row.subject, row.subject) ?? words(row.trigger)}</b><${Chip} tone=${atHuman ? "bad" : "warn"}>${words(row.state)}<//><span class="spread"></span><${Since} at=${row.opened_at} /></div>
    <p class="item-text">${row.detail}</p>
    <details>
      <summary>${row.steps.length} ${row.steps.length === 1 ? "step" : "steps"}, rule ${words(row.rule)}</summary>
      ${/^(msg|sig)_/.test(row.subject) && html`<p class="small"><a href=${href("messages", [row.subject])}>History of the message</a></p>`}
      <ol class="steps">
        ${row.steps.map((step, place) => html`<li key=${place}><time class="muted small" datetime=${step.at}>${moment(step.at)}</time> ${words(step.state)} <span class="muted">by ${step.by}</span>${step.detail && html` <span class="muted">· ${step.detail}</span>`}</li>`)}
      </ol>
    </details>
    <div class="row item-acts">
      <${Asked} label="Resolve" tone="primary" small question=${resolve} run=${async (answer) => (await api.post(`${path}/resolve`, answer), reload())} done="Resolved" />
      <${Asked} label="Escalate to a human" small disabled=${atHuman} question=${raise} run=${async (answer) => (await api.post(`${path}/human`, answer), reload())} done="Escalated to a human" />
    </div>
  </li>`;
}

function Approvals({ rows, reload }) {
  if (!rows.length) return html`<${Empty} title="No approval requests">Agents ask here before they do what the policy wants approved.<//>`;
  return html`<ul class="items">${rows.map((row) => html`<${ApprovalItem} key=${row.approval} row=${row} reload=${reload} />`)}</ul>`;
}

/** Convert an identifier to words, as the beginning of a sentence. */
const titled = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());

function ApprovalItem({ row, reload }) {
  const now = useNow();
  const path = `/v1/approvals/${segment(row.approval)}/decide`;
  const decide = (verdict) => async (answer) => {
    const payload = answer.payload ? JSON.parse(answer.payload) : undefined;
    await api.post(path, { verdict, reason: answer.reason ?? "", payload });
    reload();
  };
  const reason = { name: "reason", label: "Reason", kind: "area" };
  const question = row.holds ? row.preview || row.details || row.subject : row.subject;
  return html`<li class="item" data-id=${row.approval}>
    <div class="item-head"><b>${row.holds ? html`<a href=${href("messages", [row.subject])} title=${row.subject}>${question}</a>` : question}</b>${row.holds && html`<${Chip} tone="warn">message held<//>`}<span class="spread"></span><${Since} at=${row.opened_at} /></div>
    <p class="muted small">${titled(row.handoff)}, requested by <a href=${href("agents", [row.asker])}>${row.asker}</a></p>
    ${row.details && !row.holds && html`<p class="item-text">${row.details}</p>`}
    <p class="muted small">${row.due_at ? html`Will be escalated in ${countdown(millis(row.due_at) - now)}` : "Overdue: it has been escalated"}</p>
    <div class="row item-acts">
      <${Asked} label="Approve" tone="primary" small question=${{ title: `Approve: ${words(row.handoff)}`, text: question, fields: [reason], confirm: "Approve" }} run=${decide("approve")} done="Approved" />
      ${row.holds && html`<${Change} row=${row} run=${decide("approve")} />`}
      <${Asked} label="Refuse" tone="danger" small question=${{ title: `Refuse: ${words(row.handoff)}`, text: question, fields: [{ ...reason, required: true, hint: "It is sent to the requester." }], confirm: "Refuse", tone: "danger" }} run=${decide("refuse")} done="Refused" />
    </div>
  </li>`;
}

/** Approve a held message with a changed payload. */
function Change({ row, run }) {
  const [held, setHeld] = useState(null);
  useEffect(() => {
    const asking = new AbortController();
    api.get(`/v1/messages/${segment(row.subject)}`, undefined, { signal: asking.signal }).then(([first]) => setHeld(first), () => {});
    return () => asking.abort();
  }, [row.subject]);
  const question = {
    title: "Approve with a changed payload",
    text: `The message of ${row.asker} is sent with this payload instead of the original one.`,
    fields: [
      { name: "payload", label: "Payload (JSON)", kind: "area", rows: 10, required: true, value: held ? JSON.stringify(held.payload, null, 2) : "" },
      { name: "reason", label: "Reason", kind: "text" },
    ],
    confirm: "Approve with changes",
  };
  const changed = async (answer) => {
    let payload;
    try {
      payload = JSON.parse(answer.payload);
    } catch {
      payload = null;
    }
    if (payload === null || typeof payload !== "object" || Array.isArray(payload)) throw new Error("The payload must be a JSON object. The request is still open.");
    await run(answer);
  };
  return html`<${Asked} label="Approve with changes …" small title="Approve with a changed payload" disabled=${held === null} question=${question} run=${changed} done="Approved with changes" />`;
}

function Messages() {
  const me = useStore(live, ({ hello }) => hello?.who?.agent);
  const mail = useQuery("/v1/inbox", { states: STATES, limit: SHOWN_MAX }, { areas: ["messages"], atMostEvery: 1500 });
  const self = useQuery("/v1/me");
  usePickup(mail);
  const join = async () => (await joined(), self.reload(), mail.reload());
  const notices = mail.data?.items.filter(({ sender }) => sender === BUS) ?? [];
  const clear = async () => {
    for (const { message_id: name } of notices) await api.post(`/v1/messages/${segment(name)}/processed`).catch(() => {});
    mail.reload();
  };
  const tools = notices.length > 0 && html`<${Action} small label=${`Mark ${notices.length === 1 ? "the notice" : `${count(notices.length)} notices`} as done`} title="Notices are messages from the bus itself" run=${clear} done="Notices marked as done" />`;
  return html`<${Card} title=${`Messages to ${me ?? "you"}`} hint="Messages count as received when they are shown here" tools=${tools}>
    ${self.data && !self.data.registered && html`<div class="note"><p>You are not registered in this project, so agents cannot send you messages.</p><${Action} label="Register" tone="primary" run=${join} done="Registered: agents can send you messages" /></div>`}
    <${Answer} of=${mail}>
      ${({ items, next }) =>
        items.length
          ? html`<ul class="items">${items.map((row) => html`<${MessageItem} key=${row.signal_id} row=${row} reload=${mail.reload} />`)}</ul>${next !== null && html`<p class="muted small">Only the first ${count(SHOWN_MAX)} are shown. Mark some as done to see the others.</p>`}`
          : html`<${Empty} title="No messages">What agents send to you appears here.<//>`}
    <//>
  <//>`;
}

/** Fetch the waiting messages and confirm their receipt, since they are shown on the screen. */
function usePickup(mail) {
  const busy = useRef(false);
  const waiting = mail.data?.items.some(({ state }) => state === "queued") ?? false;
  useEffect(() => {
    if (!waiting || busy.current || document.hidden) return;
    busy.current = true;
    (async () => {
      const { cursor } = await api.post("/v1/inbox/drain", { limit: SHOWN_MAX });
      if (cursor) await api.post("/v1/inbox/receipts", { receipt: cursor });
    })()
      .catch(() => {})
      .finally(() => {
        busy.current = false;
        mail.reload();
      });
  }, [waiting, mail.data]);
}

function MessageItem({ row, reload }) {
  const done = async () => {
    await api.post(`/v1/messages/${segment(row.message_id)}/processed`);
    reload();
  };
  const reject = {
    title: "Reject the message",
    text: `The message becomes a dead letter. ${row.sender} can see the reason.`,
    fields: [{ name: "reason", label: "Reason", kind: "area", required: true }],
    confirm: "Reject",
    tone: "danger",
  };
  return html`<li class="item" data-id=${row.message_id}>
    <div class="item-head"><b>${row.sender}</b><span class="muted">${row.type}</span><${Level} level=${row.level} /><span class="spread"></span><${Since} at=${row.created_at} /></div>
    <p class="item-text">${textOf(row.payload)}</p>
    <details><summary>Payload</summary><${Json} value=${row.payload} /></details>
    <div class="row item-acts">
      ${row.sender !== BUS && html`<button type="button" class="button primary small" onClick=${async () => (await compose({ about: row })) && reload()}>Answer</button>`}
      <${Action} label="Done" small run=${done} done="Marked as done" />
      ${row.sender !== BUS && html`<${Asked} label="Reject" tone="danger" small question=${reject} run=${async ({ reason }) => (await api.post(`/v1/messages/${segment(row.message_id)}/nack`, { reason }), reload())} done="Rejected" />`}
      <a class="small" href=${href("messages", [row.message_id])}>History</a>
    </div>
  </li>`;
}
