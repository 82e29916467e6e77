from __future__ import annotations

import math

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.trials.suites.comparisons import Verdict, parse_claim


def test_a_claim_is_read_and_the_lesser_stands_second() -> None:
    claim = parse_claim("grpo-no-kl <  grpo at pass@256 on aime")
    assert (claim.a, claim.b, claim.k, claim.benchmark) == ("grpo", "grpo-no-kl", 256, "aime")
    assert parse_claim("a > b at pass@1").benchmark is None


@pytest.mark.parametrize("text", ["a > b", "a = b at pass@1", "a > b at pass@x", "a>b at pass@1"])
def test_what_is_no_claim_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a claim") as refused:
        parse_claim(text)
    assert "pass@256" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("difference", "p_holm", "verdict", "of_models"),
    [
        (0.1, 0.05, Verdict.HOLDS, Verdict.AS_CLAIMED),  # 0.05 is enough
        (-0.1, 0.01, Verdict.REVERSED, Verdict.OTHERWISE),
        (0.1, 0.0501, Verdict.OPEN, Verdict.OPEN_MODELS),
        (0.0, 0.01, Verdict.OPEN, Verdict.OPEN_MODELS),  # equal is neither
        (math.nan, 0.01, Verdict.UNKNOWN, Verdict.UNKNOWN),
        (0.1, math.nan, Verdict.UNKNOWN, Verdict.UNKNOWN),
    ],
)
def test_a_verdict_needs_sign_and_certainty(
    difference: float, p_holm: float, verdict: Verdict, of_models: Verdict
) -> None:
    claim = parse_claim("a > b at pass@1")
    assert claim.verdict(difference, p_holm, "methods") == verdict
    assert claim.verdict(difference, p_holm, "models") == of_models


def test_no_verdict_on_models_says_that_a_claim_holds() -> None:
    for verdict in (Verdict.AS_CLAIMED, Verdict.OTHERWISE, Verdict.OPEN_MODELS):
        assert verdict.value.startswith("these models: ")
        assert "holds" not in verdict.value
