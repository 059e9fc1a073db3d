/** Set the theme before the page is drawn: the stored choice, or by default the system's setting. */
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tocsin.theme");
  } catch {
    // Without storage, the system's setting applies.
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
