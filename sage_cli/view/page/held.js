// The answers of an export: put together from what the page holds, as the server would give them.

import { Refused } from "./api.js";
import { listed } from "./state.js";

const LIMIT = 25;

/** Return an answer. `where` is its address. */
export function answer(held, name, params, where) {
  const make = MADE[name];
  if (make) return remembered(where, () => make(held, params));
  const plain = held.answers[where] ?? held.answers[address(name, params)];
  if (!plain) throw new Refused("this export does not contain that", held.footer);
  return plain;
}

const known = new Map();
function remembered(where, make) {
  if (!known.has(where)) known.set(where, make());
  return known.get(where);
}

function address(name, params) {
  const only = { run: params.run, sweep: params.sweep, suite: params.suite };
  const kept = Object.entries(only).filter(([, value]) => value);
  return kept.length ? `${name}?${new URLSearchParams(kept)}` : name;
}

const MADE = { records, passk, difference, problems, problem, samples, sample };

function records(held, { run, names }) {
  const all = held.records[run];
  if (!all) throw new Refused(`the curves of ${run} are not in this export`, held.footer);
  return { ...all, values: Object.fromEntries(listed(names).map((one) => [one, all.values[one] ?? []])) };
}

function chosen(held, policies, benchmark) {
  const names = listed(policies);
  const of = names.map((name) => [name, held.policies.filter((one) => one.policy === name)]);
  const shared = new Map();
  for (const [, all] of of) for (const one of all) shared.set(one.benchmark, (shared.get(one.benchmark) ?? 0) + 1);
  const benchmarks = [...shared.keys()].sort((a, b) => shared.get(b) - shared.get(a));
  const at = benchmark || benchmarks[0];
  const shown = of.map(([, all]) => all.find((one) => one.benchmark === at)).filter(Boolean);
  const absent = names.filter((name) => !shown.some((one) => one.policy === name)).map((policy) => ({ policy, why: `${policy} on ${at ?? "any benchmark"} is not in this export` }));
  return { shown, benchmarks, benchmark: at ?? null, absent };
}

function passk(held, params) {
  const { shown, benchmarks, benchmark, absent } = chosen(held, params.policies, params.benchmark);
  const ks = shown.map((one) => one.passk.k).filter((k) => k.length);
  const k = (ks[0] ?? []).filter((one) => ks.every((other) => other.includes(one)));
  const curves = shown.flatMap((one) => one.passk.curves.map((curve) => {
    const places = k.map((value) => one.passk.k.indexOf(value));
    return { ...curve, "pass@k": places.map((at) => curve["pass@k"][at]), low: places.map((at) => curve.low[at]), high: places.map((at) => curve.high[at]) };
  }));
  return { benchmark, benchmarks, k, confidence: shown[0]?.passk.confidence ?? 0.95, curves, absent: [...absent, ...shown.flatMap((one) => one.passk.absent)], provenance: shown[0]?.passk.provenance ?? {} };
}

function difference(held, { a, b, benchmark }) {
  const of = (x, y) => held.differences.find((one) => one.a === x && one.b === y && one.benchmark === benchmark);
  const found = of(a, b), turned = of(b, a);
  if (!found && !turned) throw new Refused(`the difference of ${a} and ${b} is not in this export`, held.footer);
  const less = (values) => values.map((one) => (one === null ? null : -one));
  return found ?? { ...turned, a, b, mean: less(turned.mean), low: less(turned.high), high: less(turned.low) };
}

function problems(held, params) {
  const { shown, benchmarks, benchmark, absent } = chosen(held, params.policies, params.benchmark);
  const rows = new Map();
  for (const one of shown) {
    for (const row of one.problems.problems) {
      const all = rows.get(row.problem) ?? { ...row, right: {}, samples: {} };
      rows.set(row.problem, { ...all, right: { ...all.right, ...row.right }, samples: { ...all.samples, ...row.samples } });
    }
  }
  return { benchmark, benchmarks, policies: shown.map((one) => one.policy), looks: Object.assign({}, ...shown.map((one) => one.problems.looks)), problems: [...rows.values()], absent };
}

function problem(held, params) {
  const { shown, benchmark, absent } = chosen(held, params.policies, params.benchmark);
  const row = shown.flatMap((one) => one.problems.problems).find((one) => one.problem === params.problem);
  if (!row) throw new Refused("this problem is not in this export", held.footer);
  const policies = shown.map((one) => {
    const of = one.samples.filter((sample) => sample.problem === params.problem);
    const fitting = of.filter(fits(params));
    const rows = fitting.slice(0, Number(params.limit ?? LIMIT));
    const answers = {};
    for (const sample of of) if (sample.extracted !== null) answers[sample.extracted] = (answers[sample.extracted] ?? 0) + 1;
    const top = Object.fromEntries(Object.entries(answers).sort((a, b) => b[1] - a[1]).slice(0, 12));
    return { policy: one.policy, look: one.problems.looks[one.policy], samples: of.length, grades: grades(of), answers: top, total: fitting.length, rows };
  });
  return { benchmark, problem: row.problem, question: row.question, gold: shown[0].golds[row.problem] ?? "", about: {}, policies, absent };
}

function samples(held, params) {
  const { shown, benchmarks } = chosen(held, params.policy, params.benchmark);
  const one = shown[0];
  if (!one) throw new Refused(`the samples of ${params.policy} are not in this export`, held.footer);
  const plain = one.samples.filter(fits({ ...params, text: "" }));
  const found = one.samples.filter(fits(params));
  const offset = Number(params.offset ?? 0);
  const problems = Object.fromEntries(one.problems.problems.map((row) => [row.problem, { question: row.question, gold: one.golds[row.problem] }]));
  return { policy: one.policy, benchmark: one.benchmark, benchmarks, total: found.length, candidates: plain.length, searched: plain.length, offset, grades: grades(plain), longest: one.longest, problems, rows: found.slice(offset, offset + Number(params.limit ?? LIMIT)) };
}

function sample(held, params) {
  const found = held.policies.filter((one) => one.policy === params.policy).flatMap((one) => one.samples).find((one) => one.problem === params.problem && one.seed === Number(params.seed) && one.index === Number(params.index));
  if (!found) throw new Refused("this sample is not in this export", held.footer);
  return { ...found, text: found.text.length < found.characters ? `${found.text}\n[the export contains the first ${found.text.length} characters]` : found.text };
}

function grades(rows) {
  const counted = {};
  for (const row of rows) counted[row.grade ?? "ungraded"] = (counted[row.grade ?? "ungraded"] ?? 0) + 1;
  return counted;
}

function fits({ problem: id, grade, text, truncated, shortest, longest, seed }) {
  const find = (text ?? "").toLowerCase();
  return (row) => (!id || row.problem === id) && (!grade || (row.grade ?? "ungraded") === grade)
    && (truncated === undefined || truncated === "" || row.truncated === (truncated === "1"))
    && (!shortest || row.tokens >= Number(shortest)) && (!longest || row.tokens <= Number(longest))
    && (!seed || row.seed === Number(seed)) && (!find || row.text.toLowerCase().includes(find));
}
