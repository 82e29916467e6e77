"""Look at a run's first completions before the first update, for what would waste the run.

A run whose answers nobody can read, or whose log-probabilities are of another distribution than its
samples, trains without an error and without a use. Both show in the first generation batch, which
is sampled anyway.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from rich.markup import escape
from torch import Tensor

from sage_cli.errors import DivergedError, is_out_of_memory
from sage_cli.methods.hooks import Generated, Rollouts, Row, share_of
from sage_cli.methods.rollout_batch import RolloutBatch, rows_of
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.store.preflights import KnownPreflight
from sage_cli.training.finding import Finding
from sage_cli.training.first_answers import (
    ENOUGH,
    UNREADABLE,
    Format,
    JudgedCompletion,
    answers_of,
    judge_answers,
)
from sage_cli.training.first_passes import (
    LogpDifference,
    Surprise,
    checked_rows,
    judge_engine,
    judge_passes,
    judge_surprise,
    plain_pass,
    trained_logps,
)
from sage_cli.training.in_float32 import bytes_for_copies, in_float32
from sage_cli.training.run_recorder import COMPLETION_IDS, COMPLETION_TEXTS

LIBRARIES = {"transformers": "Transformers", "trl": "TRL"}
"""Packages whose errors in the first batch are those of a model's architecture, and their names."""
NOT_IN_FLOAT32 = (
    "they are not compared in float32, because no layer fits into the free memory in float32, or "
    "the weights are quantized or spread over processes"
)


class _Compared(NamedTuple):
    """What a comparison of the trainer's passes over rows with plain ones says."""

    findings: list[Finding]
    difference: LogpDifference
    """Of the pass in training mode."""
    trained_BT: Tensor
    """Its log-probabilities."""
    surprise: Surprise


REGARDLESS = "`--set rl.preflight=off` trains regardless"


@contextmanager
def refusing_architecture() -> Iterator[None]:
    """Raise DivergedError where Transformers or TRL fails in the first batch of a run.

    Some architectures can't be sampled from, padded before, or scored by TRL's fused head, and say
    so deep inside a library. What fails in other code is left alone, as is a lack of memory.
    """
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        modules = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames]
        # torch says what is wrong, and who called it is to blame
        library = next(name for name in reversed(modules) if name != "torch")
        if library not in LIBRARIES or is_out_of_memory(error):
            raise
        raise DivergedError(
            f"the first batch ended in an error of {LIBRARIES[library]}, which can't compute this "
            f"model as RL does: {type(error).__name__}: {error}",
            "choose another model, --set rollout.backend=..., or another release of "
            f"{LIBRARIES[library]}",
        ) from error


@dataclass(kw_only=True)
class Preflight:
    """Checks the first completions and passes of a run, in all processes together.

    `say` shows a line and `note` keeps the facts in the manifest; the main process alone is heard.
    Every process comes to the same findings, so that all end together. What another run has found
    under the same conditions (`known`) is repeated in place of a look before the first update.
    """

    form: Format
    parameters: SamplingParameters
    may_stop: bool
    say: Callable[[str], None]
    note: Callable[..., None]
    known: KnownPreflight | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    _answered: bool = False
    _is_known: bool = False

    def look(self, trainer: Any, now: Rollouts) -> None:
        """Look at a generation batch that has been scored, if it is one of the first two.

        Before the first update answers and passes are judged. After it samples are compared with
        the policy, which they should follow.
        """
        step, batch = trainer.state.global_step, now.batch
        if step > trainer.rl.steps_per_batch:
            return
        assert now.generated is not None  # as it was scored
        which = checked_rows(batch["completion_mask"], batch["prompt_row_B"].tolist())
        rows = rows_of(batch, which)
        if step:
            _, surprise = self._plain(trainer, rows)
            now_BT, started_BT = trained_logps(trainer, rows), rows.get("ref_per_token_logps")
            self._conclude(trainer, self._of_sampler(rows, now_BT, surprise, started_BT), [])
            return
        self.look_at_answers(trainer, now.rows, now.generated)
        if self._is_known:
            return
        self.look_at_passes(trainer, rows)
        # a run that was stopped has kept nothing: what stops it is looked for again once somebody
        # has tried to fix it
        if self.known is not None and trainer.accelerator.is_main_process:
            self.known.write(self.facts)

    def look_at_answers(self, trainer: Any, rows: Sequence[Row], sampled: Generated) -> None:
        """Judge what was sampled first, before any of it is replaced; later calls do nothing."""
        if self._answered or trainer.state.global_step:
            return
        self._answered = True
        if self._repeat(trainer):
            return
        seen = self._judged(trainer, rows, sampled[COMPLETION_IDS], sampled[COMPLETION_TEXTS])
        if len(seen) < ENOUGH and all(completion.status == UNREADABLE for completion in seen):
            seen += self._further(trainer, ENOUGH - len(seen))
        n = int(trainer.num_generations)
        groups = len(rows) * trainer.accelerator.num_processes // n
        answers = answers_of(seen, self.form.max_tokens, groups, n)
        self.facts["answers"] = {**asdict(answers), "shown": answers.shown._asdict()}
        findings = judge_answers(answers, self.form, may_stop=self.may_stop)
        self._conclude(trainer, findings, answers.in_words())

    def _repeat(self, trainer: Any) -> bool:
        """Repeat what another run found under the same conditions; False if none has looked.

        The first update is still looked at: whether it reaches the sampler is each run's own.
        """
        # one process reads, so that all go the same way: another run may write in between
        read = [self.known and self.known.read() if trainer.accelerator.is_main_process else None]
        facts: dict[str, Any] | None = broadcast_object_list(read)[0]
        if not facts:
            return False
        self._is_known = True
        lines, findings = facts.pop("said"), facts.pop("findings")
        self.facts = facts
        line = f"policy, prompt and sampling were checked by {facts['checked_by']}: {lines[0]}"
        self._conclude(trainer, [Finding(**finding) for finding in findings], [line])
        return True

    def look_at_passes(self, trainer: Any, rows: RolloutBatch) -> None:
        """Compare the trainer's passes over rows with plain ones, before the first update.

        Coarse products round differently when the shapes differ. How much is measured on this very
        model, by padding that changes nothing else; and what is hidden below that shows where the
        same passes are made in float32.
        """
        model = trainer.accelerator.unwrap_model(trainer.model)
        coarse = trainer.args.bf16 or trainer.args.fp16 or model.dtype.itemsize < 4
        compared = self._compare(trainer, rows, coarse=coarse)
        findings, difference = compared.findings, compared.difference
        lines = [
            f"log-probabilities of {difference.tokens} tokens: the trainer's passes are "
            f"{difference.mean:.1g} nats from the model's own logits on average, "
            f"{difference.largest:.1g} at most"
        ]
        if coarse and trainer.is_sharded:
            lines.append(NOT_IN_FLOAT32)
        elif coarse:
            free = bytes_for_copies(model.device)
            with (
                without_autocast(trainer),
                in_float32(model, free, trainer.model_forward) as layers,
            ):
                if layers is None:
                    lines.append(NOT_IN_FLOAT32)
                else:
                    exact = self._compare(trainer, rows, coarse=False, of="/float32")
                    findings += exact.findings
                    part = "" if layers[0] == layers[1] else f" (layers 1 to {layers[0]})"
                    largest = exact.difference.largest
                    lines.append(f"in float32{part} they are {largest:.1g} nats apart at most")
        findings += self._of_sampler(rows, compared.trained_BT, compared.surprise)
        self._conclude(trainer, findings, lines)

    def _compare(
        self, trainer: Any, rows: RolloutBatch, *, coarse: bool, of: str = ""
    ) -> _Compared:
        """Judge the trainer's passes, in training and in evaluation mode, by plain ones.

        Where products are `coarse`, what padding changes of plain ones is allowed. Keeps the facts,
        `of` the type in which the passes were made.
        """
        mask_BT, model = rows["completion_mask"], trainer.accelerator.unwrap_model(trainer.model)
        # twice: a model with noise in training (dropout, router jitter) differs from itself, and a
        # comparison with plain rows would say nothing
        trained_BT, again_BT = trained_logps(trainer, rows), trained_logps(trainer, rows)
        with evaluating(model):
            in_evaluation_BT = trained_logps(trainer, rows)
        plain_BT, surprise = self._plain(trainer, rows)
        again, yardstick = LogpDifference.between(trained_BT, again_BT, mask_BT), None
        if coarse:
            padded_BT, _ = self._plain(trainer, rows, padded=True)
            yardstick = LogpDifference.between(padded_BT, plain_BT, mask_BT)
        routes = bool(getattr(model.config.get_text_config(), "num_experts_per_tok", None))
        differences = {
            "training": LogpDifference.between(trained_BT, plain_BT, mask_BT),
            "evaluation": LogpDifference.between(in_evaluation_BT, plain_BT, mask_BT),
        }
        findings = []
        for mode, difference in differences.items():
            self.facts[f"passes/{mode}{of}"] = asdict(difference)
            findings += judge_passes(difference, again, yardstick, routes=routes)
        return _Compared(findings, differences["training"], trained_BT, surprise)

    def _of_sampler(
        self,
        rows: RolloutBatch,
        logps_BT: Tensor,
        surprise: Surprise,
        started_BT: Tensor | None = None,
    ) -> list[Finding]:
        """Judge the sampler: by what it says of its samples, or by their surprisal.

        `started_BT` are the log-probabilities of the policy as it started, once it has moved.
        """
        if "sampling_per_token_logps" not in rows:
            self.facts["sampler"] = {**asdict(surprise), "sigmas": surprise.sigmas}
            return judge_surprise(surprise)
        engine_BT, mask_BT = rows["sampling_per_token_logps"], rows["completion_mask"]
        now = LogpDifference.between(engine_BT, logps_BT, mask_BT)
        before = None
        if started_BT is not None:
            before = LogpDifference.between(engine_BT, started_BT, mask_BT)
        self.facts["sampler"] = asdict(now)
        return judge_engine(now, before)

    def _plain(
        self, trainer: Any, rows: RolloutBatch, *, padded: bool = False
    ) -> tuple[Tensor, Surprise]:
        """Return the `plain_pass` over rows: where weights are sharded, of the wrapped model."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        with evaluating(model), trainer.accelerator.autocast():
            whole = trainer.model if trainer.is_sharded else model
            return plain_pass(whole, rows, self.parameters, padded=padded)

    def _judged(
        self,
        trainer: Any,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        texts: Sequence[str],
    ) -> list[JudgedCompletion]:
        """Return the completions of all processes, as they are judged."""
        golds = [row["gold"] for row in rows]
        grades = trainer.hooks.reward.grader(golds, texts)
        cut = trainer.cut_off(ids, texts)
        judged = [
            JudgedCompletion(text, gold, grade.extracted, grade.status, off, len(tokens))
            for text, gold, grade, off, tokens in zip(texts, golds, grades, cut, ids, strict=True)
        ]
        return list(gather_object(judged))

    def _further(self, trainer: Any, count: int) -> list[JudgedCompletion]:
        """Sample and judge `count` further completions, on problems that aren't trained on.

        Nothing that the run draws from random numbers changes by it.
        """
        population = trainer.hooks.setup.population
        # problems that aren't trained on, so that looking changes nothing that is later drawn for
        # them
        taken = set(trainer.train_dataset["row"])
        numbers = [row for row in range(len(population)) if row not in taken]
        numbers = numbers or list(range(len(population)))
        wanted = [numbers[at % len(numbers)] for at in range(count)]
        rows = [population[row] for row in share_of(wanted, trainer.accelerator)]
        with unchanged_random_state():
            ids, texts = trainer.sample_aside([row["prompt"] for row in rows])
        return self._judged(trainer, rows, ids, texts)[:count]

    def _conclude(self, trainer: Any, findings: Sequence[Finding], lines: Sequence[str]) -> None:
        """Show and keep what was found, then end all processes if one of them must."""
        # all processes must decide alike: one that raises alone leaves the others waiting in a
        # collective operation
        worst: list[Finding] = gather_object(list(findings))
        worst = list(dict.fromkeys(sorted(worst, key=lambda finding: not finding.stops)))
        if trainer.accelerator.is_main_process:
            for line in lines:
                self.say(escape(line))
            self.facts["said"] = [*self.facts.get("said", []), *lines]
            self.facts["findings"] = [
                *self.facts.get("findings", []),
                *(asdict(finding) for finding in worst),
            ]
            self.note(preflight=self.facts)
            for finding in worst:
                if not finding.stops:
                    warnings.warn(f"{finding.cause}: {finding.remedy}", stacklevel=2)
        if worst and worst[0].stops:  # another try finds it, too
            raise DivergedError(worst[0].cause, f"{worst[0].remedy}; {REGARDLESS}")


@contextmanager
def without_autocast(trainer: Any) -> Iterator[None]:
    """Make passes of TRL and of ours begin no autocast in the block."""
    accelerator = trainer.accelerator
    was, accelerator.native_amp = accelerator.native_amp, False
    try:
        yield
    finally:
        accelerator.native_amp = was


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put the model into evaluation mode for the block."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


@contextmanager
def unchanged_random_state() -> Iterator[None]:
    """Put the random numbers of Python, NumPy and torch back after the block."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
