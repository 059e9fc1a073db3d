/** A store that components subscribe to: each is drawn again only when its selected part has changed. */
import { useEffect, useRef, useState } from "./html.js";

/** Create a store. */
export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    /** Replace the value with a function's result, or merge an object into it. */
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

/** Return the selected part of a store; the component is drawn again when it changes. */
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

/** Compare two values, one level deep. */
export function alike(one, other) {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.is(one[name], other[name]));
}
