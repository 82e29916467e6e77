// A run: what it was made from, its curves, phases of time, rollouts and ledger.

import { plain } from "../chart.js";
import { completion } from "../completion.js";
import { h, notice, visible } from "../dom.js";
import { count, number, seconds, shown, time } from "../format.js";
import { change, href } from "../state.js";
import { status } from "./runs.js";
import { curvePanel, loadCurves, phases } from "./curves.js";

export const run = {
  title: (params) => params.run ?? "Run",
  async load(params, get) {
    const found = await get("run", { run: params.run });
    const [curves, rollouts, ledger] = await Promise.all([
      loadCurves([found.id], params, get, found.records),
      found.rollouts ? get("rollouts", { run: found.id, step: params.step }) : null,
      found.ledger ? get("ledger", { run: found.id, step: params.ledger }) : null,
    ]);
    return [found, ...curves, rollouts, ledger];
  },
  view(data, params) {
    const [found, ...rest] = data;
    const ledger = rest.pop(), rollouts = rest.pop(), curves = rest;
    return [summary(found),
      found.why_corrupt ? notice(found.why_corrupt, null, "bad") : null,
      h("div", { class: "columns" }, made(found), measured(found)),
      curves[0]?.steps?.length ? h("section", {}, h("h2", {}, "Curves"), curvePanel(curves, found.records, params)) : null,
      time_(found, curves),
      rollouts?.steps.length ? completions(rollouts) : null,
      ledger?.steps.length ? prompts(ledger) : null];
  },
};

function summary(found) {
  const about = found.manifest;
  const parent = about.parent;
  const facts = [
    ["status", [status(found.status), about.reason ? ` ${visible(about.reason)}` : ""]],
    ["kind", about.kind], ["started", time(about.started)], ["time", seconds(about.seconds)],
    ["parent run", parent ? h("a", { href: href("run", { run: parent }) }, visible(parent)) : null],
    ["child runs", found.children.length ? found.children.map((one, place) => [place ? ", " : "", h("a", { href: href("run", { run: one }) }, visible(one))]) : null],
    ["seed", about.seed], ["host", about.host], ["commit", about.commit],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return [
    h("p", { class: "leads" },
      h("a", { class: "button", href: href("curves", { runs: found.id }) }, "Compare with other runs"),
      found.benchmarks.length ? [
        h("a", { class: "button", href: href("passk", { policies: [about.kind === "rl" ? parent : null, found.id].filter(Boolean).join(",") }) }, "pass@k"),
        h("a", { class: "button", href: href("problems", { policies: [about.kind === "rl" ? parent : null, found.id].filter(Boolean).join(",") }) }, "Problems"),
        h("a", { class: "button", href: href("samples", { policy: found.id }) }, "Samples")] : null),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "string" ? visible(value) : value)))),
    about.command ? h("div", { class: "command" }, h("code", {}, visible(about.command)), h("button", { type: "button", class: "small", onclick: () => navigator.clipboard?.writeText(about.command) }, "Copy")) : null,
    about.error ? notice(about.error, null, "bad") : null,
    about.preflight ? preflight(about.preflight) : null,
  ];
}

function preflight(facts) {
  const findings = facts.findings || [], said = facts.said || [];
  return [
    findings.map((finding) => notice(finding.cause, finding.remedy, finding.stops ? "bad" : "warn")),
    said.length ? h("details", { id: "preflight" }, h("summary", {}, "Checks before the first update"), said.map((line) => h("p", {}, visible(line)))) : null];
}

function made(found) {
  const method = Object.entries(found.method), settings = Object.entries(found.settings);
  return h("section", {}, h("h2", {}, "Settings"),
    plain(["setting", "value"], method.map(([name, value]) => [name, shown(value)])),
    h("details", { id: "settings" }, h("summary", {}, `All ${settings.length} settings`),
      h("div", { class: "scroll", id: "scroll-settings", tabindex: "0", role: "region", "aria-label": "all settings" }, plain(["setting", "value"], settings.map(([name, value]) => [name, shown(value)])))),
    h("details", { id: "versions" }, h("summary", {}, "Versions and manifest"), h("pre", {}, visible(JSON.stringify(found.manifest, null, 2)))));
}

function measured(found) {
  const figures = Object.entries(found.figures);
  const passed = figures.filter(([name]) => name.startsWith("pass@"));
  const last = figures.filter(([name, value]) => !name.includes(" on ") && typeof value === "number");
  const by = new Map();
  for (const [name, value] of passed) {
    const [k, benchmark] = name.split(" on ");
    if (!by.has(benchmark)) by.set(benchmark, []);
    by.get(benchmark).push([Number(k.slice(5)), value]);
  }
  return h("section", {}, h("h2", {}, "Evaluations"),
    by.size ? [...by].map(([benchmark, values]) => [h("h3", {}, visible(benchmark)), plain(["k", "pass@k"], values)]) : h("p", { class: "quiet" }, "This run is not evaluated yet. Command: ", h("code", {}, `sage passk ${visible(found.id)}`)),
    last.length ? h("details", { id: "last" }, h("summary", {}, `Metrics of the last step`), h("div", { class: "scroll", id: "scroll-last", tabindex: "0", role: "region", "aria-label": "metrics of the last step" }, plain(["metric", "value"], last))) : null);
}

function time_(found, curves) {
  const speed = Object.entries(found.speed);
  if (!speed.length) return null;
  return h("section", {}, h("h2", {}, "Time"), phases(found.speed),
    h("dl", { class: "facts" }, speed.filter(([name]) => !name.includes("/share/")).map(([name, value]) => h("div", {}, h("dt", {}, visible(name.replace("speed/", "").replace("memory/", ""))), h("dd", {}, number(value))))));
}

function completions(rollouts) {
  const steps = rollouts.steps;
  return h("section", {}, h("h2", {}, "Rollouts"),
    h("div", { class: "filters" }, stepper("step", steps, rollouts.step, "stored completions of this step")),
    h("div", { class: "completions" }, rollouts.rows.map((row, place) => h("article", { class: "completion" },
      h("p", { class: "question" }, visible(row.prompt ?? "")), completion({ grade: row.grade, text: row.completion ?? "", extracted: null, gold: row.gold, characters: (row.completion ?? "").length, key: `rollout-${place}` }, { reward: row.reward })))));
}

/** Return a choice of a step: a list, with steps to the neighbours. */
export function stepper(name, steps, at, hint) {
  const place = steps.indexOf(at);
  return h("div", { class: "stepper", role: "group", "aria-label": hint },
    h("button", { type: "button", class: "small", id: `${name}-back`, disabled: place <= 0, onclick: () => change({ [name]: steps[place - 1] }), "aria-label": "earlier step" }, "←"),
    h("label", { class: "field" }, h("span", {}, "Step"), h("select", { id: `${name}-at`, onchange: (event) => change({ [name]: event.target.value }) }, steps.map((step) => h("option", { value: step, selected: step === at }, String(step))))),
    h("button", { type: "button", class: "small", id: `${name}-on`, disabled: place >= steps.length - 1, onclick: () => change({ [name]: steps[place + 1] }), "aria-label": "later step" }, "→"),
    h("span", { class: "quiet" }, hint));
}

function prompts(ledger) {
  const sums = ledger.steps.map((one) => [one.step, one.prompts, one.n, one.right, one.wrong, one.unparseable, one.trained, one.n ? one.right / one.n : null]);
  const asked = (one) => ledger.problems[one.problem];
  const rows = ledger.rows.map((one) => [asked(one)?.question.slice(0, 120) || one.problem, asked(one)?.gold, one.n, one.right, one.wrong, one.unparseable, one.tokens, one.trained ? "yes" : "no"]);
  return h("section", {}, h("h2", {}, "Rollout log"), h("p", { class: "quiet" }, "The grades of the completions of each prompt, step by step."),
    h("details", { id: "ledger-steps" }, h("summary", {}, count(sums.length, "step")), h("div", { class: "scroll", id: "scroll-ledger", tabindex: "0", role: "region", "aria-label": "rollout log by step" }, plain(["step", "prompts", "completions", "correct", "wrong", "unparseable", "prompts trained on", "fraction correct"], sums))),
    h("div", { class: "filters" }, stepper("ledger", ledger.steps.map((one) => one.step), ledger.step, "prompts of one step")),
    h("div", { class: "scroll", id: "scroll-prompts", tabindex: "0", role: "region", "aria-label": "prompts of one step" }, plain(["problem", "gold", "completions", "correct", "wrong", "unparseable", "tokens", "trained on"], rows)));
}
