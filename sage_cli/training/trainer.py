"""The trainer of `sage rl`: our rollouts, grades, advantages and one record for each step.

A method acts through its formulas (`advantages`, `shape`) and its hooks (`sage_cli.methods.hooks`).
docs/architecture.md shows who calls whom in a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from sage_cli.grading.grades import STATUSES
from sage_cli.guides import Signals
from sage_cli.methods.formulas import (
    AdvantageInputs,
    Measure,
    Shaped,
    Texts,
    Update,
    broadcast_rows,
    checked,
)
from sage_cli.methods.hooks import Generated, Hooks, Rollouts, Row
from sage_cli.methods.online import OnlineMethod
from sage_cli.methods.rollout_batch import RolloutBatch, learned_tokens, whole_texts
from sage_cli.models.loading import causal_of
from sage_cli.sampling.stopping import Stopping
from sage_cli.settings.own_code import load_plugin
from sage_cli.settings.training import AnchorSection
from sage_cli.store.files import read_object, write_json
from sage_cli.training.base_trainer import SealedCheckpoints
from sage_cli.training.guided_trainer import GuidedGRPOTrainer
from sage_cli.training.passes import (
    Pass,
    Purpose,
    positions_of,
    regrouped,
    takes_positions,
)
from sage_cli.training.preflight import Preflight
from sage_cli.training.reference import (
    MovingReference,
    ReferenceCompletions,
    check_reference,
    choose_reference,
    forward_kl_loss,
)
from sage_cli.training.rewards import RewardSet, raise_failures
from sage_cli.training.rollouts import Ids, SampleRollouts, ask_for_each_row, merge_beside
from sage_cli.training.step_record import (
    COMPLETION_TEXTS,
    Phases,
    RolloutRecorder,
    StepWriter,
    add_mismatch,
    batch_record,
    lengths_of,
    mismatch_statistics,
    peak_memory,
    rollout_rows,
    token_statistics,
    unfinished,
)
from sage_cli.training.validation import Validator

_ADVANTAGE, _REWARD = "advantage.json", "reward.json"
"""A checkpoint's files of what an advantage and a reward keep from batch to batch."""
_SAMPLED = ("sampled/completions", "sampled/tokens")
"""What a step has sampled, what dynamic sampling discards among it; 0 where it samples nothing."""
_RIGHT = STATUSES.index("right")

_Record = dict[str, Any]


class SageTrainer(SealedCheckpoints, GuidedGRPOTrainer):
    """GuidedGRPOTrainer with our rollouts and grades; a step's record goes to `writer`.

    Completions are sampled by `sample`, or by TRL where there is none; `recorder` records what is
    sampled. `rollouts` are completions of the generation batch at hand, one of each prompt of this
    process. Rollouts are cut where `stopping` ends them, if it is given. `phases` has the seconds
    of the step at hand. Checkpoints hold memories and a moved reference, too.
    """

    moving: MovingReference | None = None
    """Moves the reference, if the anchor asks for it."""

    def __init__(
        self,
        *,
        rl: OnlineMethod,
        hooks: Hooks,
        reward_set: RewardSet,
        anchor: AnchorSection,
        reference_completions: ReferenceCompletions | None,
        sample: SampleRollouts | None,
        recorder: RolloutRecorder,
        writer: StepWriter,
        stopping: Stopping | None,
        validator: Validator | None,
        preflight: Preflight | None = None,
        **arguments: Any,
    ) -> None:
        self.rl, self.hooks, self.reward_set = rl, hooks, reward_set
        self.reference_completions, self.sample_rollouts = reference_completions, sample
        self.recorder, self.writer, self.validator = recorder, writer, validator
        self.stopping, self.preflight = stopping, preflight
        self.keeps_old_entropy = rl.reads_old_entropy and rl.steps_per_batch > 1
        self.phases = Phases()
        self.now = Rollouts()
        self.rollouts: list[_Record] = []
        self.advantage_memory: dict[str, Any] = {}
        self.reward_memory: dict[str, Any] = {}
        self._forward_kl: list[float] = []
        self._clips_itself = False
        self._batch_record: _Record = {}
        self.step_began = time.perf_counter()
        super().__init__(
            anchor=anchor,
            reward_funcs=list(reward_set.functions),
            keep_checkpoints=rl.keep_checkpoints,
            **arguments,
        )
        if self.use_vllm:
            merge_beside(self.vllm_generation)
            ask_for_each_row(self.vllm_generation)
            timed = self.phases.during("sync")
            self.vllm_generation.sync_weights = timed(self.vllm_generation.sync_weights)
        choose_reference(self.accelerator.unwrap_model(self.model), anchor.reference)
        if anchor.moves:
            self.moving = MovingReference(self, anchor, rl.steps_per_batch)
            self.add_callback(self.moving)

    # a generation batch: sampled, graded, given advantages

    def _prepare_inputs(self, generation_batch: Any) -> RolloutBatch:
        before = self.buffered
        inputs: RolloutBatch = super()._prepare_inputs(generation_batch)
        # where a row's share of the loss depends on what TRL has shuffled beside it, it stays there
        by_loss = self.rl.shapes_tokens or self.loss_type == "bnpo" or self.aux_loss_enabled
        by_entropy = self.top_entropy_quantile < 1 or self._entropy_bonus_enabled
        if self.buffered is before or by_loss or by_entropy:
            return inputs
        batches, calls = self.buffered, self.args.gradient_accumulation_steps
        steps = (batches[begin : begin + calls] for begin in range(0, len(batches), calls))
        self._buffered_inputs = [batch for step in steps for batch in regrouped(step)]
        return self.buffered[int(self._step % self.args.steps_per_generation)]

    def _generate_and_score_completions(self, inputs: list[Row]) -> RolloutBatch:
        self.recorder.begin(self.state.global_step + 1)
        self.now = Rollouts()
        # a method that chooses its rows (dynamic sampling) has sampled them by the time it has
        # chosen: TRL is given those completions in place of new ones
        rows, beforehand = self.hooks.sample(self, inputs)
        now = self.score_rows(rows, beforehand)
        if self.preflight is not None:
            self.preflight.look(self, now)
        if self.state.global_step == 0:
            check_reference(self, now.batch, self.anchor.reference)
        if self.rl.computed_by_trl is None:
            now.batch["advantages"] = self._method_advantages(now)
        now.batch["advantages"] = self.hooks.advantages(self, now)
        rows_B = now.batch["row_ids_B"]
        self._batch_record = self._describe(now)
        self.rollouts = rollout_rows(
            now.rows,
            now.texts,
            now.statuses,
            now.rewards_BF[rows_B],
            int(self.num_generations),
            self.reward_set.named(now.raw_BF[rows_B]),
        )
        # a second stage adds rows here, after those of the first have been recorded
        batch = self.hooks.extend(self, now)
        self.recorder.write_counts(main=self.accelerator.is_main_process)
        counts = [self.now.completions, self.now.tokens]
        count = torch.tensor([counts], device=self.accelerator.device)
        sampled = self.accelerator.gather(count).sum(dim=0).tolist()
        self._batch_record |= dict(zip(_SAMPLED, sampled, strict=True))
        return batch

    def score_rows(
        self, rows: list[Row], beforehand: Generated | None = None, first: Rollouts | None = None
    ) -> Rollouts:
        """Sample completions of rows, unless they were sampled `beforehand`, and score them.

        With `first` they are further ones, of prompts whose first are those.
        """
        counts = self.now.completions, self.now.tokens
        now = self.now = Rollouts(rows, beforehand, *counts)
        now.batch = super()._generate_and_score_completions(rows)
        now.texts, now.statuses = self.hooks.reward.completions, self.hooks.reward.statuses
        now.status_PN = self._gather_statuses(now.statuses)
        now.right_PN = now.status_PN == _RIGHT
        self.recorder.record_scored(rows, now)
        self._add_known(now, first)
        return now

    def _add_row_facts(self, batch: RolloutBatch) -> None:
        """Add the rows' prompts, and which are truncated; their grades are not gathered yet."""
        batch["prompt_row_B"] = torch.tensor([row["row"] for row in self.now.rows])
        mask_BT = batch["completion_mask"]
        truncated_B = unfinished(batch["completion_ids"], mask_BT, self.eos_token_ids)
        if self.stopping is not None:
            stopped = [self.stopping.stops(text) for text in self.hooks.reward.completions]
            truncated_B = truncated_B & ~torch.tensor(stopped, device=truncated_B.device)
        batch["truncated_B"] = truncated_B
        if self.rl.mask_truncated_completions:
            # TRL's own takes a completion that ends at a stop text for truncated. Here attention
            # still sees truncated tokens, so ratios to older log-probabilities stay finite
            batch["tool_mask"] = (~truncated_B)[:, None].expand(mask_BT.shape).to(mask_BT)
            read_tokens = self.accelerator.gather(learned_tokens(batch).sum())
            batch["num_items_in_batch"] = read_tokens.sum()

    def _add_known(self, now: Rollouts, first: Rollouts | None) -> None:
        """Add what anchor and guide may know of this process's rows.

        Further rows of a prompt have the share of its first ones, which `now` keeps for them.
        """
        batch, right_PN = now.batch, now.right_PN
        rows_B = batch["row_ids_B"].to(right_PN.device)
        if first is None:
            prompts_B = self.accelerator.gather(batch["prompt_row_B"].to(right_PN.device))
            prompts_P = prompts_B.reshape(right_PN.shape)[:, 0]
            shares_P = right_PN.double().mean(dim=1)
            now.shares = dict(torch.stack([prompts_P, shares_P], dim=1).tolist())
        else:
            now.shares = first.shares
        shares = [now.shares[prompt] for prompt in batch["prompt_row_B"].tolist()]
        batch["right_B"] = right_PN.flatten()[rows_B].bool()
        batch["rewards_B"] = now.total_B[rows_B]
        batch["group_right_B"] = torch.tensor(shares).to(batch["rewards_B"])

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Return completions for rows of the data set, in TRL's form."""
        return tuple(self._sample([row["prompt"] for row in rows]))

    def grade_rows(self, rows: Sequence[Row], sampled: Generated) -> Tensor:
        """Return which completions of the generation batch are correct, one row per prompt."""
        texts = sampled[COMPLETION_TEXTS]
        with self.phases.during("grade"):
            statuses = self.hooks.reward.grade([row["gold"] for row in rows], texts)
        if self.preflight is not None:
            # dynamic sampling replaces some of them, so what is judged is what was sampled first
            self.preflight.look_at_answers(self, rows, sampled)
        right_PN: Tensor = self._gather_statuses(statuses).eq(_RIGHT)
        return right_PN

    def sample_aside(self, prompts: Sequence[str]) -> tuple[list[Ids], list[str]]:
        """Return completions, as ids and texts, that are counted nowhere and not trained on."""
        ids = self._tokenize_prompts(list(prompts))[0]
        if self.sample_rollouts is None:
            sampled, _ = self._generate_single_turn(ids, None, {}, 1)  # one completion each
        else:
            model = self.accelerator.unwrap_model(self.model_wrapped)
            with self.accelerator.autocast():
                aside = f"aside:{self.accelerator.process_index}"
                sampled = self.sample_rollouts(model, ids, aside, 0)
        return sampled, self.processing_class.batch_decode(sampled, skip_special_tokens=True)

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """Return ids of prompts, which have already what a tokenizer would put before them."""
        ids = self.processing_class(text=prompts, add_special_tokens=False)["input_ids"]
        return ids, None, {}

    def _generate(self, prompts: list[Any]) -> Any:
        """Return what was sampled beforehand, or sample it now."""
        if self.now.generated is None:
            self.now.generated = self._sample(prompts)
        return self.now.generated

    def _sample(self, prompts: list[Any]) -> Generated:
        with self.phases.during("generate"):
            sampled: Generated = super()._generate(prompts)
        self.now.completions += len(prompts)
        self.now.tokens += sum(lengths_of(sampled))
        return sampled

    def _generate_single_turn(self, prompt_ids: list[Ids], *images: Any, **keywords: Any) -> Any:
        """Return completions' token ids with the engine's log-probabilities, if there are any."""
        if self.sample_rollouts is None:
            ids, logps = super()._generate_single_turn(prompt_ids, *images, **keywords)
            if self.stopping is not None:
                ids = [list(self.stopping.cut(row, "")[0]) for row in ids]
                logps = logps and [row[: len(kept)] for row, kept in zip(logps, ids, strict=True)]
            return ids, logps
        model = self.accelerator.unwrap_model(self.model_wrapped)
        # step, process and number name a completion's seed: a resumed run samples the same
        batch = f"{self.state.global_step}:{self.accelerator.process_index}"
        with self.accelerator.autocast():
            return self.sample_rollouts(model, prompt_ids, batch, self.now.completions), None

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        now = self.now
        with self.phases.during("grade"):
            now.raw_BF = super()._calculate_rewards(*arguments)
            raise_failures(self.reward_set.functions)
        now.rewards_BF = self.reward_set.weighted(now.raw_BF, int(self.num_generations))
        now.rated_B = self.reward_set.rated(now.raw_BF)
        # TRL, too, leaves out of its means what is NaN throughout
        return now.rewards_BF.masked_fill(~now.rated_B[:, None], torch.nan)

    def _gather_statuses(self, statuses: Sequence[str]) -> Tensor:
        """Return indices into STATUSES of the whole generation batch, one row per prompt."""
        local_B = torch.tensor([STATUSES.index(status) for status in statuses])
        gathered_B: Tensor = self.accelerator.gather(local_B.to(self.accelerator.device))
        return gathered_B.reshape(-1, int(self.num_generations))

    def _describe(self, now: Rollouts) -> _Record:
        batch = now.batch
        lengths_B = batch["completion_mask"].sum(dim=1)
        ends_B2 = self.accelerator.gather(torch.stack([lengths_B, batch["truncated_B"]], dim=1))
        whole_3B = torch.cat([now.status_PN.reshape(-1, 1), ends_B2], dim=1).cpu().T
        record = {
            **batch_record(whole_3B[0].reshape(now.status_PN.shape), *whole_3B[1:]),
            **self.reward_set.record(now.raw_BF, now.rewards_BF, int(self.num_generations)),
        }
        if not self.reward_set.pays:
            del record["groups/zero_variance"]  # nothing is learnt from groups
        return record

    def _method_advantages(self, now: Rollouts) -> Tensor:
        """Return the method's advantages (B,) or (B, T) of this process's rows.

        They follow from the rows of all processes, so every process computes the same ones.
        """
        batch = now.batch
        mask_BT, rewards_PN = batch["completion_mask"], now.total_B.reshape(now.right_PN.shape)

        def read_signals() -> tuple[Tensor, Tensor]:
            at_once = self.args.per_device_train_batch_size
            logps_BT, entropy_BT = self.policy_signals(batch, batch_size=at_once)
            return self._gathered(logps_BT), self._gathered(entropy_BT)

        def read_hidden(measure: Measure) -> Tensor:
            whole_BM: Tensor = self.accelerator.gather(hidden_measures(self, batch, measure))
            return whole_BM

        def read_texts() -> Texts:
            texts = gather_object(list(now.texts))
            rows = self.accelerator.gather(batch["prompt_row_B"].to(mask_BT.device)).tolist()
            prompts = self.hooks.setup.prompts
            return Texts(tuple(texts), tuple(prompts[row][1].id for row in rows))

        reference_BT = batch.get("ref_per_token_logps")
        inputs = AdvantageInputs(
            rewards_PN=rewards_PN,
            right_PN=now.right_PN.to(rewards_PN),
            mask_BT=self._gathered(mask_BT),
            step=self.state.global_step,
            steps=self.args.max_steps,
            read_signals=read_signals,
            read_hidden=read_hidden,
            memory=self.advantage_memory,
            beta=self.kl_weight * self.beta_share,
            read_reference=None if reference_BT is None else lambda: self._gathered(reference_BT),
            read_texts=read_texts,
            rated_PN=now.rated_B.reshape(rewards_PN.shape),
        )
        with torch.no_grad(), blaming(self.rl) as name:
            advantages = checked(self.rl.advantages(inputs), name, inputs, by_row=True)
        # a completion that no reward speaks of moves nobody, whatever the method's formula
        rated = broadcast_rows(now.rated_B, advantages)
        ours = (advantages.to(rewards_PN) * rated)[batch["row_ids_B"]]
        return ours if ours.dim() == 1 else ours[:, : mask_BT.shape[1]]

    def _gathered(self, values_BT: Tensor) -> Tensor:
        """Return rows of all processes, padded with 0 to the longest completion."""
        padded_BT = self.accelerator.pad_across_processes(values_BT, dim=1)
        whole_BT: Tensor = self.accelerator.gather(padded_BT)
        return whole_BT

    # passes

    def run_pass(self, purpose: Purpose, *arguments: Any, **keywords: Any) -> Pass:
        """Make a pass; the time of those outside a loss counts apart."""
        if purpose == "loss":
            return super().run_pass(purpose, *arguments, **keywords)
        with self.phases.during("reference"):
            return super().run_pass(purpose, *arguments, **keywords)

    def plain_logps(self, ids_BT: Tensor, mask_BT: Tensor, tokens: int) -> Tensor:
        """Return the policy's log-probabilities of the last `tokens` of any text."""
        return self.run_pass("policy", self.model, ids_BT, mask_BT, tokens).logps_BT

    # the loss of a micro-batch

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Return Transformers' schedule with a warm-up that begins above 0: each batch counts."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        warmup = int(self.args.get_warmup_steps(num_training_steps))
        if warmup and self.rl.compat != "official":
            rates: list[Callable[[int], float]] = [
                partial(warmed, rate=rate, warmup=warmup) for rate in scheduler.lr_lambdas
            ]
            scheduler = self.lr_scheduler = LambdaLR(scheduler.optimizer, rates)
        return scheduler

    def training_step(self, *arguments: Any, **keywords: Any) -> Tensor:
        """One micro-batch; what it does besides the loss and its gradients counts apart."""
        with self.phases.during("loss"):
            loss: Tensor = super().training_step(*arguments, **keywords)
        return loss

    def _compute_loss(self, model: Any, inputs: RolloutBatch) -> Tensor:
        # all but the last of a micro-batch's parts go backward at once, so that no more than a
        # part's activations are kept; the last goes backward as any loss does
        *parts, (weight, last) = self.hooks.parts(self, inputs)
        done: Tensor | float = 0.0
        for share, part in parts:
            loss = share * super()._compute_loss(model, part)
            self.accelerator.backward(loss)
            done = done + loss.detach()
        return weight * super()._compute_loss(model, last) + done

    def _advantages(self, batch: RolloutBatch, policy: Pass) -> Tensor:
        """Return advantages of a micro-batch, shaped by the policy as it is now if the method does.

        Then they are (B, T).
        """
        if not self.rl.shapes_tokens:
            return batch["advantages"]
        assert policy.entropy_BT is not None  # as every loss asks for it
        advantages, entropy_BT = batch["advantages"], policy.entropy_BT.detach()
        per_token = advantages if advantages.dim() == 2 else advantages[:, None]
        step, micro_batch = self.state.global_step, self.place_in_step
        update = Update(
            advantages_BT=per_token.expand(entropy_BT.shape),
            logps_BT=policy.logps_BT,
            old_logps_BT=batch.get("old_per_token_logps", policy.logps_BT.detach()),
            entropy_BT=entropy_BT,
            old_entropy_BT=batch.get("old_entropy_BT", entropy_BT),
            mask_BT=learned_tokens(batch),
            clip=self.rl.clip_range,
            step=step,
            seed=(self.rl.seed, step, micro_batch, self.accelerator.process_index),
            uncertain_share=self.anchor.uncertain_share,
        )
        with blaming(self.rl) as name:
            shaped = self.rl.shape(update)
            self._clips_itself = isinstance(shaped, Shaped)
            if isinstance(shaped, Shaped):
                self.tokens.add(update.mask_BT, clipped=shaped.clipped_BT.to(entropy_BT))
                shaped = shaped.advantages_BT
            return checked(shaped, name, update).to(update.advantages_BT)

    def _note_clipped(self, view: RolloutBatch, logps_BT: Tensor) -> None:
        """Keep where the loss clips, unless the method clips by itself and has said where."""
        if not self._clips_itself:
            super()._note_clipped(view, logps_BT)

    def _with_terms(self, loss: Tensor, model: Any, batch: RolloutBatch, policy: Pass) -> Tensor:
        if "sampling_per_token_logps" in batch:
            whole = self.vllm_importance_sampling_mode.startswith("sequence")
            add_mismatch(self.tokens, batch, policy.logps_BT.detach(), whole=whole)
        # TRL has divided its loss by the number of accumulated micro-batches already
        accumulated = self.current_gradient_accumulation_steps
        term = self.hooks.loss_term(self, batch, policy.logps_BT)
        if term is not None:
            loss = loss + term / accumulated
        if self.reference_completions is not None:
            forward = forward_kl_loss(self, model, batch, self.reference_completions)
            self._forward_kl.append(self.accelerator.gather(forward.detach()).mean().item())
            loss = loss + self.anchor.beta * self.beta_share / accumulated * forward
        return loss

    def _signals(self, batch: RolloutBatch, policy: Pass) -> Signals:
        signals = super()._signals(batch, policy)
        if "problem_ids_B" not in self.guide.needs:
            return signals
        prompts, rows = self.hooks.setup.prompts, batch["prompt_row_B"].tolist()
        ids = tuple(prompts[row][1].id for row in rows)
        return replace(signals, optional={**signals.optional, "problem_ids_B": ids})

    @property
    def buffered(self) -> list[RolloutBatch]:
        """The micro-batches of the generation batch at hand."""
        micro_batches: list[RolloutBatch] = self._buffered_inputs
        return micro_batches

    # records and checkpoints

    def _logged(self) -> dict[str, float]:
        """TRL's logs get nothing more: the step's record has it."""
        return {}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, then write the step's record; the summary at the end has no loss."""
        super().log(logs, start_time)
        self.state.log_history.clear()  # every checkpoint would hold it; metrics.jsonl does
        if "loss" not in logs:
            return
        now = time.perf_counter()
        step_s, self.step_began = now - self.step_began, now
        if (self.state.global_step - 1) % self.rl.steps_per_batch:
            self._batch_record |= dict.fromkeys(_SAMPLED, 0)
        signals = self.tokens.drain(self.accelerator)
        corrected = self.vllm_importance_sampling_correction
        cap = self.vllm_importance_sampling_clip_max if corrected else None
        forward, self._forward_kl = self._forward_kl, []
        clipped_T = signals.get("clipped", torch.empty(0))
        record = {
            "step": self.state.global_step,
            "of": self.state.max_steps,
            "loss": float(logs["loss"]),
            **token_statistics(signals, self.guide),
            **mismatch_statistics(signals, cap),
            **({"kl/forward": sum(forward) / len(forward)} if forward else {}),
            **self.hooks.figures(self),
            **self._batch_record,
            "clip_ratio": clipped_T.mean().item() if len(clipped_T) else None,
            **({"entropy/coefficient": logs["entropy_coef"]} if self.rl.entropy_target else {}),
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

    def _validated(self) -> _Record:
        """Validate if it is due, and return the record; the other processes wait.

        Empty while the training stops early: there the time to save may be short.
        """
        step, last = self.state.global_step, self.state.global_step >= self.state.max_steps
        if self.validator is None or (step % self.validator.interval and not last):
            return {}
        if self.control.should_training_stop and not last:
            return {}
        figures: _Record = {}
        if self.accelerator.is_main_process:
            figures |= self.validator.validate(self.accelerator.unwrap_model(self.model))
        self.accelerator.wait_for_everyone()
        now = time.perf_counter()
        validation_s, self.step_began = now - self.step_began, now
        return {**figures, "time/validation_s": validation_s}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # a checkpoint that is whole vouches for the records of its steps
        self.recorder.seal()
        super()._save_checkpoint(model, trial)

    def _complete(self, checkpoint: Path) -> None:
        for name, memory in self._memories().items():
            if memory:
                write_json(checkpoint / name, memory)
        if self.moving is not None:
            self.moving.save(checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        for name, memory in self._memories().items():
            if (file := Path(checkpoint) / name).is_file():
                memory.update(read_object(file, f"remove {checkpoint}"))
        if self.moving is not None:
            self.moving.load(Path(checkpoint))

    def _memories(self) -> Mapping[str, dict[str, Any]]:
        return {_ADVANTAGE: self.advantage_memory, _REWARD: self.reward_memory}


def warmed(step: int, *, rate: Callable[[int], float], warmup: int) -> float:
    """Return the share of the peak rate in a step, from 0: (step + 1) / (warmup + 1), then `rate`.

    Transformers' own is step / warmup: the first generation batch would move nothing.
    """
    return (step + 1) / (warmup + 1) if step < warmup else rate(step)


@torch.no_grad()
def hidden_measures(trainer: SageTrainer, batch: RolloutBatch, measure: Measure) -> Tensor:
    """`measure` of each of this process's completions, on the last layer's normed states."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    causal = causal_of(model)
    decoder = causal.base_model
    ids, mask = whole_texts(batch)
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    tokens, measures = batch["completion_ids"].shape[1], []
    at_once = trainer.args.per_device_train_batch_size
    for begin in range(0, len(ids), at_once):
        rows = slice(begin, begin + at_once)
        counted = {"position_ids": positions_of(mask[rows])} if takes_positions(causal) else {}
        with trainer.accelerator.autocast():
            states = decoder(
                input_ids=ids[rows], attention_mask=mask[rows], use_cache=False, **counted
            )
        hidden_BTD = states.last_hidden_state[:, -tokens:]
        measures += [
            measure(hidden_TD[:length].float())
            for hidden_TD, length in zip(hidden_BTD, lengths[rows], strict=True)
        ]
    return torch.stack(measures)


@contextmanager
def blaming(method: OnlineMethod) -> Iterator[str]:
    """Yield the method's name for messages, and name a plug-in in the errors of its formulas."""
    name = f"method '{method.algo}'"
    if type(method).__module__.partition(".")[0] == method.package.partition(".")[0]:
        yield name
        return
    plugin = load_plugin(method.package, method.algo)
    with plugin.blamed():
        yield str(plugin)
