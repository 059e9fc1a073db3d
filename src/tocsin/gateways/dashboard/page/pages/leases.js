/** The page of leases: holders, waiting requests, the wait-for graph, and forced release. */
import { Asked } from "../components/asked.js";
import { Answer, Card, Chip, Empty, Level, Tile, When } from "../components/basics.js";
import { WaitGraph } from "../components/graph.js";
import { Table } from "../components/table.js";
import { api, segment } from "../lib/api.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, count, countdown, duration, levelName, millis, moment } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useQuery } from "../lib/query.js";
import { href } from "../lib/router.js";

const SHOWN_MAX = 200;
const DRAWN_MAX = 60;

export default function Leases() {
  const leases = useQuery("/v1/leases", { limit: SHOWN_MAX }, { areas: ["leases", "agents"], atMostEvery: 1000 });
  const waits = useQuery("/v1/waits", { limit: SHOWN_MAX }, { areas: ["waits", "leases", "requests", "approvals", "discussions"], atMostEvery: 1000 });
  return html`<${Answer} of=${leases}>${(book) => html`<${Answer} of=${waits}>${(graph) => html`<${Content} book=${book} graph=${graph} reload=${() => (leases.reload(), waits.reload())} />`}<//>`}<//>`;
}

function Content({ book, graph, reload }) {
  const inherited = new Map(graph.agents.map((row) => [row.agent, row.inherited]));
  return html`<div class="stack">
    <${Figures} book=${book} graph=${graph} />
    <${Card} title="Wait-for graph" hint="A waiting agent is at the left of the agents that it waits for. A dashed line leads to an agent that is earlier in the same queue.">
      <${Drawing} graph=${graph} />
    <//>
    <${Card} title="Held">
      <${Held} rows=${book.held} waiting=${book.waiting} inherited=${inherited} reload=${reload} />
    <//>
    <${Card} title="Waiting requests">
      <${Waiting} rows=${book.waiting} reload=${reload} />
    <//>
    <${Others} waits=${graph.waits.filter(({ kind }) => kind !== "lease")} />
  </div>`;
}

function Figures({ book, graph }) {
  const now = useNow();
  const oldest = Math.min(...graph.waits.map(({ since }) => millis(since)));
  const raised = graph.agents.filter(({ inherited }) => inherited).length;
  return html`<div class="tiles">
    <${Tile} label="Leases held" value=${count(book.held.length)} />
    <${Tile} label="Waiting requests" value=${count(book.waiting.length)} tone=${book.waiting.length ? "warn" : ""} />
    <${Tile} label="Agents with inherited priority" value=${count(raised)} />
    <${Tile} label="Longest wait" value=${graph.waits.length ? duration(Math.max(0, (now - oldest) / 1000)) : "—"} />
  </div>`;
}

function Drawing({ graph }) {
  if (!graph.waits.length) return html`<${Empty} title="No agent waits">The graph shows agents that wait for a lease, an answer, an approval or a vote.<//>`;
  const drawn = graph.waits.slice(0, DRAWN_MAX);
  const names = new Set(drawn.flatMap(({ waiter, on, behind }) => [waiter, ...on, ...behind]));
  return html`${graph.total > drawn.length && html`<p class="muted small">Only the ${DRAWN_MAX} oldest of ${graph.total} waits are shown.</p>`}
    <${WaitGraph} agents=${graph.agents.filter(({ agent }) => names.has(agent))} waits=${drawn} />`;
}

const resources = ({ exclusive, shared }) =>
  html`<span class="resources">${exclusive.map((name) => html`<code key=${name}>${name}</code>`)}${shared.map((name) => html`<span key=${`shared ${name}`}><code>${name}</code> <span class="muted small">shared</span></span>`)}</span>`;

const above = (one, other) => LEVELS.indexOf(one) > LEVELS.indexOf(other);

const agent = (name) => html`<a href=${href("agents", [name])}>${name}</a>`;

const agents = (names) => html`<span>${names.map((name, place) => html`${place > 0 && ", "}${agent(name)}`)}</span>`;

const what = ({ exclusive, shared }) => [...exclusive, ...shared].join(", ");

function Held({ rows, waiting, inherited, reload }) {
  const now = useNow();
  const behind = (row) => waiting.filter(({ holders }) => holders.includes(row.agent)).length;
  const columns = [
    { name: "what", head: "Resources", cell: resources },
    { name: "holder", head: "Holder", cell: (row) => agent(row.agent) },
    { name: "level", head: "Priority", cell: (row) => html`<span><${Level} level=${row.priority} />${above(inherited.get(row.agent), row.priority) && html` <${Chip} tone="warn" title="Inherited from agents that wait">inherits ${levelName(inherited.get(row.agent))}<//>`}</span>` },
    { name: "behind", head: "Waiting for holder", number: true, cell: (row) => behind(row) || "—" },
    { name: "ends", head: "Expires in", number: true, cell: (row) => html`<span title=${moment(row.expires_at)}>${countdown(millis(row.expires_at) - now)}</span>` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${Release} row=${row} label="Release" reload=${reload} />` },
  ];
  return html`<${Table} label="Held" class="cards" columns=${columns} rows=${rows} keyOf=${({ lease }) => lease} empty=${html`<${Empty} title="No leases">A lease keeps two agents from changing the same resource.<//>`} />`;
}

function Waiting({ rows, reload }) {
  const now = useNow();
  const columns = [
    { name: "what", head: "Resources", cell: resources },
    { name: "place", head: "Place in queue", number: true, cell: ({ place }) => place },
    { name: "agent", head: "Agent", cell: (row) => agent(row.agent) },
    { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.priority} />` },
    { name: "on", head: "Waits for", cell: ({ holders }) => agents(holders) },
    { name: "until", head: "Times out in", number: true, cell: (row) => html`<span title=${moment(row.wait_until)}>${countdown(millis(row.wait_until) - now)}</span>` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${Release} row=${row} label="Remove" reload=${reload} />` },
  ];
  return html`<${Table} label="Waiting requests" class="cards" columns=${columns} rows=${rows} keyOf=${({ lease }) => lease} empty=${html`<${Empty} title="No waiting requests" />`} />`;
}

/** Release a lease or remove a waiting request by force; the reason is sent to the agent and recorded. */
function Release({ row, label, reload }) {
  const held = row.state === "held";
  const question = {
    title: held ? `Release ${what(row)}` : `Remove ${row.agent} from the queue`,
    text: held ? `${row.agent} is notified that it lost the lease, with the reason. The first waiting request gets the lease.` : `${row.agent} is notified that its request ended, with the reason.`,
    fields: [{ name: "reason", label: "Reason", kind: "area", required: true }],
    confirm: held ? "Release by force" : "Remove",
    tone: "danger",
  };
  const run = async ({ reason }) => {
    await api.post(`/v1/leases/${segment(row.lease)}/force-release`, { reason });
    reload();
  };
  return html`<${Asked} small label=${label} tone="danger" title=${`${label} ${what(row)}`} question=${question} run=${run} done=${held ? `Released ${what(row)}` : `Removed ${row.agent} from the queue`} />`;
}

function Others({ waits }) {
  if (!waits.length) return null;
  const columns = [
    { name: "agent", head: "Agent", cell: (row) => agent(row.waiter) },
    { name: "kind", head: "Waits for", cell: (row) => html`<span><${Chip}>${row.kind}<//> ${row.what}</span>` },
    { name: "on", head: "From", cell: ({ on, any_of: any }) => html`<span>${any && on.length > 1 && html`<span class="muted">any of </span>`}${agents(on)}</span>` },
    { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.priority} />` },
    { name: "since", head: "Since", number: true, cell: (row) => html`<${When} at=${row.since} />` },
  ];
  return html`<${Card} title="Other waits" hint="Agents also inherit the priority of requests, approvals and discussions."><${Table} label="Other waits" class="cards" columns=${columns} rows=${waits} keyOf=${({ kind, ref, waiter }) => `${kind} ${ref} ${waiter}`} /><//>`;
}
