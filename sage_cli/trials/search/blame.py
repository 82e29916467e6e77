"""The failures that a trial's own settings are to blame for, and streaks of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.search.study.study_trial import StudyTrial

_MEMORY_SECTIONS = ("model.", "prompt.", "data.", "rollout.vllm.")
_MEMORY_SETTINGS = frozenset({
    "sft.batch_size", "sft.micro_batch", "sft.max_length", "sft.optimizer", "sft.loss",
    "sft.gradient_checkpointing",
    "rl.algo", "rl.prompts_per_step", "rl.rollouts_per_prompt", "rl.micro_batch", "rl.optimizer",
    "rl.gradient_checkpointing", "rl.processes", "rl.steps_per_generation", "rl.dynamic_sampling",
    "rl.max_extra_generations", "rl.most_rollouts",
    "rollout.backend", "rollout.max_tokens", "anchor.kl", "anchor.reference",
    "anchor.reference_samples", "guide.name",
})  # fmt: skip


def changes_memory(keys: Iterable[str]) -> bool:
    """Return True if one of these settings can change how much memory a training takes."""
    return any(key in _MEMORY_SETTINGS or key.startswith(_MEMORY_SECTIONS) for key in keys)


def is_own(why: Failure, keys: Iterable[str]) -> bool:
    """Return True if a trial's own settings made it fail; `keys` are the searched settings.

    A lack of memory is the machine's if no searched setting changes how much is taken.
    """
    return why.kind is Kind.DIVERGED or (why.kind is Kind.MEMORY and changes_memory(keys))


@dataclass
class Streak:
    """Failures of one kind in a row, which may have one cause outside the trials.

    At `most` of them the sweep stops; None is never. Once a trial ends otherwise, `blame` is called
    for each. A failure of a trial's own says nothing about the machine, so it neither ends the
    streak nor belongs to it.
    """

    most: int | None
    blame: Callable[[StudyTrial, Failure], None]
    members: list[tuple[StudyTrial, Failure]] = field(default_factory=list)

    @property
    def stops(self) -> Failure | None:
        """The latest failure if there are so many that the sweep stops."""
        enough = self.most is not None and len(self.members) >= self.most
        return self.members[-1][1] if enough else None

    def add(self, trial: StudyTrial, why: Failure) -> None:
        """Count a failure; one of another kind begins a new streak."""
        if any(before.kind is not why.kind for _, before in self.members):
            self.end()
        self.members.append((trial, why))

    def end(self) -> None:
        """Blame the trials, since another one ended otherwise."""
        for trial, why in self.members:
            self.blame(trial, why)
        self.members.clear()
