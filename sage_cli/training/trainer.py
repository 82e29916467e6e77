"""The trainer of `sage rl`: our rollouts, grades, advantages and one record for each step.

A method acts through its formulas (`advantages`, `shape`) and its hooks (`sage_cli.methods.hooks`).
docs/architecture.md shows who calls whom in a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from sage_cli.grading.grades import STATUSES
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
from sage_cli.settings.anchor import AnchorSection
from sage_cli.settings.own_code import load_plugin
from sage_cli.store.json_files import read_object, write_json
from sage_cli.training.base_trainer import SealedCheckpoints
from sage_cli.training.guided_trainer import GuidedGRPOTrainer
from sage_cli.training.passes import Pass, Purpose, positions_of, regrouped
from sage_cli.training.phases import Phases, peak_memory
from sage_cli.training.preflight import Preflight, refusing_architecture
from sage_cli.training.reference import (
    MovingReference,
    ReferenceCompletions,
    check_reference,
    forward_kl_loss,
)
from sage_cli.training.rewards import RewardSet, raise_failures
from sage_cli.training.rollouts import Ids, SampleRollouts, ask_for_each_row, merge_beside
from sage_cli.training.run_recorder import (
    COMPLETION_IDS,
    COMPLETION_TEXTS,
    RunRecorder,
    batch_record,
    rollout_rows,
)
from sage_cli.training.safeguards import Safeguards
from sage_cli.training.token_record import add_mismatch, mismatch_statistics, token_statistics
from sage_cli.training.validation import Validator

_ADVANTAGE, _REWARD = "advantage.json", "reward.json"
"""A checkpoint's files of what an advantage and a reward keep from batch to batch."""
_SAMPLED = ("sampled/completions", "sampled/tokens")
"""What a step has sampled, what dynamic sampling discards among it; 0 where it samples nothing."""
_RIGHT = STATUSES.index("right")

_Record = dict[str, Any]


class SageTrainer(SealedCheckpoints, GuidedGRPOTrainer):
    """GuidedGRPOTrainer with our rollouts and grades; a step's record goes to `recorder`.

    Completions are sampled by `sample`, or by TRL where there is none; what is sampled goes to
    `recorder`, too. `rollouts` are completions of the generation batch at hand, one of each prompt
    of this process. Rollouts are cut where `stopping` ends them, if it is given. `phases` has the
    seconds of the step at hand. Checkpoints hold memories and a moved reference, too.
    """

    moving: MovingReference | None = None
    """Moves the reference, if the anchor asks for it."""
    _buffered_inputs: list[RolloutBatch]
    """TRL's: the micro-batches of the generation batch at hand."""

    def __init__(
        self,
        *,
        rl: OnlineMethod,
        hooks: Hooks,
        reward_set: RewardSet,
        anchor: AnchorSection,
        reference_completions: ReferenceCompletions | None,
        sample: SampleRollouts | None,
        recorder: RunRecorder,
        safeguards: Safeguards,
        stopping: Stopping | None,
        validator: Validator | None,
        preflight: Preflight | None = None,
        **arguments: Any,
    ) -> None:
        self.rl, self.hooks, self.reward_set = rl, hooks, reward_set
        self.problem_ids = [problem.id for _, problem in hooks.setup.prompts]
        self.reference_completions, self.sample_rollouts = reference_completions, sample
        self.recorder, self.safeguards, self.validator = recorder, safeguards, validator
        self.stopping, self.preflight = stopping, preflight
        self.keeps_old_entropy = rl.reads_old_entropy and rl.steps_per_batch > 1
        # What one method leaves for another, besides the fields of `RolloutBatch`:
        # - the generation that comes about, which TRL asks by methods of its own for completions
        #   and rewards
        self.now = Rollouts()
        # - what there is to say of a generation batch, until each of its steps is logged
        self._batch_record: _Record = {}
        self.rollouts: list[_Record] = []
        # - the seconds of the step at hand
        self.phases, self.step_began = Phases(), time.perf_counter()
        # - what a method remembers from batch to batch, in checkpoints too
        self.advantage_memory: dict[str, Any] = {}
        self.reward_memory: dict[str, Any] = {}
        self._memories = {_ADVANTAGE: self.advantage_memory, _REWARD: self.reward_memory}
        super().__init__(
            anchor=anchor,
            reward_funcs=list(reward_set.functions),
            keep_checkpoints=rl.keep_checkpoints,
            **arguments,
        )
        # accelerate wraps it into an autocast, in which nothing can be computed in float32
        self.model_forward = self.accelerator.unwrap_model(self.model).forward
        if self.use_vllm:
            merge_beside(self.vllm_generation)
            ask_for_each_row(self.vllm_generation)
            timed = self.phases.during("sync")
            self.vllm_generation.sync_weights = timed(self.vllm_generation.sync_weights)
        policy = self.accelerator.unwrap_model(self.model)
        if anchor.reference == "pre-sft" and "ref" in getattr(policy, "peft_config", {}):
            # TRL has copied the adapter that it was given to "ref", to which it holds the policy;
            # without the copy the adapter is switched off for the reference's pass
            policy.delete_adapter("ref")
        if anchor.moves:
            self.moving = MovingReference(self, anchor, rl.steps_per_batch)
            self.add_callback(self.moving)

    # a generation batch: sampled, graded, given advantages

    def _prepare_inputs(self, generation_batch: Any) -> RolloutBatch:
        before = self._buffered_inputs
        inputs: RolloutBatch = super()._prepare_inputs(generation_batch)
        # where a row's share of the loss depends on what TRL has shuffled beside it, it stays there
        by_loss = self.rl.shapes_tokens or self.loss_type == "bnpo" or self.aux_loss_enabled
        by_entropy = self.top_entropy_quantile < 1 or self._entropy_bonus_enabled
        if self._buffered_inputs is before or by_loss or by_entropy:
            return inputs
        batches, calls = self._buffered_inputs, self.args.gradient_accumulation_steps
        steps = (batches[begin : begin + calls] for begin in range(0, len(batches), calls))
        self._buffered_inputs = [batch for step in steps for batch in regrouped(step)]
        place: int = self._step % self.args.steps_per_generation
        return self._buffered_inputs[place]

    def _generate_and_score_completions(self, inputs: list[Row]) -> RolloutBatch:
        step, group = self.state.global_step, int(self.num_generations)
        self.now = Rollouts()
        # a method that chooses its rows (dynamic sampling) has sampled them by the time it has
        # chosen: TRL is given those completions in place of new ones
        with nullcontext() if step else refusing_architecture():
            rows, beforehand = self.hooks.sample(self, inputs)
            now = self.score_rows(rows, beforehand)
            batch = now.batch
            if self.preflight is not None:
                self.preflight.look(self, now)
        if step == 0:
            check_reference(self, batch, self.anchor.reference)
        if self.rl.computed_by_trl is None:
            batch["advantages"] = self._method_advantages(now)
        batch["advantages"] = self.hooks.advantages(self, now)

        # the batch's record is of the completions of all processes, and waits for the device once
        ends_B2 = torch.stack([batch["completion_mask"].sum(dim=1), batch["truncated_B"]], dim=1)
        whole_B3 = torch.cat(
            [now.status_PN.reshape(-1, 1), self.accelerator.gather(ends_B2)], dim=1
        ).cpu()
        status_B, length_B, cut_B = whole_B3.T
        self._batch_record = {
            **batch_record(status_B.reshape(now.status_PN.shape), length_B, cut_B),
            **self.reward_set.record(now.raw_BF, now.rewards_BF, now.rated_B, group),
        }
        if not self.reward_set.pays:
            del self._batch_record["groups/zero_variance"]  # nothing is learnt from groups
        # without graded rewards the grade and the sum say it all
        self.rollouts = rollout_rows(
            now, group, self.reward_set.names if self.reward_set.graded else ()
        )
        # a second stage adds rows here, after those of the first have been recorded
        batch = self.hooks.extend(self, now)
        self.recorder.write_counts(step + 1, main=self.accelerator.is_main_process)
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
        now = self.now = Rollouts(rows, None, self.now.completions, self.now.tokens)
        now.generated = self.generate_rows(rows) if beforehand is None else beforehand
        batch = now.batch = super()._generate_and_score_completions(rows)
        now.texts, now.statuses = now.generated[COMPLETION_TEXTS], self.hooks.reward.statuses
        now.status_PN = self._gather_statuses(now.statuses)
        right_PN = now.right_PN = now.status_PN == _RIGHT
        ids = now.generated[COMPLETION_IDS]

        batch["prompt_row_B"] = torch.tensor([row["row"] for row in rows])
        mask_BT = batch["completion_mask"]
        truncated_B = torch.tensor(self.cut_off(ids, now.texts), device=mask_BT.device)
        batch["truncated_B"] = truncated_B
        if self.rl.mask_truncated_completions:
            # TRL's own takes a completion that ends at a stop text for truncated. Here attention
            # still sees truncated tokens, so ratios to older log-probabilities stay finite
            batch["tool_mask"] = (~truncated_B)[:, None].expand(mask_BT.shape).to(mask_BT)
            read_tokens = self.accelerator.gather(learned_tokens(batch).sum())
            batch["num_items_in_batch"] = read_tokens.sum()

        # what anchor and guide may know of the rows: the grade, not the reward, says what is
        # correct, and further rows of a prompt have the share of its first ones
        rows_B = batch["row_ids_B"].to(right_PN.device)
        if first is None:
            prompts_B = self.accelerator.gather(batch["prompt_row_B"].to(right_PN.device))
            prompts_P = prompts_B.reshape(right_PN.shape)[:, 0]
            shares_P = right_PN.double().mean(dim=1)
            now.shares = dict(torch.stack([prompts_P, shares_P], dim=1).tolist())
        else:
            now.shares = first.shares
        shares = [now.shares[row["row"]] for row in rows]
        batch["right_B"] = right_PN.flatten()[rows_B].bool()
        batch["rewards_B"] = now.total_B[rows_B]
        batch["group_right_B"] = torch.tensor(shares).to(batch["rewards_B"])
        step, rewards_BF = self.state.global_step + 1, now.rewards_BF[rows_B]
        self.recorder.record(step, rows, ids, now.texts, now.statuses, rewards_BF)
        return now

    def cut_off(self, ids: Sequence[Ids], texts: Sequence[str]) -> list[bool]:
        """Return True for completions that neither an end-of-sequence token nor a text ended."""
        stopping = self.stopping
        return [
            not (tokens and tokens[-1] in self.eos_token_ids)
            and not (stopping is not None and stopping.stops(text))
            for tokens, text in zip(ids, texts, strict=True)
        ]

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Sample completions for rows of the data set, in TRL's form, and count them."""
        with self.phases.during("generate"):
            sampled: Generated = super()._generate([row["prompt"] for row in rows])
        self.now.completions += len(rows)
        self.now.tokens += sum(map(len, sampled[COMPLETION_IDS]))
        return sampled

    def _generate(self, prompts: list[Any]) -> Any:
        """Give TRL, which asks for completions, those that `score_rows` has sampled."""
        _ = prompts
        return self.now.generated

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
        now.rewards_BF, now.rated_B = self.reward_set.pay(now.raw_BF, int(self.num_generations))
        # TRL, too, leaves out of its means what is NaN throughout
        return now.rewards_BF.masked_fill(~now.rated_B[:, None], torch.nan)

    def _gather_statuses(self, statuses: Sequence[str]) -> Tensor:
        """Return indices into STATUSES of the whole generation batch, one row per prompt."""
        local_B = torch.tensor([STATUSES.index(status) for status in statuses])
        gathered_B: Tensor = self.accelerator.gather(local_B.to(self.accelerator.device))
        return gathered_B.reshape(-1, int(self.num_generations))

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
            return Texts(tuple(texts), tuple(self.problem_ids[row] for row in rows))

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
            beta=self.kl_weight * self.beta_share(self.state.global_step),
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

    def _advantages(self, batch: RolloutBatch, policy: Pass) -> tuple[Tensor, Tensor | None]:
        """Return advantages, (B, T) where the method shapes them by the policy as it is now.

        And where the method clips, if it does so by itself.
        """
        advantages = batch["advantages"]
        if not self.rl.shapes_tokens:
            return advantages, None
        assert policy.entropy_BT is not None  # as every loss asks for it
        entropy_BT = policy.entropy_BT.detach()
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
        clipped_BT = None
        with blaming(self.rl) as name:
            shaped = self.rl.shape(update)
            if isinstance(shaped, Shaped):
                clipped_BT = shaped.clipped_BT
                shaped = shaped.advantages_BT
            return checked(shaped, name, update).to(update.advantages_BT), clipped_BT

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
            self.tokens.add(torch.ones_like(forward), forward_kl=forward)
            weight = self.anchor.beta * self.beta_share(self.state.global_step)
            loss = loss + weight / accumulated * forward
        return loss

    @property
    def buffered(self) -> list[RolloutBatch]:
        """The micro-batches of the generation batch at hand, for methods."""
        return self._buffered_inputs

    # records and checkpoints

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, then write the step's record; the summary at the end has no loss."""
        super(GuidedGRPOTrainer, self).log(logs, start_time)  # the anchor's part is in our record
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
        none_T = torch.empty(0)
        clipped_T, forward_X, mismatch_T = (
            signals.get(name, none_T) for name in ("clipped", "forward_kl", "mismatch")
        )
        record = {
            "step": self.state.global_step,
            "of": self.state.max_steps,
            "loss": float(logs["loss"]),
            **token_statistics(signals, self.guide),
            **(mismatch_statistics(signals, cap) if len(mismatch_T) else {}),
            **({"kl/forward": forward_X.mean().item()} if len(forward_X) else {}),
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
        done, last = record["step"], record["step"] >= record["of"]
        # a training that stops early may have little time left to save
        stops = self.control.should_training_stop and not last
        if self.validator and not stops and (last or done % self.validator.interval == 0):
            record |= self._validated(self.validator)
        if self.accelerator.is_main_process:
            self.recorder.write_step(record, self.rollouts)
        self.safeguards.check(record)  # in every process, so that all of them stop

    def _validated(self, validator: Validator) -> _Record:
        """Validate in the main process, for which the others wait, and return the record."""
        figures: _Record = {}
        if self.accelerator.is_main_process:
            figures |= validator.validate(self.accelerator.unwrap_model(self.model))
        self.accelerator.wait_for_everyone()
        now = time.perf_counter()
        validation_s, self.step_began = now - self.step_began, now
        return {**figures, "time/validation_s": validation_s}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # a checkpoint that is whole vouches for the records of its steps
        self.recorder.seal()
        super()._save_checkpoint(model, trial)

    def _complete(self, checkpoint: Path) -> None:
        for name, memory in self._memories.items():
            if memory:
                write_json(checkpoint / name, memory)
        if self.moving is not None:
            self.moving.save(checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        for name, memory in self._memories.items():
            if (file := Path(checkpoint) / name).is_file():
                memory.update(read_object(file, f"remove {checkpoint}"))
        if self.moving is not None:
            self.moving.load(Path(checkpoint))


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
        keywords = {"input_ids": ids[rows], "attention_mask": mask[rows], "use_cache": False}
        if (positions := positions_of(causal, mask[rows])) is not None:
            keywords["position_ids"] = positions
        with trainer.accelerator.autocast():
            states = decoder(**keywords)
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
