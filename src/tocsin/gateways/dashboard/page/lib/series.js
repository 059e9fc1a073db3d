/** The time series as charts want them: windows, rates, sums. */
import { useMemo } from "./html.js";
import { live, series } from "./live.js";
import { useStore } from "./store.js";

/** Follow the time series: their version, which changes with every new point. */
export const useSeriesVersion = () => useStore(live, () => series.version);

/** How many of the latest points lie within a time, seconds. */
function within(seconds) {
  const at = series.columns.at ?? [];
  const since = (at[at.length - 1] ?? 0) - seconds;
  let first = at.length;
  while (first > 0 && at[first - 1] >= since) first--;
  return first;
}

/** What a counter grew by within a time; a hub that was started anew counts from zero again. */
export function grown(name, seconds) {
  const column = series.columns[name] ?? [];
  let sum = 0;
  for (let place = Math.max(1, within(seconds)); place < column.length; place++) {
    sum += Math.max(0, column[place] - column[place - 1]);
  }
  return sum;
}

/** How much time the points within a time really cover, seconds. */
export function covered(seconds) {
  const at = series.columns.at ?? [];
  const first = within(seconds);
  return at.length > first ? at[at.length - 1] - at[Math.max(0, Math.min(first, at.length - 1))] : 0;
}

/** Columns for a chart: seconds, then each name as it is. */
export function useGauges(names, seconds) {
  const version = useSeriesVersion();
  return useMemo(() => {
    const first = within(seconds);
    return ["at", ...names].map((name) => (series.columns[name] ?? []).slice(first));
  }, [version, seconds, names.join()]);
}

/** Columns for a chart: seconds, then what each counter grew by in the `over` seconds before, per `per` seconds. */
export function useRates(names, seconds, { over = 6, per = 1 } = {}) {
  const version = useSeriesVersion();
  return useMemo(() => {
    const { columns } = series;
    const at = columns.at ?? [];
    const first = Math.max(1, within(seconds));
    return [at.slice(first), ...names.map((name) => trailing(at, columns[name] ?? [], first, over, per))];
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
    // In the first moments there is less behind us than we would like to look at.
    const span = Math.max(at[place] - at[tail - 1], 0.001);
    found.push((sum / Math.max(span, Math.min(over, at[place] - at[0]))) * per);
  }
  return found;
}

/** Read a percentile out of a histogram; null where it is empty. The answer is the bucket's upper bound. */
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
