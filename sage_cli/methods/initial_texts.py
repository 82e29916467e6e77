"""Methods that learn from correct texts of the initial policy: DPH-RL, alpha-DPG.

The texts' completions are sampled before the training and graded with its first batch; they are
kept with their log-probabilities at the start. The rollouts of a problem bring its stored texts
through the model as it trains: rollout j text j.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from sage_cli.methods.clipping import Loss
from sage_cli.methods.hooks import (
    Generated,
    Hooks,
    Rollouts,
    Row,
    Setup,
    Trainer,
    logps_after,
    share_of,
)
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.online import OnlineMethod
from sage_cli.methods.policy_gradient import PlainAdvantages, PolicyGradient
from sage_cli.methods.rollout_batch import RolloutBatch
from sage_cli.settings.section import ReadWith

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


_SOLVED = "solved"
"""What a checkpoint calls the reference's pass@1 of each problem, as estimated beforehand."""
_STORED = "held"
"""What a checkpoint calls the stored texts: problem, completion, and its log-probabilities."""
Sample = tuple[int, int]
"""A problem, and the number of one of its samples."""
Stored = dict[int, list[tuple[int, "Tensor"]]]
"""Problem -> its texts, each by its number among the samples, with its log-probabilities."""


def right_beforehand(setup: Setup, trainer: Trainer) -> dict[int, list[bool]]:
    """Return which samples of each problem are correct; a process grades its share of them."""
    from accelerate.utils import gather_object

    state, sampled = trainer.accelerator, setup.initial
    rows = list(sampled)[state.process_index :: state.num_processes]
    golds = [setup.prompts[row][1].gold for row in rows for _ in sampled[row]]
    texts = [text for row in rows for text, _ in sampled[row]]
    grades = iter(setup.grader(golds, texts) if texts else ())
    right = [(row, [next(grades).status == "right" for _ in sampled[row]]) for row in rows]
    return dict(sorted(gather_object(right)))


class InitialTexts(Hooks):
    """Stores texts before the first step, keeps them in checkpoints, and adds a term on them.

    The term is `weight` times the mean of a problem's values over its texts, and that over the P
    problems of a batch, those without a stored text counting 0. `name` is the values' in records.
    """

    name: str

    def __init__(self, method: OnlineMethod, setup: Setup, weight: float) -> None:
        super().__init__(method, setup)
        self.method, self.weight = method, weight
        self._texts: Stored | None = None
        self._sums: list[Tensor] = []

    @abstractmethod
    def kept(self, problem: int, right: Sequence[bool]) -> list[int]:
        """Return the numbers of the samples that are stored, by which of them are correct."""

    @abstractmethod
    def values(self, logps_BT: Tensor, start_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the term (B,) of each text by its log-probabilities now and at the start."""

    def sample(self, trainer: Trainer, rows: list[Any]) -> Any:
        """Find the texts if they aren't known, and leave the sampling to the trainer."""
        self.stored(trainer)
        return super().sample(trainer, rows)

    def loss_term(self, trainer: Trainer, batch: RolloutBatch, logps_BT: Tensor) -> Tensor | None:
        """Return the micro-batch's share of the weighted term.

        A process whose rows bring no text takes any with weight 0 while another has one: those that
        share a model compute in step.
        """
        import torch

        _ = logps_BT
        stored, group = self.stored(trainer), int(trainer.num_generations)
        if not stored or not self.weight:
            return None
        ids = zip(batch["row_ids_B"].tolist(), batch["prompt_row_B"].tolist(), strict=True)
        mine = [(row, n % group) for n, row in ids if n % group < len(stored.get(row, ()))]
        device = batch["completion_mask"].device
        if not trainer.accelerator.gather(torch.tensor([len(mine)], device=device)).any():
            return None
        values_B = self._values(trainer, mine or [(next(iter(stored)), 0)])
        shares_B = values_B.new_tensor([1 / len(stored[row]) for row, _ in mine] or [0.0])
        total = (values_B * shares_B).sum()
        self._sums.append(torch.stack([total.detach(), shares_B.sum()]))
        return self.weight * group / len(batch["row_ids_B"]) * total

    def figures(self, trainer: Trainer) -> dict[str, Any]:
        """Return the step's mean on problems with a stored text, too, if it had any."""
        import torch

        none = torch.zeros(2, device=trainer.accelerator.device)
        sums, self._sums = [none, *self._sums], []
        mine = torch.stack(sums).float().sum(dim=0, keepdim=True)
        total, count = trainer.accelerator.gather(mine).sum(dim=0).tolist()
        of_texts = {self.name: total / count} if count else {}
        return super().figures(trainer) | of_texts

    def stored(self, trainer: Trainer) -> Stored:
        """Return the stored texts by problem, with the initial policy's log-probabilities.

        Found with the first batch, when the model has its place and its precision.
        """
        if self._texts is None:
            memory = trainer.reward_memory
            if _STORED not in memory:
                right = right_beforehand(self.setup, trainer)
                chosen = [(row, n) for row, of in right.items() for n in self.kept(row, of)]
                packed = zip(chosen, self._at_start(trainer, chosen), strict=True)
                memory[_STORED] = [[*text, _packed(values)] for text, values in packed]
            self._texts = {}
            for row, number, values in memory[_STORED]:
                self._texts.setdefault(row, []).append((number, _unpacked(values)))
        return self._texts

    def _at_start(self, trainer: Trainer, chosen: Sequence[Sample]) -> list[list[float]]:
        """Return log-probabilities of these samples; each process computes a share."""
        import torch
        from accelerate.utils import gather_object

        if not chosen:
            return []
        at_once = trainer.args.per_device_train_batch_size
        mine = [chosen[i] for i in share_of(range(len(chosen)), trainer.accelerator)]
        logps = []
        for first in range(0, len(mine), at_once):
            with torch.no_grad():
                logps_BT, mask_BT = self._policy(trainer, mine[first : first + at_once])
            logps += [row[m.bool()].tolist() for row, m in zip(logps_BT, mask_BT, strict=True)]
        together: list[list[float]] = gather_object(logps)
        return together[: len(chosen)]

    def _values(self, trainer: Trainer, texts: Sequence[Sample]) -> Tensor:
        """Return the term (B,) of stored texts, each named by its problem and place there."""
        from torch.nn.utils.rnn import pad_sequence

        stored = [(row, *self.stored(trainer)[row][place]) for row, place in texts]
        logps_BT, mask_BT = self._policy(trainer, [(row, number) for row, number, _ in stored])
        start_BT = pad_sequence([values for *_, values in stored], True).to(logps_BT)
        return self.values(logps_BT, start_BT, mask_BT)

    def _policy(self, trainer: Trainer, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
        """Return the policy's log-probabilities (B, T) of samples, (problem, number), and mask."""
        prompts = [self.setup.prompts[row][0] for row, _ in samples]
        before = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        after = [self.setup.initial[row][number][1] for row, number in samples]
        return logps_after(trainer, before, after)


def _packed(values: Sequence[float]) -> str:
    """Return the bits of float32 values, for JSON: digits would take four times the room."""
    import numpy as np

    return b64encode(np.asarray(values, np.float32).tobytes()).decode()


def _unpacked(text: str) -> Tensor:
    import numpy as np
    import torch

    return torch.tensor(np.frombuffer(b64decode(text), np.float32))


Divergence = Literal["forward", "js", "alpha"]
WEIGHTS: dict[Divergence, float] = {"forward": 0.03, "js": 0.125, "alpha": 0.03}
"""The middle of the authors' ranges: .01 to .05, .05 to .2, .01 to .05."""


class DphRl(PlainAdvantages):
    """DPH-RL (Li et al. 2025). A problem is held, by the divergence, or explored, for rewards."""

    algo: Literal["dph-rl"] = "dph-rl"
    epsilon_high: float = Field(0.28, gt=0)
    divergence: Divergence = "js"
    """Divergence from the initial policy, which is computed on that policy's completions: `forward`
    KL, `js` (Jensen-Shannon) or `alpha`."""
    alpha: float = Field(0.2, gt=0, lt=1)
    """Order that the divergence `alpha` has."""
    weight: float | None = Field(None, ge=0)
    """Weight of the divergence. null means 0.03 for `forward` and `alpha`, and 0.125 for `js`."""
    initial_samples: int = Field(8, ge=1)
    """Number of completions of each training problem that are sampled once from the initial
    policy."""
    solved: float = Field(1.0, gt=0, le=1)
    """Smallest success rate of the initial policy at which a problem is held by the divergence."""
    log_ratio_limit: float = Field(3.0, gt=0)
    """Value of a token's log pi - log pi_initial above which the divergence is continued linearly.
    Without this limit, tokens that were unlikely at first would dominate it."""

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
    learns_without_reward = False
    kl_without_guide = "none"
    read_with: ClassVar[tuple[ReadWith, ...]] = (
        *PlainAdvantages.read_with,
        ReadWith("rl.alpha", "rl.divergence", "alpha", refused=True),
    )

    @property
    def weighs(self) -> float:
        """The divergence's weight."""
        return WEIGHTS[self.divergence] if self.weight is None else self.weight

    def hooks(self, setup: Setup) -> Hooks:
        """Return what holds problems and leaves their rollouts out."""
        return HeldProblems(self, setup, self.weighs)

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts with what replaces held problems or holds them twice."""
        refusals = super().refusals(beside)
        if self.dynamic_sampling:
            refusals.append(
                "rl.algo 'dph-rl' holds problems that are nearly solved, and rl.dynamic_sampling "
                "would replace just them (use rl.dynamic_sampling=false)"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the divergence, and where it acts."""
        order = f" {self.alpha:g}" if self.divergence == "alpha" else ""
        held = (
            f"{self.divergence}{order} x {self.weighs:g}, on problems where at least "
            f"{self.solved:.0%} of the initial policy's {self.initial_samples} samples are correct"
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
    """The first correct completion of a problem, None where the share of them is below `share`."""
    return list(right).index(True) if any(right) and sum(right) / len(right) >= share else None


class HeldProblems(InitialTexts):
    """Holds the nearly solved problems by their first correct completion."""

    name = "divergence"
    method: DphRl
    _here = 0

    def figures(self, trainer: Trainer) -> dict[str, Any]:
        """Return how many problems of the generation batch are held, too."""
        return super().figures(trainer) | {"groups/held": self._here}

    def kept(self, problem: int, right: Sequence[bool]) -> list[int]:
        """Return the first correct completion of a nearly solved problem."""
        _ = problem
        number = held_completion(right, self.method.solved)
        return [] if number is None else [number]

    def values(self, logps_BT: Tensor, start_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the divergence (B,) on each problem's completion, a mean over its tokens."""
        import torch

        log_ratio_BT = torch.where(mask_BT.bool(), logps_BT - start_BT, 0.0)
        method = self.method
        values_BT = divergence(
            log_ratio_BT, method.divergence, alpha=method.alpha, limit=method.log_ratio_limit
        )
        return values_BT.sum(dim=1) / mask_BT.sum(dim=1)  # where it is masked u is 1 and f 0

    def advantages(self, trainer: Trainer, rollouts: Rollouts) -> Tensor:
        """Return the batch's advantages, 0 for rollouts of held problems."""
        import torch

        from sage_cli.methods.formulas import broadcast_rows

        batch, held = rollouts.batch, self.stored(trainer)
        advantages = batch["advantages"]
        held_B = torch.tensor([row in held for row in batch["prompt_row_B"].tolist()])
        held_B = held_B.to(advantages.device)
        group = rollouts.right_PN.shape[1]
        self._here = int(trainer.accelerator.gather(held_B).sum()) // group
        return advantages.masked_fill(broadcast_rows(held_B, advantages), 0)


class AlphaDpg(PolicyGradient):
    """alpha-DPG (Kruszewski et al. 2025). The target is the reference filtered by the grade."""

    algo: Literal["alpha-dpg"] = "alpha-dpg"
    loss: Loss = "dr_grpo"
    alpha: float = Field(0.25, ge=0, lt=1)
    """Order of the divergence: 0 is the forward KL, which covers all modes, and values towards 1
    approach the reverse KL."""
    pseudo_reward_limit: float = Field(10.0, gt=0)
    """Upper limit of a completion's pseudo-reward. Without it, the reward of a correct completion
    that the policy hardly produces any more would grow without bound."""
    initial_samples: int = Field(128, ge=1)
    """Number of completions of each training problem that are sampled once from the initial policy.
    The share of correct ones normalises the target."""
    unsolved: float = Field(1e-4, gt=0, le=1)
    """Success rate that is assumed for a problem of which no initial completion is correct."""

    source = (
        "Kruszewski et al. 2025 (arXiv 2512.05962): an alpha-divergence from the reference's "
        "correct completions, in place of rewards and beta"
    )
    read_from = "code"
    differs = (
        "a batch that is used for several updates is clipped as GRPO's; the paper divides the "
        "pseudo-reward by 1 - alpha, the code and this don't"
    )
    kl_without_guide = "none"
    takes_a_guide = False
    keeps_reference = True
    reads_grades_alone = True
    equal_groups_teach = True

    def hooks(self, setup: Setup) -> Hooks:
        """Return what estimates the reference's pass@1."""
        return SolvedBeforehand(self, setup)

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return pseudo-rewards minus the mean of the group's others', a row each."""
        from sage_cli.methods.formulas import centred_advantages, completion_logps

        solved, group = inputs.memory[_SOLVED], inputs.right_PN.shape[1]
        logps_PN, reference_PN = (
            completion_logps(inputs, logps_BT).double()
            for logps_BT in (inputs.logps_BT, inputs.reference_logps_BT)
        )
        shares = [solved[problem] or self.unsolved for problem in inputs.problem_ids_B[::group]]
        share_P1 = logps_PN.new_tensor(shares)[:, None]
        log_t_PN = logps_PN - reference_PN + share_P1.log()
        pseudo_PN = pseudo_rewards(inputs.right_PN, log_t_PN, self.alpha, self.pseudo_reward_limit)
        centred_PN = centred_advantages(pseudo_PN) * (group / (group - 1))
        return centred_PN.to(inputs.rewards_PN).flatten()

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflict with a reference that is another model than the initial policy."""
        refusals = super().refusals(beside)
        if beside.anchor.reference != "initial":
            refusals.append(
                "rl.algo 'alpha-dpg' normalises its target by samples of the initial policy, and "
                "anchor.reference is 'pre-sft', another model (use anchor.reference=initial)"
            )
        return refusals


def pseudo_rewards(right_PN: Tensor, log_t_PN: Tensor, alpha: float, limit: float) -> Tensor:
    """Return t^(alpha - 1) - 1, at most `limit`, of correct completions; -1 of wrong ones.

    t = pi / p* for the target p* = pi_ref right / Z, which gives wrong ones nothing: their t is
    infinite. On average over pi the gradient is 1 - alpha times that of the alpha-divergence.
    """
    import torch

    pseudo_PN = ((alpha - 1) * log_t_PN).expm1().clamp(max=limit)
    return torch.where(right_PN.bool(), pseudo_PN, -1.0)


class SolvedBeforehand(Hooks):
    """Estimates the reference's pass@1 with the first batch; checkpoints keep it."""

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Estimate it if it isn't known, and leave the sampling to the trainer."""
        if _SOLVED not in trainer.advantage_memory:
            right = right_beforehand(self.setup, trainer)
            trainer.advantage_memory[_SOLVED] = {
                self.setup.prompts[row][1].id: sum(grades) / len(grades)
                for row, grades in right.items()
            }
        return super().sample(trainer, rows)
