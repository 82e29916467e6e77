// Training curves of one run or of several over each other, with smoothing that is said.

import { entry, figure, lines } from "../chart.js";
import { choice, field, h, notice, visible } from "../dom.js";
import { count, percent } from "../format.js";
import { change, href, listed } from "../state.js";

const FIRST = ["reward", "loss", "entropy", "kl/reference", "completions/length", "accuracy", "grad_norm"];
const SMOOTH = [0, 2, 5, 10, 20, 50, 100];

export const curves = {
  title: () => "Training curves",
  async load(params, get) {
    const every = await get("runs", { columns: params.columns });
    const ids = listed(params.runs);
    if (!ids.length) return [every];
    const first = await Promise.all(ids.map((run) => get("run", { run }).catch((error) => ({ id: run, failed: error.message, records: [] }))));
    const there = first.filter((one) => !one.failed);
    const names = [...new Set(there.flatMap((one) => one.records))];
    return [every, first, ...(await loadCurves(there.map((one) => one.id), params, get, names))];
  },
  view([every, first, ...found], params) {
    const ids = listed(params.runs);
    const others = every.runs.map((row) => row.values.id).filter((id) => !ids.includes(id));
    return [
      h("div", { class: "filters" },
        field("Add a run", choice("add-run", [["", "choose"], ...others.map((id) => [id, id])], "", (id) => change({ runs: [...ids, id].join(",") }))),
        h("div", { class: "chips" }, ids.map((id) => h("button", { type: "button", class: "chip", "aria-label": `remove ${id}`, onclick: () => change({ runs: ids.filter((one) => one !== id).join(",") }) }, visible(id), " ×"))),
        ids.length ? h("a", { class: "button", href: href("passk", { policies: ids.join(",") }) }, "pass@k of these") : null),
      (first ?? []).filter((one) => one.failed).map((one) => notice(one.failed)),
      found.length ? curvePanel(found, [...new Set((first ?? []).flatMap((one) => one.records))], params) : h("p", { class: "quiet" }, "Add a run to see its curves."),
    ];
  },
};

/** Load the records of runs that the panel shows. */
export function loadCurves(ids, params, get, names) {
  const wanted = chosen(names, params);
  if (!wanted.length) return Promise.all([]);
  return Promise.all(ids.map((run) => get("records", { run, names: wanted.join(",") })));
}

function chosen(names, params) {
  const asked = listed(params.figures).filter((one) => names.includes(one));
  return asked.length ? asked : FIRST.filter((one) => names.includes(one)).slice(0, 4);
}

/** Return the pictures of some records, and the controls to choose them. */
export function curvePanel(found, names, params) {
  const wanted = chosen(names, params);
  const smooth = Number(params.smooth ?? 0);
  const left = names.filter((one) => !wanted.includes(one));
  const series = (name) => found.filter((one) => one.values[name]?.some((value) => typeof value === "number")).map((one) => one_(one, name, smooth));
  return h("div", {},
    h("div", { class: "filters" },
      field("Add a metric", choice("add-figure", [["", "choose"], ...left.map((one) => [one, one])], "", (one) => change({ figures: [...wanted, one].join(",") }))),
      field("Smoothing", choice("smooth", SMOOTH.map((one) => [String(one), one ? `half-life of ${one} steps` : "none"]), String(smooth), (one) => change({ smooth: one === "0" ? "" : one })),
        "exponential moving average; the raw curve is shown behind it"),
      h("div", { class: "chips" }, wanted.map((one) => h("button", { type: "button", class: "chip", "aria-label": `remove ${one}`, onclick: () => change({ figures: wanted.filter((other) => other !== one).join(",") }) }, visible(one), " ×")))),
    h("div", { class: "grid" }, wanted.map((name) => {
      const shown = series(name);
      if (!shown.length) return null;
      return figure({
        title: visible(name) + (smooth ? `, smoothed (half-life ${count(smooth, "step")})` : ""),
        says: `${name} by step of ${shown.map((one) => one.label).join(", ")}`,
        name: name.replace(/\W+/g, "-"),
        legend: found.length > 1 ? shown.map((one) => entry(one.label, one.look)) : [],
        draw: (width) => lines(width, shown, { x: "step", y: null }),
        table: () => [["run", "step", name], shown.flatMap((one) => (one.faint ?? one.points).map((point) => [one.label, point.x, point.y]))],
        provenance: { runs: found.map((one) => one.run) },
      });
    })));
}

function one_(found, name, smooth) {
  const raw = found.steps.map((step, place) => ({ x: step, y: found.values[name][place] })).filter((point) => typeof point.y === "number");
  return { label: found.run, look: found.look, points: smooth ? smoothed(raw, smooth) : raw, faint: smooth ? raw : null };
}

/** Return the exponential mean whose weights halve every `half` steps, without a bias at the beginning. */
export function smoothed(points, half) {
  let sum = 0, weight = 0, before = null;
  return points.map(({ x, y }) => {
    const decay = before === null ? 0 : 0.5 ** ((x - before) / half);
    before = x;
    sum = sum * decay + y;
    weight = weight * decay + 1;
    return { x, y: sum / weight };
  });
}

const PHASES = ["generate", "sync", "grade", "reference", "loss"];
const SHADES = ["#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00"];

/** Return each phase's share of a step as a bar with words. */
export function phases(speed) {
  const shares = PHASES.map((phase, place) => [phase, speed[`speed/share/${phase}`] ?? 0, SHADES[place]]).filter(([, share]) => share > 0);
  if (!shares.length) return null;
  const rest = 1 - shares.reduce((sum, [, share]) => sum + share, 0);
  if (rest > 0.001) shares.push(["other", rest, "#8a8a8a"]);
  return h("div", {},
    h("div", { class: "phases", role: "img", "aria-label": shares.map(([phase, share]) => `${phase} ${percent(share)}`).join(", ") },
      shares.map(([, share, shade]) => h("span", { style: { width: `${100 * share}%`, background: shade } }))),
    h("div", { class: "legend" }, shares.map(([phase, share, shade]) => h("span", { class: "entry" }, h("span", { class: "box", style: { background: shade } }), `${phase} ${percent(share)}`))));
}
