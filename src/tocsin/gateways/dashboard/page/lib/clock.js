/** The clock that countdowns and ages follow: it ticks once a second while the page is visible. */
import { createStore, useStore } from "./store.js";
import { live } from "./live.js";

const clock = createStore({ now: Date.now() });
setInterval(() => document.hidden || clock.set({ now: Date.now() + skew() }), 1000);

let offset = 0;
let lastTick = null;

/** Return how far this machine's clock is behind the hub's, in milliseconds. */
function skew() {
  const { tick } = live.get();
  if (tick && tick !== lastTick) {
    lastTick = tick;
    const found = tick.at - Date.now();
    // A difference below one second is network delay, not clock skew.
    offset = Math.abs(found) < 1000 ? 0 : found;
  }
  return offset;
}

/** Return the hub's time in milliseconds since the epoch; the component is drawn again every second. */
export const useNow = () => useStore(clock, (value) => value.now);
