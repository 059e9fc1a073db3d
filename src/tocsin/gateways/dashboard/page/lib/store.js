/** A value that components follow: each draws again only when what it selects has changed. */
import { useEffect, useRef, useState } from "./html.js";

/** Make a store. */
export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    /** Replace the value, or change some of its keys by an object. */
    set(change) {
      value = typeof change === "function" ? change(value) : { ...value, ...change };
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Follow what a selector picks out of a store. */
export function useStore(store, select = (value) => value) {
  const [, redraw] = useState(0);
  const picked = select(store.get());
  const last = useRef();
  last.current = { picked, select };
  useEffect(() => {
    const look = () => {
      if (!alike(last.current.select(store.get()), last.current.picked)) redraw((count) => count + 1);
    };
    look();
    return store.subscribe(look);
  }, [store]);
  return picked;
}

/** Tell whether two values are the same, one level deep. */
export function alike(one, other) {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.is(one[name], other[name]));
}
