/** The project in the top bar: its name, or a choice for those who may see several. */
import { api } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { show } from "../lib/project.js";

const PAGE = 500;
const PAGES_MAX = 4;

/** Show the project; `all` tells whether the user administers all projects of the hub. */
export function Project({ project, all }) {
  const [projects, setProjects] = useState([]);
  const load = () => all && read().then(setProjects, () => {});
  useEffect(load, [all]);
  const others = projects.some((one) => one.project !== project);
  if (!others) return html`<span class="project" title="Project">${project}</span>`;
  const home = projects.find((one) => one.home)?.project;
  return html`<select class="project choice" aria-label="Project" title="Project" value=${project} onFocus=${load} onChange=${(event) => show(event.target.value, home)}>
    ${projects.map((one) => html`<option key=${one.project} value=${one.project} selected=${one.project === project}>${one.project}</option>`)}
  </select>`;
}

/** Return the projects that are in use, by name; only the first ones of very many. */
async function read() {
  const found = [];
  let after = "";
  for (let page = 0; page < PAGES_MAX; page++) {
    const { items, next } = await api.get("/v1/projects", { limit: PAGE, after }, { home: true });
    found.push(...items.filter((one) => one.state !== "archived"));
    if (next === null) break;
    after = next;
  }
  return found;
}
