// A completion: its grade, its answer beside the gold, its text, and its tokens when asked.

import { get, held } from "./api.js";
import { GRADES } from "./colours.js";
import { h, notice, visible } from "./dom.js";
import { count, number } from "./format.js";
import { tokenView } from "./tokens.js";

const SHORT = 1500; // characters that are shown before somebody asks for all

/** Return a grade with a sign, so that colour alone never says it. */
export function grade(text) {
  const name = text ?? "ungraded";
  return h("span", { class: `grade ${name in GRADES ? name : "other"}` }, h("span", { "aria-hidden": "true" }, GRADES[name] ?? "·"), ` ${visible(name === "right" ? "correct" : name)}`);
}

/** Return the head and the text of a sample; `where` names the policy and benchmark, if it is stored. */
export function completion(row, { reward = null, where = null, find = "" } = {}) {
  const text = h("div", { class: "text" });
  const box = h("div", {}, text);
  const put = (shown, whole) => {
    const cut = shown.length > SHORT && !box.whole;
    text.replaceChildren(h("pre", {}, marked(cut ? shown.slice(0, SHORT) : shown, find)));
    if (cut || shown.length < whole) text.append(h("button", { type: "button", class: "small", onclick: () => all(shown, whole) }, `Show all ${whole.toLocaleString("en")} characters`));
  };
  const all = async (shown, whole) => {
    box.whole = true;
    if (shown.length < whole && where) {
      try { shown = (await get("sample", { policy: where.policy, benchmark: where.benchmark, problem: row.problem, seed: row.seed, index: row.index })).text; } catch (error) { text.append(notice(error.message)); return; }
    }
    put(shown, shown.length);
  };
  put(row.text, row.characters);
  return h("div", {},
    h("p", { class: "about" }, grade(row.grade),
      row.extracted !== null && row.extracted !== undefined ? h("span", { class: "answer" }, "answer ", h("code", {}, visible(row.extracted.slice(0, 80)))) : null,
      row.gold !== undefined && row.gold !== null ? h("span", { class: "answer" }, "gold ", h("code", {}, visible(String(row.gold).slice(0, 80)))) : null,
      row.tokens === undefined ? null : h("span", { class: "quiet" }, count(row.tokens, "token"), row.truncated ? ", truncated" : ""),
      row.index === undefined ? null : h("span", { class: "quiet" }, `seed ${row.seed}, sample ${row.index}`),
      reward === null || reward === undefined ? null : h("span", { class: "quiet" }, `reward ${number(reward)}`),
      where && !held ? h("button", { type: "button", class: "small", id: `tokens-${row.key ?? `${where.policy}-${row.problem}-${row.seed}-${row.index}`}`, onclick: (event) => tokens(event.target, box, row, where) }, "Tokens") : null),
    box);
}

async function tokens(button, box, row, where) {
  if (box.tokens) { box.tokens.remove(); box.tokens = null; box.firstChild.hidden = false; return; }
  box.tokens = h("div", { class: "read" }, h("p", { class: "quiet" }, "reading …"));
  box.append(box.tokens);
  box.firstChild.hidden = true;
  const asked = { policy: where.policy, benchmark: where.benchmark, problem: row.problem, seed: row.seed, index: row.index };
  const place = box.tokens;
  try {
    let found = await get("tokens", asked);
    if (!found.tokens) {
      const compute = h("button", { type: "button" }, "Compute");
      place.replaceChildren(h("p", {}, `Token probabilities have not been computed. Computing them loads ${visible(found.policy)}`, found.reference ? ` and ${visible(found.reference)}` : "", " and stores the result with the sample. "), compute);
      await new Promise((done) => compute.addEventListener("click", done, { once: true }));
      place.replaceChildren(h("p", { class: "quiet", role: "status" }, "loading the model and computing …"));
      found = await get("tokens", { ...asked, compute: 1 }, { method: "POST" });
    }
    place.replaceChildren(tokenView(found));
  } catch (error) {
    place.replaceChildren(notice(error.message, error.next, "bad"));
  }
}

function marked(text, find) {
  if (!find) return visible(text);
  const parts = [], low = text.toLowerCase(), wanted = find.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && parts.length < 400; at = low.indexOf(wanted, from)) {
    parts.push(visible(text.slice(from, at)), h("mark", {}, visible(text.slice(at, at + wanted.length))));
    from = at + wanted.length;
  }
  return h("span", {}, parts, visible(text.slice(from)));
}
