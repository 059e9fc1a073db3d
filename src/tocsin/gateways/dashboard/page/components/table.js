/** Tables; on a narrow screen each row of a table with class `cards` is shown as a card with the column names. */
import { html } from "../lib/html.js";

/**
 * A table.
 *
 * `columns` are `{name, head, cell(row), class, number}`; `keyOf(row)` returns a unique key; `hrefOf(row)` returns the
 * address that the first cell links to. With `onSelect`, rows can be selected. A table that is too wide scrolls.
 */
export function Table({ label, columns, rows, keyOf, hrefOf, empty, selected, onSelect, class: name = "" }) {
  if (!rows.length) return empty ?? null;
  const selectable = onSelect !== undefined;
  const all = selectable && rows.every((row) => selected.has(keyOf(row)));
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label=${label}>
    <table class="table ${name}">
      <thead>
        <tr>
          ${selectable &&
          html`<th scope="col" class="select">
            <input type="checkbox" aria-label="Select all" checked=${all} onChange=${() => onSelect(all ? new Set() : new Set(rows.map(keyOf)))} />
          </th>`}
          ${columns.map((column) => html`<th key=${column.name} scope="col" class=${classOf(column)}>${column.head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => {
          const key = keyOf(row);
          return html`<tr key=${key} class=${selectable && selected.has(key) ? "selected" : ""}>
            ${selectable &&
            html`<td class="select">
              <input type="checkbox" aria-label=${`Select ${key}`} checked=${selected.has(key)} onChange=${() => onSelect(toggled(selected, key))} />
            </td>`}
            ${columns.map(
              (column, place) =>
                html`<td key=${column.name} class=${classOf(column)} data-head=${column.head}>
                  ${place === 0 && hrefOf ? html`<a class="row-link" href=${hrefOf(row)}>${column.cell(row)}</a>` : column.cell(row)}
                </td>`,
            )}
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}

const classOf = (column) => `${column.number ? "number" : ""} ${column.class ?? ""}`;

function toggled(selected, key) {
  const next = new Set(selected);
  if (!next.delete(key)) next.add(key);
  return next;
}
