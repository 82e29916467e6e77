"""The trainer of RL: TRL's step with our rollouts, grades, advantages and one record a step.

A method acts through its formulas (`advantages`, `shape`) and its hooks (`sage_cli.methods.hooks`).
docs/architecture.md shows who calls whom in a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from sage_cli.grading.grades import STATUSES
from sage_cli.guides import Signals
from sage_cli.methods.formulas import AdvantageInputs, Measure, Texts, Update, checked
from sage_cli.methods.hooks import Batch, Generated, Hooks, Row, learned_tokens
from sage_cli.methods.method import OnlineMethod
from sage_cli.models.loading import causal_of
from sage_cli.sampling.sampler import Stopping
from sage_cli.settings.own_code import load_plugin
from sage_cli.settings.training import AnchorSection
from sage_cli.store.files import read_object, write_json
from sage_cli.training.anchored_trainer import AnchoredTrainer, check_reference, choose_reference
from sage_cli.training.base_trainer import SealedCheckpoints
from sage_cli.training.passes import RowSignals, regrouped, whole_texts
from sage_cli.training.reference import MovingReference, ReferenceCompletions, forward_kl_loss
from sage_cli.training.rewards import Paid, raise_failures
from sage_cli.training.rollouts import ask_for_each_row, merge_beside
from sage_cli.training.step_record import (
    COMPLETION_TEXTS,
    Noted,
    Phases,
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
from sage_cli.training.training import Ids, SampleRollouts, Validator

_ADVANTAGE, _REWARD = "advantage.json", "reward.json"
"""A checkpoint's files of what an advantage and a reward keep from batch to batch."""
SAMPLED = ("sampled/completions", "sampled/tokens")
"""What a step has sampled, what dynamic sampling discards among it; 0 where it samples nothing."""

Record = dict[str, Any]


class RlTrainer(SealedCheckpoints, AnchoredTrainer):
    """AnchoredTrainer with our rollouts and grades; each optimiser step's record goes to `writer`.

    Completions are sampled by `sample`, or by TRL where there is none; what is sampled is `noted`.
    `rollouts` are completions of the generation batch at hand, one of each prompt of this process;
    `rewards_BF` the parts F of the reward of all processes' completions, weighted; `raw_BF` what
    the reward functions say. Rollouts are cut where `stopping` ends them, if it is given.
    `phases` has the seconds of the step at hand. Checkpoints hold memories and a moved reference,
    too.
    """

    moving: MovingReference | None = None
    """Moves the reference, if the anchor asks for it."""

    def __init__(
        self,
        *,
        rl: OnlineMethod,
        hooks: Hooks,
        paid: Paid,
        anchor: AnchorSection,
        reference_completions: ReferenceCompletions | None,
        sample: SampleRollouts | None,
        noted: Noted,
        writer: StepWriter,
        stopping: Stopping | None,
        validator: Validator | None,
        **arguments: Any,
    ) -> None:
        self.rl, self.hooks, self.paid = rl, hooks, paid
        self.reference_completions, self.sample_rollouts = reference_completions, sample
        self.noted, self.writer, self.validator = noted, writer, validator
        self.stopping = stopping
        self.phases, self.rows = Phases(), RowSignals()
        self.rollouts: list[Record] = []
        self.advantage_memory: dict[str, Any] = {}
        self.reward_memory: dict[str, Any] = {}
        self._beforehand: Generated | None = None
        self._count = [0, 0]
        self._forward_kl: list[float] = []
        self._batch_record: Record = {}
        self._step_began = time.perf_counter()
        super().__init__(
            anchor=anchor,
            keeps_old_entropy=rl.reads_old_entropy and rl.steps_per_batch > 1,
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
        hooks.begin(self)

    def train(self, *arguments: Any, **keywords: Any) -> Any:
        """Train; the first step's time counts from here."""
        self._step_began = time.perf_counter()
        return super().train(*arguments, **keywords)

    # a generation batch: sampled, graded, given advantages

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        before = self.buffered
        inputs: Batch = super()._prepare_inputs(generation_batch)
        if self.buffered is before or self._weighs_by_micro_batch:
            return inputs
        batches, calls = self.buffered, self.args.gradient_accumulation_steps
        steps = (batches[begin : begin + calls] for begin in range(0, len(batches), calls))
        micro_batches = [batch for step in steps for batch in regrouped(step)]
        self._buffered_inputs = micro_batches
        return micro_batches[int(self._step % self.args.steps_per_generation)]

    @property
    def _weighs_by_micro_batch(self) -> bool:
        """Return True if a row's share of the loss depends on what TRL has shuffled beside it."""
        by_loss = self.rl.shapes_tokens or self.loss_type == "bnpo"
        by_entropy = self.top_entropy_quantile < 1 or self._entropy_bonus_enabled
        return bool(by_loss or by_entropy or self.aux_loss_enabled)

    def _generate_and_score_completions(self, inputs: list[Row]) -> Batch:
        self._count = [0, 0]
        self.noted.begin(self.state.global_step + 1)
        # a method that chooses its rows (dynamic sampling) has sampled them by the time it has
        # chosen: TRL is given those completions in place of new ones
        inputs, self._beforehand = self.hooks.sample(self, inputs)
        batch = self._scored(inputs)
        if self.state.global_step == 0:
            check_reference(self, batch, self.anchor.reference)
        status_PN = self._gather_statuses(self.hooks.reward.statuses)
        right_PN = status_PN == STATUSES.index("right")
        batch |= self.rows.first_tensors(self, batch, right_PN)
        if self.rl.computed_by_trl is None:
            batch["advantages"] = batch_advantages(self, self.rl, batch, right_PN)
        batch["advantages"] = self.hooks.advantages(self, batch, right_PN)
        self._batch_record = self._describe(batch, status_PN)
        self.rollouts = rollout_rows(
            inputs,
            self.hooks.reward.completions,
            self.hooks.reward.statuses,
            self.rewards_BF[batch["row_ids_B"]],
            int(self.num_generations),
            self.paid.named(self.raw_BF[batch["row_ids_B"]]),
        )
        self.noted.scored(inputs, batch, self.rewards_BF)
        # a second stage adds rows here, after those of the first have been recorded
        batch = self.hooks.pooled(self, inputs, batch, right_PN)
        self.noted.enter(main=self.accelerator.is_main_process)
        count = torch.tensor([self._count], device=self.accelerator.device)
        sampled = self.accelerator.gather(count).sum(dim=0).tolist()
        self._batch_record |= {**dict(zip(SAMPLED, sampled, strict=True)), **self.hooks.record}
        return batch

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Return completions for rows of the data set, in TRL's form."""
        return tuple(self._generate([row["prompt"] for row in rows]))

    def grade_rows(self, rows: Sequence[Row], sampled: Generated) -> Tensor:
        """Return which completions of the generation batch are right, one row per prompt."""
        texts = sampled[COMPLETION_TEXTS]
        with self.phases.during("grade"):
            statuses = self.hooks.reward.grade([row["gold"] for row in rows], texts)
        right_PN: Tensor = self._gather_statuses(statuses).eq(STATUSES.index("right"))
        return right_PN

    def score_rows(self, rows: list[Row]) -> tuple[Batch, Tensor]:
        """Return a batch of further completions, scored, and which are right in all processes."""
        batch = self._scored(rows)
        status_PN = self._gather_statuses(self.hooks.reward.statuses)
        self.noted.scored(rows, batch, self.rewards_BF)
        right_PN = status_PN == STATUSES.index("right")
        return batch | self.rows.tensors(self, batch, right_PN), right_PN

    def _scored(self, rows: list[Row]) -> Batch:
        """Return completions of the rows, scored, with a mask of the tokens that the loss reads."""
        batch: Batch = super()._generate_and_score_completions(rows)
        batch["prompt_row_B"] = torch.tensor([row["row"] for row in rows])
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
        return batch

    def _generate(self, prompts: list[Any]) -> Any:
        sampled, self._beforehand = self._beforehand, None
        if sampled is None:
            with self.phases.during("generate"):
                sampled = super()._generate(prompts)
            self._count[0] += len(prompts)
            self._count[1] += sum(lengths_of(sampled))
        self.noted.generated = sampled
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
            return self.sample_rollouts(model, prompt_ids, batch, self._count[0]), None

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        with self.phases.during("grade"):
            self.raw_BF: Tensor = super()._calculate_rewards(*arguments)
            raise_failures(self.paid.functions)
        self.rewards_BF = self.paid.weighted(self.raw_BF, int(self.num_generations))
        return self.rewards_BF

    def _gather_statuses(self, statuses: Sequence[str]) -> Tensor:
        """Return indices into STATUSES of the whole generation batch, one row per prompt."""
        local_B = torch.tensor([STATUSES.index(status) for status in statuses])
        gathered_B: Tensor = self.accelerator.gather(local_B.to(self.accelerator.device))
        return gathered_B.reshape(-1, int(self.num_generations))

    def _describe(self, batch: Batch, status_PN: Tensor) -> Record:
        lengths_B = batch["completion_mask"].sum(dim=1)
        ends_B2 = self.accelerator.gather(torch.stack([lengths_B, batch["truncated_B"]], dim=1))
        whole_3B = torch.cat([status_PN.reshape(-1, 1), ends_B2], dim=1).cpu().T
        return {
            **batch_record(whole_3B[0].reshape(status_PN.shape), *whole_3B[1:]),
            **self.paid.record(self.raw_BF, self.rewards_BF, int(self.num_generations)),
        }

    # log-probabilities

    @torch.no_grad()
    def policy_signals(
        self, batch: Batch, *, batch_size: int | None = None
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

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **keywords: Any) -> Any:
        if self.in_loss:
            return super()._get_per_token_logps_and_entropies(*arguments, **keywords)
        with self.phases.during("reference"):
            return super()._get_per_token_logps_and_entropies(*arguments, **keywords)

    # the loss of a micro-batch

    def training_step(self, *arguments: Any, **keywords: Any) -> Tensor:
        """One micro-batch; what it does besides the loss and its gradients counts apart."""
        with self.phases.during("loss"):
            loss: Tensor = super().training_step(*arguments, **keywords)
        return loss

    def _compute_loss(self, model: Any, inputs: Batch) -> Tensor:
        return self.hooks.loss(self, model, inputs)

    def loss_of(self, model: Any, inputs: Batch) -> Tensor:
        """Return the loss of rows that are no more than a micro-batch."""
        loss: Tensor = super()._compute_loss(model, inputs)
        # TRL has divided its loss by the number of accumulated micro-batches already
        accumulated = self.current_gradient_accumulation_steps
        term = self.hooks.loss_term(self, inputs)
        if term is not None:
            loss = loss + term / accumulated
        if self.reference_completions is None:
            return loss
        forward = forward_kl_loss(self, model, inputs, self.reference_completions)
        self._forward_kl.append(self.accelerator.gather(forward.detach()).mean().item())
        beta = self.anchor.beta * self.beta_share / accumulated
        with_forward: Tensor = loss + beta * forward
        return with_forward

    def _advantages_now(self, batch: Batch, *signals_BT: Tensor) -> Tensor:
        self.logps_BT = signals_BT[0]
        if self.rl.shapes_tokens:
            return update_advantages(self, self.rl, batch, *signals_BT)
        return super()._advantages_now(batch)

    def _signals(self, batch: Batch, *signals_BT: Tensor) -> Signals:
        return self.rows.named(self, batch, super()._signals(batch, *signals_BT))

    def _shape_anchor(self, batch: Batch, logps_BT: Tensor, entropy_BT: Tensor) -> None:
        super()._shape_anchor(batch, logps_BT, entropy_BT)
        if "sampling_per_token_logps" in batch:
            whole = self.vllm_importance_sampling_mode.startswith("sequence")
            add_mismatch(self.tokens, batch, logps_BT, whole=whole)

    @property
    def buffered(self) -> list[Batch]:
        """The micro-batches of the generation batch at hand."""
        micro_batches: list[Batch] = self._buffered_inputs
        return micro_batches

    # records and checkpoints

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Let TRL log, then hand over the step's record; the summary at the end has no loss."""
        super().log(logs, start_time)
        self.state.log_history.clear()  # every checkpoint would hold it; metrics.jsonl does
        if "loss" not in logs:
            return
        now = time.perf_counter()
        step_s, self._step_began = now - self._step_began, now
        if (self.state.global_step - 1) % self.rl.steps_per_batch:
            self._batch_record |= dict.fromkeys(SAMPLED, 0)
        signals = self.tokens.drain(self.accelerator)
        corrected = self.vllm_importance_sampling_correction
        cap = self.vllm_importance_sampling_clip_max if corrected else None
        record = {
            "step": self.state.global_step,
            "of": self.state.max_steps,
            "loss": float(logs["loss"]),
            **token_statistics(signals, self.guide),
            **mismatch_statistics(signals, cap),
            **self._forward_record(),
            **self.hooks.figures(self),
            **self._batch_record,
            "clip_ratio": logs.get("clip_ratio/region_mean"),
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

    def _validated(self) -> Record:
        """Validate if it is due, and return the record; the other processes wait.

        Empty while the training stops early: there the time to save may be short.
        """
        step, last = self.state.global_step, self.state.global_step >= self.state.max_steps
        if self.validator is None or (step % self.validator.interval and not last):
            return {}
        if self.control.should_training_stop and not last:
            return {}
        figures: Record = {}
        if self.accelerator.is_main_process:
            figures |= self.validator.validate(self.accelerator.unwrap_model(self.model))
        self.accelerator.wait_for_everyone()
        now = time.perf_counter()
        validation_s, self._step_began = now - self._step_began, now
        return {**figures, "time/validation_s": validation_s}

    def _forward_record(self) -> Record:
        """`kl/forward`: the cross-entropy on the reference's completions, where it is used."""
        values, self._forward_kl = self._forward_kl, []
        return {"kl/forward": sum(values) / len(values)} if values else {}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # a checkpoint that is whole vouches for the records of its steps
        self.noted.seal()
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

    def _memories(self) -> dict[str, dict[str, Any]]:
        return {_ADVANTAGE: self.advantage_memory, _REWARD: self.reward_memory}


@torch.no_grad()
def hidden_measures(trainer: Any, batch: dict[str, Any], measure: Measure) -> Tensor:
    """`measure` of each of this process's completions, on the last layer's normed states."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    decoder = causal_of(model).base_model
    ids, mask = whole_texts(batch)
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    tokens, measures = batch["completion_ids"].shape[1], []
    at_once = trainer.args.per_device_train_batch_size
    for begin in range(0, len(ids), at_once):
        rows = slice(begin, begin + at_once)
        with trainer.accelerator.autocast():
            states = decoder(input_ids=ids[rows], attention_mask=mask[rows], use_cache=False)
        hidden_BTD = states.last_hidden_state[:, -tokens:]
        measures += [
            measure(hidden_TD[:length].float())
            for hidden_TD, length in zip(hidden_BTD, lengths[rows], strict=True)
        ]
    return torch.stack(measures)


def batch_advantages(
    trainer: Any, method: OnlineMethod, batch: dict[str, Any], right_PN: Tensor
) -> Tensor:
    """Return advantages (B,) or (B, T) of this process's rows, from those of all processes."""
    mask_BT = batch["completion_mask"]

    def read_signals() -> tuple[Tensor, Tensor]:
        at_once = trainer.args.per_device_train_batch_size
        logps_BT, entropy_BT = trainer.policy_signals(batch, batch_size=at_once)
        return _gathered(trainer, logps_BT), _gathered(trainer, entropy_BT)

    def read_hidden(measure: Measure) -> Tensor:
        whole_BM: Tensor = trainer.accelerator.gather(hidden_measures(trainer, batch, measure))
        return whole_BM

    def read_reference() -> Tensor:
        return _gathered(trainer, batch["ref_per_token_logps"])

    def read_texts() -> Texts:
        texts = gather_object(list(trainer.hooks.reward.completions))
        rows = trainer.accelerator.gather(batch["prompt_row_B"].to(mask_BT.device)).tolist()
        prompts = trainer.hooks.setup.prompts
        return Texts(tuple(texts), tuple(prompts[row][1].id for row in rows))

    rewards_PN = trainer.rewards_BF.sum(dim=1).reshape(right_PN.shape)
    inputs = AdvantageInputs(
        rewards_PN=rewards_PN,
        right_PN=right_PN.to(rewards_PN),
        mask_BT=_gathered(trainer, mask_BT),
        step=trainer.state.global_step,
        steps=trainer.args.max_steps,
        read_signals=read_signals,
        read_hidden=read_hidden,
        memory=trainer.advantage_memory,
        beta=trainer.args.beta * trainer.beta_share,
        read_reference=read_reference if "ref_per_token_logps" in batch else None,
        read_texts=read_texts,
    )
    with torch.no_grad(), blaming(method) as name:
        advantages = checked(method.advantages(inputs), name, inputs, by_row=True)
    ours = advantages.to(rewards_PN)[batch["row_ids_B"]]
    return ours if ours.dim() == 1 else ours[:, : mask_BT.shape[1]]


def update_advantages(
    trainer: Any, method: OnlineMethod, batch: dict[str, Any], logps_BT: Tensor, entropy_BT: Tensor
) -> Tensor:
    """Return advantages (B, T) of a micro-batch, shaped by the policy as it is now."""
    advantages, entropy_BT = batch["advantages"], entropy_BT.detach()
    per_token = advantages if advantages.dim() == 2 else advantages[:, None]
    old_logps_BT = batch.get("old_per_token_logps")
    step, micro_batch = trainer.state.global_step, trainer.place_in_step
    update = Update(
        advantages_BT=per_token.expand(entropy_BT.shape),
        logps_BT=logps_BT,
        old_logps_BT=logps_BT.detach() if old_logps_BT is None else old_logps_BT,
        entropy_BT=entropy_BT,
        old_entropy_BT=batch.get("old_entropy_BT", entropy_BT),
        mask_BT=learned_tokens(batch),
        clip=method.clip_range,
        step=step,
        seed=(method.seed, step, micro_batch, trainer.accelerator.process_index),
        uncertain_share=trainer.anchor.uncertain_share,
    )
    with blaming(method) as name:
        return checked(method.shape(update), name, update).to(update.advantages_BT)


@contextmanager
def blaming(method: OnlineMethod) -> Iterator[str]:
    """Give what messages call the method; name a plug-in in whatever its formulas raise."""
    name = f"method '{method.algo}'"
    if type(method).__module__.partition(".")[0] == method.package.partition(".")[0]:
        yield name
        return
    plugin = load_plugin(method.package, method.algo)
    with plugin.blamed():
        yield str(plugin)


def _gathered(trainer: Any, values_BT: Tensor) -> Tensor:
    """Return rows of all processes, padded with 0 to the longest completion."""
    padded_BT = trainer.accelerator.pad_across_processes(values_BT, dim=1)
    whole_BT: Tensor = trainer.accelerator.gather(padded_BT)
    return whole_BT
