/** The history page: the pipeline's tables and advice, the lab's reports, and how far behind the tables are. */
import { Answer, Card, Chip, Empty, When } from "../components/basics.js";
import { Chart } from "../components/chart.js";
import { Field } from "../components/dialog.js";
import { Table } from "../components/table.js";
import { useNow } from "../lib/clock.js";
import { LEVELS, ago, count, duration, levelName, millis, moment, percent, words } from "../lib/format.js";
import { html, useMemo } from "../lib/html.js";
import { useQuery } from "../lib/query.js";
import { go, href } from "../lib/router.js";
import { inProject } from "../lib/project.js";

const PAGE = 50;
const REFRESH_MS = 15000;
const VIEWS = [
  ["tables", "Tables"],
  ["advice", "Advice"],
  ["reports", "Reports"],
];
/** The table that is shown by default, if it exists. */
const FIRST = "signal_state";

export default function History({ parts, query }) {
  const overview = useQuery("/v1/history", undefined, { every: REFRESH_MS });
  const view = parts[0] ?? "tables";
  return html`<div class="stack">
    <nav class="tabs" aria-label="History views">${VIEWS.map(([name, title]) => html`<a key=${name} href=${href("history", [name])} aria-current=${name === view ? "page" : undefined}>${title}</a>`)}</nav>
    <${Answer} of=${overview}>
      ${(found) =>
        html`<${Freshness} found=${found} />
          ${view === "reports" ? html`<${Reports} shown=${parts[1]} />` : !found.available ? html`<${Nothing} />` : view === "advice" ? html`<${Advice} />` : html`<${Tables} found=${found} name=${parts[1]} query=${query} />`}`}
    <//>
  </div>`;
}

/** Show how far behind the pipeline is. */
function Freshness({ found }) {
  const now = useNow();
  if (!found.available) return null;
  const behind = found.behind_events;
  const tone = behind === 0 ? "ok" : found.behind_s < 600 ? "" : "warn";
  return html`<p class="freshness" role="status">
    <${Chip} tone=${tone}>${behind === 0 ? "up to date" : `${count(behind)} ${behind === 1 ? "event" : "events"} behind`}<//>
    <span>The tables include events up to <time datetime=${found.reached_at} title=${found.reached_at}>${moment(found.reached_at)}</time>${behind > 0 && html`, ${ago(found.reached_at, now)}`}.</span>
    <span class="muted small">Version ${count(found.version)}, written ${ago(found.written_at, now)}</span>
    ${found.gaps > 0 && html`<${Chip} tone="bad" title="Ranges of events that are missing from the tables">${count(found.gaps)} gaps<//>`}
  </p>`;
}

const Nothing = () =>
  html`<${Card}><${Empty} title="The pipeline has not written any tables yet">Run <code>tocsin pipeline run</code> with the hub's data directory, or <code>tocsin pipeline stream</code> to keep the tables up to date.<//><//>`;

/** Convert a name to words, as a title. */
const titled = (name) => words(name).replace(/^./, (letter) => letter.toUpperCase());

const NUMBERS = new Set(["int", "bigint", "double"]);
/** Numeric columns that identify a row rather than measure something. */
const NAMES = new Set(["priority", "level", "old_level", "new_level", "requested", "seq", "highest"]);
const figures = (table) => table.columns.filter(({ name, type }) => NUMBERS.has(type) && !NAMES.has(name)).map(({ name }) => name);
/** Counts are added up; durations and shares are not, so their maximum is shown. */
const foldOf = (figure) => (/_us$|_share$|_max$|depth|peak|live|stale|threshold|rate/.test(figure) ? "max" : "sum");

function Tables({ found, name, query }) {
  const tables = found.tables.filter(({ rows }) => rows > 0);
  const table = tables.find((known) => known.name === name) ?? tables.find((known) => known.name === FIRST) ?? tables.find((known) => known.first_day) ?? tables[0];
  if (!table) return html`<${Card}><${Empty} title="The tables are empty" /><//>`;
  const choices = figures(table);
  const figure = choices.includes(query.figure) ? query.figure : choices[0];
  const type = table.by_type ? query.type : undefined;
  const change = (key) => (event) => go("history", ["tables", table.name], { ...query, figure, after: undefined, [key]: event.target.value }, { replace: true });
  const choose = (event) => go("history", ["tables", event.target.value], { since: query.since, until: query.until, type: query.type });
  return html`<${Card} title=${titled(table.name)} hint=${table.about}>
      <div class="filters">
        <${Field} name="table" label="Table" kind="select" class="wide" value=${table.name} onInput=${choose} options=${tables.map((known) => [known.name, titled(known.name)])} />
        <${Field} name="since" label="From" kind="date" value=${query.since ?? ""} onInput=${change("since")} />
        <${Field} name="until" label="To" kind="date" value=${query.until ?? ""} onInput=${change("until")} />
        ${table.by_type && html`<${Field} name="type" label="Message type" kind="select" value=${type ?? ""} onInput=${change("type")} options=${[["", "all"], ...found.types]} />`}
        ${choices.length > 0 && html`<${Field} name="figure" label="Figure" kind="select" value=${figure} onInput=${change("figure")} options=${choices.map((known) => [known, words(known.replace(/_us$/, ""))])} />`}
      </div>
    <//>
    <${Rows} table=${table} figure=${figure} asked=${{ since: query.since, until: query.until, type, after: Number(query.after ?? 0) }} query=${query} />`;
}

function Rows({ table, figure, asked, query }) {
  const fold = figure && foldOf(figure);
  const rows = useQuery(`/v1/history/tables/${table.name}`, { ...asked, limit: PAGE, figure, fold }, { every: 4 * REFRESH_MS });
  return html`<${Answer} of=${rows}>
    ${(page) =>
      page.table === table.name &&
      html`${page.series.length > 0 && html`<${Series} page=${page} figure=${figure} fold=${fold} />`}
        <${Card} title="Rows" hint=${`${count(page.total)} matching rows; times are in UTC${page.dated ? "" : "; these rows have no date, so the date range does not apply"}`}>
          ${page.left_out > 0 && html`<p class="note">${count(page.left_out)} rows are not shown: a day had more rows than the extract keeps.</p>`}
          <${Grid} page=${page} />
          <${Pager} page=${page} after=${rows.answers.after} turn=${(after) => go("history", ["tables", table.name], { ...query, after: after || undefined })} />
        <//>`}
  <//>`;
}

/** Lengths of the steps, in seconds. */
const STEPS = { minute: 60, hour: 3600, day: 86400 };

/** Convert the time of a bucket, such as `2026-03-02T09`, to seconds. */
const instant = (at) => Date.parse(at.length > 13 ? `${at}:00Z` : at.length > 10 ? `${at}:00:00Z` : at) / 1000;

function Series({ page, figure, fold }) {
  const data = useMemo(() => [page.series.map(({ at }) => instant(at)), page.series.map(({ value }) => value)], [page.series]);
  const named = words(figure.replace(/_us$/, ""));
  const label = `${named}, ${fold === "sum" ? "sum" : "maximum"} by ${page.step}`;
  return html`<${Card} title=${titled(label)}><${Chart} label=${label} data=${data} lines=${[{ label: named, colour: "--accent" }]} format=${(value) => shown(figure, "bigint", value)} bars=${STEPS[page.step]} /><//>`;
}

/** The rows, without columns that are the same in all rows or hold no single value. */
function Grid({ page }) {
  const timed = page.columns.some(({ type }) => type === "timestamp");
  const hidden = new Set(["project", "histogram", ...(timed ? ["date"] : [])]);
  const columns = page.columns
    .map((column, place) => ({ ...column, place }))
    .filter(({ name }) => !hidden.has(name))
    .map(({ name, type, about, place }) => ({
      name,
      head: html`<abbr title=${about}>${words(name.replace(/_us$/, ""))}</abbr>`,
      number: NUMBERS.has(type) && !NAMES.has(name),
      class: type.includes("<") ? "" : "nowrap",
      cell: (row) => shown(name, type, row.values[place]),
    }));
  const rows = page.rows.map((values, place) => ({ values, place }));
  return html`<${Table} label="Rows" columns=${columns} rows=${rows} keyOf=${({ place }) => place} empty=${html`<${Empty} title="No matching rows">Choose other days, or another message type.<//>`} />`;
}

/** Format a value according to its column. */
function shown(name, type, value) {
  if (value === null || value === undefined) return html`<span class="muted">—</span>`;
  if (type === "timestamp") return html`<time datetime=${value}>${value.slice(0, 19).replace("T", " ").replace(/:00$/, "")}</time>`;
  if (NAMES.has(name) && typeof value === "number" && name !== "seq") return LEVELS[value] ? levelName(value) : value;
  if (name.endsWith("_us")) return duration(value / 1e6);
  if (name.endsWith("_share") || name === "effectiveness") return percent(value);
  if (type === "double") return value.toPrecision(4);
  if (typeof value === "number") return count(value);
  if (Array.isArray(value)) return value.join(" → ");
  return String(value);
}

function Pager({ page, after, turn }) {
  if (after === 0 && page.next === null) return null;
  return html`<nav class="row pager" aria-label="Pages of rows">
    <button type="button" class="button small" disabled=${after === 0} onClick=${() => turn(Math.max(0, after - PAGE))}>Previous</button>
    <span class="muted small">${count(after + 1)} to ${count(after + page.rows.length)} of ${count(page.total)}</span>
    <button type="button" class="button small" disabled=${page.next === null} onClick=${() => turn(page.next)}>Next</button>
  </nav>`;
}

function Advice() {
  const advice = useQuery("/v1/history/advice", undefined, { every: 4 * REFRESH_MS });
  return html`<${Answer} of=${advice}>
    ${({ advice: pieces }) =>
      pieces.length
        ? html`<p class="muted">Changes to the policy that the tables suggest. None is applied automatically: a director decides.</p>${pieces.map((piece) => html`<${Piece} key=${piece.rule + piece.subject} piece=${piece} />`)}`
        : html`<${Card}><${Empty} title="No advice">The tables show no reason to change the policy.<//><//>`}
  <//>`;
}

function Piece({ piece }) {
  const columns = [
    { name: "figure", head: "Evidence", cell: (row) => row.figure },
    { name: "table", head: "Table", cell: (row) => html`<a href=${href("history", ["tables", row.table])}>${words(row.table)}</a>` },
    { name: "value", head: "Value", number: true, cell: (row) => row.value.toLocaleString("en", { maximumSignificantDigits: 4 }) },
    { name: "count", head: "Sample size", number: true, cell: (row) => count(row.count) },
  ];
  return html`<${Card} title=${piece.subject} hint=${words(piece.rule)} class="advice">
    ${piece.verdict ? html`<p class="item-text"><strong>${piece.verdict}</strong></p>` : null}
    <p class="item-text">${piece.text}</p>
    <div class="advice-parts">
      <${Table} label="Evidence" class="cards" columns=${columns} rows=${piece.evidence} keyOf=${({ table, figure }) => table + figure} />
      <div><p class="muted small">Change to <code>tocsin.yaml</code></p><pre class="json" tabindex="0">${piece.patch}</pre></div>
    </div>
  <//>`;
}

function Reports({ shown: chosen }) {
  const reports = useQuery("/v1/history/reports", { limit: 500 }, { every: 4 * REFRESH_MS });
  const columns = [
    { name: "title", head: "Report", cell: (row) => row.title },
    { name: "kind", head: "Kind", cell: (row) => words(row.kind) || "—" },
    { name: "made", head: "Created", number: true, cell: (row) => (Number.isNaN(millis(row.made_at)) ? row.made_at : html`<${When} at=${row.made_at} />`) },
    { name: "size", head: "Size", number: true, cell: (row) => `${count(Math.ceil(row.bytes / 1024))} KiB` },
    { name: "open", head: "", class: "act", cell: (row) => html`<a class="button small" href=${inProject(row.path)} target="_blank" rel="noopener">Open in new tab</a>` },
  ];
  return html`<${Answer} of=${reports}>
    ${({ items: rows }) => {
      const report = rows.find((row) => row.report === chosen);
      return html`<${Card} title="Reports" hint="Pages that the pipeline and the lab wrote.">
          <${Table} label="Reports" class="cards wordy" columns=${columns} rows=${rows} keyOf=${(row) => row.report} hrefOf=${(row) => href("history", ["reports", row.report])} empty=${html`<${Empty} title="No reports yet"><code>tocsin pipeline report</code> writes one about what happened; <code>tocsin lab</code> writes reports about what other policies would have changed.<//>`} />
        <//>
        ${report && html`<${Card} title=${report.title}><iframe class="report" title=${report.title} src=${inProject(report.path)} sandbox="" referrerpolicy="no-referrer"></iframe><//>`}`;
    }}
  <//>`;
}
