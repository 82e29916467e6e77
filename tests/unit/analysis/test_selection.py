"""Options of analyses, under the configuration of what is analysed."""

from __future__ import annotations

import pytest

from sage_cli.analysis.registry import ANALYSES
from sage_cli.analysis.selection import Request, options_of
from sage_cli.config.load import load


@pytest.mark.parametrize(
    ("setting", "own"),
    [
        ("anchor.kl=none", []),
        ("anchor.kl=forward", []),
        ("anchor.beta=0", []),
        ("guide.name=random", ["random"]),
        ("rl.algo=guided-dpo", []),
    ],
)
def test_guides_read_a_policy_whatever_it_was_trained_with(setting: str, own: list[str]):
    options = options_of(ANALYSES["signals"], load(sets=[setting]).config, Request())
    assert [guide.name for guide in options.guides] == [*own, "branch", "token"]
