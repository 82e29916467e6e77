// pass@k of chosen policies: curves with bands, a table, paired differences, the scatter of problems.

import { entry, figure, frame, lines, short } from "../chart.js";
import { colour } from "../colours.js";
import { choice, field, h, notice, visible } from "../dom.js";
import { number } from "../format.js";
import { change, href } from "../state.js";
import { absentNotice, policyChooser, shown } from "../chooser.js";

export const passk = {
  title: () => "pass@k",
  async load(params, get) {
    const every = await get("runs");
    const names = shown(every, params);
    if (!names.length) return [every, null];
    const found = await get("passk", { policies: names.join(","), benchmark: params.benchmark, k: params.k });
    const measured = found.curves.map((one) => one.policy);
    const [a, b] = sides(measured, params);
    const options = { benchmark: found.benchmark, k: params.k };
    const [difference, problems] = await Promise.all([
      a && b ? get("difference", { a, b, ...options }).catch((error) => ({ failed: error.message, next: error.next })) : null,
      a && b ? get("problems", { policies: `${b},${a}`, benchmark: found.benchmark }) : null,
    ]);
    return [every, found, difference, problems];
  },
  view([every, found, difference, problems], params) {
    if (!found) return [policyChooser(every, params), h("p", { class: "quiet" }, "Choose policies to see their curves.")];
    const absent = found.absent.map((one) => absentNotice(one));
    return [policyChooser(every, params, found.benchmarks, found.benchmark), absent,
      found.curves.length ? [h("div", { class: "filters" }, scale(params), ks(params)), curvesOf(found, params), table(found)] : null,
      difference ? h("section", {}, h("h2", {}, "Paired difference"), pair(found, params), differenceOf(found, difference, params)) : null,
      problems ? scatter(found, problems, params) : null];
  },
};

function sides(measured, params) {
  const b = measured.includes(params.b) ? params.b : measured[0];
  const a = measured.includes(params.a) && params.a !== b ? params.a : measured.findLast((one) => one !== b);
  return [a, b];
}

function scale(params) {
  return field("Axis", choice("axis", [["log", "logarithmic k"], ["linear", "linear k"]], params.axis ?? "log", (value) => change({ axis: value === "log" ? "" : value })));
}

function ks(params) {
  return field("Values of k", h("input", { id: "ks", value: params.k ?? "", placeholder: "1,8,64 or 1..256:pow2", onchange: (event) => change({ k: event.target.value.trim() }) }), "without values, the curve has every k");
}

function series(found) {
  return found.curves.map((one) => ({
    label: one.policy, look: one.look,
    points: found.k.map((k, place) => ({ x: k, y: one["pass@k"][place], low: one.low[place], high: one.high[place] })),
  }));
}

function ticks(k) {
  return k.filter((one) => (one & (one - 1)) === 0);
}

function curvesOf(found, params) {
  const log = (params.axis ?? "log") === "log";
  const problems = found.curves[0].seeds[0]?.problems.length;
  return figure({
    title: `pass@k on ${visible(found.benchmark)}`, name: `passk-${found.benchmark.replace(/\W+/g, "-")}`,
    says: `pass@k by k of ${found.curves.map((one) => one.policy).join(", ")} on ${found.benchmark}`,
    legend: [...found.curves.map((one) => entry(one.policy, one.look, one.graded < one.wanted ? h("span", { class: "quiet" }, ` (${number(one.graded)} of ${number(one.wanted)} samples)`) : null)),
      h("span", { class: "quiet" }, `pointwise ${100 * found.confidence}% bands for the mean over problems like these ${problems}`)],
    draw: (width) => lines(width, series(found), { x: "k", y: "pass@k", log, ticks: log ? ticks(found.k) : undefined }),
    table: () => [["policy", "k", "pass@k", "low", "high"], found.curves.flatMap((one) => found.k.map((k, place) => [one.policy, k, one["pass@k"][place], one.low[place], one.high[place]]))],
    provenance: found.provenance,
  });
}

function table(found) {
  const powers = ticks(found.k).length ? ticks(found.k) : found.k;
  const places = powers.map((k) => found.k.indexOf(k));
  return h("div", { class: "scroll", id: "scroll-passk", tabindex: "0", role: "region", "aria-label": "pass@k" },
    h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "policy"), powers.map((k) => h("th", { scope: "col", class: "number" }, `k = ${k}`)))),
      h("tbody", {}, found.curves.map((one) => h("tr", {},
        h("th", { scope: "row" }, entry(one.policy, one.look)),
        places.map((place) => h("td", { class: "number", title: `[${short(one.low[place])}, ${short(one.high[place])}]` }, one["pass@k"][place].toFixed(3), h("span", { class: "interval" }, ` ${one.low[place]?.toFixed(2) ?? "–"}–${one.high[place]?.toFixed(2) ?? "–"}`))))))));
}

function pair(found, params) {
  const measured = found.curves.map((one) => one.policy);
  const [a, b] = sides(measured, params);
  const pairs = measured.map((one) => [one, one]);
  return h("div", { class: "filters" }, field("A", choice("side-a", pairs.filter(([one]) => one !== b), a, (one) => change({ a: one }))), field("− B", choice("side-b", pairs.filter(([one]) => one !== a), b, (one) => change({ b: one }))));
}

function differenceOf(found, difference, params) {
  if (difference.failed) return notice(difference.failed, difference.next);
  const log = (params.axis ?? "log") === "log";
  const look = found.curves.find((one) => one.policy === difference.a).look;
  const points = difference.k.map((k, place) => ({ x: k, y: difference.mean[place], low: difference.low[place], high: difference.high[place] }));
  const p = (value) => (value < 0.0001 ? "p < 0.0001" : `p = ${value.toPrecision(2)}`); // as tables.py's p_value
  const told = [difference.k.length - 1, 0].map((place) => `k = ${difference.k[place]}: ${signed(difference.mean[place])} [${signed(difference.low[place])}, ${signed(difference.high[place])}], ${p(difference.p[place])}`).reverse();
  return figure({
    title: "pass@k difference (A − B)", name: "difference",
    says: `pass@k of ${difference.a} − ${difference.b}: ${told.join("; ")}`,
    legend: [entry(`${difference.a} − ${difference.b}`, look), h("span", { class: "quiet" }, `paired over ${difference.problems} problems, ${100 * difference.confidence}% intervals; ${told.join("; ")}`)],
    draw: (width) => lines(width, [{ label: "A − B", look, points }], { x: "k", y: "difference", log, ticks: log ? ticks(difference.k) : undefined, zero: true }),
    table: () => [["k", "difference", "low", "high", "p"], difference.k.map((k, place) => [k, difference.mean[place], difference.low[place], difference.high[place], difference.p[place]])],
    provenance: found.provenance,
  });
}

function signed(value) {
  return value === null || value === undefined ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}

function scatter(found, problems, params) {
  const [b, a] = problems.policies;
  if (!a || !b) return null;
  const look = problems.looks[a];
  const share = (row, policy) => (row.right[policy] ?? 0) / row.samples[policy];
  const points = problems.problems.filter((row) => row.samples[a] && row.samples[b]).map((row) => ({ row, x: share(row, b), y: share(row, a) }));
  const lost = points.filter(({ x, y }) => x > 0 && y === 0).length, won = points.filter(({ x, y }) => x === 0 && y > 0).length;
  return h("section", {}, h("h2", {}, "Problems"), figure({
    title: "Fraction of correct samples per problem", name: "problems", links: true,
    says: `fraction of correct samples of ${a} against ${b}; ${points.length} problems, ${won} solved only by A, ${lost} only by B`,
    legend: [h("span", { class: "quiet" }, `A: ${visible(a)} (vertical), B: ${visible(b)} (horizontal). Only A solved ${won} problems, only B ${lost}. Click a point to open its problem.`)],
    draw: (width) => Plot.plot(frame(width, {
      height: Math.min(width, 460), x: { label: `B: fraction correct`, domain: [-0.03, 1.03], grid: true, ticks: 5 }, y: { label: `A: fraction correct`, domain: [-0.03, 1.03], grid: true, ticks: 5 },
      marks: [Plot.line([[0, 0], [1, 1]], { strokeOpacity: 0.4 }),
        Plot.dot(points, { x: "x", y: "y", r: 4.5, fill: colour(look), fillOpacity: 0.45, stroke: colour(look), strokeOpacity: 0.8,
          href: ({ row }) => href("problem", { problem: row.problem, policies: `${b},${a}`, benchmark: found.benchmark }),
          ariaLabel: ({ row, x, y }) => `${row.question.slice(0, 60)}: A ${short(y)}, B ${short(x)}` }),
        Plot.tip(points, Plot.pointer({ x: "x", y: "y", fill: "var(--raised)", stroke: "var(--line)", title: ({ row, x, y }) => `${visible(row.question.slice(0, 80))}\nA ${short(y)}, B ${short(x)}` }))],
    })),
    table: () => [["problem", "question", `correct (${a})`, "samples", `correct (${b})`, "samples"], points.map(({ row }) => [row.problem, row.question, row.right[a] ?? 0, row.samples[a], row.right[b] ?? 0, row.samples[b]])],
    provenance: found.provenance,
  }));
}
