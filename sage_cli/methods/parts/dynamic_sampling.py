"""Dynamic sampling: groups that teach nothing are replaced by fresh prompts (DAPO, Yu et al. 2025).

A group whose grades are all equal has no advantage. Grades decide, not shaped rewards: a
group of wrong answers of different lengths is still replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor

    from sage_cli.methods.parts.hooks import Trainer

Row = dict[str, Any]
Generated = tuple[Any, ...]


class DynamicSampling:
    """Replaces groups of equal grades, in at most `bound` generations beyond the first.

    Fresh prompts are chosen by a generator seeded by (seed, step, attempt), without those already
    tried in this step, so that a resumed run chooses the same. `record` says how many groups were
    discarded and how many extra generations the last step took.
    """

    def __init__(self, population: Dataset, bound: int, seed: int) -> None:
        self.population, self.bound, self.seed = population, bound, seed
        self.record: dict[str, int] = {}

    def sample(self, trainer: Trainer, rows: Sequence[Row]) -> tuple[list[Row], Generated]:
        """Rows and their completions (in TRL's form) after replacement, for this process."""
        from accelerate.utils import gather_object

        rows, sampled = list(rows), trainer.generate_rows(rows)
        tried = set(gather_object([row["row"] for row in rows]))
        self.record = {"groups/discarded": 0, "groups/extra_generations": 0}
        for attempt in range(self.bound):
            stale = equal_groups(trainer.grade_rows(rows, sampled))
            fresh = self._fresh(len(stale), tried, trainer.state.global_step, attempt)
            if not fresh:
                break
            tried.update(fresh)
            replacement = dict(zip(stale, fresh, strict=False))
            rows, sampled = self._replace(trainer, rows, sampled, replacement)
            self.record["groups/discarded"] += len(replacement)
            self.record["groups/extra_generations"] += 1
        return rows, sampled

    def _fresh(self, count: int, tried: set[int], step: int, attempt: int) -> list[int]:
        """Up to `count` prompts that weren't tried in this step."""
        left = np.setdiff1d(np.arange(len(self.population)), sorted(tried))
        generator = np.random.default_rng((self.seed, step, attempt))
        chosen: list[int] = generator.permutation(left)[:count].tolist()
        return chosen

    def _replace(
        self, trainer: Trainer, rows: list[Row], sampled: Generated, replacement: dict[int, int]
    ) -> tuple[list[Row], Generated]:
        """Generate for this process's rows of the replaced groups; group -> prompt.

        Every process generates the same number of rows, since generation is collective.
        """
        from accelerate.utils import gather_object

        first = trainer.accelerator.process_index * len(rows)
        groups = [(first + index) // trainer.num_generations for index in range(len(rows))]
        places = [index for index, group in enumerate(groups) if group in replacement]
        trainer.noted.replaced(rows, sampled, places)
        count = max(gather_object([len(places)]))
        fresh = [self.population[replacement[groups[index]]] for index in places]
        padding = [self.population[next(iter(replacement.values()))]] * (count - len(places))
        new = trainer.generate_rows([*fresh, *padding])
        rows = list(rows)
        for place, row in zip(places, fresh, strict=True):
            rows[place] = row
        return rows, tuple(_merged(old, new[i], places) for i, old in enumerate(sampled))


def equal_groups(right_PN: Tensor) -> list[int]:
    """Indices of the groups whose completions are all right or all not right."""
    share_P = right_PN.float().mean(dim=1)
    indices: list[int] = ((share_P == 0) | (share_P == 1)).nonzero().flatten().tolist()
    return indices


def _merged(old: Any, new: Any, places: list[int]) -> Any:
    """`old` with its values at `places` taken from `new`'s beginning; what isn't per row stays."""
    if not isinstance(old, list) or not old:
        return old
    merged = list(old)
    for place, value in zip(places, new, strict=False):
        merged[place] = value
    return merged
