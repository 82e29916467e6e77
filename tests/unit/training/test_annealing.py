"""An annealed anchor through a whole training: what it records, and that it goes on as it was."""

from __future__ import annotations

from typing import Any

import pytest
from toy_policy import KilledError, killing, reference_completions, timeless, weights


@pytest.mark.parametrize("algo", ["annealed-kl", "pacs", "forward"])
def test_an_annealed_training_is_held_less_and_less(bench: Any, configure: Any, algo: str):
    own = {"algo": "pacs"} if algo == "pacs" else {}
    rl = {"steps": 6, "iterations": 2, "save_every": 2, **own}
    anchor = {"schedule": "cosine", "beta": 0.4}
    guide: dict[str, Any] = {"name": "random", "epsilon": (0.9, 0.5)}
    given, divergence = {}, "kl/reference"
    if algo == "forward":
        anchor["kl"], guide, divergence = "forward", {"name": "none"}, "kl/forward"
        given = {"reference": None, "reference_completions": reference_completions()}
    config = configure(rl=rl, anchor=anchor, guide=guide)

    whole = bench.run(config, "whole", **given)
    # (1 + cos(pi t / 6)) / 2 for t = 0 .. 5
    shares = [1, 0.933013, 0.75, 0.5, 0.25, 0.066987]
    betas = [record["anchor/beta"] for record in whole]
    assert betas == pytest.approx([0.4 * share for share in shares], abs=1e-6)
    assert all(divergence in record for record in whole)
    if algo == "forward":  # the methods' resumes are in tests/invariant
        with pytest.raises(KilledError):
            bench.run(config, "resumed", on_step=killing(4), **given)
        rest = bench.run(config, "resumed", **given)
        assert [record["step"] for record in rest] == [3, 4, 5, 6]
        assert timeless(rest) == timeless(whole[2:])
        ends = [weights(bench.folder / name / "model") for name in ("whole", "resumed")]
        assert ends[0] == ends[1]
    # the last steps were held less than under a constant beta
    constant = {**anchor, "schedule": "constant"}
    bench.run(configure(rl=rl, anchor=constant, guide=guide), "constant", **given)
    held = weights(bench.folder / "constant/model")
    assert held != weights(bench.folder / "whole/model")
