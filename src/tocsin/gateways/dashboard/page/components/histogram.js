/** A small bar chart of a histogram. */
import { html } from "../lib/html.js";
import { duration } from "../lib/format.js";

const HEIGHT = 28;
const BAR = 11;
const GAP = 2;

/** Draw the buckets from `first` to `last`. */
export function Histogram({ counts, bounds, first, last, label }) {
  const shown = counts.slice(first, last + 1);
  const most = Math.max(...shown, 1);
  return html`<svg class="histogram" width=${shown.length * (BAR + GAP)} height=${HEIGHT} role="img" aria-label=${label}>
    ${shown.map((value, place) => {
      const height = value ? Math.max(2, (value / most) * (HEIGHT - 2)) : 0;
      const bound = bounds[first + place];
      return html`<g key=${place}>
        <title>${`${bound === undefined ? `over ${duration(bounds[bounds.length - 1])}` : `up to ${duration(bound)}`}: ${value}`}</title>
        <rect class="track" x=${place * (BAR + GAP)} y="0" width=${BAR} height=${HEIGHT} />
        <rect class="bar" x=${place * (BAR + GAP)} y=${HEIGHT - height} width=${BAR} height=${height} />
      </g>`;
    })}
  </svg>`;
}

/** Return the range of buckets that are not empty in any of the rows, with one more at each end. */
export function span(rows) {
  let first = Infinity;
  let last = -1;
  for (const { counts } of rows) {
    counts.forEach((value, place) => {
      if (!value) return;
      first = Math.min(first, place);
      last = Math.max(last, place);
    });
  }
  return last < 0 ? [0, 0] : [Math.max(0, first - 1), Math.min(rows[0].counts.length - 1, last + 1)];
}
