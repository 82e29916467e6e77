"""The drawing of a training step in docs/architecture.md: who calls whom, and in which order."""

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWING = re.search(r"## A training step.*?```\n(.*?)```", PAGE, re.DOTALL).group(1)
THEIRS = {
    "GuidedGRPOTrainer._generate_and_score_completions": (
        "GRPOTrainer._generate_and_score_completions"
    ),
    "GuidedGRPOTrainer._compute_loss": "GRPOTrainer._compute_loss",
}
"""What `TRL's` is below a method of ours: the method that it overrides."""


def drawn():
    """Yield (caller, called) of each line of the tree, from top to bottom."""
    above = []
    for line in DRAWING.splitlines():
        begin, name = re.match(r"([ │├└]*)([\w.']*)", line).groups()
        if name and (not begin or begin.rstrip().endswith(("├", "└"))):
            above = [(indent, caller) for indent, caller in above if indent < len(begin)]
            caller = above[-1][1] if above else None
            called = THEIRS[caller] if name == "TRL" or name.startswith("TRL'") else name
            yield caller, called
            above.append((len(begin), called))


EDGES = list(drawn())
NAMES = {name for _, name in EDGES}


class Calls:
    """While it is entered: which drawn function calls which, in the order of the first calls."""

    def __init__(self):
        self.called = defaultdict(list)
        self._under_way = []

    def __enter__(self):
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _hear(self, frame, event, _):
        if event not in ("call", "return"):
            return
        whole = frame.f_code.co_qualname
        name = whole if whole in NAMES else whole.rpartition(".")[2]
        if name not in NAMES or not re.search(r"sage_cli|/trl/trainer/", frame.f_code.co_filename):
            return
        if event == "return":
            self._under_way.pop()
            return
        caller = next((other for other in reversed(self._under_way) if other != name), None)
        if name not in self.called[caller]:
            self.called[caller].append(name)
        self._under_way.append(name)


@pytest.mark.slow
def test_a_training_calls_what_is_drawn_in_the_drawn_order(bench, configure):
    # this method computes and shapes its own advantages, so that every line is entered
    rl = {"algo": "entropy-shaped", "steps": 2, "save_every": 1}
    config = configure(rl=rl, guide={"name": "branch"}, anchor={"kl": "reverse"})
    with Calls() as calls:
        bench.run(config)
    assert len(EDGES) > 20
    for caller in dict.fromkeys(caller for caller, _ in EDGES):
        expected = [called for by, called in EDGES if by == caller]
        assert [name for name in calls.called[caller] if name in expected] == expected, caller
