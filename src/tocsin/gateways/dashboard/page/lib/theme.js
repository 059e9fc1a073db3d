/** Light, dark, or as the system wants. */
import { createStore, useStore } from "./store.js";

const KEY = "tocsin.theme";
const ORDER = ["auto", "light", "dark"];
const theme = createStore({ chosen: document.documentElement.dataset.theme ?? "auto" });

/** Follow the choice. */
export const useTheme = () => useStore(theme, (value) => value.chosen);

/** Choose the next one. */
export function nextTheme() {
  const chosen = ORDER[(ORDER.indexOf(theme.get().chosen) + 1) % ORDER.length];
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // It then lasts as long as the page.
  }
  theme.set({ chosen });
  told();
}

/** Canvases have to be drawn in the new colours. */
const told = () => dispatchEvent(new Event("tocsin:theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", told);
