/** The first steps in a project that has no agents or no messages yet. */
import { Card, Chip, Copyable } from "./basics.js";
import { compose } from "./compose.js";
import { addAgent, useAdministered } from "./tokens.js";
import { html } from "../lib/html.js";
import { live } from "../lib/live.js";
import { named } from "../lib/project.js";
import { useQuery } from "../lib/query.js";
import { useStore } from "../lib/store.js";

/** Return how far the project is: `others` are agents besides the person who is signed in; null while it is not known. */
export function useProgress() {
  const me = useStore(live, ({ hello }) => hello?.who?.agent);
  const messages = useQuery("/v1/messages", { limit: 1 }, { areas: ["messages"], atMostEvery: 1000 });
  const agents = useQuery("/v1/agents", { limit: 2 }, { areas: ["agents"], atMostEvery: 1000 });
  if (!me || !messages.data || !agents.data) return null;
  const others = agents.data.items.map(({ agent }) => agent).filter((agent) => agent !== me);
  const connected = agents.data.items.some(({ agent, presence }) => agent !== me && presence === "available");
  return { others, connected, sent: messages.data.items.length > 0 };
}

/** Options of the command line that name the project which the page shows, and the directory of its tokens. */
const PROJECT = named ? ` --project ${named}` : "";
const DATA = named ? ` --data .tocsin/projects/${named}` : "";

/** Shown until the project has another agent and a message. */
export function GettingStarted({ progress }) {
  const admin = useAdministered().length > 0;
  if (progress === null || (progress.others.length && progress.sent)) return null;
  const { others, connected, sent } = progress;
  const name = others[0] ?? "ada";
  return html`<${Card} title="Get started" hint="Three steps to a team that talks." class="getting-started">
    <ol class="first-steps">
      <${Step} number="1" title="Add an agent" done=${others.length > 0}>
        <p>An agent has a name, a role and a token of its own.${admin ? " Add it here, or in a terminal:" : " In a terminal, with the administrator's token:"}</p>
        ${admin && html`<p><button type="button" class="button primary" onClick=${addAgent}>Add an agent</button></p>`}
        <${Copyable} text=${`tocsin${PROJECT} agents add ${name} --save`} />
      <//>
      <${Step} number="2" title="Connect Claude Code" done=${connected}>
        <p>In the directory of your project. It adds the tools and an inbox check; any MCP client or program can take part as well.</p>
        <${Copyable} text=${`tocsin${DATA} --as ${name} hooks install claude`} />
      <//>
      <${Step} number="3" title="Send a message" done=${sent}>
        <p>The message waits until the agent reads it.</p>
        <p><button type="button" class="button" disabled=${!others.length} onClick=${() => compose({ to: name })}>Write to ${others.length ? name : "an agent"}</button></p>
        <${Copyable} text=${`tocsin${PROJECT} send ${name} "Hello, ${name}"`} />
      <//>
    </ol>
  <//>`;
}

function Step({ number, title, done, children }) {
  return html`<li class=${`first-step ${done ? "done" : ""}`}>
    <h3><span class="step-number" aria-hidden="true">${done ? "✓" : number}</span>${title}${done && html` <${Chip} tone="ok">done<//>`}</h3>
    ${children}
  </li>`;
}
