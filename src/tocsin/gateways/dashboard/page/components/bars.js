/** A chart of counts: one stacked bar for each interval. */
import { clock, count } from "../lib/format.js";
import { html } from "../lib/html.js";

/**
 * `counts` are `{step, starts, columns}`: the length of an interval and the beginnings of all intervals, in seconds, and
 * for each of `lines` (`{label, colour}`) a column of counts. `label` describes the chart.
 */
export function Bars({ counts, lines, label }) {
  const { step, starts, columns } = counts;
  const totals = starts.map((_, place) => columns.reduce((sum, column) => sum + column[place], 0));
  const most = Math.max(...totals, 0);
  const top = nice(most);
  return html`<figure class="chart bars" aria-label=${label}>
    <div class="bars-plot" role="img" aria-label=${`${label}: ${describe(totals, columns, lines)}`}>
      <div class="bars-axis" aria-hidden="true"><span>${count(top)}</span>${top > 1 && top % 2 === 0 && html`<span>${count(top / 2)}</span>`}<span>0</span></div>
      <div class="bars-columns">
        ${starts.map(
          (start, place) => html`<div key=${start} class="bars-column" title=${tip(start, step, columns, lines, place)}>
            ${lines.map((line, number) => columns[number][place] > 0 && html`<i key=${line.label} class="bar-part" style=${{ height: `${(columns[number][place] / top) * 100}%`, background: `var(${line.colour})` }}></i>`)}
          </div>`,
        )}
        ${most === 0 && html`<p class="bars-none muted small">none in this time</p>`}
      </div>
      <div class="bars-times" aria-hidden="true"><span>${starts.length ? moment(starts[0], step) : ""}</span><span>${starts.length > 2 ? moment(starts[Math.floor(starts.length / 2)], step) : ""}</span><span>${starts.length > 1 ? moment(starts[starts.length - 1], step) : ""}</span></div>
    </div>
    <figcaption class="legend">
      ${lines.map((line) => html`<span key=${line.label} class="legend-item"><span class="swatch block" style=${{ background: `var(${line.colour})` }} aria-hidden="true"></span>${line.label}</span>`)}
    </figcaption>
  </figure>`;
}

/** Return the top of an axis: a whole number at or above the highest bar, even if it is more than one. */
function nice(most) {
  if (most <= 1) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  const found = [1, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * size).find((value) => value >= most);
  return found % 2 ? found + 1 : found;
}

/** Format the beginning of an interval; with seconds if intervals are shorter than a minute. */
const moment = (start, step) => clock(start * 1000).slice(0, step < 60 ? 8 : 5);

const tip = (start, step, columns, lines, place) => [`${clock(start * 1000).slice(0, 8)}, ${step} s`, ...lines.map((line, number) => `${line.label} ${columns[number][place]}`)].join("\n");

const describe = (totals, columns, lines) => lines.map((line, number) => `${line.label} ${columns[number].reduce((sum, value) => sum + value, 0)}`).join(", ");
