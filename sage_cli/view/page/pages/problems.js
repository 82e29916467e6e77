// The problems of a benchmark, with the share of right samples of each policy.

import { entry } from "../chart.js";
import { absentNotice, policyChooser, shown } from "../chooser.js";
import { field, h, visible } from "../dom.js";
import { adjust, href, state } from "../state.js";
import { table } from "../table.js";

export const problems = {
  title: () => "Problems",
  async load(params, get) {
    const every = await get("runs");
    const names = shown(every, params);
    return [every, names.length ? await get("problems", { policies: names.join(","), benchmark: params.benchmark }) : null];
  },
  view([every, found], params) {
    if (!found) return [policyChooser(every, params), h("p", { class: "quiet" }, "Choose policies to see how they answer each problem.")];
    const { policies } = found;
    const rows = found.problems.filter(({ question, problem }) => `${problem} ${question}`.toLowerCase().includes((params.text ?? "").toLowerCase()));
    const share = (row, policy) => (row.samples[policy] ? (row.right[policy] ?? 0) / row.samples[policy] : null);
    const link = (row) => h("a", { href: href("problem", { problem: row.problem, policies: policies.join(","), benchmark: found.benchmark }) }, visible(row.question.slice(0, 120)) || visible(row.problem));
    const columns = [{ key: "question", title: "problem", cell: link, value: (row) => row.question },
      ...policies.map((policy) => ({ key: policy, title: policy, number: true, value: (row) => share(row, policy), cell: (row) => bar(share(row, policy), row.right[policy] ?? 0, row.samples[policy]) }))];
    if (policies.length >= 2) {
      const [first, last] = [policies[0], policies.at(-1)];
      columns.push({ key: "change", title: `${last} − ${first}`, number: true, value: (row) => (share(row, last) ?? 0) - (share(row, first) ?? 0), cell: (row) => { const d = (share(row, last) ?? 0) - (share(row, first) ?? 0); return `${d < 0 ? "−" : "+"}${Math.abs(d).toFixed(3)}`; } });
    }
    return [policyChooser(every, params, found.benchmarks, found.benchmark),
      found.absent.map((one) => absentNotice(one)),
      h("div", { class: "filters" },
        field("Search questions", h("input", { id: "search", type: "search", "data-key": "/", value: params.text ?? "", oninput: (event) => later(event.target.value) })),
        h("div", { class: "legend" }, policies.map((policy) => entry(policy, found.looks[policy]))),
        h("p", { class: "quiet count" }, `${rows.length} of ${found.problems.length} problems`)),
      table({ id: "problems", label: "problems", rows, columns, sort: params.sort, provenance: { benchmark: found.benchmark, policies }, empty: found.problems.length ? "no question contains this text" : "no samples of these policies are stored" })];
  },
};

let waiting = 0;
function later(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (state().page === "problems") adjust({ text }); }, 150);
}

function bar(share, right, samples) {
  if (share === null) return h("span", { class: "quiet" }, "–");
  return h("span", { class: "share" }, h("span", { class: "track", "aria-hidden": "true" }, h("span", { style: { width: `${100 * share}%` } })), h("span", {}, `${right}/${samples}`));
}
