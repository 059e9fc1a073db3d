/** The page of messages: search, and the history of one message with the rule and the threshold of every decision. */
import { Action, Answer, Card, Chip, Copy, Empty, Json, Level, Presence, State, When } from "../components/basics.js";
import { textOf } from "../components/compose.js";
import { ask, Field } from "../components/dialog.js";
import { MessageCell } from "../components/message-cell.js";
import { Table } from "../components/table.js";
import { Path } from "../components/path.js";
import { Timeline } from "../components/timeline.js";
import { api, segment } from "../lib/api.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, countdown, millis, moment } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { live } from "../lib/live.js";
import { useQuery } from "../lib/query.js";
import { go, href } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const PAGE = 50;
const STATES = ["held", "queued", "offered", "delivered", "acknowledged", "processed", "expired", "recalled", "dead"];
const OPEN = new Set(["held", "queued", "offered", "delivered", "acknowledged"]);

export default function Messages({ parts, query }) {
  return parts.length ? html`<${One} key=${parts[0]} id=${parts[0]} />` : html`<${Search} query=${query} />`;
}

/** Filters that are folded away until one of them is used. */
const RARE = ["publish_path", "delivery_class", "correlation_id", "since", "until"];
const FILTERS = ["q", "states", "level", "sender", "recipient", "type", "publish_path", "delivery_class", "correlation_id", "since", "until"];

function Search({ query }) {
  const wanted = Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]));
  // Another address fills the form anew. In an effect that would happen later, over what has been typed meanwhile.
  const address = JSON.stringify(wanted);
  const [typed, setTyped] = useState({ address, fields: wanted });
  if (typed.address !== address) setTyped({ address, fields: wanted });
  const draft = typed.address === address ? typed.fields : wanted;
  const change = (name) => (event) => {
    const next = { ...draft, [name]: event.target.value };
    setTyped({ address, fields: next });
    if (event.target.tagName === "SELECT") go("messages", [], next, { replace: true });
  };
  const submit = (event) => (event.preventDefault(), go("messages", [], draft));
  const field = (name, label, more = {}) => html`<${Field} name=${name} label=${label} value=${draft[name] ?? ""} onInput=${change(name)} ...${more} />`;
  const choice = (name, label, options) => field(name, label, { kind: "select", options: [["", "any"], ...options] });
  const set = Object.keys(wanted).length;
  const further = RARE.some((name) => wanted[name]);
  return html`<${Card} title="Find messages">
      <form onSubmit=${submit} role="search">
        <div class="filters">
          <div class="field wide">
            <label for="search-words">Words of the payload, or a message ID</label>
            <input id="search-words" data-search type="search" value=${draft.q ?? ""} onInput=${change("q")} placeholder="e.g. rewrite parser, or msg_…" />
          </div>
          ${choice("states", "State", [["held,queued,offered", "waiting"], ...STATES.map((state) => [state, state])])}
          ${choice("level", "Priority", LEVELS.map((level) => [level, level]))}
          ${field("sender", "Sender")} ${field("recipient", "Recipient")} ${field("type", "Type")}
        </div>
        <details class="more-filters" open=${further}>
          <summary>More filters</summary>
          <div class="filters">
          ${choice("publish_path", "Path", [["pushed_to_ws", "pushed"], ["buffered_for_piggyback", "piggyback"], ["queued_offline", "offline"], ["unknown", "unknown"]])}
          ${choice("delivery_class", "Class", [["sync", "sync"], ["async", "async"]])}
          ${field("correlation_id", "Thread")}
          ${field("since", "Accepted after", { kind: "datetime-local", class: "wide" })}
          ${field("until", "Accepted before", { kind: "datetime-local", class: "wide" })}
          </div>
        </details>
        <div class="row form-foot">
          <button type="submit" class="button primary">Find</button>
          ${set > 0 && html`<a class="button quiet" href=${href("messages")}>Clear</a>`}
        </div>
      </form>
    <//>
    <${Found} key=${JSON.stringify(wanted)} wanted=${wanted} />`;
}

/** Convert the local time of a date field to ISO 8601. */
function instant(text) {
  const at = text ? new Date(text) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
}

/** The pages of results that were loaded; the first page is kept up to date. */
function Found({ wanted }) {
  const id = /^(msg|sig)_\S+$/.test(wanted.q ?? "") ? wanted.q : null;
  const filters = { ...wanted, since: instant(wanted.since), until: instant(wanted.until), limit: PAGE };
  // The index of payload words is updated shortly after the message, so a search by words is repeated.
  const first = useQuery("/v1/messages", filters, { areas: ["messages"], atMostEvery: 3000, every: wanted.q ? 5000 : 0, enabled: id === null });
  const [more, setMore] = useState({ items: [], next: undefined });
  useEffect(() => {
    if (id) go("messages", id, {}, { replace: true });
  }, [id]);
  const further = async () => {
    const after = more.next === undefined ? first.data.next : more.next;
    const page = await api.get("/v1/messages", { ...filters, after });
    setMore(({ items }) => ({ items: [...items, ...page.items], next: page.next }));
    return page.items.length ? false : page;
  };
  if (id) return null;
  return html`<${Card} title="Messages" hint="Newest first.">
    <${Answer} of=${first}>
      ${(data) => {
        const known = new Set(data.items.map((row) => row.signal_id));
        const rows = [...data.items, ...more.items.filter((row) => !known.has(row.signal_id))];
        const next = more.next === undefined ? data.next : more.next;
        return html`<${Table} label="Messages" class="cards" rows=${rows} keyOf=${(row) => row.signal_id} hrefOf=${(row) => href("messages", row.signal_id)}
            empty=${html`<${Empty} title="No messages found">${next === null ? (Object.keys(wanted).length ? "No message matches." : "No message has been sent yet.") : "No match among the newest messages; older ones may match."}<//>`}
            columns=${[
              { name: "message", head: "Message", class: "wide", cell: (row) => html`<${MessageCell} row=${row} id=${row.signal_id} />` },
              { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.level} />` },
              { name: "state", head: "State", cell: (row) => html`<${State} state=${row.state} />` },
              { name: "path", head: "Path", cell: (row) => html`<${Path} path=${row.publish_path} />` },
              { name: "sent", head: "Accepted", number: true, cell: (row) => html`<${When} at=${row.created_at} />` },
            ]} />
          ${next !== null && html`<div class="more"><${Action} small label=${rows.length ? "Load older messages" : "Search older messages"} run=${further} done="No match among these; older messages may match." /></div>`}`;
      }}
    <//>
  <//>`;
}

/** The details, history and actions of one message. */
function One({ id }) {
  const copies = useQuery(`/v1/messages/${segment(id)}/history`, undefined, { areas: ["messages", "approvals"], atMostEvery: 1000 });
  return html`<p class="small"><a href=${href("messages")}>← All messages</a></p>
    <${Answer} of=${copies}>
      ${(found) => found.map((copy) => html`<${MessageCopy} key=${copy.message.signal_id} copy=${copy} reload=${copies.reload} />`)}
    <//>`;
}

function MessageCopy({ copy, reload }) {
  const { message, history } = copy;
  const now = useNow();
  const left = millis(message.expires_at) - now;
  return html`<${Card} title=${`Message ${message.signal_id}`} heading=${short(textOf(message.payload)) || message.type} class="one-message" tools=${html`<${Actions} message=${message} history=${history} reload=${reload} />`}>
      <div class="row summary">
        <${State} state=${message.state} /><${Level} level=${message.level} /><strong>${message.type}</strong>
        <span><a href=${href("agents", message.sender)}>${message.sender}</a> → <a href=${href("agents", message.recipient)}>${message.recipient}</a></span>
        ${OPEN.has(message.state) && message.expires_at && ["held", "queued", "offered"].includes(message.state) && html`<span class="muted">expires in <span class=${left < 60_000 ? "soon" : ""}>${countdown(left)}</span></span>`}
      </div>
      <div class="split">
        <div>
          <h3>History</h3>
          <${Timeline} history=${history} />
        </div>
        <div class="stack">
          <dl class="facts">
            <dt>Message</dt><dd><code class="message-id">${message.signal_id}</code> <${Copy} text=${message.signal_id} /></dd>
            <dt>Accepted</dt><dd>${moment(message.created_at)} <span class="muted">(<${When} at=${message.created_at} />)</span></dd>
            <dt>Priority</dt><dd><${Level} level=${message.priority} />${message.level !== message.priority && html` → <${Level} level=${message.level} /> now`}</dd>
            <dt>Class</dt><dd>${message.delivery_class}</dd>
            <dt>Path</dt><dd><${Path} path=${message.publish_path} /></dd>
            <dt>Recipient at send</dt><dd><${Presence} presence=${message.recipient_state} /></dd>
            <dt>Retries</dt><dd>${message.attempts}</dd>
            <dt>Expires</dt><dd>${moment(message.expires_at)}</dd>
            ${message.correlation_id && html`<dt>Thread</dt><dd class="mono">${message.correlation_id}</dd>`}
          </dl>
          <div><h3>Payload</h3><${Json} value=${message.payload} /></div>
          ${Object.keys(message.metadata ?? {}).length > 0 && html`<details><summary>Metadata</summary><${Json} value=${message.metadata} /></details>`}
        </div>
      </div>
    <//>
    ${message.correlation_id && html`<${Thread} name=${message.correlation_id} current=${message.signal_id} />`}`;
}

/** Buttons for the actions that are possible in the message's state; a disabled one shows the reason. */
function Actions({ message, history, reload }) {
  const me = useStore(live, ({ hello }) => hello?.who?.agent);
  const path = `/v1/messages/${segment(message.signal_id)}`;
  const offered = history.some(({ kind }) => kind === "MessageOffered");
  const waiting = message.state === "held" || message.state === "queued";
  const recall = async () => {
    const answer = await ask({ title: "Recall this message?", text: `It will not be delivered to ${message.recipient}.`, confirm: "Recall", tone: "danger" });
    if (!answer) return false;
    const { outcome } = await api.post(`${path}/recall`);
    reload();
    if (outcome !== "recalled") throw new Error(`Not recalled: ${outcome.replaceAll("_", " ")}.`);
    return outcome;
  };
  const redrive = async () => {
    const { refused } = await api.post("/v1/dead-letters/redrive", { signal_ids: [message.signal_id] });
    reload();
    const [problem] = Object.values(refused);
    if (problem) throw new Error(problem.detail);
    return true;
  };
  const why = message.sender !== me ? "Only the sender can recall a message." : offered ? "It has been handed out: the recipient may have read it." : "";
  return html`${message.state === "held" && html`<${Approval} message=${message} reload=${reload} />`}
    ${message.state === "dead" && html`<${Action} small tone="primary" label="Redrive" run=${redrive} done="Queued again." />`}
    ${waiting && html`<${Action} small tone="danger" label="Recall" run=${recall} done="Recalled." disabled=${why !== ""} title=${why} />`}
    ${waiting && why && html`<span class="muted small">${why}</span>`}`;
}

/** Buttons that approve or refuse a held message. */
function Approval({ message, reload }) {
  const approvals = useQuery("/v1/approvals", { subject: message.message_id }, { areas: ["approvals"] });
  const held = approvals.data?.items.find((row) => row.holds);
  if (!held) return null;
  const decide = (verdict) => async () => {
    const refusing = verdict === "refuse";
    const answer = await ask({
      title: refusing ? "Refuse this message?" : "Approve this message?",
      text: refusing ? `The reason is sent to ${message.sender}.` : `It will be delivered to ${message.recipient}.`,
      fields: [
        { name: "reason", label: refusing ? "Reason" : "Reason (optional)", required: refusing },
        ...(refusing ? [] : [{ name: "payload", label: "Payload", kind: "area", rows: 8, value: JSON.stringify(message.payload, null, 2), hint: "If you change the payload, the message is sent with the changes." }]),
      ],
      confirm: refusing ? "Refuse" : "Approve",
      tone: refusing ? "danger" : "primary",
    });
    if (!answer) return false;
    const payload = refusing ? null : changed(answer.payload, message.payload);
    await api.post(`/v1/approvals/${segment(held.approval)}/decide`, { verdict, reason: answer.reason, ...(payload ? { payload } : {}) });
    reload();
    return true;
  };
  return html`<${Action} small tone="primary" label="Approve" run=${decide("approve")} done="Approved." />
    <${Action} small tone="danger" label="Refuse" run=${decide("refuse")} done="Refused." />`;
}

function changed(text, before) {
  let after;
  try {
    after = JSON.parse(text);
  } catch (error) {
    throw new Error(`The payload is not JSON: ${error.message}`);
  }
  return JSON.stringify(after) === JSON.stringify(before) ? null : after;
}

function Thread({ name, current }) {
  const thread = useQuery(`/v1/threads/${segment(name)}`, { limit: 200 }, { areas: ["messages"], atMostEvery: 3000 });
  return html`<${Card} title="Thread" hint=${name} class="thread">
    <${Answer} of=${thread}>
      ${(data) => html`<ol class="plain talk">
          ${data.items.map(
            (message) => html`<li key=${message.signal_id} class=${message.signal_id === current ? "current" : ""}>
              <div class="row">
                <strong>${message.sender}</strong><span class="muted">→ ${message.recipient}</span><${Chip}>${message.type}<//><${State} state=${message.state} />
                <span class="spread"></span><${When} class="muted small" at=${message.created_at} />
              </div>
              <p class="excerpt">${excerpt(message.payload)}</p>
              ${message.signal_id !== current && html`<a class="small" href=${href("messages", message.signal_id)} title=${message.signal_id}>Open this message</a>`}
            </li>`,
          )}
        </ol>
        ${data.next !== null && html`<p class="muted small">The thread has more messages than are shown here.</p>`}`}
    <//>
  <//>`;
}

/** Return the first lines of a payload's text. */
function excerpt(payload) {
  const text = textOf(payload);
  return text.length > 300 ? `${text.slice(0, 300)} …` : text;
}

/** Return the beginning of a text in one line, for a heading. */
function short(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 110 ? `${line.slice(0, 109)}…` : line;
}
