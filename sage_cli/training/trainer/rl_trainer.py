"""The RL trainer: grades as rewards, advantages by name, one record per optimiser step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from sage_cli.grading.grades import STATUSES
from sage_cli.guides import Signals
from sage_cli.methods.hooks import Generated, Hooks, Row
from sage_cli.methods.method import OnlineMethod
from sage_cli.settings.sections.anchor import AnchorSection
from sage_cli.training.rewards.paid import Paid, raise_failures
from sage_cli.training.rl_inputs import Validator
from sage_cli.training.rollouts.noted import COMPLETION_TEXTS
from sage_cli.training.trainer.advantages import batch_advantages, update_advantages
from sage_cli.training.trainer.batch_record import (
    StepWriter,
    batch_record,
    peak_memory,
    rollout_rows,
    unfinished,
)
from sage_cli.training.trainer.forward_kl import ReferenceCompletions, forward_kl_loss
from sage_cli.training.trainer.guide_signals import RowSignals, whole_texts
from sage_cli.training.trainer.reference import (
    MovingReference,
    check_reference,
    choose_reference,
)
from sage_cli.training.trainer.rollout_trainer import SAMPLED, RolloutTrainer
from sage_cli.training.trainer.token_record import kept_mass_record, token_statistics

Record = dict[str, Any]


class RlTrainer(RolloutTrainer):
    """RolloutTrainer that knows grades; hands every optimiser step's record to `writer`.

    `rollouts` are completions of the generation batch at hand, one of each prompt of this process;
    `rewards_BF` the parts F of the reward of all processes' completions, weighted; `raw_BF` what
    the reward functions say. A text that holds `engine_stop` was ended there by the engine.
    """

    def __init__(
        self,
        *,
        rl: OnlineMethod,
        hooks: Hooks,
        paid: Paid,
        anchor: AnchorSection,
        reference_completions: ReferenceCompletions | None,
        writer: StepWriter,
        engine_stop: str | None,
        validator: Validator | None,
        **arguments: Any,
    ) -> None:
        self.reference_completions = reference_completions
        self._forward_kl: list[float] = []
        self.rl, self.hooks, self.paid, self.anchor = rl, hooks, paid, anchor
        self.writer, self.engine_stop, self.validator = writer, engine_stop, validator
        self._batch_record: Record = {}
        self.rows = RowSignals()
        self.rollouts: list[Record] = []
        self._step_began = time.perf_counter()
        kept = rl.reads_old_entropy and rl.steps_per_batch > 1
        of_the_anchor = ("estimator", "schedule", "rows", "head_tokens")
        how: dict[str, Any] = {name: getattr(anchor, name) for name in of_the_anchor}
        super().__init__(
            **how, keeps_old_entropy=kept, keep_checkpoints=rl.keep_checkpoints, **arguments
        )
        choose_reference(self.accelerator.unwrap_model(self.model), anchor.reference)
        if anchor.moves:
            self.moving = MovingReference(self, anchor)
            self.add_callback(self.moving)
        hooks.begin(self)

    def grade_rows(self, rows: Sequence[Row], sampled: Generated) -> Tensor:
        """Return which completions of the generation batch are right, one row per prompt."""
        texts = sampled[COMPLETION_TEXTS]
        with self.phases.during("grade"):
            statuses = self.hooks.reward.grade([row["gold"] for row in rows], texts)
        right_PN: Tensor = self._gather_statuses(statuses).eq(STATUSES.index("right"))
        return right_PN

    def _generate_and_score_completions(self, inputs: list[Row]) -> dict[str, Any]:
        self.begin_rollouts()
        inputs, sampled = self.hooks.sample(self, inputs)
        self.take_rows(sampled)
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.state.global_step == 0:
            check_reference(self, batch, self.anchor.reference)
        batch["prompt_row_B"] = torch.tensor([row["row"] for row in inputs])
        status_PN = self._gather_statuses(self.hooks.reward.statuses)
        right_PN = status_PN == STATUSES.index("right")
        batch |= self.rows.of_first(self, batch, right_PN)
        if self.rl.computed_by_trl is None:
            batch["advantages"] = batch_advantages(self, self.rl, batch, right_PN)
        batch["advantages"] = self.hooks.advantages(self, batch, right_PN)
        self._batch_record = self._describe(batch, status_PN)
        said = self.paid.named(self.raw_BF[batch["row_ids_B"]])
        self.rollouts = rollout_rows(
            inputs,
            self.hooks.reward.completions,
            self.hooks.reward.statuses,
            self.rewards_BF[batch["row_ids_B"]],
            int(self.num_generations),
            said,
        )
        self.noted.scored(inputs, batch, self.rewards_BF, said)
        batch = self.hooks.pooled(self, inputs, batch, right_PN)
        self.noted.enter(main=self.accelerator.is_main_process)
        self._batch_record |= {**self.sampled_record(), **self.hooks.record}
        return batch

    def score_rows(self, rows: list[Row]) -> tuple[dict[str, Any], Tensor]:
        """Return a batch of further completions, scored, and which are right in all processes."""
        batch: dict[str, Any] = super()._generate_and_score_completions(rows)
        batch["prompt_row_B"] = torch.tensor([row["row"] for row in rows])
        status_PN = self._gather_statuses(self.hooks.reward.statuses)
        said = self.paid.named(self.raw_BF[batch["row_ids_B"]])
        self.noted.scored(rows, batch, self.rewards_BF, said)
        right_PN = status_PN == STATUSES.index("right")
        return batch | self.rows.of(self, batch, right_PN), right_PN

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.noted.seal()
        super()._save_checkpoint(model, trial)

    @torch.no_grad()
    def policy_signals(
        self, batch: dict[str, Any], *, batch_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B, T), `batch_size` rows at once (or all)."""
        ids, mask = whole_texts(batch)
        tokens = batch["completion_ids"].shape[1]
        logps_BT, entropy_BT, _ = self._get_per_token_logps_and_entropies(
            self.model, ids, mask, tokens, batch_size, compute_entropy=True
        )
        return logps_BT, entropy_BT

    def plain_logps(self, ids_BT: Tensor, mask_BT: Tensor, tokens: int) -> Tensor:
        """Return log-probabilities of any text, past the seam that listens to the reference's."""
        logps_BT: Tensor = GRPOTrainer._get_per_token_logps_and_entropies(
            self, self.model, ids_BT, mask_BT, tokens
        )[0]
        return logps_BT

    @property
    def buffered(self) -> list[dict[str, Any]]:
        """The micro-batches of the generation batch at hand."""
        found: list[dict[str, Any]] = self._buffered_inputs
        return found

    def training_step(self, *arguments: Any, **named: Any) -> Tensor:
        """One micro-batch; what it does besides the loss and its gradients counts apart."""
        with self.phases.during("loss"):
            loss: Tensor = super().training_step(*arguments, **named)
        return loss

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **named: Any) -> Any:
        if self.in_loss:
            return super()._get_per_token_logps_and_entropies(*arguments, **named)
        with self.phases.during("reference"):
            return super()._get_per_token_logps_and_entropies(*arguments, **named)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return self.hooks.loss(self, model, inputs)

    def loss_of(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """The loss of rows that are no more than a micro-batch."""
        loss: Tensor = super()._compute_loss(model, inputs)
        term = self.hooks.loss_term(self, inputs)
        if term is not None:
            loss = loss + term / self.current_gradient_accumulation_steps
        if self.reference_completions is None:
            return loss
        forward = forward_kl_loss(self, model, inputs, self.reference_completions)
        self._forward_kl.append(self.accelerator.gather(forward.detach()).mean().item())
        beta = self.anchor.beta * self.beta_share / self.current_gradient_accumulation_steps
        with_forward: Tensor = loss + beta * forward
        return with_forward

    def _advantages_now(self, batch: dict[str, Any], *signals_BT: Tensor) -> Tensor:
        self.logps_BT = signals_BT[0]
        if self.rl.shapes_tokens:
            return update_advantages(self, self.rl, batch, *signals_BT)
        return super()._advantages_now(batch)

    def _signals(self, batch: dict[str, Any], *signals_BT: Tensor) -> Signals:
        return self.rows.named(self, batch, super()._signals(batch, *signals_BT))

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        with self.phases.during("grade"):
            self.raw_BF: Tensor = super()._calculate_rewards(*arguments)
            raise_failures(self.paid.functions)
        self.rewards_BF = self.paid.weighted(self.raw_BF, int(self.num_generations))
        return self.rewards_BF

    def _gather_statuses(self, statuses: Sequence[str]) -> Tensor:
        """Indices into STATUSES of the whole generation batch, one row per prompt."""
        local_B = torch.tensor([STATUSES.index(status) for status in statuses])
        gathered_B: Tensor = self.accelerator.gather(local_B.to(self.accelerator.device))
        return gathered_B.reshape(-1, int(self.num_generations))

    def _describe(self, batch: dict[str, Any], status_PN: Tensor) -> Record:
        ids_BT, mask_BT = batch["completion_ids"], batch["completion_mask"]
        clipped_B = unfinished(ids_BT, mask_BT, self.eos_token_ids)
        if self.engine_stop is not None:
            stopped = [self.engine_stop in text for text in self.hooks.reward.completions]
            clipped_B = clipped_B & ~torch.tensor(stopped, device=clipped_B.device)
        length_B, clipped_B = self.accelerator.gather((mask_BT.sum(dim=1), clipped_B))
        return {
            **batch_record(status_PN, length_B, clipped_B),
            **self.paid.record(self.raw_BF, self.rewards_BF, int(self.num_generations)),
            **kept_mass_record(self, batch),
        }

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Let TRL log, then hand over the step's record; the summary at the end has no loss."""
        super().log(logs, start_time)
        self.state.log_history.clear()
        if "loss" not in logs:
            return
        now = time.perf_counter()
        step_s, self._step_began = now - self._step_began, now
        if (self.state.global_step - 1) % self.rl.steps_per_batch:
            self._batch_record |= dict.fromkeys(SAMPLED, 0)
        signals = self.tokens.drain(self.accelerator)
        record = {
            "step": self.state.global_step,
            "of": self.state.max_steps,
            "loss": float(logs["loss"]),
            **token_statistics(signals, self.guide),
            **self.mismatch_record(signals),
            **self._forward_record(),
            **self.hooks.figures(self),
            **self._batch_record,
            "clip_ratio": logs.get("clip_ratio/region_mean"),
            **self._entropy_bonus_record(logs),
            "grad_norm": float(logs["grad_norm"]),
            **self.anchor_record(self.anchor.beta),
            "learning_rate": float(logs["learning_rate"]),
            **self.phases.record(
                step_s,
                sampled=self._batch_record["sampled/tokens"],
                trained=len(signals["entropy"]),
            ),
            **peak_memory(self.accelerator),
        }
        record |= self._validated()
        if self.accelerator.is_main_process:
            self.writer.write(record, self.rollouts)
        self.writer.safeguards.check(record)  # in every process, so that all of them stop

    def _validated(self) -> Record:
        """Validate if it is due, and return the record; the other processes wait.

        None while the training stops early: there the time to save may be short.
        """
        step, last = self.state.global_step, self.state.global_step >= self.state.max_steps
        if self.validator is None or (step % self.validator.every and not last):
            return {}
        if self.control.should_training_stop and not last:
            return {}
        found: Record = {}
        if self.accelerator.is_main_process:
            found |= self.validator.validate(self.accelerator.unwrap_model(self.model))
        self.accelerator.wait_for_everyone()
        now = time.perf_counter()
        validation_s, self._step_began = now - self._step_began, now
        return {**found, "time/validation_s": validation_s}

    def _forward_record(self) -> Record:
        """`kl/forward`: the cross-entropy on the reference's completions, where it is used."""
        values, self._forward_kl = self._forward_kl, []
        return {"kl/forward": sum(values) / len(values)} if values else {}

    def _entropy_bonus_record(self, logs: dict[str, float]) -> Record:
        if self.rl.entropy_target is None:
            return {}
        return {"entropy/coefficient": logs["entropy_coef"]}

    def train(self, *arguments: Any, **named: Any) -> Any:
        """Train; the first step's time counts from here."""
        self._step_began = time.perf_counter()
        return super().train(*arguments, **named)
