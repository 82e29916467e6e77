// A problem: the completions of several policies side by side.

import { entry } from "../chart.js";
import { absentNotice, policyChooser } from "../chooser.js";
import { completion } from "../completion.js";
import { choice, field, h, visible } from "../dom.js";
import { count } from "../format.js";
import { adjust, change, href, listed, state } from "../state.js";

const LIMIT = 5;

export const problem = {
  title: () => "Problem",
  async load(params, get) {
    const names = listed(params.policies);
    const limit = Number(params.limit ?? LIMIT);
    const asked = { policies: names.join(","), benchmark: params.benchmark };
    return Promise.all([get("runs"), get("problems", asked),
      get("problem", { ...asked, problem: params.problem, grade: params.grade, text: params.text, truncated: params.truncated, limit })]);
  },
  view([every, all, found], params) {
    const ids = all.problems.map((one) => one.problem);
    const at = ids.indexOf(found.problem);
    const about = Object.entries(found.about).filter(([name]) => name !== "origin");
    const limit = Number(params.limit ?? LIMIT);
    const more = found.policies.some((one) => one.rows.length < one.total && one.rows.length >= limit);
    return [
      h("div", { class: "leads" },
        neighbour("k", "← previous", ids[at - 1], params), h("span", { class: "quiet" }, `${at + 1} of ${ids.length} of `, h("a", { href: href("problems", { policies: params.policies, benchmark: found.benchmark }) }, visible(found.benchmark))), neighbour("j", "next →", ids[at + 1], params)),
      h("section", { class: "asked" }, h("pre", { class: "question" }, visible(found.question)),
        h("p", {}, "gold ", h("code", {}, visible(found.gold)), about.length ? h("span", { class: "quiet" }, " ", about.map(([name, value]) => `${visible(name)} ${visible(typeof value === "object" ? JSON.stringify(value) : value)}`).join(", ")) : null, h("span", { class: "quiet" }, ` id ${visible(found.problem)}`))),
      policyChooser(every, params),
      found.absent.map((one) => absentNotice(one)),
      h("div", { class: "filters" },
        field("Grade", choice("grade", [["", "all"], ["right", "correct"], ["wrong", "wrong"], ["unparseable", "unparseable"]], params.grade ?? "", (one) => change({ grade: one }))),
        field("Search completions", h("input", { id: "search", type: "search", "data-key": "/", value: params.text ?? "", oninput: (event) => later(event.target.value) }))),
      h("div", { class: "sides" }, found.policies.map((one) => side(one, found, params))),
      more ? h("button", { type: "button", id: "more", onclick: () => change({ limit: limit * 2 }) }, "Show more completions") : null,
    ];
  },
};

let waiting = 0;
function later(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (state().page === "problem") adjust({ text }); }, 250);
}

function neighbour(key, text, id, params) {
  if (!id) return h("span", { class: "button off", "aria-disabled": "true" }, text);
  return h("a", { class: "button", "data-key": key, href: href("problem", { ...params, problem: id }) }, text);
}

function side(one, found, params) {
  const right = one.grades.right ?? 0;
  const answers = Object.entries(one.answers);
  return h("section", { class: "side", "aria-label": one.policy },
    h("h2", {}, entry(one.policy, one.look)),
    h("p", {}, one.samples ? `${right} of ${count(one.samples, "sample")} correct` : "no samples", Object.entries(one.grades).filter(([name]) => name !== "right").map(([name, many]) => h("span", { class: "quiet" }, `, ${many} ${name}`))),
    answers.length ? h("details", { id: `answers-${one.policy}` }, h("summary", {}, "Frequent answers"),
      h("ul", { class: "answers" }, answers.map(([answer, many]) => h("li", {}, h("code", {}, visible(answer)), ` ${many} ×`)))) : null,
    h("p", { class: "quiet" }, `${one.rows.length} of ${one.total} shown`),
    one.rows.map((row) => h("article", { class: "completion" }, completion(row, { where: { policy: one.policy, benchmark: found.benchmark }, find: params.text }))));
}
