/** The form that sends a message to an agent, as the person who is signed in. */
import { api, segment } from "../lib/api.js";
import { LEVELS, levelName } from "../lib/format.js";
import { html, render, useEffect, useState } from "../lib/html.js";
import { Dialog, Field } from "./dialog.js";
import { toast } from "./toast.js";

/** Message types offered in the form, with their labels. */
const TYPES = [
  ["CUSTOM_NOTE", "Note"],
  ["CUSTOM_ANSWER", "Answer"],
  ["Question", "Question: fails at once if the recipient is not available"],
  ["TaskAssigned", "Task"],
  ["ReviewRequested", "Review"],
  ["StatusUpdate", "Status"],
  ["Blocker", "Blocker: fails at once if the recipient is not available"],
];

/**
 * Open the form; resolves to the hub's reply to the send, or to null if the form was cancelled.
 *
 * `about` is the message to answer: the answer goes to its sender, in its thread, and it is marked as processed once the
 * answer is accepted.
 */
export function compose({ to = "", type, priority, text = "", about = null, title } = {}) {
  const place = document.body.appendChild(document.createElement("div"));
  return new Promise((resolve) => {
    const finish = (value) => {
      render(null, place);
      place.remove();
      resolve(value);
    };
    const start = {
      to: about ? about.sender : to,
      type: type ?? (about ? "CUSTOM_ANSWER" : "CUSTOM_NOTE"),
      priority: priority ?? (about ? about.priority : "Coordinate"),
      text,
    };
    render(html`<${Form} ...${{ start, about, title, finish }} />`, place);
  });
}

function Form({ start, about, title, finish }) {
  const [values, setValues] = useState(start);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [agents, setAgents] = useState([]);
  useEffect(() => {
    api.get("/v1/agents", { limit: 500 }).then(({ items }) => setAgents(items.map(({ agent }) => agent)), () => {});
  }, []);
  const change = (name) => (event) => setValues((before) => ({ ...before, [name]: event.target.value }));
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const sent = await write(values, about);
      toast(outcome(sent), "ok");
      finish(sent);
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title ?? (about ? `Answer ${about.sender}` : "Write to an agent")} onClose=${() => finish(null)}>
    <form onSubmit=${submit}>
      ${error && html`<p class="problem" role="alert">${error.message}${error.code && html` <code>${error.code}</code>`}</p>`}
      ${about && html`<blockquote class="quoted">${textOf(about.payload)}</blockquote>`}
      <div class="field">
        <label for="field-to">To</label>
        <input id="field-to" name="to" list="known-agents" required autocomplete="off" value=${values.to} onInput=${change("to")} readonly=${about !== null} autofocus=${about === null} />
        <datalist id="known-agents">${agents.map((name) => html`<option key=${name} value=${name} />`)}<option value="*">all agents</option></datalist>
      </div>
      <div class="pair">
        <${Field} name="type" label="Type" kind="select" options=${TYPES} value=${values.type} onInput=${change("type")} />
        <${Field} name="priority" label="Priority" kind="select" options=${LEVELS.map((level) => [level, levelName(level)])} value=${values.priority} onInput=${change("priority")} />
      </div>
      <${Field} name="text" label="Text" kind="area" rows=${6} required value=${values.text} onInput=${change("text")} hint="Sent as {"text": …}; a JSON object is sent unchanged." />
      <footer class="dialog-foot">
        <button type="button" class="button" onClick=${() => finish(null)}>Cancel</button>
        <button type="submit" class="button primary" disabled=${busy} aria-busy=${busy}>Send</button>
      </footer>
    </form>
  <//>`;
}

/** Send a message as the person who is signed in, who is registered first if necessary. */
export async function write({ to, type, priority, text }, about = null) {
  const me = await joined();
  const envelope = {
    version: "1.1.0",
    messageId: `msg_${Date.now()}_${crypto.getRandomValues(new Uint32Array(2)).join("")}`,
    timestamp: new Date().toISOString(),
    sender: { agentId: me.agent, type: me.type },
    receiver: { agentId: to.trim(), type: "*" },
    messageType: type,
    priority,
    payload: payloadOf(text),
  };
  if (about) envelope.correlationId = about.correlation_id ?? about.message_id;
  const sent = await api.post("/v1/messages", envelope);
  // The call fails if the answer itself has already marked the message as processed.
  if (about) await api.post(`/v1/messages/${segment(about.message_id)}/processed`).catch(() => {});
  return sent;
}

/** Register the person who is signed in, if they are not registered; return their name and type. */
export async function joined() {
  const me = await api.get("/v1/me");
  if (me.registered) return { agent: me.agent, type: me.registered.type };
  const type = me.role === "human" ? "Human" : "Manager";
  await api.put("/v1/me", { type });
  return { agent: me.agent, type };
}

function payloadOf(text) {
  if (/^\s*\{/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      return { text };
    }
  }
  return { text };
}

function outcome({ receipt, receipts = [], failed = {} }) {
  if (receipt) return receipt.delivered ? `Sent to ${receipt.recipient}` : `Queued for ${receipt.recipient}: ${receipt.recipient_state.replaceAll("_", " ")}`;
  const missed = Object.keys(failed).length;
  return `Sent to ${receipts.length} agents${missed ? `; ${missed} could not accept it` : ""}`;
}

/** Return the text of a payload, or the payload as JSON if it has none; lists get it from the hub, by the same rule. */
export function textOf(payload) {
  if (payload === null || typeof payload !== "object") return String(payload ?? "");
  for (const name of ["text", "message", "question", "task", "title", "summary", "description", "detail", "details", "errorMessage", "subject", "reason", "status", "plan"]) {
    if (typeof payload[name] === "string" && payload[name]) return payload[name];
  }
  return JSON.stringify(payload);
}
