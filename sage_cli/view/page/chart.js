// Pictures, drawn by Observable Plot as wide as their place is.

import { colour, dash } from "./colours.js";
import { h, visible } from "./dom.js";
import { csv, save, savePng, svgText } from "./download.js";

const ready = new Promise((done) => {
  if (globalThis.Plot) done();
  else addEventListener("load", () => done(), { once: true });
});

const drawn = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.floor(contentRect.width);
    if (target.draw && width && width !== target.drawnAt) {
      target.drawnAt = width;
      ready.then(() => {
        const picture = target.draw(width);
        // names of marks on groups without a role, which readers of a page may not be given
        for (const one of picture.querySelectorAll("g[aria-label]")) one.removeAttribute("aria-label");
        target.replaceChildren(picture);
      });
    }
  }
});

/**
 * Return a figure. `draw` makes the picture for a width; `says` is what it shows, in words;
 * `table` gives [columns, rows] of its numbers; `legend` are nodes below the title.
 */
export function figure({ title, says, draw, table, legend = [], provenance = {}, name, open = false, links = false, controls = [] }) {
  const place = h("div", { class: "plot", role: links ? "group" : "img", "aria-label": says });
  place.draw = draw;
  drawn.observe(place);
  const picture = () => place.querySelector("svg");
  const data = table ? table() : null;
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", { class: "name" }, title), controls.length ? h("div", { class: "controls" }, controls) : null, legend.length ? h("div", { class: "legend" }, legend) : null),
    place,
    h("div", { class: "under" },
      data ? h("details", { id: `numbers-${name}`, open }, h("summary", {}, "Numbers"),
        h("div", { class: "scroll", id: `scroll-${name}`, tabindex: "0", role: "region", "aria-label": `numbers of ${title}` }, plain(data[0], data[1]))) : null,
      h("div", { class: "saves" },
        h("button", { type: "button", class: "small", onclick: () => save(`${name}.svg`, svgText(picture(), title, provenance), "image/svg+xml") }, "SVG"),
        h("button", { type: "button", class: "small", onclick: () => savePng(`${name}.png`, picture(), title, provenance) }, "PNG"),
        data ? h("button", { type: "button", class: "small", onclick: () => save(`${name}.csv`, csv(data[0], data[1], provenance), "text/csv") }, "CSV") : null)));
}

/** Return a table of numbers, its first rows. */
export function plain(columns, rows, most = 300) {
  const cell = (value) => typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : value === null || value === undefined ? "" : visible(value);
  const numeric = (place) => typeof rows[0]?.[place] === "number";
  return h("table", { class: "numbers" },
    h("thead", {}, h("tr", {}, columns.map((one, place) => h("th", { scope: "col", class: numeric(place) ? "number" : null }, visible(one))))),
    h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, row.map((value) => h("td", { class: typeof value === "number" ? "number" : null }, cell(value)))))),
    rows.length > most ? h("caption", {}, `the first ${most} of ${rows.length} rows; CSV has all`) : null);
}

/** Return the entry of a policy in a legend: its line and its name. */
export function entry(label, look, extra = null) {
  return h("span", { class: "entry" }, swatch(look), h("span", {}, visible(label)), extra);
}

/** Return a short line in a policy's look. */
export function swatch(look) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({ width: 26, height: 10, viewBox: "0 0 26 10", class: "swatch", "aria-hidden": "true" })) svg.setAttribute(key, value);
  const line = document.createElementNS(space, "line");
  for (const [key, value] of Object.entries({ x1: 1, x2: 25, y1: 5, y2: 5, stroke: colour(look), "stroke-width": 2.5, "stroke-dasharray": dash(look) })) line.setAttribute(key, value);
  svg.append(line);
  return svg;
}

/** Return the options that all pictures share. */
export function frame(width, options = {}) {
  const narrow = width < 480;
  return {
    width,
    height: options.height ?? Math.round(Math.min(430, Math.max(250, width * (narrow ? 0.8 : 0.45)))),
    marginLeft: 50, marginRight: 16, marginBottom: 40, marginTop: 22,
    style: { fontSize: narrow ? "11px" : "12px", background: "none", overflow: "visible" },
    ...options,
  };
}

/**
 * Return a picture of lines. `series` have `label`, `look`, and `points` {x, y, low?, high?};
 * `faint` points are drawn thin behind.
 */
export function lines(width, series, { x, y, log = false, yDomain, ticks, zero = false }) {
  const marks = zero ? [Plot.ruleY([0], { strokeOpacity: 0.5 })] : [];
  for (const one of series) {
    if (one.points.some((point) => point.low !== undefined && point.low !== null))
      marks.push(Plot.areaY(one.points, { x: "x", y1: "low", y2: "high", fill: colour(one.look), fillOpacity: 0.13 }));
  }
  for (const one of series) {
    if (one.faint) marks.push(Plot.lineY(one.faint, { x: "x", y: "y", stroke: colour(one.look), strokeWidth: 1, strokeOpacity: 0.3 }));
  }
  for (const one of series) {
    marks.push(Plot.lineY(one.points, { x: "x", y: "y", stroke: colour(one.look), strokeWidth: 2, strokeDasharray: dash(one.look) || undefined }));
    if (one.points.length === 1) marks.push(Plot.dot(one.points, { x: "x", y: "y", fill: colour(one.look) }));
  }
  const every = series.flatMap((one) => one.points.map((point) => ({ ...point, label: visible(one.label) })));
  marks.push(Plot.tip(every, Plot.pointer({
    x: "x", y: "y", title: (point) => `${point.label}\n${x} ${point.x}: ${short(point.y)}${point.low === undefined || point.low === null ? "" : ` [${short(point.low)}, ${short(point.high)}]`}`,
    fill: "var(--raised)", stroke: "var(--line)",
  })));
  return Plot.plot(frame(width, {
    x: { label: x, type: log ? "log" : "linear", base: log ? 2 : undefined, ticks, tickFormat: (value) => Number.isInteger(value) ? String(value) : "" },
    y: { label: y, grid: true, domain: yDomain, nice: !yDomain },
    marks,
  }));
}

/** Return a number for a hint. */
export function short(value) {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(3)));
}
