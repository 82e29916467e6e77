// The table of runs: sorted, filtered, with chosen columns; several are chosen and compared.

import { swatch } from "../chart.js";
import { field, h, visible } from "../dom.js";
import { number, seconds, shown, time } from "../format.js";
import { adjust, change, href, listed, state } from "../state.js";
import { table } from "../table.js";

const HIDDEN = new Set(["step", "of", "kind"]);
const CONDITION = /^([^=<>!]+)(!=|<=|>=|=|<|>)(.*)$/;

export const runs = {
  title: () => "Runs",
  load: (params, get) => get("runs", { columns: [...new Set([...listed(params.columns), ...conditions(params.filter).map((one) => one.name)])].join(",") }),
  view(data, params) {
    if (!data.runs.length) return nothing(data);
    const chosen = listed(params.policies).filter((id) => data.runs.some((row) => row.values.id === id));
    const rows = data.runs.filter(fits(params.filter));
    const columns = data.columns.filter((name) => !HIDDEN.has(name));
    return [controls(data, params, rows.length), bar(chosen),
      table({
        id: "runs", label: "runs", rows: params.sort ? rows : grouped(rows), sort: params.sort, most: 100,
        empty: "no run matches the filter",
        columns: [pick(chosen), ...columns.map((name) => column(name, rows))],
        row: (row) => ({ class: [chosen.includes(row.values.id) ? "chosen" : "", row.rule ? "rule" : ""].join(" ").trim() || null }),
        provenance: { runs: data.root },
      })];
  },
};

/** Return runs with those together that differ in their seeds alone, the latest first. */
function grouped(rows) {
  const sorted = [...rows].sort((a, b) => b.group - a.group);
  const several = new Set(rows.map((row) => row.group)).size < rows.length;
  return sorted.map((row, place) => ({ ...row, rule: several && place > 0 && row.group !== sorted[place - 1].group }));
}

function nothing(data) {
  return h("div", { class: "notice" }, h("p", {}, "No runs yet in ", h("code", {}, visible(data.root)), "."),
    h("p", { class: "quiet" }, h("code", {}, "sage demo"), " or ", h("code", {}, "sage rl"), " trains one; it appears here while it runs."));
}

function controls(data, params, fitting) {
  const known = h("datalist", { id: "known" }, data.known.map((name) => h("option", { value: name })));
  const extra = listed(params.columns);
  const add = h("input", {
    id: "add-column", list: "known", autocomplete: "off", placeholder: "guide.tau",
    onchange: (event) => { const name = event.target.value.trim(); event.target.value = ""; if (data.known.includes(name)) change({ columns: [...new Set([...extra, name])].join(",") }); },
  });
  return h("div", { class: "filters" },
    field("Filter", h("input", { id: "filter", type: "search", "data-key": "/", value: params.filter ?? "", placeholder: "branch   guide.tau>0.4   status=running", oninput: (event) => later(event.target.value) }),
      "words, and conditions such as setting=value"),
    field("Add a column", add, "a setting, or a metric of the last step or of an evaluation"), known,
    extra.length ? h("div", { class: "chips" }, extra.map((name) => h("button", { type: "button", class: "chip", "aria-label": `remove the column ${name}`, onclick: () => change({ columns: extra.filter((one) => one !== name).join(",") }) }, visible(name), " ×"))) : null,
    h("p", { class: "quiet count" }, fitting === data.runs.length ? `${fitting} runs` : `${fitting} of ${data.runs.length} runs`));
}

let waiting = 0;
function later(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (state().page === "runs") adjust({ filter: text }); }, 150);
}

function bar(chosen) {
  const several = chosen.join(",");
  return h("div", { class: `choice ${chosen.length ? "" : "idle"}`, role: "group", "aria-label": "chosen runs" },
    chosen.length === 0 ? h("span", { class: "quiet" }, "Tick runs to compare them.") : [
      h("span", {}, `${chosen.length} chosen:`),
      h("a", { class: "button", href: href("passk", { policies: several }) }, "pass@k"),
      h("a", { class: "button", href: href("curves", { runs: several }) }, "Training curves"),
      h("a", { class: "button", href: href("problems", { policies: several }) }, "Problems"),
      chosen.length > 1 ? h("a", { class: "button", href: href("compare", { runs: several }) }, "How they differ") : null,
      chosen.length === 1 ? h("a", { class: "button", href: href("samples", { policy: chosen[0] }) }, "Samples") : null,
      h("button", { type: "button", class: "small", id: "none", onclick: () => change({ policies: "" }) }, "Choose none")]);
}

function pick(chosen) {
  return {
    key: "pick", title: h("span", { class: "unseen" }, "chosen"), plain: true,
    cell: ({ values }) => h("input", {
      type: "checkbox", id: `pick-${values.id}`, "aria-label": `choose ${values.id}`, checked: chosen.includes(values.id),
      onchange: (event) => change({ policies: (event.target.checked ? [...chosen, values.id] : chosen.filter((one) => one !== values.id)).join(",") }),
    }),
  };
}

function column(name, rows) {
  const value = (row) => row.values[name];
  const base = { key: name, title: name, value, number: rows.every((row) => typeof value(row) !== "string") };
  if (name === "id") return { ...base, title: "run", cell: (row) => h("a", { class: "run", href: href("run", { run: value(row) }) }, swatch(row.look), visible(value(row))) };
  if (name === "status") return { ...base, cell: (row) => [status(value(row)), progress(row.values)] };
  if (name === "started") return { ...base, cell: (row) => h("span", { class: "nowrap" }, time(value(row))) };
  if (name === "seconds") return { ...base, title: "time", cell: (row) => h("span", { class: "nowrap" }, seconds(value(row))) };
  if (name === "parent") return { ...base, cell: (row) => h("span", { class: "nowrap quiet" }, visible(value(row) ?? "")) };
  return { ...base, title: name.replace(/^(pass@\d+) on /, "$1 · "), cell: (row) => (typeof value(row) === "number" && name.startsWith("pass@") ? value(row).toFixed(3) : visible(shown(value(row)))) };
}

/** Return a status with a sign, so that colour alone never says it. */
export function status(text) {
  const sign = { finished: "✓", running: "●", interrupted: "‖", failed: "✗", corrupt: "⚠", pruned: "✂" }[text] ?? "·";
  return h("span", { class: `status ${text}` }, h("span", { "aria-hidden": "true" }, sign), ` ${text}`);
}

function progress({ status: at, step, of }) {
  if (at === "finished" || !of) return null;
  return h("span", { class: "quiet nowrap" }, ` ${number(step)}/${number(of)}`);
}

function conditions(text) {
  return (text ?? "").split(/\s+/).map((word) => CONDITION.exec(word)).filter(Boolean).map(([, name, sign, value]) => ({ name, sign, value }));
}

function fits(text) {
  const words = (text ?? "").toLowerCase().split(/\s+/).filter((word) => word && !CONDITION.test(word));
  const asked = conditions(text);
  return ({ values }) => words.every((word) => Object.values(values).some((value) => String(value ?? "").toLowerCase().includes(word)))
    && asked.every(({ name, sign, value }) => holds(values[name], sign, value));
}

function holds(has, sign, value) {
  if (has === null || has === undefined) return sign === "!=" || (sign === "=" && value === "");
  const [a, b] = typeof has === "number" && value !== "" && !Number.isNaN(Number(value)) ? [has, Number(value)] : [String(has), value];
  return { "=": a === b, "!=": a !== b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b }[sign];
}
