"""DPH-RL: a divergence holds what the initial policy nearly solves, rewards move the rest.

A batch of P problems has the loss 1/P (sum of the explored ones' policy terms + weight times the
sum of the held ones' divergences): rollouts of a held problem have advantage 0, and the row of its
first rollout brings the problem's stored completion through the model.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.hooks import Batch, Hooks, Setup, Trainer, logps_after, share_of
from sage_cli.methods.method import Beside, PlainAdvantages

if TYPE_CHECKING:
    from torch import Tensor

Divergence = Literal["forward", "js", "alpha"]
WEIGHTS: dict[Divergence, float] = {"forward": 0.03, "js": 0.125, "alpha": 0.03}
"""The middle of the authors' ranges: .01 to .05, .05 to .2, .01 to .05."""
_HELD = "held"
"""What a checkpoint calls the held problems: number, completion, and its log-probabilities."""


class DphRl(PlainAdvantages):
    """DPH-RL (Li et al. 2025). A problem is held, by the divergence, or explored, for rewards."""

    algo: Literal["dph-rl"] = "dph-rl"
    epsilon_high: float = Field(0.28, gt=0)
    divergence: Divergence = "js"
    """From the initial policy, on its completions: `forward` KL, Jensen-Shannon or `alpha`."""
    alpha: float = Field(0.2, gt=0, lt=1)
    """Order of the divergence `alpha`."""
    weight: float | None = Field(None, ge=0)
    """Weight of the divergence; null is .03 for `forward` and `alpha`, .125 for `js`."""
    initial_samples: int = Field(8, ge=1)
    """Completions sampled once from the initial policy, of each problem that the training comes
    to."""
    solved: float = Field(1.0, gt=0, le=1)
    """A problem is held where at least this share of them is right."""
    log_ratio_limit: float = Field(3.0, gt=0)
    """Above this log pi - log pi_initial of a token the divergence goes on with the slope it has
    there: it grows with pi / pi_initial, which a token that was unlikely at first may have any of.
    """

    source = (
        "Li et al. 2025 (arXiv 2509.07430): on problems that the initial policy nearly solves a "
        "divergence from it, on its own completions; rewards without KL on the others"
    )
    fidelity = "reduced"
    read_from = "code"
    differs = (
        "both kinds of problems come in one order, so that rollouts of held ones are sampled and "
        "teach nothing; a held completion is one of those that were graded"
    )
    kl_without_guide = "none"

    @property
    def weighs(self) -> float:
        """The divergence's weight."""
        return WEIGHTS[self.divergence] if self.weight is None else self.weight

    @property
    def samples_beforehand(self) -> int:
        """`initial_samples`."""
        return self.initial_samples

    def hooks(self, setup: Setup) -> Hooks:
        """Return what holds problems and leaves their rollouts out."""
        return HeldProblems(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with what replaces held problems or holds them twice."""
        refusals = super().refusals(beside)
        refusals += self.idle("alpha", "divergence=alpha", self.divergence == "alpha")
        if self.dynamic_sampling:
            refusals.append(
                "rl.algo 'dph-rl' holds problems that are nearly solved, and rl.dynamic_sampling "
                "would replace just them (use rl.dynamic_sampling=false)"
            )
        if beside.anchor.kl == "forward":
            refusals.append(
                "anchor.kl 'forward' is a divergence on stored completions, and rl.algo 'dph-rl' "
                "has one of its own (use --kl none with rl.divergence=forward)"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the divergence, and where it acts."""
        order = f" {self.alpha:g}" if self.divergence == "alpha" else ""
        held = (
            f"{self.divergence}{order} x {self.weighs:g}, where at least {self.solved:.0%} of "
            f"{self.initial_samples} initial samples are right"
        )
        return {**super().describe(), "divergence": held}


def divergence(log_ratio_BT: Tensor, kind: Divergence, *, alpha: float, limit: float) -> Tensor:
    """f(u) of each token, u = pi / P on text of P, so that its mean over P is a divergence.

    forward: u - 1 - log u, whose mean is KL(P | pi); js: u log u - (u + 1) log((u + 1) / 2), for
    m = (pi + P) / 2 the sum KL(pi | m) + KL(P | m), twice the usual; alpha, of order a:
    (u^(1 - a) - (1 - a) u - a) / (a (a - 1)). All are 0 with gradient 0 at u = 1.

    Above `limit` f goes on in log u with the slope that it has there: f grows with u, and a token
    that P found unlikely may have any. A mere cut would leave such a token where it is. Below 1
    nothing explodes.
    """
    log_u_BT = log_ratio_BT.clamp(max=limit)
    more_BT = log_u_BT.expm1()  # u - 1, exact near u = 1
    if kind == "forward":
        found_BT = more_BT - log_u_BT
    elif kind == "js":
        found_BT = log_u_BT.exp() * log_u_BT - (more_BT + 2) * (more_BT / 2).log1p()
    else:
        powered_BT = ((1 - alpha) * log_u_BT).expm1()
        found_BT = (powered_BT - (1 - alpha) * more_BT) / (alpha * (alpha - 1))
    return found_BT + slope(limit, kind, alpha=alpha) * (log_ratio_BT - limit).relu()


def slope(log_u: float, kind: Divergence, *, alpha: float) -> float:
    """Return the derivative of f(u) in log u."""
    u = math.exp(log_u)
    if kind == "forward":
        return u - 1
    return u * math.log(2 * u / (u + 1)) if kind == "js" else (u - u ** (1 - alpha)) / alpha


def held_completion(right: Sequence[bool], share: float) -> int | None:
    """The first right completion of a problem, None where less than `share` of them are right."""
    return list(right).index(True) if any(right) and sum(right) / len(right) >= share else None


class HeldProblems(Hooks):
    """Finds the held problems before the first step, and keeps them in the checkpoints."""

    def __init__(self, method: DphRl, setup: Setup) -> None:
        super().__init__(method, setup)
        self.method = method
        self._logps: dict[int, Tensor] | None = None
        self._chosen: dict[int, int] = {}
        self._here = 0
        self._sum, self._count = 0.0, 0

    @property
    def record(self) -> dict[str, Any]:
        """Return how many problems of the generation batch are held."""
        return {**super().record, "groups/held": self._here}

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return the batch's advantages, 0 for rollouts of held problems."""
        import torch

        held, advantages = self._held(trainer), batch["advantages"]
        held_B = torch.tensor([row in held for row in batch["prompt_row_B"].tolist()])
        held_B = held_B.to(advantages.device)
        self._here = int(trainer.accelerator.gather(held_B).sum()) // right_PN.shape[1]
        shaped_B = held_B.reshape(-1, *[1] * (advantages.dim() - 1))
        return torch.where(shaped_B, torch.zeros_like(advantages), advantages)

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor | None:
        """Return the micro-batch's share of the weighted divergences.

        A process whose rows begin no held problem takes any with weight 0 while another has one:
        those that share a model compute in step.
        """
        import torch

        held, group = self._held(trainer), int(trainer.num_generations)
        if not held or not self.method.weighs:
            return None
        ids = zip(batch["row_ids_B"].tolist(), batch["prompt_row_B"].tolist(), strict=True)
        mine = [row for number, row in ids if number % group == 0 and row in held]
        count = torch.tensor([len(mine)], device=batch["completion_mask"].device)
        if not trainer.accelerator.gather(count).any():
            return None
        total = self._divergences(trainer, mine or [next(iter(held))]).sum()
        if mine:
            self._sum, self._count = self._sum + total.item(), self._count + len(mine)
        weight = self.method.weighs if mine else 0.0
        return weight * group / len(batch["row_ids_B"]) * total

    def figures(self, trainer: Trainer) -> dict[str, float]:
        """Return the step's mean divergence on held problems, if it had any."""
        import torch

        device = trainer.accelerator.device
        mine = torch.tensor([[self._sum, self._count]], dtype=torch.float32, device=device)
        self._sum, self._count = 0.0, 0
        total, count = trainer.accelerator.gather(mine).sum(dim=0).tolist()
        return {"divergence": total / count} if count else {}

    def _held(self, trainer: Trainer) -> dict[int, Tensor]:
        """Held problems by their number, with the initial policy's log-probabilities.

        Found with the first batch, when the model has its place and its precision.
        """
        if self._logps is None:
            memory = trainer.reward_memory
            if _HELD not in memory:
                self._chosen = self._completions(trainer)
                logps = self._at_start(trainer, list(self._chosen))
                rows = zip(self._chosen.items(), logps, strict=True)
                memory[_HELD] = [[*chosen, _packed(values)] for chosen, values in rows]
            self._chosen = {row: chosen for row, chosen, _ in memory[_HELD]}
            self._logps = {row: _unpacked(values) for row, _, values in memory[_HELD]}
        return self._logps

    def _completions(self, trainer: Trainer) -> dict[int, int]:
        """The held problems and the completion each keeps; a process grades its share of them."""
        from accelerate.utils import gather_object

        state, stored = trainer.accelerator, self.setup.initial
        rows = list(stored)[state.process_index :: state.num_processes]
        golds = [self.setup.prompts[row][1].gold for row in rows for _ in stored[row]]
        texts = [text for row in rows for text, _ in stored[row]]
        grades = iter(self.setup.grader(golds, texts) if texts else ())
        chosen = []
        for row in rows:
            right = [next(grades).status == "right" for _ in stored[row]]
            chosen.append((row, held_completion(right, self.method.solved)))
        return {row: index for row, index in sorted(gather_object(chosen)) if index is not None}

    def _at_start(self, trainer: Trainer, rows: Sequence[int]) -> list[list[float]]:
        """Log-probabilities of these problems' completions; each process computes a share."""
        import torch
        from accelerate.utils import gather_object

        if not rows:
            return []
        at_once = trainer.args.per_device_train_batch_size
        mine = share_of(rows, trainer.accelerator)
        logps = []
        for first in range(0, len(mine), at_once):
            with torch.no_grad():
                logps_BT, mask_BT = self._policy(trainer, mine[first : first + at_once])
            logps += [
                row[mask.bool()].tolist() for row, mask in zip(logps_BT, mask_BT, strict=True)
            ]
        together: list[list[float]] = gather_object(logps)
        return together[: len(rows)]

    def _divergences(self, trainer: Trainer, rows: Sequence[int]) -> Tensor:
        """(B,): the divergence on each problem's completion, a mean over its tokens."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        logps_BT, mask_BT = self._policy(trainer, rows)
        start_BT = pad_sequence([self._held(trainer)[row] for row in rows], True).to(logps_BT)
        log_ratio_BT = torch.where(mask_BT.bool(), logps_BT - start_BT, 0.0)
        method = self.method
        values_BT = divergence(
            log_ratio_BT, method.divergence, alpha=method.alpha, limit=method.log_ratio_limit
        )
        return values_BT.sum(dim=1) / mask_BT.sum(dim=1)  # where it is masked u is 1 and f 0

    def _policy(self, trainer: Trainer, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The policy's log-probabilities (B, T) of these problems' completions, and their mask."""
        prompts = [self.setup.prompts[row][0] for row in rows]
        before = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        after = [self.setup.initial[row][self._chosen[row]][1] for row in rows]
        return logps_after(trainer, before, after)


def _packed(values: Sequence[float]) -> str:
    """Return the bits of float32 values, for JSON: digits would take four times the room."""
    import numpy as np

    return b64encode(np.asarray(values, np.float32).tobytes()).decode()


def _unpacked(text: str) -> Tensor:
    import numpy as np
    import torch

    return torch.tensor(np.frombuffer(b64decode(text), np.float32))
