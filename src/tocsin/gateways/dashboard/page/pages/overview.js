/** The overview: message rates, queue depths, latencies, pending messages, recalls, sessions and alerts. */
import { Alerts } from "../components/alerts.js";
import { Bars } from "../components/bars.js";
import { Answer, Card, Chip, Empty, Level, Meter, Presence, State, Tile, When } from "../components/basics.js";
import { Chart } from "../components/chart.js";
import { GettingStarted, useProgress } from "../components/getting-started.js";
import { Histogram, span } from "../components/histogram.js";
import { Listener } from "../components/listener.js";
import { MessageCell } from "../components/message-cell.js";
import { Path } from "../components/path.js";
import { Table } from "../components/table.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, count, countdown, duration, levelName, measure, metricName, millis, moment, percent, rate, tick, words } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { live } from "../lib/live.js";
import { useQuery } from "../lib/query.js";
import { href } from "../lib/router.js";
import { covered, grown, percentile, stepOf, useCounts, useGauges, useRates, useSeriesVersion } from "../lib/series.js";
import { useStore } from "../lib/store.js";

const WINDOWS = [
  [120, "2 min"],
  [600, "10 min"],
  [1800, "30 min"],
];
/** Remaining time below which a message is highlighted as about to expire, ms. */
const SOON_MS = 60_000;

export default function Overview() {
  const [chosen, setSeconds] = useState(null);
  const version = useSeriesVersion();
  // A hub that has just been started has few points: the shortest range shows them best.
  const seconds = chosen ?? (version && covered(1800) > 150 ? 600 : 120);
  const overview = useQuery("/v1/overview", undefined, { every: 5000 });
  const progress = useProgress();
  if (progress && !progress.others.length && !progress.sent) {
    return html`<${GettingStarted} progress=${progress} /><${Alerts} /><p class="muted">Messages, queues and latencies are shown here as soon as the project has an agent.</p>`;
  }
  return html`
    <${GettingStarted} progress=${progress} />
    <${Alerts} />
    <${Signals} seconds=${seconds} setSeconds=${setSeconds} />
    <div class="grid">
      <${Depths} seconds=${seconds} />
      <${Latencies} seconds=${seconds} overview=${overview} />
    </div>
    <${Pending} />
    <div class="grid">
      <${Recalls} seconds=${seconds} overview=${overview} />
      <${Notices} />
    </div>
    <${Drains} overview=${overview} />
    <div class="grid">
      <${Daemons} />
      <${Undeliverable} overview=${overview} />
      <${Feed} overview=${overview} />
    </div>
  `;
}

/** Return the length of an interval in words. */
const per = (seconds) => ({ 10: "10 seconds", 60: "minute", 600: "10 minutes", 3600: "hour" })[stepOf(seconds)];

/** Counts of messages by outcome, with highlighted problems. */
function Signals({ seconds, setSeconds }) {
  useSeriesVersion();
  const { summary, hot } = useStore(live, ({ tick, hello }) => ({ summary: tick?.summary, hot: hello?.hot }));
  if (!summary) return html`<${Card} title="Signals"><p class="loading" aria-busy="true">Loading …</p><//>`;
  const span = covered(seconds);
  const perSecond = (name) => rate(span ? grown(name, seconds) / span : 0);
  const waiting = summary.depths.reduce((sum, depth) => sum + depth, 0);
  const inQueue = Math.max(0, waiting - summary.recipient_away);
  const undeliverable = grown("undeliverable", 60);
  const awayHot = summary.recipient_away >= hot.recipient_away;
  const unknownHot = undeliverable >= hot.undeliverable_per_min;
  const window = WINDOWS.find(([value]) => value === seconds)[1];
  const tools = html`<div class="segments" role="group" aria-label="Time range">
    ${WINDOWS.map(([value, label]) => html`<button key=${value} type="button" class="button small" aria-pressed=${value === seconds} onClick=${() => setSeconds(value)}>${label}</button>`)}
  </div>`;
  return html`<${Card} title="Messages" hint=${`Counts over the last ${window}; waiting messages as of now.`} tools=${tools} class="mesh">
    <div class="tiles">
      <${Tile} label="Delivered" tone=${grown("delivered", seconds) ? "ok" : ""} value=${count(grown("delivered", seconds))} detail=${`${perSecond("delivered")} per second`} />
      <${Tile} label="Recipient away" tone=${awayHot ? "warn" : ""} flag=${awayHot && "HOT"} value=${count(summary.recipient_away)} detail=${inQueue ? `${count(inQueue)} more wait for others` : "wait for its return"} />
      <${Tile} label="Unconfirmed" value=${count(summary.in_flight)} detail="handed out, no receipt yet" />
      <${Tile} label="Expired" value=${count(grown("expired", seconds))} detail="before delivery" />
      <${Tile} label="Recalled" value=${count(grown("recalled", seconds))} detail="by their senders" />
      <${Tile} label="Undeliverable" tone=${unknownHot ? "bad" : ""} flag=${unknownHot && "HOT"} value=${count(grown("undeliverable", seconds))} detail="unknown recipient" />
    </div>
    <div class="saturation">
      <${Saturation} title="Recipients away" kind="transient" value=${summary.recipient_away} limit=${hot.recipient_away} unit=" waiting" hot=${awayHot} tone="warn" hint="The messages are delivered when the recipients return." />
      <${Saturation} title="Unknown recipients" kind="structural" value=${undeliverable} limit=${hot.undeliverable_per_min} unit=" per minute" hot=${unknownHot} tone="bad" hint="Waiting does not help: correct the name, or register the agent." />
    </div>
    <div class="grid charts">
      <${Flow} seconds=${seconds} />
      <${Stuck} seconds=${seconds} />
    </div>
  <//>`;
}

function Saturation({ title, kind, value, limit, unit, hot, tone, hint }) {
  return html`<div class="saturation-item">
    <div class="row"><strong>${title}</strong><span class="muted">${kind}</span><span class="spread"></span><span class="figure">${count(value)}${unit} <span class="muted">of ${count(limit)}</span></span>${hot ? html`<${Chip} tone=${tone}>HOT<//>` : html`<${Chip} tone="ok">normal<//>`}</div>
    <${Meter} value=${value} max=${limit} label=${title} tone=${hot ? tone : ""} />
    <p class="muted small">${hint}</p>
  </div>`;
}

function Flow({ seconds }) {
  const data = useRates(["accepted", "delivered"], seconds);
  return html`<div>
    <h3>Messages per second</h3>
    <${Chart} data=${data} format=${tick} label="Messages accepted and delivered per second" lines=${[
      { label: "accepted", colour: "--mute", dash: true },
      { label: "delivered", colour: "--ok", fill: true },
    ]} />
  </div>`;
}

const ENDS = [
  ["expired", "expired", "--mute"],
  ["recalled", "recalled", "--accent"],
  ["undeliverable", "undeliverable", "--bad"],
  ["died", "dead", "--level-Override"],
];

function Stuck({ seconds }) {
  const counts = useCounts(ENDS.map(([name]) => name), seconds);
  return html`<div>
    <h3>Not delivered, per ${per(seconds)}</h3>
    <${Bars} counts=${counts} label=${`Messages not delivered, per ${per(seconds)}`} lines=${ENDS.map(([, label, colour]) => ({ label, colour }))} />
  </div>`;
}

const DEPTH_LIMITS = { Critical: "critical_queue_depth", Blocking: "blocking_queue_depth" };
const LATENCY_LIMITS = { Critical: "critical_delivery_s", Blocking: "blocking_delivery_s" };

function Depths({ seconds }) {
  const data = useGauges(LEVELS.map((name) => `depth_${name}`), seconds);
  const { depths, limits } = useStore(live, ({ tick, hello }) => ({ depths: tick?.summary.depths, limits: hello?.health.limits }));
  if (!depths) return null;
  const marks = Object.entries(DEPTH_LIMITS).map(([name, metric]) => ({ value: limits[metric], label: `${name} limit ${limits[metric]}`, colour: `--level-${name}` }));
  return html`<${Card} title="Queue depth by priority">
    <${Chart} data=${data} marks=${marks} format=${(value) => (Number.isInteger(value) ? tick(value) : "")} label="Waiting messages by priority" lines=${LEVELS.map((name) => ({ label: levelName(name), colour: `--level-${levelName(name)}` }))} />
    <dl class="levels">
      ${LEVELS.map((name, level) => {
        const limit = limits[DEPTH_LIMITS[name]];
        const over = limit !== undefined && depths[level] > limit;
        return html`<div key=${name} class=${over ? "over" : ""}><dt><${Level} level=${name} /></dt><dd>${count(depths[level])}${limit !== undefined && html` <span class="muted">/ ${count(limit)}</span>`}</dd></div>`;
      }).reverse()}
    </dl>
  <//>`;
}

function Latencies({ seconds, overview }) {
  const data = useGauges(["critical_delivery_s", "blocking_delivery_s"], seconds);
  const limits = useStore(live, ({ hello }) => hello?.health.limits);
  if (!limits) return null;
  const shown = [data[0], ...data.slice(1).map((column) => column.map((value) => value * 1000))];
  const marks = Object.entries(LATENCY_LIMITS).map(([name, metric]) => ({ value: limits[metric] * 1000, label: `${name} limit ${duration(limits[metric])}`, colour: `--level-${name}` }));
  const rows = [...(overview.data?.delivery_latency ?? [])].sort((one, other) => LEVELS.indexOf(other.about) - LEVELS.indexOf(one.about));
  const bounds = overview.data?.bounds_s ?? [];
  const at = (row, share) => duration(percentile(row.counts, bounds, share));
  const measured = shown.slice(1).some((column) => column.some((value) => value > 0));
  return html`<${Card} title="Latency by priority" hint="99th percentile of the time from acceptance to push, over one minute.">
    ${!measured && html`<${Empty} title="Nothing was pushed">No Critical or Blocking message was pushed to an open connection in this time.<//>`}
    ${measured && html`<${Chart} data=${shown} marks=${marks} format=${(value) => `${tick(value)} ms`} label="Delivery latency of Critical and Blocking messages, with their limits" lines=${[
      { label: "Critical p99", colour: "--level-Critical" },
      { label: "Blocking p99", colour: "--level-Blocking" },
    ]} />`}
    <${Table} label="Waiting time by priority" rows=${rows} keyOf=${(row) => row.about} columns=${[
      { name: "level", head: "Time until handed out", cell: (row) => html`<${Level} level=${row.about} />` },
      { name: "n", head: "Messages", number: true, cell: (row) => count(row.counts.reduce((sum, value) => sum + value, 0)) },
      { name: "p50", head: "p50 ≤", number: true, cell: (row) => at(row, 0.5) },
      { name: "p99", head: "p99 ≤", number: true, cell: (row) => at(row, 0.99) },
    ]} />
  <//>`;
}

function Pending() {
  const query = useQuery("/v1/pending", undefined, { areas: ["messages"], atMostEvery: 2000, every: 15000 });
  const waiting = useStore(live, ({ tick }) => (tick ? tick.summary.depths.reduce((sum, depth) => sum + depth, 0) : 0));
  return html`<${Card} title="Pending messages" hint="The next to expire is first." tools=${html`<a href=${href("messages", [], { states: "held,queued,offered" })}>All ${count(waiting)}</a>`}>
    <${Answer} of=${query}>
      ${(data) => html`<${PendingRows} items=${data.items} />`}
    <//>
  <//>`;
}

function PendingRows({ items }) {
  const now = useNow();
  const [shown, setShown] = useState(matchMedia("(max-width: 40rem)").matches ? 6 : 12);
  const left = (row) => millis(row.expires_at) - now;
  const open = items.filter((row) => !row.expires_at || left(row) > -120_000);
  return html`<${Table} label="Pending messages" class="cards" rows=${open.slice(0, shown)} keyOf=${(row) => row.signal_id} hrefOf=${(row) => href("messages", row.signal_id)}
      empty=${html`<${Empty} title="No pending messages">All accepted messages were delivered or have ended.<//>`}
      columns=${[
        { name: "message", head: "Message", class: "wide", cell: (row) => html`<${MessageCell} row=${row} id=${row.signal_id} />` },
        { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.level} />` },
        { name: "state", head: "State", cell: (row) => html`<${State} state=${row.state} />` },
        { name: "path", head: "Path", cell: (row) => html`<${Path} path=${row.publish_path} />` },
        {
          name: "ttl",
          head: "Expires in",
          number: true,
          cell: (row) => (row.expires_at ? html`<span class=${left(row) < SOON_MS ? "soon" : ""} title=${moment(row.expires_at)}>${countdown(left(row))}</span>` : "never"),
        },
      ]} />
    ${open.length > shown && html`<button type="button" class="button small more" onClick=${() => setShown(shown + 50)}>Show more of ${open.length}</button>`}`;
}

const OUTCOMES = [
  ["recalled", "recalled", "--ok"],
  ["already_delivered", "already delivered", "--warn"],
  ["already_expired", "already expired", "--mute"],
  ["not_found", "not found", "--bad"],
];

function Recalls({ seconds, overview }) {
  const counts = useCounts(OUTCOMES.map(([name]) => name), seconds);
  const totals = overview.data?.recalls ?? {};
  const all = Object.values(totals).reduce((sum, value) => sum + value, 0);
  const late = all ? (totals.already_delivered ?? 0) / all : 0;
  return html`<${Card} title="Recalls" hint=${`By outcome, per ${per(seconds)}; below, since the hub started.`}>
    <${Bars} counts=${counts} label=${`Recalls by outcome, per ${per(seconds)}`} lines=${OUTCOMES.map(([, label, colour]) => ({ label, colour }))} />
    <dl class="levels">${OUTCOMES.map(([name, label]) => html`<div key=${name}><dt>${label}</dt><dd>${count(totals[name] ?? 0)}</dd></div>`)}</dl>
    ${all >= 10 && late > 0.5 && html`<p class="small muted">${percent(late)} came too late: the message had already been delivered. Senders may be sending too early.</p>`}
  <//>`;
}

function Undeliverable({ overview }) {
  return html`<${Card} title="Undeliverable" hint="Sends to agents that are not registered, since the hub started.">
    <${Answer} of=${overview}>
      ${(data) => html`<${Table} label="Undeliverable by type and sender" rows=${[...data.undeliverable].sort((one, other) => other.sends - one.sends).slice(0, 10)} keyOf=${(row) => `${row.type} ${row.sender}`}
        empty=${html`<${Empty} title="None">All messages were addressed to registered agents.<//>`}
        columns=${[
          { name: "sender", head: "Sender", cell: (row) => row.sender },
          { name: "type", head: "Type", cell: (row) => row.type },
          { name: "n", head: "Sends", number: true, cell: (row) => count(row.sends) },
        ]} />`}
    <//>
  <//>`;
}

function Drains({ overview }) {
  return html`<${Card} title="Time to drain by type" hint="From acceptance until handed out, since the hub started: pushed to a session, or picked up by a call.">
    <${Answer} of=${overview}>${(data) => html`<${DrainRows} rows=${data.time_to_drain} bounds=${data.bounds_s} />`}<//>
  <//>`;
}

function DrainRows({ rows, bounds }) {
  const [first, last] = rows.length ? span(rows) : [0, 0];
  const sum = (row) => row.counts.reduce((all, value) => all + value, 0);
  const ordered = [...rows].sort((one, other) => one.about.localeCompare(other.about) || one.path.localeCompare(other.path));
  return html`<${Table} label="Time to drain by type" rows=${ordered} keyOf=${(row) => `${row.about} ${row.path}`}
    empty=${html`<${Empty} title="No messages handed out yet" />`}
    columns=${[
      { name: "type", head: "Type", cell: (row) => row.about },
      { name: "path", head: "Path", cell: (row) => html`<${Chip} tone=${row.path === "push" ? "info" : ""}>${row.path === "push" ? "pushed" : "picked up"}<//>` },
      { name: "shape", head: `${duration(bounds[first] ?? 0)} … ${duration(bounds[Math.min(last, bounds.length - 1)] ?? 0)}`, cell: (row) => html`<${Histogram} counts=${row.counts} bounds=${bounds} first=${first} last=${last} label=${`${row.about}, ${row.path}: ${sum(row)} messages`} />` },
      { name: "n", head: "Messages", number: true, cell: (row) => count(sum(row)) },
      { name: "mean", head: "Mean", number: true, cell: (row) => duration(row.total_s / sum(row)) },
      { name: "p50", head: "p50 ≤", number: true, cell: (row) => duration(percentile(row.counts, bounds, 0.5)) },
      { name: "p99", head: "p99 ≤", number: true, cell: (row) => duration(percentile(row.counts, bounds, 0.99)) },
    ]} />`;
}

function Daemons() {
  const { summary, agents } = useStore(live, ({ tick }) => ({ summary: tick?.summary, agents: tick?.agents ?? 0 }));
  const query = useQuery("/v1/roster", { limit: 100 }, { areas: ["agents"], atMostEvery: 3000 });
  if (!summary) return null;
  const { daemons } = summary;
  const attached = (query.data?.items ?? []).filter((agent) => agent.sessions.length);
  return html`<${Card} title="Daemons and sessions">
    <div class="tiles">
      <${Tile} label="Live" value=${count(daemons.live)} tone=${daemons.live ? "ok" : ""} />
      <${Tile} label="Shutting down" value=${count(daemons.shutting_down)} tone=${daemons.shutting_down ? "warn" : ""} />
      <${Tile} label="Orphaned" value=${count(daemons.orphaned)} tone=${daemons.orphaned ? "bad" : ""} detail="no heartbeat" />
    </div>
    <dl class="levels">
      <div><dt>push</dt><dd>${count(summary.push)}</dd></div>
      <div><dt>piggyback</dt><dd>${count(summary.piggyback)}</dd></div>
      <div><dt>daemon</dt><dd>${count(summary.daemon)}</dd></div>
      <div><dt>agents available</dt><dd>${count(summary.available)} <span class="muted">/ ${count(agents)}</span></dd></div>
    </dl>
    <${Table} label="Sessions by agent" rows=${attached.slice(0, 12)} keyOf=${(agent) => agent.agent} hrefOf=${(agent) => href("agents", agent.agent)}
      empty=${html`<${Empty} title="No open sessions" />`}
      columns=${[
        { name: "agent", head: "Agent", cell: (agent) => agent.agent },
        { name: "presence", head: "Presence", cell: (agent) => html`<${Presence} presence=${agent.presence} />` },
        { name: "daemon", head: "Daemon", cell: (agent) => html`<${Listener} sessions=${agent.sessions} />` },
      ]} />
  <//>`;
}

function Feed({ overview }) {
  return html`<${Card} title="Live feed" hint="Frames offered to subscribers, and frames dropped under load, by subscriber priority.">
    <${Answer} of=${overview}>
      ${(data) => html`<${Table} label="Live feed by subscriber priority" class="compact" rows=${data.frames.priorities} keyOf=${(row) => row.priority} columns=${[
          { name: "priority", head: "Subscribers", cell: (row) => words(row.priority) },
          { name: "offered", head: "Offered", number: true, cell: (row) => count(row.offered) },
          { name: "dropped", head: "Dropped", number: true, cell: (row) => html`<span title=${`${count(row.shed)} of them to protect more important subscribers`}>${count(row.dropped)}</span>` },
          { name: "rate", head: "Drop rate", number: true, cell: (row) => (row.offered ? html`<span class=${row.priority === "critical" && row.dropped ? "soon" : ""}>${percent(row.dropped / row.offered)}</span>` : "—") },
        ]} />
        <p class="muted small">${count(data.frames.published)} frames to ${data.frames.subscribers.length} ${data.frames.subscribers.length === 1 ? "subscriber" : "subscribers"}; all open dashboards are one subscriber.</p>`}
    <//>
  <//>`;
}

/** Recent refusals, dead letters, alerts and similar events. */
function Notices() {
  const hello = useStore(live, (state) => state.hello?.notices);
  const ticked = useStore(live, (state) => state.tick?.notices ?? []);
  const seen = new Map();
  for (const notice of [...(hello ?? []), ...ticked]) seen.set(`${notice.at} ${notice.kind} ${JSON.stringify(notice.facts)}`, notice);
  const notices = [...seen.values()].sort((one, other) => other.at - one.at).slice(0, 12);
  return html`<${Card} title="Recent events">
    ${notices.length
      ? html`<ul class="plain notices">
          ${notices.map((notice) => html`<li key=${`${notice.at} ${notice.kind}`}><span class="muted small when"><${When} at=${notice.at} /></span><span>${describe(notice)}</span></li>`)}
        </ul>`
      : html`<${Empty} title="No recent events">Refusals, dead letters, alerts and similar events appear here.<//>`}
  <//>`;
}

const DESCRIPTIONS = {
  MessageDied: ({ reason, detail }) => `A message became a dead letter (${words(reason)}): ${detail}`,
  SendRefused: ({ sender, recipient, code, detail }) => `Send from ${sender} to ${recipient} refused (${code}): ${detail}`,
  GamingDetected: ({ agent, messages, high }) => `${agent} inflates its priorities: ${high} of ${messages} messages had high priority`,
  GamingCleared: ({ agent }) => `${agent} no longer inflates its priorities`,
  AgentRegistered: ({ agent, role }) => `${agent} was registered as ${role}`,
  AgentRetired: ({ agent, by }) => `${agent} was retired by ${by}`,
  SessionWentStale: ({ agent, threshold_s }) => `${agent} sent no heartbeat for ${duration(threshold_s)}`,
  EscalationOpened: ({ trigger, detail }) => `Escalated (${words(trigger)}): ${detail}`,
  AlertRaised: ({ metric, value, limit }) => `Alert: ${metricName(metric)} is ${measure(metric, value)}, the limit is ${measure(metric, limit)}`,
  AlertCleared: ({ metric }) => `Alert cleared: ${metricName(metric)}`,
  MessageRecalled: ({ by }) => `${by} recalled a message`,
  RecallRefused: ({ by, outcome, message_id }) => `${by} could not recall ${message_id}: ${words(outcome)}`,
};

const describe = ({ kind, facts }) => (DESCRIPTIONS[kind] ? DESCRIPTIONS[kind](facts) : words(kind));
