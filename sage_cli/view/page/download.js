// Tables as CSV and pictures as SVG or PNG, each with where its numbers come from.

import { h } from "./dom.js";

/** Save a text or a blob under a name. */
export function save(name, content, type = "text/plain") {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Return rows as CSV; the provenance stands in lines that begin with #. */
export function csv(columns, rows, provenance = {}) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    const formula = typeof value === "string" && /^[=+\-@\t\r]./s.test(text) && !(text.trim() && Number.isFinite(Number(text)));
    if (formula) text = `'${text}`; // a spreadsheet would compute it
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const about = origin(provenance).map((line) => `# ${line}`);
  return [...about, ...[columns, ...rows].map((row) => row.map(cell).join(","))].join("\n") + "\n";
}

/** Return the provenance in lines. */
export function origin(provenance) {
  const lines = [`sage view, ${location.hash || "#/runs"}`];
  for (const [key, value] of Object.entries(provenance)) if (value !== null) lines.push(`${key}: ${JSON.stringify(value)}`);
  return lines.map((line) => line.replace(/[\r\n]/g, " "));
}

/** Return a picture's SVG as a file: its own colours and background, the provenance as metadata. */
export function svgText(picture, title, provenance) {
  const copy = picture.cloneNode(true);
  const space = "http://www.w3.org/2000/svg";
  copy.setAttribute("xmlns", space);
  copy.style.setProperty("color", "#222");
  copy.style.setProperty("background", "white");
  copy.style.setProperty("font-family", "system-ui, sans-serif");
  const named = document.createElementNS(space, "title");
  named.textContent = title;
  const about = document.createElementNS(space, "metadata");
  about.textContent = origin(provenance).join("\n");
  copy.prepend(named, about);
  return new XMLSerializer().serializeToString(copy);
}

/** Save a picture as PNG, twice as large as it is shown. */
export function savePng(name, picture, title, provenance) {
  const image = new Image();
  const { width, height } = picture.getBoundingClientRect();
  image.onload = () => {
    const canvas = h("canvas", { width: Math.round(2 * width), height: Math.round(2 * height) });
    const context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(picture, title, provenance))}`;
}
