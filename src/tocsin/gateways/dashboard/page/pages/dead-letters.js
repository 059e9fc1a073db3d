/** The page of dead letters: counts by reason and code, and redriving one, several, or all of a group. */
import { Asked } from "../components/asked.js";
import { Action, Answer, Card, Chip, Empty, Level, When } from "../components/basics.js";
import { MessageCell } from "../components/message-cell.js";
import { Table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { api } from "../lib/api.js";
import { count, words } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { useQuery } from "../lib/query.js";
import { go, href } from "../lib/router.js";

const PAGE = 100;
/** Maximum number of dead letters per call. */
const BATCH = 100;

export default function DeadLetters({ query }) {
  const group = { reason: query.reason, code: query.code };
  const chosen = query.reason !== undefined || query.code !== undefined;
  const after = Number(query.after ?? 0);
  const groups = useQuery("/v1/dead-letters/groups", undefined, { areas: ["letters"], atMostEvery: 1500 });
  const letters = useQuery("/v1/dead-letters/find", { ...group, after, limit: PAGE }, { areas: ["letters"], atMostEvery: 1500 });
  const reload = () => (groups.reload(), letters.reload());
  return html`<${Answer} of=${groups}>
    ${(found) =>
      found.length === 0
        ? html`<${Card}><${Empty} title="No dead letters">Messages that cannot be delivered are listed here with the reason, and can be queued again.<//><//>`
        : html`<div class="stack">
            <${Card} title="By reason" hint=${`${count(found.reduce((sum, { letters: number }) => sum + number, 0))} in total`}>
              <${Groups} rows=${found} group=${group} chosen=${chosen} reload=${reload} />
            <//>
            <${Card} title=${chosen ? `${DEATHS[group.reason] ?? (words(group.reason) || "no reason")} ${group.code ?? ""}` : "All dead letters"} tools=${chosen && html`<a class="button small" href=${href("dead-letters")}>Show all</a>`}>
              <${Answer} of=${letters}>${(page) => html`<${List} page=${page} after=${after} group=${query} reload=${reload} />`}<//>
            <//>
          </div>`}
  <//>`;
}

/** Why messages die, in words, by reason. */
const DEATHS = {
  ack_timeout: "never acknowledged",
  receipt_timeout: "receipt never confirmed",
  rejected: "rejected by its recipient",
  recipient_gone: "its recipient left the project",
  approval_refused: "refused by a director",
};

/** Return the reason of one dead letter: what the recipient said, without the names that the row shows anyway. */
const why = (row) => row.detail.replace(`${row.recipient} rejected ${row.message_id}: `, "") || DEATHS[row.reason] || words(row.reason);

function Groups({ rows, group, chosen, reload }) {
  const most = Math.max(...rows.map(({ letters }) => letters));
  const columns = [
    { name: "reason", head: "Reason", cell: (row) => DEATHS[row.reason] ?? (words(row.reason) || "no reason") },
    { name: "code", head: "Code", cell: (row) => row.code && html`<code>${row.code}</code>` },
    { name: "types", head: "Types", cell: ({ types }) => html`<span class="row">${Object.entries(types).map(([type, number]) => html`<${Chip} key=${type}>${type} <b>${count(number)}</b><//>`)}</span>` },
    { name: "newest", head: "Most recent", number: true, cell: (row) => html`<${When} at=${row.newest_at} />` },
    { name: "letters", head: "Dead letters", number: true, cell: (row) => html`<span class="bar-cell"><meter class="bar" min="0" max=${most} value=${row.letters} aria-hidden="true"></meter>${count(row.letters)}</span>` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${RedriveGroup} row=${row} reload=${reload} />` },
  ];
  const current = (row) => chosen && row.reason === group.reason && row.code === (group.code ?? "");
  return html`<${Table}
    label="Dead letters by reason"
    class="cards wordy"
    columns=${columns}
    rows=${rows}
    keyOf=${(row) => `${row.reason} ${row.code}${current(row) ? " (shown)" : ""}`}
    hrefOf=${(row) => href("dead-letters", [], { reason: row.reason, code: row.code })}
  />`;
}

/** Redrive all dead letters of a group, in several calls, until none is left or none can be redriven. */
function RedriveGroup({ row, reload }) {
  const question = {
    title: `Redrive ${count(row.letters)} dead letters`,
    text: `All dead letters with ${row.reason ? `reason "${words(row.reason)}"` : "no reason"}${row.code ? ` and code ${row.code}` : ""} are queued for their recipients again, with their full time to live. Those whose recipient is no longer registered stay.`,
    confirm: "Redrive all",
  };
  const run = async () => {
    let [done, refused, left] = [0, 0, 1];
    while (left > 0) {
      const reply = await api.post("/v1/dead-letters/redrive-matching", { reason: row.reason, code: row.code });
      done += reply.redriven.length;
      refused += Object.keys(reply.refused).length;
      left = reply.redriven.length ? reply.left : 0;
    }
    reload();
    return { done, refused };
  };
  return html`<${Asked} small label="Redrive all" question=${question} run=${run} done=${outcome} />`;
}

const outcome = ({ done, refused }) => `${count(done)} redriven${refused ? `, ${count(refused)} refused` : ""}`;

function List({ page, after, group, reload }) {
  const [selected, setSelected] = useState(new Set());
  // Dead letters that are no longer listed are not selected any more.
  const here = new Set(page.items.map(({ signal_id: signal }) => signal));
  const chosen = [...selected].filter((signal) => here.has(signal));
  useEffect(() => setSelected(new Set()), [group.reason, group.code, after]);
  const redrive = async (signals) => {
    let [done, reasons] = [0, []];
    for (let start = 0; start < signals.length; start += BATCH) {
      const reply = await api.post("/v1/dead-letters/redrive", { signal_ids: signals.slice(start, start + BATCH) });
      done += reply.redriven.length;
      reasons = [...reasons, ...Object.values(reply.refused).map(({ detail }) => detail)];
    }
    if (reasons.length) toast(reasons.length === 1 ? reasons[0] : `${count(reasons.length)} refused: ${reasons[0]}`, "bad");
    setSelected(new Set());
    reload();
    return done ? { done, refused: 0 } : false;
  };
  const columns = [
    { name: "message", head: "Message", class: "wide", cell: (row) => html`<${MessageCell} row=${row} id=${row.signal_id} />` },
    { name: "level", head: "Priority", cell: (row) => html`<${Level} level=${row.priority} />` },
    { name: "why", head: "Reason", class: "reason-cell", cell: (row) => html`<span>${why(row)}${!row.redrivable && html` <${Chip} tone="mute" title="It can be redriven when an agent of that name is registered">recipient retired<//>`}<br /><span class="muted small">${DEATHS[row.reason] ?? words(row.reason)}${row.code && html`, <code>${row.code}</code>`}</span></span>` },
    { name: "tries", head: "Failures", number: true, cell: (row) => count(row.failures) },
    { name: "died", head: "Died", number: true, cell: (row) => html`<${When} at=${row.dead_at} />` },
    { name: "act", head: "", class: "act", cell: (row) => html`<${Action} small label="Redrive" title=${`Redrive ${row.signal_id}`} disabled=${!row.redrivable} run=${() => redrive([row.signal_id])} done=${`Redriven: ${row.signal_id}`} />` },
  ];
  const turn = (place) => go("dead-letters", [], { reason: group.reason, code: group.code, after: place || undefined });
  return html`<div class="row list-tools">
      <${Action} label=${chosen.length ? `Redrive ${count(chosen.length)} selected` : "Redrive selected"} tone="primary" disabled=${!chosen.length} run=${() => redrive(chosen)} done=${outcome} />
    </div>
    <${Table}
      label="Dead letters"
      class="cards"
      columns=${columns}
      rows=${page.items}
      keyOf=${(row) => row.signal_id}
      hrefOf=${(row) => href("messages", [row.message_id])}
      selected=${new Set(chosen)}
      onSelect=${setSelected}
      empty=${html`<${Empty} title="No dead letters in this group" />`}
    />
    ${(after > 0 || page.next !== null) &&
    html`<nav class="row pager" aria-label="Pages of dead letters">
      <button type="button" class="button small" disabled=${after === 0} onClick=${() => turn(Math.max(0, after - PAGE))}>Previous</button>
      <span class="muted small">${count(after + 1)} to ${count(after + page.items.length)}</span>
      <button type="button" class="button small" disabled=${page.next === null} onClick=${() => turn(page.next)}>Next</button>
    </nav>`}`;
}
