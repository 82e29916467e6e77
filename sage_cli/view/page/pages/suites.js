// Suites: the list, and a suite's claims, tables, curves, tasks and failures.

import { entry, figure, lines } from "../chart.js";
import { h, notice, visible } from "../dom.js";
import { time } from "../format.js";
import { chapters, contents, facts, marked, whence } from "../report.js";
import { change, href } from "../state.js";
import { table } from "../table.js";
import { states } from "./sweeps.js";

export const suites = {
  title: () => "Suites",
  load: async (params, get) => get("suites"),
  view({ suites: found }, params) {
    if (!found.length) return h("div", { class: "notice" }, h("p", {}, "No suites yet. Command: ", h("code", {}, "sage suite run table3")));
    return table({
      id: "suites", label: "suites", rows: found, sort: params.sort,
      columns: [
        { key: "name", title: "suite", cell: (row) => [h("a", { href: href("suite", { suite: row.name }) }, visible(row.name)), row.why_corrupt ? notice(row.why_corrupt) : null] },
        { key: "title" },
        { key: "claims", value: (row) => words(row.claims), cell: (row) => Object.entries(row.claims).map(([text, many]) => h("div", {}, marked(text), many > 1 ? ` (${many})` : "")) },
        { key: "tasks", value: (row) => row.tasks.done ?? 0, cell: (row) => (Object.keys(row.tasks).length ? states(row.tasks) : "") },
        { key: "failures", number: true }, { key: "written", title: "report of", cell: (row) => time(row.written) }, { key: "driven_by", title: "run by" },
      ],
    });
  },
};

export const suite = {
  title: (params) => params.suite ?? "Suite",
  load: async (params, get) => get("suite", { suite: params.suite }),
  view(found, params) {
    const { suite: about, report, policies } = found;
    return [h("p", { class: "quiet" }, visible(about.title), about.written ? `; report of ${time(about.written)}` : "; no report yet", about.driven_by ? `; run by ${visible(about.driven_by)}` : ""),
      about.why_corrupt ? notice(about.why_corrupt) : null,
      policies.length ? h("p", { class: "leads" }, h("a", { class: "button", href: href("passk", { policies: [...new Set(policies)].slice(0, 12).join(",") }) }, "pass@k of its runs"), h("a", { class: "button", href: href("problems", { policies: [...new Set(policies)].slice(0, 6).join(",") }) }, "Their problems"), h("a", { class: "button", href: href("samples", { policy: policies.at(-1) }) }, "Their samples")) : null,
      report ? [facts(report.facts), contents(report)] : null,
      tasks(found, params), failures(found),
      report ? [chapters(report, params, found.pictures, (one) => (one.curves.length ? curves(one, found) : null)), whence(report.provenance)] : null];
  },
};

function words(claims) {
  return Object.entries(claims).map(([text, many]) => `${text} (${many})`).join(", ");
}

function curves(one, found) {
  const benchmarks = [...new Set(one.curves.map((curve) => curve.benchmark))];
  return h("div", { class: "grid" }, benchmarks.map((benchmark) => {
    const of = one.curves.filter((curve) => curve.benchmark === benchmark);
    const series = of.map((curve) => ({ label: curve.policy, look: look(found, curve.policy), points: one.k.map((k, place) => ({ x: k, y: curve["pass@k"][place], low: curve.low[place], high: curve.high[place] })) }));
    return figure({
      title: `pass@k on ${visible(benchmark)}`, name: `suite-${benchmark.replace(/\W+/g, "-")}`, says: `pass@k on ${benchmark} of ${of.map((curve) => curve.policy).join(", ")}`,
      legend: series.map((curve) => entry(curve.label, curve.look)),
      draw: (width) => lines(width, series, { x: "k", y: "pass@k", log: true, ticks: one.k.filter((k) => (k & (k - 1)) === 0) }),
      table: () => [["policy", "k", "pass@k", "low", "high"], series.flatMap((curve) => curve.points.map((point) => [curve.label, point.x, point.y, point.low, point.high]))], provenance: found.report.provenance,
    });
  }));
}

function look(found, label) {
  return found.looks[label] ?? found.looks[label.replace(/, seed \d+$/, "")] ?? { colour: null, dash: 0 };
}

function tasks(found, params) {
  if (!found.tasks.length) return null;
  const left = found.tasks.filter((one) => one.state !== "done");
  return h("details", { id: "tasks", open: left.length > 0 }, h("summary", {}, h("h2", { class: "inline" }, left.length ? `${found.tasks.length - left.length} of ${found.tasks.length} tasks are done` : `All ${found.tasks.length} tasks are done`)),
    table({ id: "tasks-table", label: "tasks", rows: found.tasks, sort: params["sort-tasks"], onsort: (key) => change({ "sort-tasks": key }), columns: [{ key: "title", title: "task" }, { key: "state" }, { key: "needs" }, { key: "command", cell: (row) => h("code", {}, visible(row.command)) }] }));
}

function failures(found) {
  if (!found.failures.length) return null;
  return h("section", {}, h("h2", {}, "Failures"), found.failures.map((one) => h("details", { id: `failure-${one.name}` }, h("summary", {}, visible(`${one.name}: ${one.kind}, ${one.reason}`)), one.log.length ? h("pre", { class: "log", tabindex: "0" }, one.log.map((line) => `${visible(line)}\n`)) : h("p", { class: "quiet" }, "its log is empty or gone"))));
}
