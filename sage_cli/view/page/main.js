// The page: finds what the address asks for, shows it, and looks again while it grows.

import { get, held, Refused } from "./api.js";
import { h, notice, replace, say, visible } from "./dom.js";
import { keys } from "./keys.js";
import * as pages from "./pages/all.js";
import { href, state } from "./state.js";

const EVERY_MS = 3000;
const main = document.getElementById("main");
const SECTIONS = [["runs", "Runs"], ["passk", "pass@k"], ["problems", "Problems"], ["samples", "Samples"], ["sweeps", "Sweeps"], ["suites", "Suites"]];
const UNDER = { run: "runs", compare: "runs", curves: "runs", problem: "problems", sweep: "sweeps", suite: "suites" };

let turn = 0;
let last = null; // the address that is shown, and the data that it was made of

async function show({ again = false } = {}) {
  const mine = ++turn;
  const { page: name, params } = state();
  const page = pages[name] ?? pages.lost;
  const where = location.hash;
  if (!again || last?.where !== where) head(name, params);
  const slow = setTimeout(() => { if (mine === turn && !again) { document.body.classList.add("waits"); say("reading"); } }, 200);
  let tree, data, wrong = false;
  try {
    data = await page.load(params, get);
    if (mine !== turn) return;
    if (again && last?.where === where && same(last.data, data)) return live(true);
    tree = page.view(data, params);
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof Refused)) { console.error(error); }
    if (again && last?.wrong === String(error.message)) return live(false);
    wrong = String(error.message);
    tree = notice(error instanceof Refused ? error.message : `this page failed: ${error.message}`, error.next, "bad");
  } finally {
    clearTimeout(slow);
    if (mine === turn) document.body.classList.remove("waits");
  }
  const moved = last?.page !== name;
  last = { where, page: name, data, wrong };
  document.title = `${visible(page.title(params))} · sage view`;
  replace(main, h("div", { class: `page page-${name}` }, h("h1", {}, visible(page.title(params))), tree));
  if (moved && !again) { scrollTo(0, 0); }
  live(!wrong);
}

function same(a, b) {
  if (a === b) return true;
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
  return a.every((one, place) => same(one, b[place]));
}

function head(name, params) {
  const here = UNDER[name] ?? name;
  const kept = { policies: params.policies ?? params.runs ?? params.policy ?? params.run, benchmark: params.benchmark };
  const link = ([page, title]) => {
    const carried = page === "runs" ? { policies: kept.policies } : page === "samples" ? { policy: (kept.policies ?? "").split(",")[0], benchmark: kept.benchmark } : ["passk", "problems"].includes(page) ? kept : {};
    return h("a", { href: href(page, carried), "aria-current": here === page ? "page" : null }, title);
  };
  replace(document.getElementById("top"), h("div", { class: "bar" },
    h("a", { class: "brand", href: href("runs") }, "sage"),
    h("nav", { "aria-label": "sections" }, SECTIONS.map(link)),
    h("div", { class: "tools" },
      h("span", { id: "live", class: "live", title: held ? "an export" : "read again every 3 seconds" }, held ? "export" : "live"),
      h("button", { type: "button", class: "small", id: "theme", onclick: theme, "aria-label": "light, dark or as the system" }, "◐"),
      h("button", { type: "button", class: "small", id: "keys", onclick: () => keys.help(), "aria-label": "keyboard shortcuts" }, "?"))));
}

function live(well) {
  const sign = document.getElementById("live");
  if (sign && !held) { sign.textContent = well ? "live" : "waiting"; sign.classList.toggle("lost", !well); }
}

function theme() {
  const next = { "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme ?? ""];
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("sage-theme", next); } catch { /* storage is off */ }
  say(next ? `${next} colours` : "colours as the system has them");
}

try { document.documentElement.dataset.theme = localStorage.getItem("sage-theme") ?? ""; } catch { /* storage is off */ }
addEventListener("hashchange", () => show());
if (!held) setInterval(() => { if (!document.hidden) show({ again: true }); }, EVERY_MS);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.getElementById("foot").append(h("p", { class: "quiet" }, held ? visible(held.footer) : "sage view only looks; what it computes of tokens, when asked, is stored beside the sample."));
keys.start();
if (held && !location.hash) location.replace(held.begin);
else show();
