// The list of sweeps, with how far each is.

import { h, notice, visible } from "../dom.js";
import { href } from "../state.js";
import { table } from "../table.js";

const SHADES = { done: "#009e73", failed: "#d55e00", pruned: "#e69f00", left: "transparent" };

export const sweeps = {
  title: () => "Sweeps",
  load: async (params, get) => get("sweeps"),
  view({ sweeps: found }, params) {
    if (!found.length) return h("div", { class: "notice" }, h("p", {}, "No sweeps yet. Command: ", h("code", {}, "sage sweep")));
    return table({
      id: "sweeps", label: "sweeps", rows: found, sort: params.sort,
      columns: [
        { key: "name", title: "sweep", cell: (row) => [h("a", { href: href("sweep", { sweep: row.name }) }, visible(row.name)), row.why_corrupt ? notice(row.why_corrupt) : null] },
        { key: "trials", title: "trials", value: (row) => row.trials.done ?? 0, cell: (row) => states(row.trials) },
        { key: "best", title: "best" }, { key: "sampler" }, { key: "driven_by", title: "run by" },
      ],
    });
  },
};

/** Return counts of states as a bar with words. */
export function states(counts) {
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const words = Object.entries(counts).filter(([, many]) => many).map(([state, many]) => `${many} ${state}`).join(", ") || "none";
  return h("div", {}, h("div", { class: "states", "aria-hidden": "true" }, Object.entries(counts).map(([state, many]) => h("span", { style: { width: `${(100 * many) / Math.max(1, all)}%`, background: SHADES[state] ?? "transparent" } }))), h("span", { class: "quiet" }, words));
}
