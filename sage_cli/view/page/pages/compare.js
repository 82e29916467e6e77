// Runs beside each other: the settings and figures in which they differ.

import { entry } from "../chart.js";
import { choice, field, h, notice, visible } from "../dom.js";
import { shown } from "../format.js";
import { change, href, listed } from "../state.js";
import { table } from "../table.js";

export const compare = {
  title: () => "Compare runs",
  async load(params, get) {
    const one = (run) => get("run", { run }).catch((error) => ({ id: run, failed: error.message }));
    return [await get("runs"), ...(await Promise.all(listed(params.runs).map(one)))];
  },
  view([every, ...found], params) {
    const there = found.filter((one) => !one.failed), ids = there.map((one) => one.id);
    const others = every.runs.map((row) => row.values.id).filter((id) => !listed(params.runs).includes(id));
    return [
      h("div", { class: "filters" },
        h("div", { class: "chips" }, there.map((one) => h("button", { type: "button", class: "chip", "aria-label": `remove ${one.id}`, onclick: () => change({ runs: ids.filter((id) => id !== one.id).join(",") }) }, entry(one.id, one.look), " ×"))),
        field("Add a run", choice("add-run", [["", "choose"], ...others.map((id) => [id, visible(id)])], "", (id) => change({ runs: [...listed(params.runs), id].join(",") }))),
        ids.length ? h("a", { class: "button", href: href("curves", { runs: ids.join(",") }) }, "Training curves") : null),
      found.filter((one) => one.failed).map((one) => notice(one.failed)),
      ids.length < 2 ? h("p", { class: "quiet" }, "Add runs to see how they differ.") : [
        part("Settings that differ", "settings", there, params, (one) => one.settings),
        part("Results: evaluations and metrics of the last step", "figures", there, params, (one) => one.figures)]];
  },
};

function part(title, name, runs, params, of) {
  const names = [...new Set(runs.flatMap((one) => Object.keys(of(one))))];
  const differ = (key) => new Set(runs.map((one) => JSON.stringify(of(one)[key] ?? null))).size > 1;
  const rows = names.filter(differ).map((key) => ({ key, values: runs.map((one) => of(one)[key] ?? null) }));
  return h("section", {}, h("h2", {}, title), table({
    id: name, label: title, rows, most: 60, provenance: { runs: runs.map((one) => one.id) }, empty: "none",
    sort: params[`sort-${name}`], onsort: (key) => change({ [`sort-${name}`]: key }),
    columns: [{ key: "name", title: name.slice(0, -1), value: (row) => row.key },
      ...runs.map((one, place) => ({ key: one.id, title: one.id, number: rows.every((row) => typeof row.values[place] !== "string"), value: (row) => row.values[place], cell: (row) => visible(shown(row.values[place])) }))],
  }));
}
