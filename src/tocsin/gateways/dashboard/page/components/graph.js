/**
 * Drawing of the wait-for graph. A waiting agent is at the left of the agents that it waits for.
 *
 * The layer of an agent is its longest path to an agent that does not wait. Inside a layer, agents are ordered by the
 * positions of their neighbours, so that few edges cross. The edge that closes a cycle is drawn below the others. Graphs
 * are small, so no library is used.
 */
import { levelName } from "../lib/format.js";
import { html, useMemo } from "../lib/html.js";
import { href } from "../lib/router.js";

const WIDE = 200;
const HIGH = 48;
const ACROSS = 74;
const DOWN = 18;
const EDGE = 14;
const SWEEPS = 4;
const ORDER = ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"];

/** Compute the positions of agents and edges; `agents` and `waits` are those of `/v1/waits`. */
export function layout(agents, waits) {
  const edges = joined(waits);
  const names = [...new Set([...agents.map(({ agent }) => agent), ...edges.flatMap(({ from, to }) => [from, to])])];
  const next = new Map(names.map((name) => [name, []]));
  for (const edge of edges) next.get(edge.from).push(edge.to);
  const depth = depths(names, next);
  const deepest = Math.max(0, ...depth.values());
  const column = (name) => deepest - depth.get(name);
  const layers = Array.from({ length: deepest + 1 }, () => []);
  for (const name of names) layers[column(name)].push(name);
  // An edge that passes a layer has a waypoint there, so that it is drawn between the agents and not over them.
  const ties = [];
  for (const edge of edges) {
    edge.by = [];
    for (let layer = column(edge.from) + 1; layer < column(edge.to); layer++) {
      const waypoint = `\0${edge.from}\0${edge.to}\0${layer}`;
      layers[layer].push(waypoint);
      edge.by.push(waypoint);
    }
    const way = [edge.from, ...edge.by, edge.to];
    for (let step = 1; step < way.length; step++) ties.push([way[step - 1], way[step]]);
  }
  order(layers, ties);
  const highOf = (layer) => layer.reduce((sum, name) => sum + heightOf(name) + DOWN, -DOWN);
  const high = Math.max(HIGH, ...layers.map(highOf));
  const place = new Map();
  layers.forEach((layer, number) => {
    let y = EDGE + (high - highOf(layer)) / 2;
    for (const name of layer) {
      place.set(name, { x: EDGE + number * (WIDE + ACROSS), y, column: number });
      y += heightOf(name) + DOWN;
    }
  });
  const backward = edges.some(({ from, to }) => place.get(from).column >= place.get(to).column);
  return {
    place,
    names,
    edges,
    width: 2 * EDGE + layers.length * WIDE + (layers.length - 1) * ACROSS,
    height: 2 * EDGE + high + (backward ? 44 : 0),
    floor: EDGE + high,
  };
}

const heightOf = (name) => (name.startsWith("\0") ? 0 : HIGH);

/** Return one edge for each pair of agents, with the highest priority of the waits between them and all their reasons. */
function joined(waits) {
  const pairs = new Map();
  for (const wait of waits) {
    for (const [to, inQueue] of [...wait.on.map((name) => [name, false]), ...wait.behind.filter((name) => !wait.on.includes(name)).map((name) => [name, true])]) {
      const key = JSON.stringify([wait.waiter, to]);
      const known = pairs.get(key) ?? { from: wait.waiter, to, inQueue: true, level: wait.priority, what: [] };
      known.inQueue &&= inQueue;
      if (ORDER.indexOf(wait.priority) > ORDER.indexOf(known.level)) known.level = wait.priority;
      known.what.push(`${inQueue ? "in the queue for" : wait.kind} ${wait.what}`);
      pairs.set(key, known);
    }
  }
  return [...pairs.values()];
}

/** Return the length of each agent's longest path to an agent that does not wait; cycles are cut. */
function depths(names, next) {
  const found = new Map();
  const under = new Set();
  const look = (name) => {
    if (found.has(name)) return found.get(name);
    if (under.has(name)) return -1;
    under.add(name);
    const deepest = Math.max(-1, ...next.get(name).map(look));
    under.delete(name);
    found.set(name, deepest + 1);
    return deepest + 1;
  };
  names.forEach(look);
  return found;
}

/** Order each layer by the mean position of its neighbours, in several sweeps. */
function order(layers, ties) {
  const tied = new Map();
  for (const [from, to] of ties) {
    tied.set(from, [...(tied.get(from) ?? []), to]);
    tied.set(to, [...(tied.get(to) ?? []), from]);
  }
  for (const layer of layers) layer.sort();
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const rows = new Map(layers.flatMap((layer) => layer.map((name, row) => [name, row - layer.length / 2])));
    const middle = (name) => {
      const others = tied.get(name) ?? [];
      return others.length ? others.reduce((sum, other) => sum + rows.get(other), 0) / others.length : rows.get(name);
    };
    for (const layer of layers) layer.sort((one, other) => middle(one) - middle(other) || (one < other ? -1 : 1));
  }
}

/** The wait-for graph. */
export function WaitGraph({ agents, waits }) {
  const drawn = useMemo(() => layout(agents, waits), [agents, waits]);
  const known = new Map(agents.map((agent) => [agent.agent, agent]));
  return html`<div class="graph-wrap" tabindex="0" role="region" aria-label="Wait-for graph">
    <svg class="graph" width=${drawn.width} height=${drawn.height} viewBox="0 0 ${drawn.width} ${drawn.height}" role="group" aria-label=${describe(drawn.edges)}>
      <defs>
        ${ORDER.map((level) => html`<marker key=${level} id="tip-${level}" class="graph-tip ${levelName(level)}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" /></marker>`)}
      </defs>
      ${drawn.edges.map((edge) => html`<${Edge} key=${JSON.stringify([edge.from, edge.to])} edge=${edge} drawn=${drawn} />`)}
      ${drawn.names.map((name) => html`<${Node} key=${name} name=${name} at=${drawn.place.get(name)} agent=${known.get(name)} />`)}
    </svg>
  </div>`;
}

function Edge({ edge, drawn }) {
  return html`<path class="graph-edge ${levelName(edge.level)} ${edge.inQueue ? "in-queue" : ""}" d=${line(edge, drawn)} marker-end="url(#tip-${edge.level})">
    <title>${`${edge.from} waits for ${edge.to} at ${levelName(edge.level)}: ${edge.what.join("; ")}`}</title>
  </path>`;
}

/** Return the path of an edge: from the right side of the waiting agent, through its waypoints, to the left side of the other agent. */
function line(edge, { place, floor }) {
  const [from, to] = [place.get(edge.from), place.get(edge.to)];
  if (from.column >= to.column) {
    const [x1, x2] = [from.x + WIDE / 2, to.x + WIDE / 2];
    return `M${x1} ${from.y + HIGH} C${x1} ${floor + 46} ${x2} ${floor + 46} ${x2} ${to.y + HIGH + 1}`;
  }
  let [x, y] = [from.x + WIDE, from.y + HIGH / 2];
  let path = `M${x} ${y}`;
  const bend = (x2, y2) => {
    const half = (x2 - x) / 2;
    path += ` C${x + half} ${y} ${x2 - half} ${y2} ${x2} ${y2}`;
    [x, y] = [x2, y2];
  };
  for (const waypoint of edge.by) {
    const at = place.get(waypoint);
    bend(at.x, at.y);
    x = at.x + WIDE;
    path += ` H${x}`;
  }
  bend(to.x - 1, to.y + HIGH / 2);
  return path;
}

function Node({ name, at, agent }) {
  const inherits = agent?.inherited;
  const description = [agent?.holds ? `holds ${agent.holds}` : "", inherits ? `inherits ${levelName(inherits)}` : ""].filter(Boolean).join(" · ") || "holds no lease";
  return html`<a class="graph-node ${inherits ? `inherits ${levelName(inherits)}` : ""}" href=${href("agents", [name])} aria-label=${`${name}: ${description}`} transform="translate(${at.x} ${at.y})">
    <rect width=${WIDE} height=${HIGH} rx="7" />
    <rect class="graph-bar" width="4" height=${HIGH - 14} x="7" y="7" rx="2" />
    <text x="20" y="20" class="graph-name">${short(name)}</text>
    <text x="20" y="37" class="graph-description">${description}</text>
    <title>${name}</title>
  </a>`;
}

const short = (name) => (name.length > 20 ? `${name.slice(0, 19)}…` : name);
const describe = (edges) => (edges.length ? `${edges.length} waits: ${edges.slice(0, 20).map(({ from, to }) => `${from} for ${to}`).join(", ")}` : "no agent waits");
