// A completion token by token, coloured by one of its numbers; all of them on hover and on focus.

import { choice, field, h, say, visible } from "./dom.js";
import { short } from "./chart.js";

const MEASURES = { surprisal: "surprisal −log π, nats", entropy: "entropy, nats", q: "q of the guide", log_ratio: "log-ratio to the initial policy" };
let last = "surprisal";

/** Return the tokens of an answer of the server; `first` is the number that colours them at first. */
export function tokenView(found, first = last) {
  const there = Object.keys(MEASURES).filter((one) => found[one]);
  const by = there.includes(first) ? first : there[0];
  const numbers = h("p", { class: "numbers-of-token", "aria-live": "polite" }, "Point at a token, or go there by the arrow keys.");
  const list = h("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "tokens; the arrow keys go from one to the next" });
  const scale = h("span", { class: "quiet" });
  const paint = (measure) => {
    last = measure;
    const [shade, words] = shading(measure, found[measure]);
    const heat = measure === "q" && found.entropy ? Math.max(1e-9, ...found.entropy.filter(Number.isFinite)) : 0;
    [...list.children].forEach((one, place) => {
      const [colour, strength] = shade(found[measure][place]);
      one.style.setProperty("background", strength > 0.01 ? `color-mix(in srgb, ${colour} ${Math.round(62 * strength)}%, transparent)` : "none");
      one.style.setProperty("border-bottom", heat ? `3px solid color-mix(in srgb, #b3135c ${Math.round((100 * found.entropy[place]) / heat)}%, transparent)` : "none");
    });
    scale.textContent = heat ? `${words}; the line below is entropy, up to ${short(heat)} nats` : words;
  };
  let at = -1;
  const point = (place) => {
    if (place < 0 || place >= found.tokens.length) return;
    list.children[at]?.classList.remove("at");
    at = place;
    list.children[at].classList.add("at");
    numbers.replaceChildren(h("code", {}, shownToken(found.tokens[at])), ` token ${at + 1}: `, there.map((one) => `${one.replace("_", "-")} ${short(found[one][at])}`).join(", "));
  };
  list.append(...found.tokens.map((text, place) => h("span", { class: "token", onmouseenter: () => point(place), onclick: () => point(place) }, shownToken(text))));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    point(Math.min(found.tokens.length - 1, Math.max(0, at + step)));
  });
  paint(by);
  say("tokens are shown");
  return h("div", {},
    h("div", { class: "filters" }, field("Colour by", choice(`colour-${Math.random().toString(36).slice(2)}`, there.map((one) => [one, MEASURES[one]]), by, paint)), scale),
    list, numbers,
    found.temperature === undefined ? null : h("p", { class: "quiet" }, `at temperature ${found.temperature}`, found.guide ? `; guide ${visible(found.guide)}` : "", found.reference ? `; initial policy ${visible(found.reference)}` : ""));
}

/** Return (value -> [colour, strength]) and the scale in words: blue for more, orange below the middle. */
function shading(measure, values) {
  const finite = values.filter(Number.isFinite);
  if (measure === "q" || measure === "log_ratio") {
    const middle = measure === "q" ? 1 : 0;
    const most = Math.max(1e-9, ...finite.map((one) => Math.abs(one - middle)));
    return [(value) => [value > middle ? "#0072b2" : "#d55e00", Math.abs(value - middle) / most], `blue above ${middle}, orange below; the largest difference is ${short(most)}`];
  }
  const most = Math.max(1e-9, ...finite);
  return [(value) => ["#0072b2", value / most], `the largest value is ${short(most)}`];
}

function shownToken(text) {
  return text === "" ? "∅" : visible(text).replace(/\n/g, "↵\n");
}
