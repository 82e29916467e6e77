"""The head-room of a rare way, from exact chances: what a policy gets, and what it might.

    sage sft --preset rare-way && sage rl --preset rare-way
    python benchmarks/rare_way.py RUN RUN@all

A way's chance is that of its opening words, its accuracy the chance of its right text after them.
An oracle keeps the policy's accuracy within each way, and takes the way that has more of it,
problem by problem. A regularised optimum is that of reward less beta times the KL divergence from
the policy, problem by problem: the odds of a right text times exp(1 / beta).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.exact.chances import ExactReader, exact_reader
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k
from sage_cli.models.policies.names import named_policies
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.registry import generated
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.sampling.decoder.token_choice import text_logps
from sage_cli.settings.presets import read_layer
from sage_cli.store.runs.run import Runs

TIMES = 5
"""How much more often the last way is right where it is called far better."""


@dataclass(frozen=True)
class Ways:
    """By problem and way: the chance that it is taken, and that it is then right; the near way."""

    taken_PW: FloatArray
    right_PW: FloatArray
    near_P: list[str]
    names: tuple[str, ...]


def main() -> None:
    """Print a line for each run and kind of problem."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("runs", nargs="+")
    options.add_argument("--root", type=Path, default=Path("runs"))
    options.add_argument("--benchmark", help="as rare-way-dev (default: the run's own)")
    options.add_argument("--beta", type=float, nargs="*", default=[0.04, 0.4])
    typed = options.parse_args()

    policies = [one for name in typed.runs for one in named_policies(name, Runs(typed.root))]
    for policy in policies:
        ways = read_ways(policy, typed.root, typed.benchmark)
        print(f"\n{policy.label}")
        for kind in ("all", *sorted(set(ways.near_P))):
            chosen = np.array([kind in ("all", near) for near in ways.near_P])
            print(f"  {kind:>4}: {described(ways, chosen, typed.beta)}")


def described(ways: Ways, chosen: np.ndarray, betas: list[float]) -> str:
    """Return what is known of the chosen problems, in words."""
    taken_PW, right_PW = ways.taken_PW[chosen], ways.right_PW[chosen]
    p_P = (taken_PW * right_PW).sum(axis=1)
    ks = [1, 8, 64, 256]
    worked = worked_pass_at_k(p_P, ks).mean(axis=0)
    parts = [f"{chosen.sum()} problems"]
    parts += [f"pass@{k} {value:.3f}" for k, value in zip(ks, worked, strict=True)]
    parts += [
        f"{way} taken {taken_PW[:, w].mean():.3f} right {right_PW[:, w].mean():.3f}"
        for w, way in enumerate(ways.names)
    ]
    ahead = (right_PW[:, -1] >= TIMES * right_PW[:, 0]).mean()
    parts.append(f"{ways.names[-1]} right {TIMES} times as often on {ahead:.0%}")
    parts.append(f"oracle {right_PW.max(axis=1).mean():.3f}")
    for beta in betas:
        odds_P = p_P / np.maximum(1 - p_P, 1e-12) * np.exp(min(1 / beta, 700))
        parts.append(f"optimum at beta {beta:g} {(odds_P / (1 + odds_P)).mean():.3f}")
    return ", ".join(parts)


def read_ways(policy: Policy, root: Path, benchmark_name: str | None) -> Ways:
    """Return the chances of ways and right texts at the policy's own decoding."""
    assert policy.run is not None
    stored = read_layer(policy.run.folder / "config.json")
    sets = [f"evaluation.benchmark={benchmark_name}"] if benchmark_name else []
    spec = EvaluationSpec.of(load(stored=stored, sets=sets).config)
    (benchmark,) = load_benchmarks(spec.evaluation, spec.data)
    own = PolicySamples.of_evaluation(policy, spec, root)
    reader = exact_reader(own, benchmark, spec.data, [spec.sampling.temperature])
    chances = reader.read(Silent())
    entry = generated(benchmark.name)
    assert entry is not None
    openings = opening_pairs(reader, entry.generator.modes)
    model = policy.model(dtype=policy.dtype(own.dtype)).eval()
    logps = text_logps(model, list(openings.values()), [own.parameters])[0]
    chance = dict(zip(openings, np.exp(logps), strict=True))
    taken_PW = np.array([[chance[id_, way] for way in chances.ways] for id_ in chances.problem_ids])
    near_P = [str(problem.meta.get("near", "")) for problem in benchmark.problems]
    return Ways(taken_PW, chances.p_TPW[0] / taken_PW, near_P, chances.ways)


def opening_pairs(reader: ExactReader, words: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """Return (problem id, way) -> tokens of the prompt, and of a text up to its way's name."""
    tokenizer = reader.own.policy.tokenizer()
    template = PromptTemplate.from_section(reader.own.prompt, tokenizer)
    golds, pairs = reader.benchmark.golds, {}
    for key, (prompt, _) in reader.pairs.items():
        text = template.complete(reader.listed.workings[key[0]][key[1]], golds[key[0]])
        end = text.index(words[key[1]]) + len(words[key[1]])
        ids = tokenizer(text[:end], add_special_tokens=False)["input_ids"]
        pairs[key] = (prompt, tuple(ids))
    return pairs


if __name__ == "__main__":
    main()
