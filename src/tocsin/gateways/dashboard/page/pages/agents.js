/** The page of agents: presence, current work, budget, and message counts between agents. */
import { Asked } from "../components/asked.js";
import { Action, Answer, Card, Chip, Empty, Level, Meter, Presence, State, Tile, When } from "../components/basics.js";
import { compose } from "../components/compose.js";
import { GettingStarted, useProgress } from "../components/getting-started.js";
import { Listener } from "../components/listener.js";
import { MessageCell } from "../components/message-cell.js";
import { Table } from "../components/table.js";
import { addAgent, issueToken, renewToken, revokeTokens, useAdministered } from "../components/tokens.js";
import { api, segment } from "../lib/api.js";
import { LEVELS, bytes, count, levelName, moment, percent, words } from "../lib/format.js";
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
  const adds = useAdministered().length > 0;
  const search = html`${adds && html`<button type="button" class="button" onClick=${addAgent}>Add an agent</button>`}<input class="search" type="search" data-search aria-label="Part of a name" placeholder="Search by name" value=${part} onInput=${(event) => setPart(event.target.value)} />`;
  const progress = useProgress();
  const known = useStore(live, ({ tick }) => tick?.agents ?? 0);
  return html`<${GettingStarted} progress=${progress} />
    ${known > 0 && summary &&
    html`<div class="tiles">
      <${Tile} label="Available" value=${count(summary.available)} tone=${summary.available ? "ok" : ""} />
      <${Tile} label="Stale" value=${count(summary.stale)} tone=${summary.stale ? "warn" : ""} />
      <${Tile} label="Offline" value=${count(summary.offline)} />
      <${Tile} label="Busy" value=${count(summary.busy)} />
      <${Tile} label="Gaming" value=${count(summary.gaming)} tone=${summary.gaming ? "bad" : ""} />
    </div>`}
    <${Card} title="Roster" tools=${search}>
      <${Answer} of=${roster}>
        ${(page) => html`<${Rows} items=${page.items} query=${query} />
          <div class="row more">
            ${query.after && html`<a class="button small" href=${href("agents", [], { q: query.q })}>First page</a>`}
            ${page.next && html`<a class="button small" href=${href("agents", [], { q: query.q, after: page.next })}>Next page</a>`}
            ${page.total > 0 && html`<span class="muted small">${count(page.total)} ${page.total === 1 ? "agent" : "agents"} in total</span>`}
          </div>`}
      <//>
    <//>
    ${known > 0 && html`<${Conversations} />`}`;
}

const waitingOf = (agent) => Object.values(agent.waiting).reduce((sum, depth) => sum + depth, 0);

function Rows({ items, query }) {
  const empty = query.q ? html`<${Empty} title="No agents found">No agent's name contains “${query.q}”.<//>` : html`<${Empty} title="No agents yet">An agent appears here when it is added, or registers with its token.<//>`;
  return html`<${Table} label="Agents" class="cards wordy" rows=${items} keyOf=${(agent) => agent.agent} hrefOf=${(agent) => href("agents", agent.agent)}
    empty=${empty}
    columns=${[
      { name: "agent", head: "Agent", cell: (agent) => agent.agent },
      { name: "presence", head: "Presence", cell: (agent) => html`<${Presence} presence=${agent.presence} />` },
      { name: "role", head: "Role", cell: (agent) => html`${agent.role} <span class="muted">${agent.type}</span>` },
      { name: "sessions", head: "Sessions", cell: (agent) => html`<${Sessions} sessions=${agent.sessions} />` },
      { name: "attention", head: "Attention", cell: (agent) => html`<${Attention} attention=${agent.attention} />` },
      { name: "tokens", head: "Budget", class: "budget", cell: (agent) => html`<${Bucket} budget=${agent.budget} />` },
      { name: "quotas", head: "Critical · Blocking left", number: true, cell: (agent) => html`<${Quotas} budget=${agent.budget} />` },
      { name: "flags", head: "Priority status", cell: (agent) => html`<${PriorityStatus} agent=${agent} />` },
      { name: "waiting", head: "Waiting", number: true, cell: (agent) => count(waitingOf(agent)) },
    ]} />`;
}

function Sessions({ sessions }) {
  if (!sessions.length) return html`<span class="muted nothing">none</span>`;
  const kinds = ["push", "channel", "piggyback", "daemon"].map((kind) => [kind, sessions.filter((session) => session.kind === kind).length]).filter(([, number]) => number);
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
  return html`<div class="bucket"><${Meter} value=${Math.floor(budget.tokens)} max=${budget.tokens_max} label="Budget" tone=${share < 0.1 ? "bad" : share < 0.3 ? "warn" : ""} /><span class="small figure">${count(Math.floor(budget.tokens))}<span class="muted"> / ${count(budget.tokens_max)}</span></span></div>`;
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
  return html`<p class="small"><a href=${href("agents")}>← All agents</a></p>
    <${Answer} of=${roster}>
      ${(page) => {
        const agent = page.items.find((item) => item.agent === name);
        if (!agent && name === BUS) return html`<${Empty} title="The bus itself">Messages from the bus, such as notices to directors, have ${name} as their sender.<//>`;
        if (!agent) return html`<${Empty} title="Not registered">There is no agent ${name}, or it was retired.<//>`;
        return html`<${Details} agent=${agent} reload=${roster.reload} />`;
      }}
    <//>`;
}

function Details({ agent, reload }) {
  const administers = useAdministered().includes(agent.role);
  const me = useStore(live, ({ hello }) => hello?.who?.agent);
  const { budget } = agent;
  const tools = html`${agent.agent !== me && html`<button type="button" class="button primary" onClick=${() => compose({ to: agent.agent })}>Write to ${agent.agent}</button>`}`;
  return html`<${Card} title=${agent.agent} tools=${tools}>
      <div class="row summary"><${Presence} presence=${agent.presence} /><${Chip}>${agent.role}<//><span class="muted">${agent.type}, protocol ${agent.version}</span><${PriorityStatus} agent=${agent} /></div>
      <dl class="facts">
        <dt>Registered</dt><dd><${When} at=${agent.registered_at} /></dd>
        <dt>Accepts</dt><dd>${agent.capabilities.length ? agent.capabilities.join(", ") : "any message type"}</dd>
        <dt>Attention</dt><dd><${Attention} attention=${agent.attention} /></dd>
        ${agent.attention.aside.length > 0 && html`<dt>Put aside</dt><dd>${agent.attention.aside.map((id) => html`<a key=${id} class="mono" href=${href("messages", id)}>${id}</a> `)}</dd>`}
        <dt>Reached by</dt><dd>${REACH[agent.reach] ?? agent.reach}</dd>
        ${agent.wake && html`<dt>Last wake</dt><dd><${LastWake} wake=${agent.wake} /></dd>`}
        <dt>Daemon</dt><dd><${Listener} sessions=${agent.sessions} /></dd>
        <dt>Recent sends</dt><dd>${count(agent.recent)}, of which Blocking or higher: ${count(agent.recent_high)}${agent.recent ? ` (${percent(agent.recent_high / agent.recent)})` : ""}</dd>
      </dl>
    <//>
    <div class="grid">
      <${Card} title="Budget" hint="What it can still send now; it refills with time.">
        ${budget
          ? html`<dl class="budgets">
              <${Spend} label="Tokens" left=${budget.tokens} most=${budget.tokens_max} />
              <${Spend} label="Critical quota" left=${budget.critical} most=${budget.critical_max} />
              <${Spend} label="Blocking quota" left=${budget.blocking} most=${budget.blocking_max} />
            </dl>`
          : html`<${Empty} title="No limit">The role ${agent.role} has no sending limits.<//>`}
      <//>
      <${Card} title="Waiting messages" tools=${html`<a href=${href("messages", [], { recipient: agent.agent, states: "held,queued,offered" })}>Show them</a>`}>
        <dl class="levels">${LEVELS.map((level) => html`<div key=${level}><dt><${Level} level=${level} /></dt><dd>${count(agent.waiting[level])}</dd></div>`).reverse()}</dl>
        <dl class="budgets">
          <${Used} label="Unread bytes to it" used=${agent.unread.mailbox_bytes} most=${agent.unread.mailbox_bytes_max} />
          <${Used} label="Unread bytes from it" used=${agent.unread.sender_bytes} most=${agent.unread.sender_bytes_max} />
        </dl>
      <//>
    </div>
    <div class="grid">
      <${Latest} title=${`Latest to ${agent.agent}`} filter=${{ recipient: agent.agent }} />
      <${Latest} title=${`Latest from ${agent.agent}`} filter=${{ sender: agent.agent }} />
    </div>
    <${Card} title="Sessions">
      <${Table} label="Sessions" class="cards" rows=${agent.sessions} keyOf=${(session) => session.session} empty=${html`<${Empty} title="No session">The agent is offline. Its messages wait in its queue.<//>`} columns=${[
        { name: "session", head: "Session", class: "id", cell: (session) => session.session },
        { name: "kind", head: "Kind", cell: (session) => session.kind },
        { name: "fresh", head: "Fresh", cell: (session) => html`<${Chip} tone=${session.fresh ? "ok" : "warn"}>${session.fresh ? "fresh" : "stale"}<//>` },
        { name: "beat", head: "Heartbeat", number: true, cell: (session) => html`<${When} at=${session.heartbeat_at} />` },
        { name: "flight", head: "Unconfirmed", number: true, cell: (session) => html`${count(session.in_flight)}<span class="muted"> / ${count(session.window)}</span>` },
        { name: "opened", head: "Opened", number: true, cell: (session) => html`<${When} at=${session.opened_at} />` },
      ]} />
    <//>
    ${administers && html`<${AccessTokens} agent=${agent} />`}
    <${Retire} agent=${agent} reload=${reload} />`;
}

/** How a message reaches an agent now. */
const REACH = {
  push: "a push to its session",
  channel: "a notification through its channel",
  hook: "its next check or call",
  waker: "its waker, which starts it",
  none: "nothing: messages wait until it connects",
};
const OUTCOMES = {
  under_way: ["info", "under way"],
  woken: ["ok", "woken"],
  waker_failed: ["bad", "the waker failed"],
  not_attached: ["bad", "it opened no session"],
  not_taken: ["bad", "it did not take the message"],
  moot: ["", "no longer needed"],
  retired: ["", "the agent was retired"],
};

/** The latest wake of an agent, with its outcome. */
function LastWake({ wake }) {
  const [tone, text] = OUTCOMES[wake.outcome] ?? ["", words(wake.outcome)];
  return html`<span class="row tight"><${Chip} tone=${tone}>${text}<//>
    ${wake.outcome === "under_way" ? html`<span>attempt ${count(wake.attempt)}, requested <${When} at=${wake.requested_at} /></span>` : html`<${When} at=${wake.outcome_at} />`}
    ${wake.detail && html`<span class="muted">${wake.detail}</span>`}
    ${wake.failed && html`<${Chip} tone="bad" title="All attempts failed, and the agent has not connected since">given up<//>`}
    <span class="muted small">${count(wake.recent)} ${wake.recent === 1 ? "wake" : "wakes"} in the last hour</span></span>`;
}

/** The latest messages to or from an agent. */
function Latest({ title, filter }) {
  const found = useQuery("/v1/messages", { ...filter, limit: 6 }, { areas: ["messages"], atMostEvery: 2000 });
  return html`<${Card} title=${title} tools=${html`<a href=${href("messages", [], filter)}>Show all</a>`}>
    <${Answer} of=${found}>
      ${({ items }) => html`<${Table} label=${title} class="cards" rows=${items} keyOf=${(row) => row.signal_id} hrefOf=${(row) => href("messages", row.signal_id)} empty=${html`<${Empty} title="No messages" />`} columns=${[
        { name: "message", head: "Message", class: "wide", cell: (row) => html`<${MessageCell} row=${row} id=${row.signal_id} />` },
        { name: "state", head: "State", cell: (row) => html`<${State} state=${row.state} />` },
        { name: "sent", head: "Accepted", number: true, cell: (row) => html`<${When} at=${row.created_at} />` },
      ]} />`}
    <//>
  <//>`;
}

/** The tokens of an agent, without their secrets, and what those who administer them can do. */
function AccessTokens({ agent }) {
  const tokens = useQuery("/v1/admin/tokens", { agent: agent.agent, limit: 500 }, { every: 15000 });
  const done = async (change) => ((await change) !== false ? (tokens.reload(), true) : false);
  return html`<${Card} title="Access tokens" hint="Whoever has a token of an agent acts as that agent.">
    <${Answer} of=${tokens}>
      ${({ items }) => {
        const mine = items.filter((token) => token.live);
        return html`<${Table} label="Access tokens" class="cards" rows=${mine} keyOf=${(token) => token.token_id} empty=${html`<${Empty} title="No valid token">The agent cannot connect until it has a token.<//>`} columns=${[
            { name: "id", head: "Token", class: "id", cell: (token) => token.token_id },
            { name: "role", head: "Role", cell: (token) => html`${token.role}${token.admin ? html` <${Chip} tone="warn">admin<//>` : ""}` },
            { name: "made", head: "Issued", number: true, cell: (token) => html`<${When} at=${token.created_at} />` },
            { name: "ends", head: "Expires", number: true, cell: (token) => (token.expires_at ? moment(token.expires_at) : "never") },
          ]} />
          <div class="row item-acts">
            ${mine.length > 0
              ? html`<button type="button" class="button small" onClick=${() => done(renewToken(agent.agent))}>Replace by a new token</button>
                  <button type="button" class="button small danger" onClick=${() => done(revokeTokens(agent.agent))}>Revoke</button>`
              : html`<${Action} small tone="primary" label="Issue a token" run=${() => done(issueToken(agent)).then(() => false)} />`}
          </div>`;
      }}
    <//>
  <//>`;
}

/** Remove an agent from the project. */
function Retire({ agent }) {
  const me = useStore(live, ({ hello }) => hello?.who?.agent);
  if (agent.agent === me) return null;
  const question = {
    title: `Retire ${agent.agent}`,
    text: "The agent leaves the project: its leases are released, and messages that wait for it become dead letters.",
    fields: [{ name: "reason", label: "Reason", kind: "area" }],
    confirm: "Retire",
    tone: "danger",
  };
  const retire = async ({ reason }) => {
    await api.delete(`/v1/agents/${segment(agent.agent)}`, reason ? { query: { reason } } : {});
    go("agents");
  };
  return html`<div class="row page-foot"><${Asked} small label=${`Retire ${agent.agent} …`} tone="danger" question=${question} run=${retire} done=${`${agent.agent} was retired`} /></div>`;
}

/** Bytes of what is unread, coloured when little room is left. */
function Used({ label, used, most }) {
  const share = used / most;
  return html`<dt>${label}</dt>
    <dd><${Meter} value=${Math.min(used, most)} max=${most} label=${label} tone=${share >= 0.9 ? "bad" : share >= 0.7 ? "warn" : ""} /><span class="figure">${bytes(used)} <span class="muted">of ${bytes(most)}</span></span></dd>`;
}

function Spend({ label, left, most }) {
  const share = left / most;
  return html`<dt>${label}</dt>
    <dd><${Meter} value=${left} max=${most} label=${label} tone=${share < 0.1 ? "bad" : share < 0.3 ? "warn" : ""} /><span class="figure">${left < 100 ? left.toFixed(1).replace(/\.0$/, "") : count(Math.floor(left))} <span class="muted">of ${count(most)}</span></span></dd>`;
}
