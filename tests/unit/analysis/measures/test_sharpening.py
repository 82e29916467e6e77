"""pass@k under p^alpha: against enumerated policies, and a report by hand."""

from dataclasses import replace
from itertools import product
from math import factorial, log, prod

import numpy as np
import pytest
from stored import Sample, answered, inputs

from sage_cli.analysis.selection import options_of
from sage_cli.analysis.sharpening import SHARPENING, sharpening
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.metrics import pass_at_k
from sage_cli.metrics.estimators import effective_size, reweighted_pass_at_k
from sage_cli.settings.analysis import AnalysisOptions

P = np.array([0.45, 0.25, 0.2, 0.1])
RIGHT = np.array([False, True, False, True])


def plug_in(logw_N, right_N, ks):
    weight_N = np.exp(logw_N)
    return 1 - (1 - (weight_N * right_N).sum() / weight_N.sum()) ** np.array(ks)


def enumerated(estimate, n, alpha, ks):
    """Return the expectation over all multisets of n samples of the four texts."""
    expected = np.zeros(len(ks))
    for counts in product(range(n + 1), repeat=3):
        if sum(counts) <= n:
            times = np.array([*counts, n - sum(counts)])
            ways = factorial(n) / prod(map(factorial, times.tolist()))
            chance = ways * float(np.prod(P**times))
            logw_N = np.repeat((alpha - 1) * np.log(P), times)
            expected += chance * estimate(logw_N, np.repeat(RIGHT, times), ks)
    return expected


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_the_expectation_is_that_of_the_sharpened_policy(alpha):
    ks = [1, 2, 4, 8]
    q = (P**alpha)[RIGHT].sum() / (P**alpha).sum()
    truth = 1 - (1 - q) ** np.array(ks)
    bias = np.abs(enumerated(reweighted_pass_at_k, 20, alpha, ks) - truth)
    biased = np.abs(enumerated(plug_in, 20, alpha, ks) - truth)
    assert bias.max() < 0.006
    assert bias.sum() < biased.sum() / 3
    assert biased[1:].max() > 0.01  # the test sees the bias that is taken off


def test_weights_and_the_effective_size_by_hand():
    right_N = np.arange(12) < 3
    ks = [1, 4, 12]
    expected = pass_at_k(12, 3, ks)
    assert reweighted_pass_at_k(np.full(12, -7.0), right_N, ks) == pytest.approx(expected)
    # the jackknife alone, with weights that hardly differ: off by 1/n^2
    nearly = reweighted_pass_at_k(np.linspace(0, 1e-9, 12), right_N, [1, 4])
    assert nearly == pytest.approx(expected[:2], abs=0.02)
    assert effective_size(np.zeros(7)) == pytest.approx(7)
    # weights 1, 1, 2: 16 / 6
    assert effective_size(np.log([1.0, 1, 2]) - 900) == pytest.approx(16 / 6)
    assert effective_size(np.array([])) == 0


def test_the_mean_over_problems_has_little_bias_at_k_up_to_half_the_effective_size():
    draw = np.random.default_rng(3)
    ks, errors = [1, 2, 4, 8, 16], []
    for _ in range(1500):
        p = draw.dirichlet(np.full(60, 0.2)) + 1e-12
        right, sharp = draw.random(60) < 0.2, p**2 / (p**2).sum()
        texts = draw.choice(60, 64, p=p / p.sum())
        estimate = reweighted_pass_at_k(np.log(p[texts]), right[texts], ks)
        errors.append(estimate - 1 + (1 - sharp[right].sum()) ** np.array(ks))
    error = np.mean(errors, axis=0)
    assert np.abs(error).max() < 0.01 + 2 * np.std(errors, axis=0).max() / 1500**0.5


def texts(share, problems="abcd", n=40):
    """Return samples: a right text of probability `share`, and two wrong ones."""
    others = [Sample("w", "wrong", surprisal=-log(0.1) / 5), Sample("v", "wrong", surprisal=1.0)]
    right = Sample("r", surprisal=-log(share) / 5)
    return {
        id_: [right] * (n // 2 + 2 * i) + others * (n // 4 - i) for i, id_ in enumerate(problems)
    }


def test_a_report_by_hand(tmp_path):
    base = answered(tmp_path, "base", texts(0.5))
    better = [Sample()] * 28 + [Sample(status="wrong")] * 12
    run = answered(tmp_path, "run", dict.fromkeys("abcd", better))
    given = replace(inputs(base, run, alphas=(2.0,)), readings={"arithmetic": (base,)})
    document = sharpening(given)
    usual, sharp = document.data["sharpened"]
    # 20, 22, 24 and 26 of 40 are right
    assert usual["pass@1"] == pytest.approx(92 / 160)
    assert usual["effective size"] == pytest.approx(40)
    # weights .5, .1 and e^-5: of problem a 10 / (10 + 1 + 10 e^-5) is right
    size = (10 + 1 + 10 * np.exp(-5)) ** 2 / (20 * 0.25 + 10 * 0.01 + 10 * np.exp(-10))
    assert sharp["pass@1"] == pytest.approx(0.93, abs=0.02)
    assert sharp["smallest"] == pytest.approx(size)
    at_2, *_ = document.data["equal_accuracy"]
    assert at_2["policy"] == "run"
    assert 1 < at_2["α"] < 2
    assert at_2["at pass@1"] == pytest.approx(0.7)
    # pass@2 = 1 - C(12, 2) / C(40, 2)
    assert at_2["pass@k"] == pytest.approx(1 - 66 / 780)
    assert "can't be seen" in " ".join(document.notes)


def test_truncated_samples_are_left_out_and_too_few_are_refused(tmp_path):
    truncated = [Sample("cut", reason="length", surprisal=9.0)] * 8
    cut = {id_: [*of, *truncated] for id_, of in texts(0.5).items()}
    base, run = answered(tmp_path, "base", cut), answered(tmp_path, "run", texts(0.5))
    read = {"arithmetic": (base,)}
    document = sharpening(replace(inputs(base, run, alphas=(2.0,)), readings=read))
    assert document.tables[0].notes == ("32 truncated samples of base are left out",)
    assert document.data["sharpened"][0]["effective size"] == pytest.approx(40)
    few = {id_: of[::4] for id_, of in cut.items()}
    small = answered(tmp_path / "few", "base", few)
    with pytest.raises(DataError, match=r"size 6\.3 at α 3, and 10 are needed; 8 truncated"):
        sharpening(replace(inputs(small, run, alphas=(3.0,)), readings={"arithmetic": (small,)}))


@pytest.mark.parametrize(
    ("sampling", "request_", "message"),
    [
        ({"temperature": 0.6, "min_p": 0}, {}, "temperature 0.6, top_p 1"),
        ({"temperature": 1, "min_p": 0.1}, {}, "min_p 0.1"),
        ({"temperature": 1, "min_p": 0, "top_k": 20}, {}, "top_k 20"),
        ({"temperature": 1, "min_p": 0}, {"survival": True}, "does not use --survival"),
    ],
)
def test_other_samples_and_options_are_refused(sampling, request_, message):
    config = SageConfig.model_validate({"sampling": sampling})
    with pytest.raises(ConfigurationError, match=message):
        options_of(SHARPENING, config, AnalysisOptions(**request_))
