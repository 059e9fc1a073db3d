/** The theme: light, dark, or the system's setting. */
import { createStore, useStore } from "./store.js";

const KEY = "tocsin.theme";
const ORDER = ["auto", "light", "dark"];
const theme = createStore({ chosen: document.documentElement.dataset.theme ?? "auto" });

/** Return the chosen theme; the component is drawn again when it changes. */
export const useTheme = () => useStore(theme, (value) => value.chosen);

/** Switch to the next theme. */
export function nextTheme() {
  const chosen = ORDER[(ORDER.indexOf(theme.get().chosen) + 1) % ORDER.length];
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
  theme.set({ chosen });
  notify();
}

/** Notify charts, which must be drawn again in the new colours. */
const notify = () => dispatchEvent(new Event("tocsin:theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", notify);
