"""Right texts of the initial policy on problems that a method chooses, kept with their chances.

Their completions are sampled before the training and graded with its first batch. The rollouts of
a problem bring its stored texts through the model as it trains: rollout j text j.
"""

from __future__ import annotations

from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sage_cli.methods.hooks import Batch, Hooks, Setup, Trainer, logps_after, share_of

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.method import OnlineMethod

_STORED = "held"
"""What a checkpoint calls the stored texts: problem, completion, and its log-probabilities."""
Sample = tuple[int, int]
"""A problem, and the number of one of its samples."""
Stored = dict[int, list[tuple[int, "Tensor"]]]
"""Problem -> its texts, each by its number among the samples, with its log-probabilities."""


def right_beforehand(setup: Setup, trainer: Trainer) -> dict[int, list[bool]]:
    """Return which samples of each problem are right; a process grades its share of them."""
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
        """Return the numbers of the samples that are stored, by which of them are right."""

    @abstractmethod
    def values(self, logps_BT: Tensor, start_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the term (B,) of each text by its log-probabilities now and at the start."""

    def sample(self, trainer: Trainer, rows: list[Any]) -> Any:
        """Find the texts if they aren't known, and leave the sampling to the trainer."""
        self.stored(trainer)
        return super().sample(trainer, rows)

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor | None:
        """Return the micro-batch's share of the weighted term.

        A process whose rows bring no text takes any with weight 0 while another has one: those that
        share a model compute in step.
        """
        import torch

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

    def figures(self, trainer: Trainer) -> dict[str, float]:
        """Return the step's mean on problems with a stored text, if it had any."""
        import torch

        none = torch.zeros(2, device=trainer.accelerator.device)
        sums, self._sums = [none, *self._sums], []
        mine = torch.stack(sums).float().sum(dim=0, keepdim=True)
        total, count = trainer.accelerator.gather(mine).sum(dim=0).tolist()
        return {self.name: total / count} if count else {}

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
