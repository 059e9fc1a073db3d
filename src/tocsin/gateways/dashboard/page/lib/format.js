/** Formatting of numbers, times and names. */

/** Names of the priorities, lowest first. */
export const LEVELS = ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"];
const SHORT = { DirectorOverride: "Override" };

/** Return the short name of a priority, given by name or number. */
export const levelName = (level) => {
  const name = typeof level === "number" ? LEVELS[level] : level;
  return SHORT[name] ?? name ?? "—";
};

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Format a count: in full below 100,000, abbreviated above. */
export const count = (value) => (value === null || value === undefined ? "—" : value < 100000 ? WHOLE.format(value) : COMPACT.format(value));

/** Format a number of bytes in a suitable unit. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = value > 0 ? Math.min(units.length - 1, Math.floor(Math.log2(value) / 10)) : 0;
  return `${short(value / 1024 ** unit)} ${units[unit]}`;
}

/** Format a rate per second. */
export const rate = (value) => (value >= 100 ? WHOLE.format(value) : value >= 10 ? value.toFixed(1) : value > 0 ? value.toFixed(2) : "0");

/** Format the label of an axis, as short as possible. */
export const tick = (value) => (Math.abs(value) >= 10000 ? COMPACT.format(value) : String(Number(value.toPrecision(3))));

/** Format a duration, given in seconds, in a suitable unit. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "—";
  const size = Math.abs(seconds);
  if (size === 0) return "0";
  if (size < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 1) return `${short(seconds * 1e3)} ms`;
  if (size < 60) return `${short(seconds)} s`;
  if (size < 3600) return pair(seconds, 60, "min", 1, "s");
  return size < 86400 ? pair(seconds, 3600, "h", 60, "min") : pair(seconds, 86400, "d", 3600, "h");
}

/** Format a number with one digit after the point below 10, unless it is a zero. */
export const short = (value) => (Math.abs(value) < 10 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0));

/** Format a duration in two units; the second is left out when it is zero. */
function pair(seconds, unit, name, smaller, smallerName) {
  const rest = Math.floor((seconds % unit) / smaller);
  return `${Math.floor(seconds / unit)} ${name}${rest ? ` ${rest} ${smallerName}` : ""}`;
}

/** Format the remaining time, given in milliseconds: `4:07`, `2:15:00`, `6 d 04 h`. */
export function countdown(ms) {
  if (ms <= 0) return "due";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${pad(seconds % 60)}`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}:${pad(Math.floor((seconds % 3600) / 60))}:${pad(seconds % 60)}`;
  return `${Math.floor(seconds / 86400)} d ${pad(Math.floor((seconds % 86400) / 3600))} h`;
}

/** Format the time since a moment; an absent time is a dash. */
export function ago(at, now) {
  if (at === null || at === undefined) return "—";
  const seconds = Math.max(0, (now - millis(at)) / 1000);
  if (seconds < 2) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Convert a time to milliseconds: ISO 8601 text of a reply, or microseconds of an event. */
export const millis = (at) => (typeof at === "string" ? Date.parse(at) : at > 1e14 ? at / 1000 : at);

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const MOMENT = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Format the time of day, to the millisecond. */
export const clock = (at) => CLOCK.format(millis(at));

/** Format date and time; an absent time is a dash. */
export const moment = (at) => (at === null || at === undefined ? "—" : MOMENT.format(millis(at)));

/** Format a share as a percentage. */
export const percent = (value) => `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;

const pad = (value) => String(value).padStart(2, "0");

const METRICS = {
  message_routing_p99_s: "time to route a message",
  critical_delivery_s: "delivery time of Critical messages",
  blocking_delivery_s: "delivery time of Blocking messages",
  escalation_latency_s: "time to open an escalation",
  deadlock_resolution_s: "time to break a deadlock",
  clone_spawn_p99_s: "time to start an agent",
  critical_queue_depth: "waiting Critical messages",
  blocking_queue_depth: "waiting Blocking messages",
  escalations_per_minute: "escalations per minute",
};

/** Return the name of a health metric in words. */
export const metricName = (metric) => METRICS[metric] ?? words(metric.replace(/_s$/, ""));

/** Format a value of a health metric: names of durations end with `_s`. */
export const measure = (metric, value) => (metric.endsWith("_s") ? duration(value) : count(value));

/** Convert an identifier such as `not_available_stale` or `MessageDied` to words. */
export const words = (name) =>
  String(name ?? "")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase();
