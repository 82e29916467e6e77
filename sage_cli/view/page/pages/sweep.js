// A sweep: its trials, and how the objectives depend on the parameters.

import { figure, frame, short } from "../chart.js";
import { choice, field, h, notice, visible } from "../dom.js";
import { number, shown } from "../format.js";
import { shownTable } from "../report.js";
import { change, href } from "../state.js";
import { table } from "../table.js";
import { states } from "./sweeps.js";

const LEAST_SPAN = 0.1; // of the colours' range where the noise is unknown: equal values get equal colours
const LOWEST = 0.1, HIGHEST = 0.7, ALIKE = 0.92; // places on the colour map, as in the report's picture

export const sweep = {
  title: (params) => params.sweep ?? "Sweep",
  load: async (params, get) => get("sweep", { sweep: params.sweep }),
  view(found, params) {
    const { report, sweep: about } = found;
    const head = [states(about.trials), h("dl", { class: "facts" },
      [["sampler", about.sampler], ["objectives", about.objectives.join(", ")], ["best", about.best], ["run by", about.driven_by ?? "no process at present"]].filter(([, v]) => v).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, visible(value))))),
      found.command && about.trials.left ? h("p", {}, "To resume it: ", h("code", {}, visible(found.command))) : null];
    if (!report) return [head, notice(found.why)];
    const axes = report.space, objective = report.objectives.includes(params.objective) ? params.objective : report.objectives[0];
    const alike = new Set(report.rankings?.[objective]?.indistinguishable ?? []);
    // without the last digits of floats, which an axis of equal values would show
    const rounded = (values) => values && Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value === null ? null : Number(value.toFixed(6))]));
    const trials = report.trials.map((one, place) => { const values = rounded(one.values); return { ...one, values, number: place + 1, alike: alike.has(place), value: values?.[objective] ?? null }; });
    const done = trials.filter((one) => one.value !== null);
    const x = axes.find((one) => one.key === params.x) ?? axes[0], y = axes.find((one) => one.key === params.y && one !== x) ?? axes.find((one) => one !== x);
    const draw = (options) => figure({ ...options, provenance: found.provenance });
    return [head,
      h("div", { class: "filters" },
        field("Objective", choice("objective", report.objectives.map((one) => [one, one]), objective, (one) => change({ objective: one }))),
        axes.length > 2 ? [field("Across", choice("axis-x", axes.map((one) => [one.key, one.name]), x.key, (one) => change({ x: one }))), field("Upwards", choice("axis-y", axes.filter((one) => one !== x).map((one) => [one.key, one.name]), y?.key, (one) => change({ y: one })))] : null),
      done.length ? h("div", { class: "grid" },
        y ? heat(draw, done, x, y, objective) : null,
        y && numeric(done, x) && numeric(done, y) && done.length >= 4 && done.some((one) => !one.alike) ? surface(draw, done, x, y, objective) : null,
        report.objectives.length > 1 ? front(draw, report, trials) : null,
        axes.length > 1 ? parallel(draw, done, axes, objective) : null,
        axes.length === 1 || axes.some((one) => one.values === null) ? axes.map((one) => slice(draw, done, one, objective)) : null,
        learning(draw, trials)) : h("p", { class: "quiet" }, "No trial is done yet."),
      trialTable(found, trials, params),
      found.tables.slice(1).filter((sheet) => sheet.title !== "failed trials").map((sheet, place) => shownTable(sheet, `sheet-${place}`, params, found.provenance, h("h2", {}, visible(sheet.title[0].toUpperCase() + sheet.title.slice(1))))),
      failures(trials)];
  },
};

const setting = (trial, axis) => trial.settings[axis.key];
const numeric = (trials, axis) => trials.every((one) => typeof setting(one, axis) === "number") && new Set(trials.map((one) => setting(one, axis))).size > 1;
const says = (trial) => `trial ${trial.number}: ${Object.entries(trial.settings).map(([key, value]) => `${key} ${value}`).join(", ")}`;
const numbers = (done, axes, objective) => () => [[...axes.map((one) => one.key), objective], done.map((one) => [...axes.map((axis) => setting(one, axis)), one.value])];

function tip(points, objective, value = (one) => one.trial.value) {
  return Plot.tip(points, Plot.pointer({ x: "x", y: "y", fill: "var(--raised)", stroke: "var(--line)", title: (one) => `${visible(says(one.trial))}\n${objective} ${short(value(one))}` }));
}

function heat(draw, done, x, y, objective) {
  const cells = new Map();
  for (const trial of done) {
    const key = JSON.stringify([setting(trial, x), setting(trial, y)]);
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(trial);
  }
  const points = [...cells.values()].map((of) => ({ x: setting(of[0], x), y: setting(of[0], y), value: of.reduce((sum, one) => sum + one.value, 0) / of.length, alike: of.every((one) => one.alike) }));
  const high = Math.max(...points.map((one) => one.value)), alike = points.some((one) => one.alike);
  const low = Math.min(...points.map((one) => one.value), alike ? high : high - LEAST_SPAN);
  const place = (one) => (one.alike ? ALIKE : LOWEST + (HIGHEST - LOWEST) * (high > low ? (one.value - low) / (high - low) : 1));
  return draw({
    title: `${objective} by ${x.name} and ${y.name}`, name: "heat-map", says: `${objective} of ${points.length} cells of ${x.name} and ${y.name}, from ${short(low)} to ${short(high)}`,
    legend: [alike ? h("span", { class: "entry" }, h("span", { class: "box", style: { background: d3.interpolateViridis(ALIKE) } }), "indistinguishable from the best") : null, h("span", { class: "quiet" }, `${alike ? "others: " : "standard error unknown; "}from ${short(low)} (dark) to ${short(high)} (light)${done.length > points.length ? "; a cell is the mean of its trials" : ""}`)],
    draw: (width) => Plot.plot(frame(width, {
      height: Math.min(380, width * 0.7), marginLeft: 60,
      x: { type: "band", label: x.key, domain: sorted(points.map((one) => one.x)), padding: 0.04, tickFormat: shown }, y: { type: "band", label: y.key, domain: sorted(points.map((one) => one.y)).reverse(), padding: 0.04, tickFormat: shown },
      marks: [Plot.cell(points, { x: "x", y: "y", fill: (one) => d3.interpolateViridis(place(one)), inset: 0.5 }), Plot.text(points, { x: "x", y: "y", text: (one) => one.value.toFixed(4), fill: (one) => (place(one) > 0.55 ? "#111111" : "#ffffff") })],
    })),
    table: numbers(done, [x, y], objective),
  });
}

function sorted(values) {
  return [...new Set(values)].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
}

function surface(draw, done, x, y, objective) {
  const points = done.map((trial) => ({ x: setting(trial, x), y: setting(trial, y), value: trial.value, trial }));
  return draw({
    title: `${objective} between the trials`, name: "surface", says: `${objective} interpolated between ${points.length} trials`,
    legend: [h("span", { class: "quiet" }, "linear interpolation between the trials (dots); lighter is higher")],
    draw: (width) => Plot.plot(frame(width, {
      height: Math.min(380, width * 0.7), marginLeft: 60, x: { label: x.key, type: x.log ? "log" : "linear" }, y: { label: y.key, type: y.log ? "log" : "linear" }, color: { scheme: "viridis" },
      marks: [Plot.contour(points, { x: "x", y: "y", fill: "value", interpolate: "barycentric", thresholds: 8, pixelSize: 4 }), Plot.dot(points, { x: "x", y: "y", fill: "value", stroke: "currentColor", r: 4.5 }), tip(points, objective)],
    })),
  });
}

function slice(draw, done, x, objective) {
  const points = done.map((trial) => ({ x: setting(trial, x), y: trial.value, low: trial.intervals?.[objective]?.[0], high: trial.intervals?.[objective]?.[1], trial }));
  return draw({
    title: `${objective} by ${x.name}`, name: `slice-${x.key.replace(/\W+/g, "-")}`, says: `${objective} by ${x.name} of ${points.length} trials`,
    draw: (width) => Plot.plot(frame(width, {
      x: { label: x.key, type: numeric(done, x) ? (x.log ? "log" : "linear") : "point", grid: true }, y: { label: objective, grid: true, nice: true },
      marks: [Plot.ruleX(points, { x: "x", y1: "low", y2: "high", strokeOpacity: 0.4 }), Plot.dot(points, { x: "x", y: "y", fill: "#0072b2", r: 4 }), tip(points, objective)],
    })),
    table: numbers(done, [x], objective),
  });
}

function front(draw, report, trials) {
  const [a, b] = report.objectives;
  const best = new Set(report.front?.best ?? []), alike = new Set(report.front?.indistinguishable ?? []);
  const points = trials.filter((one) => one.values).map((trial) => ({ x: trial.values[a], y: trial.values[b], trial, best: best.has(trial.number - 1), alike: alike.has(trial.number - 1) }));
  const base = report.base?.values ? [{ x: report.base.values[a], y: report.base.values[b] }] : [];
  return draw({
    title: `${b} against ${a}`, name: "front", says: `${b} against ${a} of ${points.length} trials; ${best.size} on the front`,
    legend: [h("span", { class: "quiet" }, "● on the front, ○ indistinguishable from it, · others, ✕ the initial policy")],
    draw: (width) => Plot.plot(frame(width, {
      marginLeft: 60, x: { label: a, grid: true, nice: true }, y: { label: b, grid: true, nice: true },
      marks: [Plot.dot(base, { x: "x", y: "y", symbol: "times", stroke: "currentColor", strokeWidth: 2, r: 6 }),
        Plot.dot(points, { x: "x", y: "y", r: (one) => (one.best ? 6 : 4.5), fill: (one) => (one.best ? "#d55e00" : "none"), stroke: (one) => (one.best || one.alike ? "#d55e00" : "#8a8a8a"), strokeWidth: 1.8 }), tip(points, a)],
    })),
    table: () => [["trial", a, b, "on the front"], points.map((one) => [one.trial.number, one.x, one.y, one.best ? "yes" : one.alike ? "indistinguishable" : "no"])],
  });
}

function parallel(draw, done, axes, objective) {
  const names = [...axes.map((one) => one.name), objective];
  const places = axes.map((axis) => { const all = sorted(done.map((one) => setting(one, axis))); return { all, at: (value) => (all.length < 2 ? 0.5 : typeof value === "number" && !axis.log ? (value - all[0]) / (all.at(-1) - all[0]) : all.indexOf(value) / (all.length - 1)) }; });
  const low = Math.min(...done.map((one) => one.value)), high = Math.max(...done.map((one) => one.value));
  const points = done.flatMap((trial) => [...axes.map((axis, place) => ({ x: names[place], y: places[place].at(setting(trial, axis)), trial })), { x: objective, y: high > low ? (trial.value - low) / (high - low) : 0.5, trial }]);
  const ends = [...axes.flatMap((axis, place) => [{ x: axis.name, y: -0.06, text: shown(places[place].all[0]) }, { x: axis.name, y: 1.06, text: shown(places[place].all.at(-1)) }]), { x: objective, y: -0.06, text: short(low) }, { x: objective, y: 1.06, text: short(high) }];
  return draw({
    title: "Trials across all parameters", name: "parallel", says: `a line for each of ${done.length} trials across ${names.join(", ")}`,
    legend: [h("span", { class: "quiet" }, `lighter lines have a higher ${objective}`)],
    draw: (width) => Plot.plot(frame(width, {
      marginLeft: 40, marginRight: 40, x: { type: "point", domain: names, label: null, padding: 0.15 }, y: { axis: null, domain: [-0.1, 1.1] }, color: { scheme: "viridis", domain: [low, high] },
      marks: [Plot.ruleX(names, { strokeOpacity: 0.35 }), Plot.line(points, { x: "x", y: "y", z: (one) => one.trial.number, stroke: (one) => one.trial.value, strokeWidth: 2, strokeOpacity: 0.9 }), Plot.text(ends, { x: "x", y: "y", text: "text" }), tip(points, objective)],
    })),
  });
}

/** Return a record of the trials' first runs over steps, one line each, lighter for later trials. */
function learning(draw, trials) {
  const there = trials.filter((one) => one.curve?.points.length);
  if (!there.length) return null;
  const of = there[0].curve.of;
  const points = there.flatMap((trial) => trial.curve.points.map(([x, y]) => ({ x, y, trial })));
  return draw({
    title: `${of} while the trials learn`, name: "learning", says: `${of} by step of ${there.length} trials`,
    draw: (width) => Plot.plot(frame(width, {
      x: { label: "step", grid: true }, y: { label: of, grid: true, nice: true },
      marks: [Plot.line(points, { x: "x", y: "y", z: (one) => one.trial.number, stroke: (one) => (one.trial.state === "done" ? "#0072b2" : "#d55e00"), strokeOpacity: 0.7 }), tip(points, of, (one) => one.y)],
    })),
    legend: [h("span", { class: "quiet" }, "blue: done; orange: failed, pruned or running")],
    table: () => [["trial", "step", of], points.map((one) => [one.trial.number, one.x, one.y])],
  });
}

function trialTable(found, trials, params) {
  const { report, commands } = found;
  const cell = (trial, objective) => { const value = trial.values?.[objective]; const ends = trial.intervals?.[objective]; return value === undefined ? "" : [value.toFixed(4), ends ? h("span", { class: "interval" }, ` ${ends[0].toFixed(2)}–${ends[1].toFixed(2)}`) : null]; };
  return h("section", {}, h("h2", {}, "Trials"), table({
    id: "trials", label: "trials", rows: trials, sort: params.sort, provenance: found.provenance,
    columns: [{ key: "number", title: "trial", number: true }, { key: "state" },
      ...report.space.map((axis) => ({ key: axis.key, title: axis.name, number: true, value: (row) => row.settings[axis.key] })),
      ...report.objectives.map((one) => ({ key: one, number: true, value: (row) => row.values?.[one] ?? null, cell: (row) => cell(row, one) })),
      { key: "runs", value: (row) => row.runs.join(" "), cell: (row) => row.runs.map((id) => [h("a", { class: "nowrap", href: href("run", { run: id }) }, visible(id)), " "]) },
      { key: "why", value: (row) => row.pruned ?? row.missing ?? row.failure?.reason ?? "" },
      { key: "command", title: "command of its first run", value: (row) => commands[row.number] ?? "", cell: (row) => (commands[row.number] ? h("code", {}, visible(commands[row.number])) : "") }],
  }), h("ul", { class: "quiet" }, found.tables[0].notes.map((one) => h("li", {}, visible(one)))), h("p", { class: "leads" }, h("a", { class: "button", href: href("passk", { policies: [...(report.base?.runs ?? []), ...trials.flatMap((one) => one.runs)].slice(0, 12).join(",") }) }, "pass@k of its runs")));
}

function failures(trials) {
  const failed = trials.filter((one) => one.failure);
  if (!failed.length) return null;
  return h("section", {}, h("h2", {}, "Failures"), failed.map((one) => h("details", { id: `failure-${one.number}` }, h("summary", {}, `trial ${number(one.number)}: ${visible(one.failure.reason ?? one.failure.kind)}`), h("pre", { class: "log", tabindex: "0" }, (one.failure.log ?? []).map((line) => `${visible(line)}\n`)))));
}
