// Elements made of text and attributes. Nothing here reads markup, so no stored text becomes any.

export const SVG = "http://www.w3.org/2000/svg";

/** Return an element; `on…` attributes are listeners, `style` an object, null values are left out. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (key === "value" || key === "checked") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SIGNS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Return a text whose control characters are seen and do nothing: ␛ for escape, ⟨202E⟩ for others. */
export function visible(text) {
  return String(text).replace(SIGNS, (sign) => {
    const code = sign.charCodeAt(0);
    if (code < 32) return String.fromCharCode(0x2400 + code);
    return code === 127 ? "␡" : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Put `tree` in the place of the content; focus and what is being typed stay. */
export function replace(place, tree) {
  const old = document.activeElement;
  const id = old && place.contains(old) ? old.id : "";
  const typed = id && "selectionStart" in old ? [old.value, old.selectionStart, old.selectionEnd] : null;
  const open = new Map([...place.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const sides = new Map([...place.querySelectorAll(".scroll[id]")].map((one) => [one.id, one.scrollLeft]));
  place.replaceChildren(tree);
  for (const one of place.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
  for (const one of place.querySelectorAll(".scroll[id]")) one.scrollLeft = sides.get(one.id) ?? 0;
  const now = id && document.getElementById(id);
  if (!now) return;
  now.focus({ preventScroll: true });
  if (typed && "selectionStart" in now && now.type !== "checkbox") {
    now.value = typed[0];
    try { now.setSelectionRange(typed[1], typed[2]); } catch { /* a number has no selection */ }
  }
}

/** Say something to a reader that hears the page. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** Return a labelled control. */
export function field(label, control, hint) {
  return h("label", { class: "field", title: hint }, h("span", {}, label), control);
}

/** Return a select of [value, text] pairs. */
export function choice(id, pairs, value, onchange) {
  return h("select", { id, onchange: (event) => onchange(event.target.value) },
    pairs.map(([one, text]) => h("option", { value: one, selected: one === value }, text)));
}

/** Return a notice: its cause, and the next step if there is one. */
export function notice(cause, next, kind = "warn") {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null },
    h("p", {}, visible(cause)), next ? h("p", { class: "quiet" }, visible(next)) : null);
}
