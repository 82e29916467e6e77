// The choice of policies and of a benchmark, above every page that shows some.

import { entry } from "./chart.js";
import { choice, field, h, notice, visible } from "./dom.js";
import { change, listed } from "./state.js";

const AT_FIRST = 3;

/**
 * Return the policies of the address; without any, the latest runs that were measured. Ancestors
 * come first, then the older: a difference is of the last less the first, in whatever order runs are ticked.
 */
export function shown(every, params) {
  const typed = listed(params.policies), ids = every.runs.map((row) => row.values.id);
  const parents = new Map(every.runs.map(({ values }) => [values.id, values.parent?.split("@")[0]]));
  const lineage = (id, below = []) => (id && !below.includes(id) ? lineage(parents.get(id), [...below, id]) : below);
  const rank = (name) => { const [id, step] = name.split("@"); return [lineage(id).length, ids.indexOf(id), Number(step ?? Infinity)]; };
  return (typed.length ? [...new Set(typed)] : measured(every).slice(-AT_FIRST)).map((name) => [name, rank(name)])
    .sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : 1)).map(([name]) => name);
}

/** Return the ids of runs with a stored pass@k, oldest first. */
export function measured(every) {
  const has = ({ values }) => Object.entries(values).some(([key, value]) => key.includes("pass@") && value !== null);
  return every.runs.filter(has).map((row) => row.values.id);
}

/** Return the controls above a page of policies. */
export function policyChooser(every, params, benchmarks = [], benchmark = null) {
  const names = shown(every, params);
  const looks = new Map(every.runs.map((row) => [row.values.id, row.look]));
  const others = every.runs.map((row) => row.values.id).filter((id) => !names.includes(id));
  const checkpoint = h("input", { id: "checkpoint", placeholder: "RUN@step", size: "14", autocomplete: "off", onchange: (event) => { const typed = event.target.value.trim(); if (typed) change({ policies: [...names, typed].join(",") }); } });
  return h("div", { class: "filters chooser" },
    h("div", { class: "chips" }, names.map((one) => h("button", { type: "button", class: "chip", "aria-label": `remove ${one}`, onclick: () => change({ policies: names.filter((other) => other !== one).join(",") }) }, entry(one, looks.get(one.split("@")[0]) ?? { colour: null, dash: 0 }), " ×"))),
    field("Add a policy", choice("add-policy", [["", "choose"], ...others.map((id) => [id, visible(id)])], "", (id) => change({ policies: [...names, id].join(",") }))),
    field("or a checkpoint", checkpoint),
    benchmarks.length ? field("Benchmark", choice("benchmark", benchmarks.map((one) => [one, visible(one)]), benchmark, (one) => change({ benchmark: one }))) : null);
}

/** Return a notice of a policy that is not shown, and why. */
export function absentNotice({ policy, why }) {
  return notice(why.includes(policy) ? why : `${policy}: ${why}`);
}
