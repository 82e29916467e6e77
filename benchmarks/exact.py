"""Exact chances beside sampling: agreement, speed, and the noise that is left.

    sage rl --algo grpo --guide branch --steps 40 && sage passk RUN --n 512 --k 1,256
    python benchmarks/exact.py RUN --n 512

Agreement is a chi-square of the listed texts among stored samples, problem by problem. The noise is
that of mean pass@256 over draws of n samples, by counts and with listed texts exact.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from sage_cli.analysis.answers import Answers
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.exact.chances import exact_reader
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.counts.exact import exact_pass_at_k
from sage_cli.models.policies.names import named_policies
from sage_cli.progress import Silent
from sage_cli.sampling.decoder.token_choice import text_logps
from sage_cli.settings.presets import read_layer
from sage_cli.store.runs.run import Runs

LEAST = 5.0
"""Expected counts below which cells of a problem are taken together."""


def main() -> None:
    """Print agreement, speed and noise of the run that is named."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("run")
    options.add_argument("--runs", type=Path, default=Path("runs"))
    options.add_argument("--n", type=int, default=512)
    options.add_argument("--k", type=int, default=256)
    options.add_argument("--draws", type=int, default=400)
    typed = options.parse_args()

    (policy,) = named_policies(typed.run, Runs(typed.runs))
    assert policy.run is not None
    stored = read_layer(policy.run.folder / "config.json")
    spec = EvaluationSpec.of(load(stored=stored, sets=[f"evaluation.samples={typed.n}"]).config)
    (benchmark,) = load_benchmarks(spec.evaluation, spec.data)
    own = PolicySamples.of_evaluation(policy, spec, typed.runs)
    reader = exact_reader(own, benchmark, spec.data, [spec.sampling.temperature])
    model, pairs = policy.model(dtype=policy.dtype(own.dtype)).eval(), list(reader.pairs.values())
    for count in (1, 8):
        decodings = [replace(own.parameters, temperature=0.5 + 0.1 * i) for i in range(count)]
        text_logps(model, pairs[:3], decodings)
        before = time.process_time()
        text_logps(model, pairs, decodings)
        spent = time.process_time() - before
        print(f"{len(pairs)} texts at {count} temperatures: {spent:.2f} processor seconds")
    chances = reader.read(Silent())

    rows = list(Answers.of(own, benchmark, spec).rows())
    ids, (temperature,) = list(benchmark.golds), chances.temperatures
    way_of = {(id_, tokens): way for (id_, way), (_, tokens) in reader.pairs.items()}
    place = {id_: p for p, id_ in enumerate(ids)}
    seen_PW = np.zeros((len(ids), len(chances.ways)))
    for row in rows:
        way = way_of.get((row.problem.id, row.completion.token_ids))
        if way is not None:
            seen_PW[place[row.problem.id], chances.ways.index(way)] += 1
    statistic, freedom = chi_square(seen_PW, chances.p_TPW[0], typed.n)
    print(f"chi-square {statistic:.1f} on {freedom} degrees: p {chi2.sf(statistic, freedom):.3f}")

    others = reader.others((row.completion, row.right) for row in rows)
    p_P = chances.at(temperature)
    q_P = np.minimum((1 - p_P) * others.c_P / np.maximum(others.m_P, 1), 1 - p_P)
    generator = np.random.default_rng(0)
    by_counts, by_chances = np.empty((2, typed.draws))
    for draw in range(typed.draws):
        cells = np.stack([p_P, q_P, np.maximum(0, 1 - p_P - q_P)], axis=1)
        listed, right, _ = generator.multinomial(typed.n, cells / cells.sum(1, keepdims=True)).T
        n_P = np.full(len(ids), typed.n)
        by_counts[draw] = pass_at_k(n_P, listed + right, typed.k).mean()
        exact = exact_pass_at_k(p_P, typed.n - listed, right, [typed.k])[:, 0]
        # where too few others were drawn, what is known is the listed texts' part
        none = (1 - p_P) ** typed.k
        by_chances[draw] = np.where(np.isnan(exact), 1 - none, exact).mean()
    print(f"{others.share:.2%} of {others.right:,} right samples are none of the listed texts")
    print(f"SD of mean pass@{typed.k} over draws of {typed.n}: {by_counts.std():.4f} by counts, "
          f"{by_chances.std():.4f} with listed texts exact")  # fmt: skip


def chi_square(seen_PW: np.ndarray, p_PW: np.ndarray, n: int) -> tuple[float, int]:
    """Return the statistic and its degrees of freedom; rare ways go to a problem's rest."""
    statistic, freedom = 0.0, 0
    for seen_W, p_W in zip(seen_PW, p_PW, strict=True):
        known = n * p_W >= LEAST
        expected = np.array([*(n * p_W[known]), n * (1 - p_W[known].sum())])
        observed = np.array([*seen_W[known], n - seen_W[known].sum()])
        if known.any() and expected[-1] >= LEAST:
            statistic += float(((observed - expected) ** 2 / expected).sum())
            freedom += int(known.sum())
    return statistic, freedom


if __name__ == "__main__":
    main()
