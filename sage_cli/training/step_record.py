"""Records of batches and steps: figures, completions, time by phase, peak memory, the ledger."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.guides import Guide, NoGuide
from sage_cli.guides.divergences import k3, log_ratio
from sage_cli.guides.guide import require_finite
from sage_cli.guides.token_values import (
    entropy_percentiles,
    guide_statistics,
    ratio_of_sums,
    share_of_largest,
    weighted_q,
)
from sage_cli.methods.hooks import Generated, GradeReward, Rollouts, Row
from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.ledger import PromptRow, Sampled, TrainingCompletions, TrainingLedger
from sage_cli.store.run import Run
from sage_cli.store.run_facts import PHASES
from sage_cli.training.watch import OnStep


@dataclass
class TokenRecord:
    """Flat per-token signals, so that statistics depend on neither micro-batches nor processes."""

    _parts: list[tuple[Tensor, dict[str, Tensor]]] = field(default_factory=list)

    def add(self, mask_BT: Tensor, **signals_BT: Tensor) -> None:
        """Keep a micro-batch's signals by name, of which `drain` returns the unmasked tokens."""
        detached = {name: values_BT.detach() for name, values_BT in signals_BT.items()}
        self._parts.append((mask_BT, detached))

    def drain(self, accelerator: Any) -> dict[str, Tensor]:
        """Return the step's signals over all processes, in double precision on the CPU; then empty.

        The main process has them; of the others each gets none.
        """
        parts, self._parts = self._parts, []
        tensors = [t_BT.flatten() for mask_BT, part in parts for t_BT in (mask_BT, *part.values())]
        if not tensors:
            return {}
        # choosing tokens by a mask waits for the device, so everything is fetched by one wait first
        fetched = iter(torch.split(torch.cat(tensors).cpu(), [len(values) for values in tensors]))
        tokens: defaultdict[str, list[Tensor]] = defaultdict(list)
        for _, part in parts:
            chosen = next(fetched).bool()
            for name in part:
                tokens[name].append(next(fetched)[chosen])
        flat = {name: torch.cat(values) for name, values in sorted(tokens.items())}
        if accelerator.num_processes > 1:
            flat = _gather(flat, accelerator)
        return {name: values_T.double() for name, values_T in flat.items()}


def token_statistics(signals: dict[str, Tensor], guide: Guide) -> dict[str, float | None]:
    """Return entropy, the divergences from the reference and from the anchor, and what q did.

    `kl/reference` is the mean of log pi - log pi_ref on the samples (Eq. 1), `kl/shaped` the same
    less log q (Eq. 5), `kl/k3` the mean of TRL's own estimator (Eq. 38), `kl/k3_reference` the same
    without log q, of which ten tokens have the share `kl/k3_top10`. Under the estimator `head`
    `kl/head` is the mean of what the loss has in k3's place, and `anchor/head_mass` of the
    policy's probability of the head. Raises TrainingError if the guide's q is not finite.
    """
    entropy_T = signals.get("entropy", torch.empty(0))
    entropy = entropy_T.mean().item() if len(entropy_T) else math.nan
    record: dict[str, float | None] = {"entropy": entropy}
    record |= {f"entropy/{name}": value for name, value in entropy_percentiles(entropy_T).items()}
    if "reference" not in signals:
        return record
    logps_T, reference_T, log_q_T = (signals[name] for name in ("logps", "reference", "log_q"))
    require_finite(guide, log_q_T, (logps_T, reference_T, entropy_T))
    record["kl/reference"] = log_ratio(logps_T, reference_T).mean().item()
    record["kl/shaped"] = log_ratio(logps_T, reference_T, log_q_T).mean().item()
    k3_T = k3(logps_T, reference_T, log_q_T)
    record["kl/k3"] = k3_T.mean().item()
    unguided_T, held_T = k3(logps_T, reference_T), signals["held"]
    record["kl/k3_reference"] = unguided_T.mean().item()
    record["kl/k3_top10"] = share_of_largest(unguided_T, held_T)
    if "head" in signals:
        record["kl/head"] = signals["head"].mean().item()
        record["anchor/head_mass"] = signals["head_mass"].mean().item()
    record["anchor/rows"] = held_T.mean().item()
    if "equal" in signals:
        # of the KL term, by k3, the share in groups of equal grades
        term_T = k3_T * held_T
        share = ratio_of_sums(term_T * signals["equal"], term_T)
        record |= {} if share is None else {"anchor/equal_groups": share}
    if not isinstance(guide, NoGuide):
        weighted = weighted_q(log_q_T, entropy_T, unguided_T, held_T)
        record |= {
            f"guide/{k}": v for k, v in {**guide_statistics(log_q_T, guide), **weighted}.items()
        }
    return record


def _gather(signals: dict[str, Tensor], accelerator: Any) -> dict[str, Tensor]:
    """Return all processes' signals, of unequal count, in the main one; none in the others."""
    device, values = accelerator.device, list(signals.values())
    counts = accelerator.gather(torch.tensor([[*map(len, values)]], device=device)).tolist()
    padded_T = accelerator.pad_across_processes(torch.cat(values).to(device), dim=0)
    if not accelerator.is_main_process:
        torch.distributed.gather(padded_T)
        return {name: values_T[:0] for name, values_T in signals.items()}
    rows = [torch.empty_like(padded_T) for _ in counts]
    torch.distributed.gather(padded_T, rows)
    fetched = [
        torch.split(row.cpu()[: sum(count)], count) for row, count in zip(rows, counts, strict=True)
    ]
    return {name: torch.cat(part) for name, *part in zip(signals, *fetched, strict=True)}


CLIPPING_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""The losses of TRL that clip the ratio on both sides."""


def add_clipped(
    tokens: TokenRecord,
    mask_BT: Tensor,
    log_ratio_BT: Tensor,
    advantages: Tensor,
    clip: tuple[float, float],
    *,
    whole: bool,
) -> None:
    """Keep where a micro-batch's loss clips the ratio of tokens, or with `whole` of completions.

    `advantages` are (B,) or (B, T), `clip` the distances from 1 on either side. TRL's own share is
    a mean over micro-batches, so it depends on which rows share one; the share of all that is kept
    here doesn't.
    """
    advantages_BT = advantages if advantages.dim() == 2 else advantages[:, None]
    if whole:
        counts_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1)
        log_ratio_BT = (log_ratio_BT * mask_BT).sum(dim=1, keepdim=True) / counts_B1
    ratio_BT, (low, high) = log_ratio_BT.exp(), clip
    below_BT = (ratio_BT < 1 - low) & (advantages_BT < 0)
    clipped_BT = below_BT | ((ratio_BT > 1 + high) & (advantages_BT > 0))
    counted_BT = mask_BT if clipped_BT.shape == mask_BT.shape else torch.ones_like(clipped_BT)
    tokens.add(counted_BT, clipped=clipped_BT.to(log_ratio_BT))


def add_mismatch(
    tokens: TokenRecord, batch: Mapping[str, Any], logps_BT: Tensor, *, whole: bool
) -> None:
    """Keep a micro-batch's log-ratios pi_old / pi_engine; `whole`: also of each completion.

    `logps_BT` are the policy's now, which sampled the batch where it carries no older ones. Tokens
    without a log-probability of the engine (NaN) are left out.
    """
    old_BT = batch.get("old_per_token_logps", logps_BT)
    log_ratio_BT = old_BT - batch["sampling_per_token_logps"]
    known_BT = batch["completion_mask"].bool() & ~log_ratio_BT.isnan()
    tokens.add(known_BT, mismatch=log_ratio_BT)
    if whole:
        sum_B1 = log_ratio_BT.where(known_BT, 0).sum(dim=1, keepdim=True)
        tokens.add(torch.ones_like(sum_B1), mismatch_whole=sum_B1)


def mismatch_statistics(signals: Mapping[str, Tensor], cap: float | None) -> dict[str, float]:
    """Return differences, ratios before they are cut, and the engine's divergence.

    The ratios are those that weigh the loss: of tokens, or of completions where those are known.
    `cap` is their upper end, None where nothing is weighed.
    """
    log_ratio_T = signals["mismatch"]
    ratio = signals.get("mismatch_whole", log_ratio_T).exp()
    zero_T = torch.zeros_like(log_ratio_T)
    record = {
        "mismatch/difference_mean": log_ratio_T.abs().mean().item(),
        "mismatch/difference_max": log_ratio_T.abs().max().item(),
        "mismatch/ratio_min": ratio.min().item(),
        "mismatch/ratio_mean": ratio.mean().item(),
        "mismatch/ratio_max": ratio.max().item(),
        "mismatch/kl": k3(zero_T, log_ratio_T).mean().item(),
    }
    return (
        record if cap is None else record | {"mismatch/cut": (ratio > cap).double().mean().item()}
    )


def batch_record(status_PN: Tensor, length_B: Tensor, clipped_B: Tensor) -> dict[str, Any]:
    """Return statistics of all processes' grades, indices into STATUSES one row per prompt.

    `reward` is the share of correct answers; a group has zero variance when its grades agree.
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


def rollout_rows(now: Rollouts, group: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the first completion of every prompt, where each prompt has `group` of them in a row.

    `reward` is the sum over the reward functions F, as the advantage is computed from. With their
    `names` each row also has what they say of the completion, None for one that says nothing.
    """
    rows_B = now.batch["row_ids_B"]
    rewards = now.rewards_BF[rows_B].sum(dim=1).tolist()
    raw = now.raw_BF[rows_B].tolist() if names else []
    shown = []
    for place in range(0, len(now.rows), group):
        row = {
            "prompt": now.rows[place]["prompt"],
            "completion": now.texts[place],
            "gold": now.rows[place]["gold"],
            "grade": now.statuses[place],
            "reward": rewards[place],
        }
        if names:
            by_name = zip(names, raw[place], strict=True)
            row["rewards"] = {name: None if math.isnan(value) else value for name, value in by_name}
        shown.append(row)
    return shown


_GIB = 2**30


@dataclass
class Phases:
    """This process's seconds by phase; a phase inside another takes its time away from that."""

    clock: Callable[[], float] = time.perf_counter
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _inside: list[float] = field(default_factory=list)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the time inside as `phase`'s."""
        began = self.clock()
        self._inside.append(0.0)
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # its work belongs to this phase
            took = self.clock() - began
            self._seconds[phase] += took - self._inside.pop()
            if self._inside:
                self._inside[-1] += took

    def record(self, step_s: float, sampled: int, trained: int) -> dict[str, float]:
        """Return the step's seconds, in all and by phase, and tokens a second; then begin anew.

        `trained` tokens are in the step's loss. `sampled` ones are all, replaced groups included,
        in the time that sampling took.
        """
        seconds, self._seconds = self._seconds, defaultdict(float)
        sampling_s = seconds["generate"] + seconds["sync"]
        rate = {"time/generated_tokens_per_s": sampled / sampling_s} if sampled else {}
        return {
            "time/step_s": step_s,
            **{f"time/{phase}_s": seconds[phase] for phase in PHASES},
            "time/trained_tokens_per_s": trained / step_s,
            **rate,
        }


def peak_memory(accelerator: Any) -> dict[str, float]:
    """`memory/peak_gib` since the last call, the highest of all processes; of each, if several.

    That of each process's GPU; without one the process's own memory since it began.
    """
    if torch.cuda.is_available():
        used = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    peak = torch.tensor([used / _GIB], device=accelerator.device)
    peaks: list[float] = accelerator.gather(peak).reshape(-1).tolist()
    record = {"memory/peak_gib": max(peaks)}
    if len(peaks) > 1:
        record |= {f"memory/peak_gib/{rank}": value for rank, value in enumerate(peaks)}
    return record


COMPLETION_IDS, COMPLETION_TEXTS = 1, 3
"""Where TRL's `_generate` returns the completions' tokens, and their texts."""


@dataclass
class RunRecorder:
    """Writes to `run` what this process samples, and each step's record with some rollouts.

    `problems` are the ids of the data set's rows. Counts go to the `ledger`, and with `kept` every
    completion is stored, too. The `step` of a generation batch is the first optimiser step that
    trains on it.
    """

    run: Run
    ledger: TrainingLedger
    tracking: TrackingSection
    problems: Sequence[str]
    reward: GradeReward
    on_step: OnStep
    kept: TrainingCompletions | None = None
    _rows: list[PromptRow] = field(default_factory=list)

    def record(
        self,
        step: int,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        texts: Sequence[str],
        statuses: Sequence[str],
        rewards_BF: Tensor | None = None,
    ) -> None:
        """Record completions that were graded; those without rewards are not trained on."""
        problems, trained = [self.problems[row["row"]] for row in rows], rewards_BF is not None
        for problem, status, tokens in zip(problems, statuses, map(len, ids), strict=True):
            counts = {name: int(status == name) for name in STATUSES}
            right_tokens = tokens * counts["right"]
            self._rows.append(
                PromptRow(
                    problem,
                    n=1,
                    **counts,
                    tokens=tokens,
                    right_tokens=right_tokens,
                    trained=trained,
                )
            )
        if self.kept is not None and problems:
            prompts, golds = [row["prompt"] for row in rows], [row["gold"] for row in rows]
            rewards = None if rewards_BF is None else rewards_BF.float().cpu().numpy().tolist()
            self.kept.add(
                Sampled(step, problems, prompts, golds, texts, statuses, trained, ids, rewards)
            )

    def record_replaced(
        self, step: int, rows: Sequence[Row], sampled: Generated, places: Sequence[int]
    ) -> None:
        """Record the completions at `places`, which are not trained on."""
        chosen = [rows[place] for place in places]
        ids, texts = (
            [sampled[which][place] for place in places]
            for which in (COMPLETION_IDS, COMPLETION_TEXTS)
        )
        statuses = self.reward.grade([row["gold"] for row in chosen], texts)
        self.record(step, chosen, ids, texts, statuses)

    def write_counts(self, step: int, *, main: bool) -> None:
        """Add the counts of all processes to the ledger, which the main process writes.

        A problem has one row for what was trained on, and one for what was not. They are sorted, so
        that the number of processes that sampled them doesn't show.
        """
        recorded, self._rows = gather_object(self._rows), []
        counts: defaultdict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
        for row in recorded:
            counted = row._asdict()
            key = (counted.pop("trained"), counted.pop("problem"))
            counts[key].update(counted)
        if main:
            merged = [
                PromptRow(problem, **tally, trained=trained)
                for (trained, problem), tally in sorted(counts.items())
            ]
            self.ledger.add(step, merged)

    def write_step(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Write a step's record, and some rollouts of every `tracking.rollouts_every` steps.

        Called in the main process alone.
        """
        if (record["step"] - 1) % self.tracking.rollouts_every == 0:
            shown_rows = self.tracking.rollouts
            for row in rollouts if shown_rows == "all" else rollouts[:shown_rows]:
                self.run.rollouts.append({"step": record["step"], **row})
        self.run.metrics.append(record)  # last: who finds the step here finds its rollouts there
        self.on_step(record)

    def seal(self) -> None:
        """Flush what was sampled to disk before a checkpoint is written. Raises StoreError."""
        self.ledger.seal()
        if self.kept is not None:
            self.kept.seal()
