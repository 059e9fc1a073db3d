/** Time windows, rates and sums of the time series, for charts. */
import { useMemo } from "./html.js";
import { live, series } from "./live.js";
import { useStore } from "./store.js";

/** Return the version of the time series, which changes with every new point. */
export const useSeriesVersion = () => useStore(live, () => series.version);

/** Return the index of the first point within the last `seconds`. */
function within(seconds) {
  const at = series.columns.at ?? [];
  const since = (at[at.length - 1] ?? 0) - seconds;
  let first = at.length;
  while (first > 0 && at[first - 1] >= since) first--;
  return first;
}

/** Return the increase of a counter within the last `seconds`; counters restart from zero with the hub. */
export function grown(name, seconds) {
  const column = series.columns[name] ?? [];
  let sum = 0;
  for (let place = Math.max(1, within(seconds)); place < column.length; place++) {
    sum += Math.max(0, column[place] - column[place - 1]);
  }
  return sum;
}

/** Return the time that the points within the last `seconds` cover, in seconds. */
export function covered(seconds) {
  const at = series.columns.at ?? [];
  const first = within(seconds);
  return at.length > first ? at[at.length - 1] - at[Math.max(0, Math.min(first, at.length - 1))] : 0;
}

/** Return columns for a chart: the times in seconds, then the values of each name. */
export function useGauges(names, seconds) {
  const version = useSeriesVersion();
  return useMemo(() => {
    const first = within(seconds);
    return ["at", ...names].map((name) => (series.columns[name] ?? []).slice(first));
  }, [version, seconds, names.join()]);
}

/** Return columns for a chart: the times in seconds, then each counter's increase over the last `over` seconds, per `per` seconds. */
export function useRates(names, seconds, { over = 6, per = 1 } = {}) {
  const version = useSeriesVersion();
  return useMemo(() => {
    const { columns } = series;
    const at = columns.at ?? [];
    const first = Math.max(1, within(seconds));
    return [at.slice(first), ...names.map((name) => trailing(at, columns[name] ?? [], first, over, per))];
  }, [version, seconds, names.join()]);
}

/** Lengths of the intervals in which events are counted, by the length of the time that is shown; all in seconds. */
const STEPS = [
  [180, 10],
  [3600, 60],
  [21600, 600],
  [Infinity, 3600],
];

/** Return the length of the intervals in which events of the last `seconds` are counted, in seconds. */
export const stepOf = (seconds) => STEPS.find(([most]) => seconds <= most)[1];

/** Return how often each counter grew, in intervals that begin at full steps: `{step, starts, columns}`. */
export function useCounts(names, seconds) {
  const version = useSeriesVersion();
  return useMemo(() => {
    const { columns } = series;
    const at = columns.at ?? [];
    const step = stepOf(seconds);
    const last = at.length ? Math.floor(at[at.length - 1] / step) * step : 0;
    const number = Math.ceil(seconds / step);
    const starts = at.length ? Array.from({ length: number }, (_, place) => last - (number - 1 - place) * step) : [];
    const counted = names.map((name) => {
      const sums = starts.map(() => 0);
      const column = columns[name] ?? [];
      for (let place = 1; place < at.length; place++) {
        const bucket = (Math.floor(at[place] / step) * step - starts[0]) / step;
        if (bucket >= 0) sums[bucket] += Math.max(0, column[place] - column[place - 1]);
      }
      return sums;
    });
    return { step, starts, columns: counted };
  }, [version, seconds, names.join()]);
}

function trailing(at, column, first, over, per) {
  const found = [];
  let sum = 0;
  let tail = first;
  while (tail > 1 && at[tail - 1] > at[first] - over) tail--;
  for (let place = tail; place < first; place++) sum += Math.max(0, column[place] - column[place - 1]);
  for (let place = first; place < at.length; place++) {
    sum += Math.max(0, column[place] - column[place - 1]);
    while (tail < place && at[tail] <= at[place] - over) {
      sum -= Math.max(0, column[tail] - column[tail - 1]);
      tail++;
    }
    // At the beginning, fewer than `over` seconds of points exist.
    const span = Math.max(at[place] - at[tail - 1], 0.001);
    found.push((sum / Math.max(span, Math.min(over, at[place] - at[0]))) * per);
  }
  return found;
}

/** Return a percentile of a histogram as the upper bound of its bucket; null if the histogram is empty. */
export function percentile(counts, bounds, share) {
  const total = counts.reduce((sum, value) => sum + value, 0);
  if (!total) return null;
  let seen = 0;
  for (let place = 0; place < counts.length; place++) {
    seen += counts[place];
    if (seen >= share * total) return bounds[place] ?? Infinity;
  }
  return Infinity;
}
