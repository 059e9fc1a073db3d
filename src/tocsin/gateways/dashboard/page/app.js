/** The frame of the dashboard: navigation, connection state, and the page that the address selects. */
import { Project } from "./components/projects.js";
import { Toasts, toast } from "./components/toast.js";
import { signOut } from "./lib/api.js";
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./lib/html.js";
import { connect, live, reconnectNow } from "./lib/live.js";
import { href, useRoute } from "./lib/router.js";
import { useNow } from "./lib/clock.js";
import { useStore } from "./lib/store.js";
import { nextTheme, useTheme } from "./lib/theme.js";
import { PAGES } from "./pages.js";

function App() {
  const route = useRoute();
  const page = PAGES.find(({ name }) => name === route.page);
  const main = useRef();
  useEffect(() => {
    document.title = `${page?.title ?? "Page not found"} · Tocsin`;
  }, [page]);
  useEffect(() => {
    const keys = (event) => shortcut(event);
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to content</a>
    <${TopBar} />
    <${Navigation} current=${route.page} />
    <main id="main" ref=${main} tabindex="-1">
      <${Banner} />
      ${page ? html`<${Lazy} key=${page.name} page=${page} route=${route} />` : html`<${NotFound} />`}
    </main>
    <${Toasts} />`;
}

/** Handle shortcut keys: `g` and a page's key opens that page, `/` goes to the search, `?` lists the keys. */
let before = "";
function shortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (before === "g") {
    const page = PAGES.find(({ key }) => key === event.key);
    if (page) location.hash = href(page.name);
  } else if (event.key === "?") {
    toast(`Keys: ${PAGES.map(({ key, title }) => `g ${key} ${title}`).join(", ")}`);
  } else if (event.key === "/") {
    event.preventDefault();
    const search = document.querySelector("[data-search]");
    if (search) search.focus();
    else location.hash = href("messages");
  }
  before = event.key === "g" && before !== "g" ? "g" : "";
}

function TopBar() {
  const { project, who } = useStore(live, ({ hello }) => ({ project: hello?.project, who: hello?.who }));
  const theme = useTheme();
  return html`<header class="top-bar">
    <a class="brand" href="#/overview"><span class="brand-bell" aria-hidden="true"></span>Tocsin</a>
    ${project && html`<${Project} project=${project} all=${who.all_projects} />`}
    <${Connection} />
    <span class="spread"></span>
    ${who && html`<span class="who" title="Signed in as">${who.agent} <span class="muted">${who.admin ? "admin" : who.role}</span></span>`}
    <button type="button" class="button quiet small" aria-label=${`Theme: ${theme}`} title=${`Theme: ${theme}`} onClick=${nextTheme}>${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>
    <button type="button" class="button quiet small" onClick=${signOut}>Sign out</button>
  </header>`;
}

/** Show the state of the live connection. */
function Connection() {
  const status = useStore(live, (state) => state.status);
  const labels = { live: "live", connecting: "connecting …", lost: "connection lost" };
  return html`<span class="connection ${status}" role="status" data-status=${status}><span class="dot" aria-hidden="true"></span>${labels[status]}</span>`;
}

/** Warn if the data is not current: connection lost, hub not serving, or a newer dashboard version. */
function Banner() {
  const state = useStore(live, ({ status, retryAt, since, hello, tick }) => ({ status, retryAt, since, version: hello?.version, condition: tick?.condition }));
  const mine = document.documentElement.dataset.base.split("/").pop();
  if (state.status === "lost") return html`<${Lost} ...${state} />`;
  if (state.version && state.version !== mine) {
    return html`<div class="banner" role="alert">The hub has a newer version of this dashboard. <button type="button" class="button small" onClick=${() => location.reload()}>Reload</button></div>`;
  }
  if (state.condition && state.condition !== "serving") {
    return html`<div class="banner bad" role="alert">The hub is ${state.condition}. It accepts no messages until it is serving again.</div>`;
  }
  return null;
}

function Lost({ retryAt, since }) {
  useNow();
  const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
  return html`<div class="banner bad" role="alert">
    No connection since ${new Date(since).toLocaleTimeString("en-GB")}: the data shown may be out of date. ${seconds ? `Reconnecting in ${seconds} s.` : "Reconnecting …"}
    <button type="button" class="button small" onClick=${reconnectNow}>Reconnect now</button>
  </div>`;
}

function Navigation({ current }) {
  const counts = useStore(live, ({ tick }) => Object.fromEntries(PAGES.map((page) => [page.name, tick && page.count ? page.count(tick) : 0])));
  const bar = useRef();
  useEffect(() => bar.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [current]);
  return html`<nav class="navigation" aria-label="Pages" ref=${bar}>
    ${PAGES.map(
      (page) => html`<a key=${page.name} href=${href(page.name)} aria-current=${page.name === current ? "page" : undefined}>
        <span>${page.title}</span>
        ${counts[page.name] > 0 && html`<span class="count ${page.tone ?? ""}">${counts[page.name] > 999 ? "999+" : counts[page.name]}</span>`}
      </a>`,
    )}
  </nav>`;
}

/** Load a page's module when it is first opened. */
function Lazy({ page, route }) {
  const [loaded, setLoaded] = useState(null);
  const [failed, reset] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    page.load().then(
      (module) => setLoaded(() => module.default),
      () => setLoaded(() => Unloadable),
    );
  }, [page]);
  if (failed) {
    return html`<div class="note bad" role="alert">
      <p>This page failed with an error: ${failed.message}</p>
      <button type="button" class="button" onClick=${reset}>Try again</button>
    </div>`;
  }
  if (!loaded) return html`<p class="loading" aria-busy="true">Loading …</p>`;
  const Page = loaded;
  return html`<h1 class="page-title">${page.title}</h1>
    <div class="page"><${Page} parts=${route.parts} query=${route.query} /></div>`;
}

const Unloadable = () =>
  html`<div class="note bad" role="alert"><p>This page could not be loaded. The hub may have been updated.</p><button type="button" class="button" onClick=${() => location.reload()}>Reload</button></div>`;

const NotFound = () => html`<div class="empty"><p class="empty-title">Page not found</p><p><a href="#/overview">Go to the overview</a></p></div>`;

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
connect();
