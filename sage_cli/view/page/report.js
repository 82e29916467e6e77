// A report as its command wrote it: chapters, sections, tables, pictures, notes, provenance.

import { plain } from "./chart.js";
import { h, visible } from "./dom.js";
import { origin, save } from "./download.js";
import { change } from "./state.js";
import { table } from "./table.js";

const MARKS = [[/^(holds|done$)/, "good"], [/^(reversed|failed)/, "bad"], [/indistinguishable|^these models|^not measured/, "open"]];
const LATER = new Set(["runs", "tasks", "problems", "power", "commands"]); // folded at first
const LONG = 40, SOME = 12, MANY = 6;

/** Return a verdict in its colour with its words, and a command as code. */
export function marked(text) {
  if (/^sage /.test(text)) return h("code", {}, visible(text));
  const found = MARKS.find(([what]) => what.test(text));
  return found ? h("span", { class: `mark-${found[1]}` }, visible(text)) : visible(text);
}

/** Return what stands at a report's top, as names and texts. */
export function facts(pairs) {
  const there = Object.entries(pairs).filter(([, text]) => text);
  return there.length ? h("dl", { class: "facts" }, there.map(([name, text]) => h("div", {}, h("dt", {}, visible(name)), h("dd", {}, visible(text))))) : null;
}

/** Return links to the sections, or to the chapters of a report that has several. */
export function contents(report) {
  const places = report.chapters.length > 1 ? report.chapters.map((one) => [idOf(one.name), one.title]) : report.chapters.flatMap((one) => one.sections.map((section) => [idOf(one.name, section.name), section.title]));
  const go = (id) => { const place = document.getElementById(id); if ("open" in place) place.open = true; place.scrollIntoView(); };
  return h("nav", { class: "contents", "aria-label": "sections of the report" }, places.map(([id, title]) => h("button", { type: "button", class: "small", onclick: () => go(id) }, visible(title))));
}

/** Return the chapters. `pictures` are SVG by stem; `drawn(section)` may draw one itself. */
export function chapters(report, params, pictures, drawn) {
  const several = report.chapters.length > 1;
  return report.chapters.map((chapter) => [
    several ? h("h2", { class: "chapter", id: idOf(chapter.name) }, visible(chapter.title)) : null,
    chapter.sections.map((one) => section(one, idOf(chapter.name, one.name), report, params, pictures, drawn(one), several ? "h3" : "h2"))]);
}

function idOf(chapter, name) {
  return `part-${[chapter, name].filter(Boolean).join("-").replace(/\W+/g, "-")}`;
}

function section(one, id, report, params, pictures, drawn, level) {
  const rows = Math.max(0, ...one.tables.map((sheet) => sheet.rows.length));
  const tables = one.tables.map((sheet, place) => shownTable(sheet, `${id}-${place}`, params, report.provenance));
  const inner = [drawn ?? one.pictures.filter((stem) => pictures[stem]).map((stem) => still(stem, one.title, pictures[stem], report.provenance)),
    drawn && tables.length ? h("details", { id: `${id}-tables` }, h("summary", {}, "Tables"), tables) : tables, notes(one.notes)];
  if (LATER.has(one.name) || (rows > LONG && !drawn && !one.pictures.length)) return h("details", { id }, h("summary", {}, h(level, { class: "inline" }, visible(one.title))), inner);
  return h("section", { id }, h(level, {}, visible(one.title)), inner);
}

function notes(lines) {
  if (!lines.length) return null;
  const list = h("ul", { class: "quiet" }, lines.map((line) => h("li", {}, visible(line))));
  return lines.length > MANY ? h("details", {}, h("summary", {}, `${lines.length} notes`), list) : list;
}

/** Return a table of a report, sorted as the address says. */
export function shownTable(sheet, id, params, provenance, head = h("p", { class: "name" }, visible(sheet.title))) {
  const sort = params[`sort-${id}`];
  const typed = (column, text) => (column.words ? text : text.replaceAll("−", "-")); // numbers as programs read them
  const value = (column, text) => (column.words || text === "–" ? (text === "–" ? null : text) : Number.parseFloat(typed(column, text).replace(/^</, "")));
  return h("div", { class: "sheet" }, head, table({
    id, label: sheet.title, provenance, sort, most: sheet.rows.length > LONG ? SOME : LONG, onsort: (key) => change({ [`sort-${id}`]: key }),
    rows: sheet.rows.map((cells, place) => ({ cells, rule: !sort && sheet.rules.includes(place) })),
    row: ({ rule }) => ({ class: rule ? "rule" : null }),
    columns: sheet.columns.map((column, place) => ({
      key: String(place), title: column.label ?? column.name, above: column.group, number: !column.words,
      value: (row) => value(column, row.cells[place]), text: (row) => typed(column, row.cells[place]), cell: (row) => marked(row.cells[place]),
    })),
  }), notes(sheet.notes));
}

/** Return a picture that the report's command drew; as an image, so nothing in it runs. */
function still(stem, title, svg, provenance) {
  const about = origin(provenance).join("\n").replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  return h("figure", { class: "chart" },
    h("div", { class: "scroll still", tabindex: "0", role: "region", "aria-label": `picture: ${title}` }, h("img", { class: "still", alt: title, src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}` })),
    h("div", { class: "under" }, h("div", { class: "saves" }, h("button", { type: "button", class: "small", onclick: () => save(`${stem}.svg`, svg.replace(/<\/svg>\s*$/, `<metadata>${about}</metadata></svg>`), "image/svg+xml") }, "SVG"))));
}

/** Return where a report came from: command and commit, problems, samples, and models by weights. */
export function whence(provenance) {
  const all = Object.entries(provenance).filter(([, value]) => value !== null && value !== undefined);
  const lists = all.filter(([, value]) => Array.isArray(value) && typeof value[0] === "object");
  const text = (value) => (Array.isArray(value) ? value.map(text).join(", ") : value !== null && typeof value === "object" ? Object.entries(value).filter(([, inner]) => text(inner)).map(([name, inner]) => `${name} ${text(inner)}`).join(", ") : String(value ?? ""));
  if (!all.length) return null;
  return h("section", { id: "whence" }, h("h2", {}, "Where it came from"),
    facts(Object.fromEntries(all.filter((one) => !lists.includes(one)).map(([name, value]) => [name, text(value)]))),
    lists.map(([name, of]) => h("details", { id: `whence-${name}` }, h("summary", {}, `${name} (${of.length})`),
      h("div", { class: "scroll", id: `scroll-whence-${name}`, tabindex: "0", role: "region", "aria-label": name }, plain(Object.keys(of[0]), of.map((one) => Object.values(one).map((value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : value))))))));
}
