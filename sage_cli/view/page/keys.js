// The keyboard: single keys lead to sections and neighbours; everything else is a native control.

import { h } from "./dom.js";
import { href, state } from "./state.js";

const SHORTCUTS = [
  ["/", "to the search of this page"], ["j, k", "to the next, to the previous problem or page"],
  ["g r", "runs"], ["g k", "pass@k"], ["g p", "problems"], ["g s", "samples"], ["g w", "sweeps"], ["g u", "suites"],
  ["← →", "on a completion's tokens: from token to token"], ["?", "this list"], ["Esc", "close"],
];
const LEADS = { r: "runs", k: "passk", p: "problems", s: "samples", w: "sweeps", u: "suites" };
let lead = 0;

export const keys = {
  /** Listen to the keyboard. */
  start() {
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      if (Date.now() - lead < 1500 && LEADS[event.key]) {
        lead = 0;
        const link = [...document.querySelectorAll("#top nav a")].find((one) => state(new URL(one.href).hash).page === LEADS[event.key]);
        location.hash = link ? new URL(link.href).hash : href(LEADS[event.key]);
      } else if (event.key === "g") lead = Date.now();
      else if (event.key === "?") keys.help();
      else if (event.key === "/") press(event, "[data-key='/']", "focus");
      else if (event.key === "j") press(event, "[data-key=j]", "click");
      else if (event.key === "k") press(event, "[data-key=k]", "click");
    });
  },
  /** Show the list of shortcuts. */
  help() {
    const box = document.getElementById("help");
    box.replaceChildren(h("h2", { id: "help-title" }, "Keyboard"),
      h("dl", {}, SHORTCUTS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
      h("form", { method: "dialog" }, h("button", {}, "Close")));
    if (!box.open) box.showModal();
  },
};

function typing(target) {
  return /^(SELECT|TEXTAREA)$/.test(target.tagName) || (target.tagName === "INPUT" && target.type !== "checkbox");
}

function press(event, selector, what) {
  const target = document.querySelector(selector);
  if (!target) return;
  event.preventDefault();
  target[what]();
}
