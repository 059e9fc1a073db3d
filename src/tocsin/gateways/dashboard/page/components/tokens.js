/** Adding agents, and issuing and revoking their tokens; for people who may administer the tokens of some roles. */
import { Copyable } from "./basics.js";
import { ask, Dialog } from "./dialog.js";
import { toast } from "./toast.js";
import { api, segment } from "../lib/api.js";
import { html, render } from "../lib/html.js";
import { live } from "../lib/live.js";
import { go } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const ROLES = [
  ["primary", "primary: works in the team"],
  ["clone", "clone: does part of a primary's work, with a smaller budget"],
  ["director", "director: directs the team, and may sign in here"],
  ["human", "human: a person, who may sign in here"],
];

/** Return the roles whose tokens the person who is signed in may administer, none while that is not known. */
export const useAdministered = () => useStore(live, ({ hello }) => hello?.who?.administers) ?? [];

/** Ask for an agent's properties, add it, and show its token. */
export async function addAgent() {
  const roles = live.get().hello.who.administers;
  const answer = await ask({
    title: "Add an agent",
    text: "The agent is registered and gets a token. Other agents can send to it at once.",
    fields: [
      { name: "agent", label: "Name", required: true, placeholder: "ada", hint: "Letters, digits, dots, dashes and underscores." },
      { name: "role", label: "Role", kind: "select", options: ROLES.filter(([role]) => roles.includes(role)), value: "primary" },
      { name: "type", label: "Type, for routing", required: true, value: "Implementation", hint: "Messages can be addressed to all agents of a type." },
    ],
    confirm: "Add",
    submit: (values) => api.post("/v1/admin/tokens", { ...values, agent: values.agent.trim(), type: values.type.trim() }),
  });
  if (!answer) return false;
  await showToken(answer.grant.agent, answer.token);
  go("agents", answer.grant.agent);
  return true;
}

/** Replace all tokens of an agent with a new one, and show it. */
export async function renewToken(agent) {
  const answer = await ask({
    title: `New token for ${agent}`,
    text: "The agent's present tokens end at once: whoever uses one of them is signed out.",
    confirm: "Replace the tokens",
    tone: "danger",
    submit: () => api.post(`/v1/admin/tokens/${segment(agent)}/rotate`),
  });
  if (answer) await showToken(agent, answer.token);
  return answer !== null;
}

/** Issue a first token to an agent that has none. */
export async function issueToken({ agent, role, type }) {
  const issued = await api.post("/v1/admin/tokens", { agent, role, type });
  await showToken(agent, issued.token);
}

/** Revoke all tokens of an agent. */
export async function revokeTokens(agent) {
  const answer = await ask({
    title: `Revoke the tokens of ${agent}`,
    text: "The agent can no longer connect. Messages to it wait until it has a token again, or expire.",
    confirm: "Revoke",
    tone: "danger",
    submit: () => api.post(`/v1/admin/tokens/${segment(agent)}/revoke`),
  });
  if (answer) toast(`The tokens of ${agent} are revoked`);
  return answer !== null;
}

/** The command that connects Claude Code to this hub as an agent. */
export const claudeCommand = (token) => `claude mcp add --transport http tocsin ${location.origin}/mcp --header "Authorization: Bearer ${token}"`;

/** Show a new token; resolves when the dialog is closed. The hub keeps only a hash, so it cannot be shown again. */
function showToken(agent, token) {
  const place = document.body.appendChild(document.createElement("div"));
  return new Promise((resolve) => {
    const finish = () => {
      render(null, place);
      place.remove();
      resolve();
    };
    render(html`<${Shown} agent=${agent} token=${token} finish=${finish} />`, place);
  });
}

function Shown({ agent, token, finish }) {
  return html`<${Dialog} title=${`Token of ${agent}`} onClose=${finish} wide>
    <div class="stack">
      <p>It is shown only now. Whoever has it acts as ${agent}: store it where only ${agent} can read it.</p>
      <${Copyable} text=${token} />
      <p class="muted">For a program on this machine</p>
      <${Copyable} text=${`export TOCSIN_URL=${location.origin} TOCSIN_TOKEN=${token}`} />
      <p class="muted">For Claude Code, in the directory of your project</p>
      <${Copyable} text=${claudeCommand(token)} />
    </div>
    <footer class="dialog-foot"><button type="button" class="button primary" onClick=${finish}>Done</button></footer>
  <//>`;
}
