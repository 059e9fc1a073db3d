/** One clock for everything that counts down or grows old: it ticks once a second, and only while somebody looks. */
import { createStore, useStore } from "./store.js";
import { live } from "./live.js";

const clock = createStore({ now: Date.now() });
setInterval(() => document.hidden || clock.set({ now: Date.now() + skew() }), 1000);

let offset = 0;
let heard = null;

/** How far this machine's clock is behind the hub's, milliseconds. */
function skew() {
  const { tick } = live.get();
  if (tick && tick !== heard) {
    heard = tick;
    const found = tick.at - Date.now();
    // What is less than a second apart is the way here, not the clock.
    offset = Math.abs(found) < 1000 ? 0 : found;
  }
  return offset;
}

/** Follow the hub's time, milliseconds since the epoch, second by second. */
export const useNow = () => useStore(clock, (value) => value.now);
