/** Leases: who holds what, who waits for whom, and taking a lease away. */
import { Asked } from "../components/asked.js";
import { Answer, Card, Chip, Empty, Level, Tile } from "../components/basics.js";
import { WaitGraph } from "../components/graph.js";
import { Table } from "../components/table.js";
import { api, segment } from "../lib/api.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, ago, count, countdown, duration, levelName, millis, moment } from "../lib/format.js";
import { html } from "../lib/html.js";
import { useQuery } from "../lib/query.js";
import { href } from "../lib/router.js";

const SHOWN_MAX = 200;
const DRAWN_MAX = 60;

export default function Leases() {
  const leases = useQuery("/v1/leases", { limit: SHOWN_MAX }, { areas: ["leases", "agents"], atMostEvery: 1000 });
  const waits = useQuery("/v1/waits", { limit: SHOWN_MAX }, { areas: ["waits", "leases", "requests", "approvals", "discussions"], atMostEvery: 1000 });
  return html`<${Answer} of=${leases}>${(book) => html`<${Answer} of=${waits}>${(graph) => html`<${Book} book=${book} graph=${graph} reload=${() => (leases.reload(), waits.reload())} />`}<//>`}<//>`;
}

function Book({ book, graph, reload }) {
  const lent = new Map(graph.agents.map(({ agent, inherited }) => [agent, inherited]));
  return html`<div class="stack">
    <${Figures} book=${book} graph=${graph} />
    <${Card} title="Who waits for whom" hint="Who waits is at the left of whom it waits for. A dashed line is a place in line behind somebody.">
      <${Drawing} graph=${graph} />
    <//>
    <${Card} title="Held">
      <${Held} rows=${book.held} waiting=${book.waiting} lent=${lent} reload=${reload} />
    <//>
    <${Card} title="Waiting in line">
      <${Waiting} rows=${book.waiting} reload=${reload} />
    <//>
    <${Others} waits=${graph.waits.filter(({ kind }) => kind !== "lease")} />
  </div>`;
}

function Figures({ book, graph }) {
  const now = useNow();
  const oldest = Math.min(...graph.waits.map(({ since }) => millis(since)));
  const lent = graph.agents.filter(({ inherited }) => inherited).length;
  return html`<div class="tiles">
    <${Tile} label="Leases held" value=${count(book.held.length)} />
    <${Tile} label="Requests in line" value=${count(book.waiting.length)} tone=${book.waiting.length ? "warn" : ""} />
    <${Tile} label="Agents lent a priority" value=${count(lent)} />
    <${Tile} label="Longest wait" value=${graph.waits.length ? duration(Math.max(0, (now - oldest) / 1000)) : "—"} />
  </div>`;
}

function Drawing({ graph }) {
  if (!graph.waits.length) return html`<${Empty} title="Nobody waits for anybody">Lines appear when an agent waits for a lease, an answer, an approval or a vote.<//>`;
  const drawn = graph.waits.slice(0, DRAWN_MAX);
  const names = new Set(drawn.flatMap(({ waiter, on, behind }) => [waiter, ...on, ...behind]));
  return html`${graph.total > drawn.length && html`<p class="muted small">The ${DRAWN_MAX} oldest of ${graph.total} waits.</p>`}
    <${WaitGraph} agents=${graph.agents.filter(({ agent }) => names.has(agent))} waits=${drawn} />`;
}

const resources = ({ exclusive, shared }) =>
  html`<span class="resources">${exclusive.map((name) => html`<code key=${name}>${name}</code>`)}${shared.map((name) => html`<span key=${`shared ${name}`}><code>${name}</code> <span class="muted small">shared</span></span>`)}</span>`;

const above = (one, other) => LEVELS.indexOf(one) > LEVELS.indexOf(other);

const agent = (name) => html`<a href=${href("agents", [name])}>${name}</a>`;

const agents = (names) => html`<span>${names.map((name, place) => html`${place > 0 && ", "}${agent(name)}`)}</span>`;

const what = ({ exclusive, shared }) => [...exclusive, ...shared].join(", ");

function Held({ rows, waiting, lent, reload }) {
  const now = useNow();
  const behind = (row) => waiting.filter(({ holders }) => holders.includes(row.agent)).length;
  const columns = [
    { name: "what", head: "Resources", cell: resources },
    { name: "holder", head: "Holder", cell: (row) => agent(row.agent) },
    { name: "level", head: "Priority", cell: (row) => html`<span><${Level} level=${row.priority} />${above(lent.get(row.agent), row.priority) && html` <${Chip} tone="warn" title="lent by those who wait">lent ${levelName(lent.get(row.agent))}<//>`}</span>` },
    { name: "behind", head: "Waiting", number: true, cell: (row) => behind(row) || "—" },
    { name: "ends", head: "Ends in", number: true, cell: (row) => html`<span title=${moment(row.expires_at)}>${countdown(millis(row.expires_at) - now)}</span>` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${Release} row=${row} label="Release" reload=${reload} />` },
  ];
  return html`<${Table} label="Held" class="cards" columns=${columns} rows=${rows} keyOf=${({ lease }) => lease} empty=${html`<${Empty} title="Nobody holds anything">A lease keeps two agents from working on the same thing.<//>`} />`;
}

function Waiting({ rows, reload }) {
  const now = useNow();
  const columns = [
    { name: "place", head: "Place", number: true, cell: ({ place }) => place },
    { name: "what", head: "Resources", cell: resources },
    { name: "agent", head: "Agent", cell: (row) => agent(row.agent) },
    { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.priority} />` },
    { name: "on", head: "Waits for", cell: ({ holders }) => agents(holders) },
    { name: "until", head: "Gives up in", number: true, cell: (row) => html`<span title=${moment(row.wait_until)}>${countdown(millis(row.wait_until) - now)}</span>` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${Release} row=${row} label="Remove" reload=${reload} />` },
  ];
  return html`<${Table} label="Waiting in line" class="cards" columns=${columns} rows=${rows} keyOf=${({ lease }) => lease} empty=${html`<${Empty} title="Nobody stands in line" />`} />`;
}

/** Take a lease, or a place in line, away; the reason is told to whoever had it, and is kept. */
function Release({ row, label, reload }) {
  const held = row.state === "held";
  const question = {
    title: held ? `Release ${what(row)}` : `Remove ${row.agent} from the line`,
    text: held ? `${row.agent} is told that it lost the lease, and why. Whoever is first in line gets it.` : `${row.agent} is told that its request ended, and why.`,
    fields: [{ name: "reason", label: "Reason", kind: "area", required: true }],
    confirm: held ? "Release by force" : "Remove",
    tone: "danger",
  };
  const run = async ({ reason }) => {
    await api.post(`/v1/leases/${segment(row.lease)}/force-release`, { reason });
    reload();
  };
  return html`<${Asked} small label=${label} tone="danger" title=${`${label} ${what(row)}`} question=${question} run=${run} done=${held ? `Released ${what(row)}` : `Removed ${row.agent} from the line`} />`;
}

function Others({ waits }) {
  const now = useNow();
  if (!waits.length) return null;
  const columns = [
    { name: "agent", head: "Agent", cell: (row) => agent(row.waiter) },
    { name: "kind", head: "Waits for", cell: (row) => html`<span><${Chip}>${row.kind}<//> ${row.what}</span>` },
    { name: "on", head: "Of", cell: ({ on, any_of: any }) => html`<span>${any && on.length > 1 && html`<span class="muted">any of </span>`}${agents(on)}</span>` },
    { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.priority} />` },
    { name: "since", head: "Since", number: true, cell: (row) => html`<span title=${moment(row.since)}>${ago(row.since, now)}</span>` },
  ];
  return html`<${Card} title="Other waits" hint="Requests, approvals and discussions lend priorities, too."><${Table} label="Other waits" class="cards" columns=${columns} rows=${waits} keyOf=${({ kind, ref, waiter }) => `${kind} ${ref} ${waiter}`} /><//>`;
}
