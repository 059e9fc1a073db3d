/** Set the theme before anything is drawn: what was chosen here, or what the system wants. */
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tocsin.theme");
  } catch {
    // Without storage, the system decides.
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
