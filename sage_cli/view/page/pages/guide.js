// What a run's guide did to tokens: a stored token report, or the one of `sage samples tokens --html`.

import { plain } from "../chart.js";
import { grade } from "../completion.js";
import { h, visible } from "../dom.js";
import { percent, shown } from "../format.js";
import { href } from "../state.js";
import { tokenView } from "../tokens.js";

export const guide = {
  title: (params) => `Tokens of ${params.run}`,
  load: async (params, get) => get("guide", { run: params.run }),
  view({ policy, report }) {
    return [
      h("p", {}, `guide ${visible(report.guide)}, as at training step ${report.step + 1}; q is held between ${report.q_min} and ${report.q_max}`, report.tau === null ? "" : `; τ is ${report.tau}`),
      report.notes.map((note) => h("p", { class: "quiet" }, visible(note))),
      h("p", { class: "leads" }, h("a", { class: "button", href: href("run", { run: policy.split("@")[0] }) }, "The run")),
      h("div", { class: "scroll", id: "scroll-guide", tabindex: "0", role: "region", "aria-label": "each completion in numbers" }, summary(report)),
      report.completions.map((one, place) => completion(one, place, report))];
  },
};

function summary(report) {
  const percentiles = Object.keys(report.summary).filter((name) => name.startsWith("entropy_p"));
  const row = (name, status, tokens, of) => [name, status, tokens, percent(of.shaped), percent(of.clamped), of.log_q, ...percentiles.map((one) => of[one])];
  const right = report.completions.filter((one) => one.status === "right").length;
  const all = report.completions.reduce((sum, one) => sum + one.tokens.length, 0);
  return plain(["completion", "grade", "tokens", "q≠1", "clamped", "mean log q", ...percentiles.map((one) => one.replace("entropy_", "entropy "))],
    [...report.completions.map((one, place) => row(String(place + 1), one.status, one.tokens.length, one.values.summary)), row("all", `${right}/${report.completions.length} right`, all, report.summary)]);
}

function completion(one, place, report) {
  const { surprisal_T: surprisal, entropy_T: entropy, q_T: q, clamped_T: clamped } = one.values;
  return h("article", { class: "completion" },
    h("h2", {}, `Completion ${place + 1}`), h("p", { class: "question" }, visible(one.question)),
    h("p", { class: "about" }, grade(one.status), h("span", {}, one.extracted === null ? "no answer" : ["answer ", h("code", {}, visible(one.extracted))]), h("span", {}, "gold ", h("code", {}, visible(shown(one.gold)))), h("span", { class: "quiet" }, `problem ${visible(one.problem_id)}`)),
    one.retokenized ? h("p", { class: "quiet" }, "The stored text is tokenized differently from the tokens that were sampled.") : null,
    tokenView({ tokens: one.tokens, surprisal, entropy, q, clamped }, "q"));
}
