"""Pass rates that choose problems: what is read, and what is refused."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["data.rl.solved=.05..0.95"], r"solved_by is not set"),
        (["data.rl.solved_by=RUN"], "has no effect"),
        (["data.rl.solved=0.9..0.1", "data.rl.solved_by=RUN"], "is not a range of pass rates"),
        (["data.rl.solved=0..2", "data.rl.solved_by=RUN"], "is not a range of pass rates"),
        (["data.rl.solved=half", "data.rl.solved_by=RUN"], "is not a range of pass rates"),
    ],
)
def test_what_cannot_act(sets, said):
    with pytest.raises(ConfigurationError, match=said):
        load(sets=sets)


@pytest.mark.parametrize(
    ("typed", "ends"), [(".05...95", (0.05, 0.95)), ("0..1", (0, 1)), (".5...5", (0.5, 0.5))]
)
def test_a_range(typed, ends):
    source = load(sets=[f"data.rl.solved='{typed}'", "data.rl.solved_by=RUN"]).config.data.rl
    assert source.solved_range == ends
