"""The units of the study configs/suites/smollm2-dose.yaml, in their declared order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ORDER = "smollm2-dose"
"""Seeds the order of seeds, and of the arms of each."""
PILOT, SEEDS = 103, range(1, 9)
FULL = 4
"""Seeds that have the positive control and the envelope, too."""
PAIR, FURTHER = ("anchor", "branch"), ("control", "envelope")
PILOTED = ("branch", "anchor", "control", "envelope")
"""The pilot's arms, by what each tells."""
BASE_TEMPERATURES, TEMPERATURES = (0.0, 0.3, 0.5, 0.7), (0.8, 1.2)
POOL, PILOTS_POOL, ALL, SOME = 800, 256, 400, 200
"""Training problems of which those in `SOLVED` are trained on, in the study and in the pilot; test
problems, and those of other temperatures."""
SOLVED = (0.05, 0.95)
PREPARING = ("pilot's pool", "pilot")
"""Parts that run first, whatever the pilot says."""
DROPS = ("temperatures", "initial", "envelope")
"""What may be dropped if time is short, in this order."""
RECORDED = (
    "reward",
    "completions/length",
    "completions/clipped",
    "entropy",
    "kl/reference",
    "kl/k3_reference",
    "kl/k3_top10",
    "guide/q_mean",
    "guide/q_kl_mean",
    "guide/q_entropy_mean",
    "guide/shaped",
    "guide/clamped",
    "grad_norm",
    "loss",
)
"""What is kept of every step of a training."""

Line = Mapping[str, Any]
"""A kept unit: its name, what it was made with, and its steps."""


@dataclass(frozen=True)
class Unit:
    """One training with its measuring, or one measuring. `part` is what may be dropped."""

    part: str
    method: str
    seed: int | None = None
    temperature: float = 1.0
    problems: int = ALL

    @property
    def name(self) -> str:
        """The name under which it is kept, as `pair anchor seed 3 T 1`."""
        seed = "" if self.seed is None else f" seed {self.seed}"
        return f"{self.part} {self.method}{seed} T {self.temperature:g}"

    @property
    def trains(self) -> bool:
        """Return True if a policy is trained, and not only measured."""
        return self.part in ("pilot", "pair", "control", "envelope")

    @property
    def waits(self) -> bool:
        """Return True for what runs only after a pilot that holds: it is of a trained policy."""
        return self.part not in PREPARING and self.method != "base"

    @property
    def chooses(self) -> bool:
        """Return True if its counts choose the problems that policies are trained on."""
        return self.part in ("pool", "pilot's pool")

    @property
    def measured(self) -> int:
        """Problems that it is measured on: the pilot's trainings on none."""
        return 0 if self.part == "pilot" else self.problems

    @property
    def pool(self) -> str:
        """The unit by whose counts its training problems are chosen."""
        return _pool("pilot's pool" if self.part == "pilot" else "pool").name


def order_of_seeds() -> list[int]:
    """Return the seeds in the order in which they run."""
    return random.Random(ORDER).sample(SEEDS, len(SEEDS))


def arms_of(seed: int) -> list[str]:
    """Return the arms of a seed in the order in which they run."""
    full = seed in order_of_seeds()[:FULL]
    arms = [*PAIR, *(FURTHER if full else ())]
    return random.Random(f"{ORDER} {seed}").sample(arms, len(arms))


def units(dropped: Iterable[str] = (), seeds: Iterable[int] = SEEDS) -> list[Unit]:
    """Return all units in their order, without the parts that are dropped.

    Of the seeds of the study only `seeds` are returned, so that two processes can share them.
    """
    left_out, others = set(dropped), set(SEEDS) - set(seeds)
    return [unit for unit in _all() if unit.part not in left_out and unit.seed not in others]


def _all() -> Iterator[Unit]:
    yield _pool("pilot's pool")
    for method in PILOTED:
        yield Unit("pilot", method, PILOT)
    yield _pool("pool")
    yield Unit("base", "base")
    for seed in order_of_seeds():
        for arm in arms_of(seed):
            yield Unit("pair" if arm in PAIR else arm, arm, seed)
        for temperature in TEMPERATURES:
            yield Unit("temperatures", "anchor", seed, temperature, SOME)
    for temperature in BASE_TEMPERATURES:
        yield Unit("initial", "base", None, temperature)


def _pool(part: str) -> Unit:
    return Unit(part, "base", problems=POOL if part == "pool" else PILOTS_POOL)


def done(kept: Iterable[Line], here: Mapping[str, Any], wanted: list[Unit]) -> set[str]:
    """Return the names of the units that need not run on this machine, whose things are `here`.

    Arms are compared only if they began at the same weights. So of a seed those units count that
    were made with what is here, unless all its arms ended elsewhere: then it is done, and its
    policies can be measured no more. Units without a seed are done wherever they ended.
    """
    names: defaultdict[Things, set[str]] = defaultdict(set)
    for line in kept:
        if line["ended"]:
            names[things(line["made_with"])].add(line["unit"])
    mine = names.pop(things(here), set())
    found = set()
    for unit in wanted:
        arms = {one.name for one in wanted if one.trains and one.seed == unit.seed}
        if unit.seed is None:
            over = any(unit.name in group for group in names.values())
        else:
            over = not arms <= mine and any(arms <= group for group in names.values())
        if over or unit.name in mine:
            found.add(unit.name)
    return found


Things = tuple[str, int]


def things(made_with: Mapping[str, Any]) -> Things:
    """Return what trainings that are compared have in common: initial weights, result version."""
    return made_with["adapter"], made_with["result_version"]
