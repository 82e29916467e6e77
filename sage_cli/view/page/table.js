// Tables that are sorted by their heads, and saved as CSV.

import { h, visible } from "./dom.js";
import { csv, save } from "./download.js";
import { shown } from "./format.js";
import { change } from "./state.js";

const AT_ONCE = 100;

/**
 * Return a table. `columns` have `key`, `title`, and optionally `cell(row)` for a node, `value(row)`
 * for sorting and CSV, `text(row)` for CSV alone, `number`, and `above`, a word over the title. `sort` is "key" or "-key", which `onsort` is told.
 */
export function table({ id, label, columns, rows, sort, onsort = (key) => change({ sort: key }), provenance = {}, most = AT_ONCE, empty = "nothing to show", row: ofRow = () => ({}) }) {
  const value = (column, row) => (column.value ? column.value(row) : row[column.key]);
  const sorted = sortRows(rows, columns, sort, value);
  const body = h("tbody");
  const more = h("button", { type: "button", class: "more" });
  let there = 0;
  const grow = (by) => {
    for (const row of sorted.slice(there, there + by)) {
      body.append(h("tr", ofRow(row), columns.map((column, place) => {
        const inner = column.cell ? column.cell(row) : visible(shown(value(column, row)));
        const kind = column.number ? "number" : null;
        return place === 0 ? h("th", { scope: "row", class: kind }, inner) : h("td", { class: kind }, inner);
      })));
    }
    there = Math.min(there + by, sorted.length);
    more.hidden = there >= sorted.length;
    more.textContent = `Show ${Math.min(AT_ONCE * 5, sorted.length - there)} more of ${sorted.length}`;
  };
  more.addEventListener("click", () => grow(AT_ONCE * 5));
  grow(most);
  const head = columns.map((column) => {
    const up = sort === column.key, down = sort === `-${column.key}`;
    const next = down ? column.key : up ? `-${column.key}` : column.number ? `-${column.key}` : column.key;
    return h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": up ? "ascending" : down ? "descending" : null },
      column.plain ? column.title : h("button", { type: "button", id: `${id}-${column.key}`, onclick: () => onsort(next), title: `sort by ${column.key}` },
        column.above ? h("small", {}, visible(column.above)) : null, visible(column.title ?? column.key), h("span", { class: "arrow", "aria-hidden": "true" }, up ? "▲" : down ? "▼" : "")));
  });
  const saved = columns.filter((column) => !column.plain);
  const cells = (row) => saved.map((column) => (column.text ? column.text(row) : value(column, row)));
  const heads = saved.map((column) => [column.above, column.title ?? column.key].filter(Boolean).join(" "));
  return h("div", { class: "tabled" },
    h("div", { class: "scroll", id: `scroll-${id}`, tabindex: "0", role: "region", "aria-label": label },
      h("table", {}, h("thead", {}, h("tr", {}, head)), body)),
    sorted.length ? null : h("p", { class: "quiet" }, empty),
    h("div", { class: "under" }, more,
      rows.length ? h("button", { type: "button", class: "small", onclick: () => save(`${id}.csv`, csv(heads, sorted.map(cells), provenance), "text/csv") }, "CSV") : null));
}

function sortRows(rows, columns, sort, value) {
  if (!sort) return rows;
  const down = sort.startsWith("-");
  const column = columns.find((one) => one.key === (down ? sort.slice(1) : sort));
  if (!column) return rows;
  const known = (one) => one !== null && one !== undefined && one !== "";
  return [...rows].sort((a, b) => {
    const x = value(column, a), y = value(column, b);
    if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0; // what has none comes last
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  });
}
