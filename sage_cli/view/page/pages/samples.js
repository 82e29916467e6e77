// All stored samples of a policy on a benchmark, a page at a time.

import { measured } from "../chooser.js";
import { completion } from "../completion.js";
import { choice, field, h, visible } from "../dom.js";
import { count, number } from "../format.js";
import { adjust, change, href, state } from "../state.js";

const LIMIT = 25;
const GRADES = ["right", "wrong", "unparseable", "timeout", "error", "ungraded"];

export const samples = {
  title: () => "Samples",
  async load(params, get) {
    const every = await get("runs");
    const policy = params.policy ?? measured(every).at(-1);
    if (!policy) return [every, null];
    const { benchmark, problem, grade, text, truncated, shortest, longest, seed, offset } = params;
    return [every, await get("samples", { policy, benchmark, problem, grade, text, truncated, shortest, longest, seed, offset, limit: LIMIT })];
  },
  view([every, found], params) {
    const ids = every.runs.map((row) => [row.values.id, visible(row.values.id)]);
    const shown = found?.policy ?? "";
    if (shown && !ids.some(([id]) => id === shown)) ids.push([shown, visible(shown)]);
    const policy = field("Policy", choice("policy", [["", "choose"], ...ids], shown, (one) => change({ policy: one, offset: "" })));
    if (!found) return [h("div", { class: "filters" }, policy), h("p", { class: "quiet" }, "Choose a policy to read its samples.")];
    const searched = found.searched < found.candidates ? ` in the first ${number(found.searched)} of ${number(found.candidates)}` : "";
    return [filters(found, params, policy),
      h("p", { class: "quiet count", "aria-live": "polite" }, count(found.total, "sample"), searched, ": ", Object.entries(found.grades).map(([name, many]) => `${number(many)} ${name === "right" ? "correct" : name}`).join(", "), params.text ? " before the search" : ""),
      pager(found, params),
      found.rows.length ? null : h("p", {}, "No sample matches."),
      h("div", { class: "completions" }, found.rows.map((row) => h("article", { class: "completion" },
        h("p", { class: "question" }, h("a", { href: href("problem", { problem: row.problem, policies: found.policy, benchmark: found.benchmark }) }, visible(found.problems[row.problem]?.question || row.problem))),
        completion({ ...row, gold: found.problems[row.problem]?.gold }, { where: { policy: found.policy, benchmark: found.benchmark }, find: params.text })))),
      found.rows.length > 4 ? pager(found, params, "lower") : null];
  },
};

function filters(found, params, policy) {
  const grades = GRADES.filter((name) => found.grades[name] || name === params.grade || !params.grade);
  const number_ = (name, label) => field(label, h("input", { id: name, type: "number", min: "0", class: "short", value: params[name] ?? "", onchange: (event) => change({ [name]: event.target.value, offset: "" }) }));
  return h("div", { class: "filters" }, policy,
    field("Benchmark", choice("benchmark", found.benchmarks.map((one) => [one, visible(one)]), found.benchmark, (one) => change({ benchmark: one, offset: "", problem: "" }))),
    field("Search texts", h("input", { id: "search", type: "search", "data-key": "/", value: params.text ?? "", oninput: (event) => later(event.target.value) })),
    field("Grade", choice("grade", [["", "all"], ...grades.map((name) => [name, name === "right" ? "correct" : name])], params.grade ?? "", (one) => change({ grade: one, offset: "" }))),
    number_("shortest", "Tokens from"), number_("longest", "to"),
    field("Truncated", choice("truncated", [["", "all"], ["1", "truncated"], ["0", "ended"]], params.truncated ?? "", (one) => change({ truncated: one, offset: "" }))),
    params.problem ? h("button", { type: "button", class: "chip", "aria-label": "all problems", onclick: () => change({ problem: "", offset: "" }) }, `problem ${visible(found.problems[params.problem]?.question.slice(0, 40) || params.problem)} ×`) : null);
}

let waiting = 0;
function later(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (state().page === "samples") adjust({ text, offset: "" }); }, 300);
}

function pager(found, params, which = "upper") {
  const offset = found.offset, last = Math.min(offset + LIMIT, found.total);
  if (found.total <= LIMIT && offset === 0) return null;
  const to = (place) => href("samples", { ...params, offset: place > 0 ? place : "" });
  const link = (key, text, place, there) => (there ? h("a", { class: "button", "data-key": which === "upper" ? key : null, href: to(place) }, text) : h("span", { class: "button off", "aria-disabled": "true" }, text));
  return h("nav", { class: "leads", "aria-label": `pages of samples, ${which}` },
    link("k", "← previous", offset - LIMIT, offset > 0), h("span", { class: "quiet" }, `${number(offset + 1)} to ${number(last)} of ${number(found.total)}`), link("j", "next →", offset + LIMIT, last < found.total));
}
