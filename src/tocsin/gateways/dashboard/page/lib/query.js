/** Queries that are repeated when live updates report a change of their subject. */
import { api } from "./api.js";
import { useEffect, useRef, useState } from "./html.js";
import { live } from "./live.js";

/** Time between two updates for which the intervals of queries are given, s. */
const USUAL_TICK_S = 0.5;

/** Return an interval for a hub that updates its dashboards at another interval: it changes in proportion. */
export function paced(interval, tickS = USUAL_TICK_S) {
  return (interval * tickS) / USUAL_TICK_S;
}

/**
 * Run a GET request and keep its result up to date.
 *
 * `areas` are the areas that the result depends on (`messages`, `agents`, `leases`, `approvals`, `escalation`, `letters`,
 * …). The request is repeated when one of them changes, at most every `atMostEvery` ms; with `every` it is also repeated
 * at that interval, in ms. Both are for the usual time between two updates (`paced`). It is always repeated after a lost
 * connection, and never while the page is hidden. The last result stays until the next one arrives; `answers` holds the
 * query parameters that it belongs to.
 */
export function useQuery(path, query, { areas = [], atMostEvery = 2000, every = 0, enabled = true } = {}) {
  const [state, setState] = useState({ data: null, answers: null, error: null, loading: true });
  const key = path + JSON.stringify(query ?? null) + enabled;
  const asking = useRef(null);
  useEffect(() => {
    if (!enabled) return undefined;
    const aborting = new AbortController();
    let asked = 0;
    let seen = mark(areas);
    let busy = false;
    let failed = false;
    let timer = null;
    setState((before) => ({ ...before, loading: true }));
    const ask = async () => {
      if (busy) return;
      busy = true;
      seen = mark(areas);
      try {
        const data = await api.get(path, query, { signal: aborting.signal });
        failed = false;
        setState({ data, answers: query, error: null, loading: false });
      } catch (error) {
        failed = error.retryable === true;
        if (error.name !== "AbortError") setState((before) => ({ ...before, error, loading: false }));
      }
      busy = false;
      asked = Date.now();
    };
    asking.current = ask;
    const look = () => {
      if (busy || document.hidden || live.get().status !== "live") return;
      const age = Date.now() - asked;
      const since = (interval) => age >= paced(interval, live.get().hello?.tick_s);
      if ((every && since(every)) || ((failed || seen !== mark(areas)) && since(atMostEvery))) ask();
    };
    ask();
    const leave = live.subscribe(look);
    timer = every ? setInterval(look, every) : null;
    return () => {
      aborting.abort();
      leave();
      clearInterval(timer);
    };
  }, [key]);
  return { ...state, reload: () => asking.current?.() };
}

/** Return the sum of the areas' change counters together with the connection, since changes are missed between connections. */
function mark(areas) {
  const { tick, hello } = live.get();
  const changes = tick?.changes ?? {};
  return `${areas.reduce((sum, area) => sum + (changes[area] ?? 0), 0)} ${hello?.at}`;
}
