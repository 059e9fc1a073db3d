/**
 * Live updates from the hub, over one WebSocket.
 *
 * `live` holds the connection state, the first frame (`hello`) and the latest update (`tick`); `series` holds the columns
 * of the time series, which grow in place. When the connection is lost, `live.status` is `lost` and the page reconnects
 * with growing pauses. A connection without any frame for a while counts as lost.
 */
import { api } from "./api.js";
import { named } from "./project.js";
import { createStore } from "./store.js";

const PAUSES_MS = [300, 600, 1200, 2500, 5000, 10000];
const SILENCE_MS = 6000;

/** `status` is `connecting`, `live` or `lost`. */
export const live = createStore({ status: "connecting", since: Date.now(), retryAt: null, hello: null, tick: null });
/** Columns of the time series, by name; `at` is in seconds. */
export const series = { columns: {}, version: 0 };

let socket = null;
let attempt = 0;
let retry = null;
let watchdog = null;

/** Connect, and reconnect whenever the connection is lost. */
export function connect() {
  clearTimeout(retry);
  const url = new URL("/v1/live", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  if (named) url.searchParams.set("project", named);
  const mine = (socket = new WebSocket(url));
  watch();
  mine.addEventListener("message", (event) => mine === socket && receive(JSON.parse(event.data)));
  mine.addEventListener("close", (event) => mine === socket && lose(event.code));
}

function receive(frame) {
  watch();
  if (frame.bye) return;
  const change = { tick: frame.tick ?? live.get().tick };
  if (frame.hello) {
    attempt = 0;
    Object.assign(change, { status: "live", since: Date.now(), retryAt: null, hello: { ...frame.hello, at: Date.now() } });
    series.columns = frame.hello.series;
    series.version++;
  } else {
    extend(frame.tick);
  }
  live.set(change);
}

/** Add the update to the time series, if the next point is due. */
function extend(tick) {
  const { columns } = series;
  const { hello } = live.get();
  const at = tick.at / 1000;
  const last = columns.at[columns.at.length - 1] ?? 0;
  if (at - last < hello.sample_s * 0.95) return;
  const { totals, summary } = tick;
  for (const [name, column] of Object.entries(columns)) {
    column.push(name === "at" ? at : (totals[name] ?? gauge(name, tick, summary) ?? column[column.length - 1] ?? 0));
    if (column.length > hello.samples_max) column.shift();
  }
  series.version++;
}

const LEVELS = ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"];

function gauge(name, tick, summary) {
  if (name === "recipient_away") return summary.recipient_away;
  if (name.startsWith("depth_")) return summary.depths[LEVELS.indexOf(name.slice(6))];
  return tick.latencies?.[name];
}

async function lose(code) {
  socket = null;
  clearTimeout(watchdog);
  if (code === 4401) {
    location.assign("/sign-in");
    return;
  }
  const pause = PAUSES_MS[Math.min(attempt++, PAUSES_MS.length - 1)] * (0.8 + 0.4 * Math.random());
  if (live.get().status !== "lost") live.set({ status: "lost", since: Date.now() });
  live.set({ retryAt: Date.now() + pause });
  retry = setTimeout(connect, pause);
  // A script cannot see why a handshake was refused: this call opens the sign-in page if the session has ended.
  if (attempt > 1) await api.get("/v1/me").catch(() => {});
}

function watch() {
  clearTimeout(watchdog);
  watchdog = setTimeout(() => {
    const silent = socket;
    lose(0);
    silent?.close();
  }, SILENCE_MS);
}

/** Reconnect at once: the page is visible again, or the network is back. */
export function reconnectNow() {
  if (socket === null) {
    attempt = 0;
    connect();
  }
}

addEventListener("online", reconnectNow);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && reconnectNow());
