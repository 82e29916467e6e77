"""Records of batches and steps: figures, some completions to read, time by phase, peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep
from sage_cli.training.checkpoints.safeguards import Safeguards


def batch_record(status_PN: Tensor, length_B: Tensor, clipped_B: Tensor) -> dict[str, Any]:
    """Statistics over all processes' completions, indices into STATUSES one row per prompt.

    `reward` is the share of right answers; a group has zero variance when its grades agree.
    """
    right_PN = (status_PN == STATUSES.index("right")).float()
    p_P = right_PN.mean(dim=1)
    return {
        "reward": right_PN.mean().item(),
        **{
            f"grade/{status}": int((status_PN == index).sum())
            for index, status in enumerate(STATUSES)
        },
        "groups/zero_variance": ((p_P == 0) | (p_P == 1)).float().mean().item(),
        "completions/length": length_B.float().mean().item(),
        "completions/clipped": clipped_B.float().mean().item(),
    }


def unfinished(completion_ids_BT: Tensor, mask_BT: Tensor, end_ids: list[int]) -> Tensor:
    """True (B,) for completions whose last token is no end of sequence."""
    last_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1) - 1
    final_B = completion_ids_BT.gather(1, last_B1).squeeze(1)
    return ~torch.isin(final_B, torch.tensor(end_ids, device=final_B.device))


def rollout_rows(
    prompts: Sequence[Mapping[str, Any]],
    completions: Sequence[str],
    statuses: Sequence[str],
    rewards_BF: Tensor,
    group: int,
    said: Sequence[Mapping[str, float | None]] = (),
) -> list[dict[str, Any]]:
    """The first completion of every prompt, where each prompt has `group` of them in a row.

    `reward` is the sum over the reward functions F, as the advantage is computed from, `rewards`
    what each of them says, where that is `said`.
    """
    rewards = rewards_BF.sum(dim=1).tolist()
    rows = [
        {
            "prompt": row["prompt"],
            "completion": text,
            "gold": row["gold"],
            "grade": status,
            "reward": reward,
        }
        for row, text, status, reward in zip(prompts, completions, statuses, rewards, strict=True)
    ]
    rows = [row | {"rewards": one} for row, one in zip(rows, said, strict=True)] if said else rows
    return rows[::group]


class StepWriter:
    """Writes `run`'s metrics and some rollouts of every `tracking.rollouts_every` steps.

    The safeguards remember the steps that the run has already.
    """

    def __init__(
        self, run: Run, tracking: TrackingSection, on_step: OnStep, *, stop_when_stuck: bool
    ) -> None:
        self.run, self.tracking, self.on_step = run, tracking, on_step
        self.safeguards = Safeguards(stop=stop_when_stuck)
        for earlier in run.metrics.read():
            self.safeguards.count(earlier)

    def write(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Called in the main process alone."""
        if (record["step"] - 1) % self.tracking.rollouts_every == 0:
            wanted = self.tracking.rollouts
            for row in rollouts if wanted == "all" else rollouts[:wanted]:
                self.run.rollouts.append({"step": record["step"], **row})
        self.run.metrics.append(record)  # last: who finds the step here finds its rollouts there
        self.on_step(record)


PHASES = ("generate", "sync", "grade", "reference", "loss")
"""Sampling completions, handing weights to the engine, grading, log-probabilities of frozen and
earlier policies, and the loss with its gradients. What is left of a step is mostly the optimiser's.
"""
_GIB = 2**30


def settle_device() -> None:
    """Wait for what was asked of the GPU, so that its time counts where it was asked."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Phases:
    """This process's seconds by phase; a phase inside another takes its time away from that."""

    def __init__(
        self,
        settle: Callable[[], None] = settle_device,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settle, self._clock = settle, clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the time inside as `phase`'s."""
        began = self._clock()
        self._inside.append(0.0)
        try:
            yield
        finally:
            self._settle()
            took = self._clock() - began
            self._seconds[phase] += took - self._inside.pop()
            if self._inside:
                self._inside[-1] += took

    def record(self, step_s: float, sampled: int, trained: int) -> dict[str, float]:
        """The step's seconds in all and by phase in this process, and tokens a second in all.

        `trained` tokens are in the step's loss. `sampled` ones are all, replaced groups included,
        in the time that sampling took.
        """
        seconds = self.drain()
        sampling_s = seconds["generate"] + seconds["sync"]
        rate = {"time/generated_tokens_per_s": sampled / sampling_s} if sampled else {}
        return {
            "time/step_s": step_s,
            **{f"time/{phase}_s": value for phase, value in seconds.items()},
            "time/trained_tokens_per_s": trained / step_s,
            **rate,
        }

    def drain(self) -> dict[str, float]:
        """The seconds of each phase since the last call."""
        seconds, self._seconds = self._seconds, defaultdict(float)
        return {phase: seconds[phase] for phase in PHASES}


def peak_memory(accelerator: Any) -> dict[str, float]:
    """`memory/peak_gib` since the last call, the highest of all processes; of each, if several.

    That of each process's GPU; without one the process's own memory since it began.
    """
    peak = torch.tensor([_peak_bytes() / _GIB], device=accelerator.device)
    every: list[float] = _gathered(peak, accelerator).tolist()
    found = {"memory/peak_gib": max(every)}
    if len(every) > 1:
        found |= {f"memory/peak_gib/{rank}": value for rank, value in enumerate(every)}
    return found


def _gathered(values: Tensor, accelerator: Any) -> Tensor:
    gathered: Tensor = accelerator.gather(values)
    return gathered.reshape(-1)


def _peak_bytes() -> int:
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return int(peak)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
