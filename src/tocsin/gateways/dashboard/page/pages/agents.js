/** The page of agents: presence, current work, budget, and message counts between agents. */
import { Answer, Card, Chip, Empty, Level, Meter, Presence, Tile } from "../components/basics.js";
import { Listener } from "../components/listener.js";
import { Table } from "../components/table.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, ago, count, levelName, moment, percent, words } from "../lib/format.js";
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { live } from "../lib/live.js";
import { useQuery } from "../lib/query.js";
import { go, href } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const PAGE = 100;
/** Sender of the messages that the bus itself sends. */
const BUS = "tocsin";

export default function Agents({ parts, query }) {
  return parts.length ? html`<${One} key=${parts[0]} name=${parts[0]} />` : html`<${Roster} query=${query} />`;
}

function Roster({ query }) {
  const [part, setPart] = useState(query.q ?? "");
  useEffect(() => {
    const timer = setTimeout(() => part !== (query.q ?? "") && go("agents", [], { q: part }, { replace: true }), 250);
    return () => clearTimeout(timer);
  }, [part]);
  const roster = useQuery("/v1/roster", { q: query.q, after: query.after, limit: PAGE }, { areas: ["agents", "attention", "messages", "waits"], atMostEvery: 2000, every: 10000 });
  const summary = useStore(live, ({ tick }) => tick?.summary);
  const search = html`<input class="search" type="search" data-search aria-label="Part of a name" placeholder="Search by name" value=${part} onInput=${(event) => setPart(event.target.value)} />`;
  return html`${summary &&
    html`<div class="tiles">
      <${Tile} label="Available" value=${count(summary.available)} tone="ok" />
      <${Tile} label="Stale" value=${count(summary.stale)} tone=${summary.stale ? "warn" : ""} />
      <${Tile} label="Offline" value=${count(summary.offline)} />
      <${Tile} label="Busy" value=${count(summary.busy)} />
      <${Tile} label="Gaming" value=${count(summary.gaming)} tone=${summary.gaming ? "bad" : ""} />
    </div>`}
    <${Card} title="Roster" tools=${search}>
      <${Answer} of=${roster}>
        ${(page) => html`<${Rows} items=${page.items} />
          <div class="row more">
            ${query.after && html`<a class="button small" href=${href("agents", [], { q: query.q })}>First page</a>`}
            ${page.next && html`<a class="button small" href=${href("agents", [], { q: query.q, after: page.next })}>Next page</a>`}
            <span class="muted small">${count(page.total)} agents in total</span>
          </div>`}
      <//>
    <//>
    <${Conversations} />`;
}

const waitingOf = (agent) => Object.values(agent.waiting).reduce((sum, depth) => sum + depth, 0);

function Rows({ items }) {
  return html`<${Table} label="Agents" class="cards" rows=${items} keyOf=${(agent) => agent.agent} hrefOf=${(agent) => href("agents", agent.agent)}
    empty=${html`<${Empty} title="No agents">No registered agent has such a name.<//>`}
    columns=${[
      { name: "agent", head: "Agent", cell: (agent) => agent.agent },
      { name: "presence", head: "Presence", cell: (agent) => html`<${Presence} presence=${agent.presence} />` },
      { name: "role", head: "Role", cell: (agent) => html`${agent.role} <span class="muted">${agent.type}</span>` },
      { name: "sessions", head: "Sessions", cell: (agent) => html`<${Sessions} sessions=${agent.sessions} />` },
      { name: "attention", head: "Attention", cell: (agent) => html`<${Attention} attention=${agent.attention} />` },
      { name: "tokens", head: "Tokens", class: "budget", cell: (agent) => html`<${Bucket} budget=${agent.budget} />` },
      { name: "quotas", head: "Critical · Blocking", number: true, cell: (agent) => html`<${Quotas} budget=${agent.budget} />` },
      { name: "flags", head: "Priority status", cell: (agent) => html`<${PriorityStatus} agent=${agent} />` },
      { name: "waiting", head: "Waiting", number: true, cell: (agent) => count(waitingOf(agent)) },
    ]} />`;
}

function Sessions({ sessions }) {
  if (!sessions.length) return html`<span class="muted nothing">none</span>`;
  const kinds = ["push", "piggyback", "daemon"].map((kind) => [kind, sessions.filter((session) => session.kind === kind).length]).filter(([, number]) => number);
  return html`<span class="row tight">${kinds.map(([kind, number]) => html`<${Chip} key=${kind}>${kind}${number > 1 ? ` × ${number}` : ""}<//>`)}</span>`;
}

function Attention({ attention }) {
  if (attention.status === "idle") return html`<span class="muted">idle${attention.aside.length ? `, ${attention.aside.length} put aside` : ""}</span>`;
  return html`<span class="row tight"><${Chip} tone=${attention.interrupted_by ? "warn" : "info"}>${words(attention.status)}<//>
    ${attention.working_on && html`<a class="mono" href=${href("messages", attention.working_on)}>${attention.working_on}</a>`}
    ${attention.interrupted_by && html`<span class="small muted">interrupted by ${attention.interrupted_by}</span>`}</span>`;
}

/** The remaining tokens of a sender, coloured when few are left. */
function Bucket({ budget }) {
  if (!budget) return html`<span class="muted">unlimited</span>`;
  const share = budget.tokens / budget.tokens_max;
  return html`<div class="bucket"><${Meter} value=${Math.floor(budget.tokens)} max=${budget.tokens_max} label="Tokens" tone=${share < 0.1 ? "bad" : share < 0.3 ? "warn" : ""} /><span class="small figure">${count(Math.floor(budget.tokens))}<span class="muted"> / ${count(budget.tokens_max)}</span></span></div>`;
}

function Quotas({ budget }) {
  if (!budget) return html`<span class="muted nothing">—</span>`;
  const one = (left, most) => html`<span class=${left < 1 ? "soon" : ""}>${left.toFixed(left < 10 ? 1 : 0)}</span><span class="muted">/${most}</span>`;
  return html`${one(budget.critical, budget.critical_max)} · ${one(budget.blocking, budget.blocking_max)}`;
}

function PriorityStatus({ agent }) {
  if (!agent.gaming && !agent.inherited) return html`<span class="muted nothing">—</span>`;
  return html`<span class="row tight">
    ${agent.gaming && html`<${Chip} tone="bad" title="It sends too many messages at high priority; its messages are treated as Info">gaming<//>`}
    ${agent.inherited && html`<${Chip} tone="warn" title="Inherited from agents that wait for it">inherits ${levelName(agent.inherited)}<//>`}
  </span>`;
}

/** Message counts by sender and recipient, as a matrix of the agents with the most messages. */
function Conversations() {
  const query = useQuery("/v1/conversations", undefined, { areas: ["messages"], atMostEvery: 5000 });
  return html`<${Card} title="Messages between agents" hint=${query.data && `Number of messages among the latest ${count(query.data.latest)}.`}>
    <${Answer} of=${query}>
      ${(data) => (data.items.length ? html`<${Matrix} items=${data.items} />` : html`<${Empty} title="No messages yet" />`)}
    <//>
  <//>`;
}

const SHOWN = 14;

function Matrix({ items }) {
  const { senders, recipients, cells, most } = useMemo(() => arranged(items), [items]);
  const shade = (number) => (number ? Math.ceil(Math.sqrt(number / most) * 5) : 0);
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label="Messages between agents">
      <table class="matrix">
        <thead>
          <tr><td class="corner muted small">from ↓ to →</td>${recipients.map((name) => html`<th key=${name} scope="col"><a href=${href("agents", name)}>${name}</a></th>`)}</tr>
        </thead>
        <tbody>
          ${senders.map(
            (sender) => html`<tr key=${sender}>
              <th scope="row"><a href=${href("agents", sender)}>${sender}</a></th>
              ${recipients.map((recipient) => {
                const number = cells.get(`${sender}\n${recipient}`) ?? 0;
                return html`<td key=${recipient} class="shade-${shade(number)}">${number ? html`<a href=${href("messages", [], { sender, recipient })} aria-label=${`${number} from ${sender} to ${recipient}`}>${count(number)}</a>` : ""}</td>`;
              })}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${items.length > senders.length * recipients.length && html`<p class="muted small">Only the ${SHOWN} senders and recipients with the most messages are shown.</p>`}`;
}

function arranged(items) {
  const sums = { from: new Map(), to: new Map() };
  for (const { sender, recipient, messages } of items) {
    sums.from.set(sender, (sums.from.get(sender) ?? 0) + messages);
    sums.to.set(recipient, (sums.to.get(recipient) ?? 0) + messages);
  }
  const top = (map) => [...map].sort((one, other) => other[1] - one[1]).slice(0, SHOWN).map(([name]) => name);
  return {
    senders: top(sums.from),
    recipients: top(sums.to),
    cells: new Map(items.map(({ sender, recipient, messages }) => [`${sender}\n${recipient}`, messages])),
    most: Math.max(...items.map(({ messages }) => messages)),
  };
}

/** The details of one agent. */
function One({ name }) {
  const roster = useQuery("/v1/roster", { q: name, limit: 500 }, { areas: ["agents", "attention", "messages", "waits"], atMostEvery: 1500, every: 5000 });
  const talk = useQuery("/v1/conversations", undefined, { areas: ["messages"], atMostEvery: 5000 });
  return html`<p class="small"><a href=${href("agents")}>← All agents</a></p>
    <${Answer} of=${roster}>
      ${(page) => {
        const agent = page.items.find((item) => item.agent === name);
        if (!agent && name === BUS) return html`<${Empty} title="The bus itself">Messages from the bus, such as notices to directors, have ${name} as their sender.<//>`;
        if (!agent) return html`<${Empty} title="Not registered">There is no agent ${name}, or it was retired.<//>`;
        return html`<${Details} agent=${agent} talk=${talk.data?.items ?? []} />`;
      }}
    <//>`;
}

function Details({ agent, talk }) {
  const now = useNow();
  const mine = talk.filter(({ sender, recipient }) => sender === agent.agent || recipient === agent.agent);
  const { budget } = agent;
  return html`<${Card} title=${agent.agent} tools=${html`<a href=${href("messages", [], { recipient: agent.agent })}>Messages to this agent</a> <a href=${href("messages", [], { sender: agent.agent })}>Messages from this agent</a>`}>
      <div class="row summary"><${Presence} presence=${agent.presence} /><${Chip}>${agent.role}<//><span class="muted">${agent.type}, protocol ${agent.version}</span><${PriorityStatus} agent=${agent} /></div>
      <dl class="facts">
        <dt>Registered</dt><dd>${moment(agent.registered_at)}</dd>
        <dt>Accepts</dt><dd>${agent.capabilities.length ? agent.capabilities.join(", ") : "any message type"}</dd>
        <dt>Attention</dt><dd><${Attention} attention=${agent.attention} /></dd>
        ${agent.attention.aside.length > 0 && html`<dt>Put aside</dt><dd>${agent.attention.aside.map((id) => html`<a key=${id} class="mono" href=${href("messages", id)}>${id}</a> `)}</dd>`}
        <dt>Daemon</dt><dd><${Listener} sessions=${agent.sessions} /></dd>
        <dt>Recent sends</dt><dd>${count(agent.recent)}, of which Blocking or higher: ${count(agent.recent_high)}${agent.recent ? ` (${percent(agent.recent_high / agent.recent)})` : ""}</dd>
      </dl>
    <//>
    <div class="grid">
      <${Card} title="Budget">
        ${budget
          ? html`<dl class="budgets">
              <${Spend} label="Tokens" left=${budget.tokens} most=${budget.tokens_max} />
              <${Spend} label="Critical quota" left=${budget.critical} most=${budget.critical_max} />
              <${Spend} label="Blocking quota" left=${budget.blocking} most=${budget.blocking_max} />
            </dl>`
          : html`<${Empty} title="No limit">The role ${agent.role} has no sending limits.<//>`}
      <//>
      <${Card} title="Waiting messages">
        <dl class="levels">${LEVELS.map((level) => html`<div key=${level}><dt><${Level} level=${level} /></dt><dd>${count(agent.waiting[level])}</dd></div>`).reverse()}</dl>
      <//>
    </div>
    <${Card} title="Sessions">
      <${Table} label="Sessions" rows=${agent.sessions} keyOf=${(session) => session.session} empty=${html`<${Empty} title="No session">The agent is offline. Its messages wait in its queue.<//>`} columns=${[
        { name: "session", head: "Session", class: "id", cell: (session) => session.session },
        { name: "kind", head: "Kind", cell: (session) => session.kind },
        { name: "fresh", head: "Fresh", cell: (session) => html`<${Chip} tone=${session.fresh ? "ok" : "warn"}>${session.fresh ? "fresh" : "stale"}<//>` },
        { name: "beat", head: "Heartbeat", number: true, cell: (session) => ago(session.heartbeat_at, now) },
        { name: "flight", head: "Unconfirmed", number: true, cell: (session) => html`${count(session.in_flight)}<span class="muted"> / ${count(session.window)}</span>` },
        { name: "opened", head: "Opened", number: true, cell: (session) => ago(session.opened_at, now) },
      ]} />
    <//>
    <${Card} title="Messages by correspondent">
      <${Table} label="Messages by correspondent" rows=${mine} keyOf=${(one) => `${one.sender} ${one.recipient}`} empty=${html`<${Empty} title="No recent messages" />`} columns=${[
        { name: "sender", head: "From", cell: (one) => html`<a href=${href("agents", one.sender)}>${one.sender}</a>` },
        { name: "recipient", head: "To", cell: (one) => html`<a href=${href("agents", one.recipient)}>${one.recipient}</a>` },
        { name: "messages", head: "Messages", number: true, cell: (one) => html`<a href=${href("messages", [], { sender: one.sender, recipient: one.recipient })}>${count(one.messages)}</a>` },
        { name: "last", head: "Last", number: true, cell: (one) => ago(one.last_at, now) },
      ]} />
    <//>`;
}

function Spend({ label, left, most }) {
  const share = left / most;
  return html`<dt>${label}</dt>
    <dd><${Meter} value=${left} max=${most} label=${label} tone=${share < 0.1 ? "bad" : share < 0.3 ? "warn" : ""} /><span class="figure">${left < 100 ? left.toFixed(1) : count(Math.floor(left))} <span class="muted">of ${count(most)}</span></span></dd>`;
}
