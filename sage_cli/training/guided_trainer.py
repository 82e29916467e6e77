"""TRL's GRPOTrainer whose KL term holds the policy to q pi_ref (Eq. 3), in the order of a step.

`from sage_cli import GuidedGRPOTrainer` gives it to a TRL script, whose prompts, rewards,
advantages, tools and sampling stay TRL's. So does the loss: it is given a view of the batch, whose
reference is reference + log q, and finds the policy's pass made. `sage rl` trains by a subclass.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides import Guide, NoGuide, Signals
from sage_cli.guides.divergences import (
    AnchorSchedule,
    anchored_rows,
    as_k3,
    equal_rows,
    head_kl,
    log_ratio,
    reward_to_go,
    share_of_beta,
    uncertain_tokens,
)
from sage_cli.guides.guide import ROW_SIGNALS, Signal
from sage_cli.methods.rollout_batch import RolloutBatch, images_of, learned_tokens, whole_texts
from sage_cli.models.loading import causal_of, switch_off_noise
from sage_cli.settings.anchor import AnchorSection, Rows
from sage_cli.training.heads import (
    HeadReader,
    compute_logits_in_float32,
    cut_to,
    never_sample_beyond,
    tilting,
)
from sage_cli.training.passes import Pass, Purpose, completions_alone, prompt_names
from sage_cli.training.reference import prepare_frozen
from sage_cli.training.token_record import (
    CLIPPING_LOSSES,
    TokenRecord,
    add_clipped,
    token_statistics,
)
from sage_cli.training.trl_host import (
    add_fused_lm_head,
    disable_gradient_checkpointing,
    require_attributes,
    use_adapter,
)

Estimator = Literal["k3", "k3-corrected", "head", "reward"]
GRADED = frozenset(ROW_SIGNALS) & {"right_B", "group_right_B"}
"""Signals that are known only where it is said which rewards mean a correct completion."""
_POSITIONAL = ("train_dataset", "eval_dataset", "processing_class")
"""The arguments of GRPOTrainer that follow the first three."""


_EXPERTS = ("num_local_experts", "n_routed_experts")
"""What configurations call the number of experts besides TRL's `num_experts`."""


class GuidedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """trl.GRPOTrainer whose KL term holds the policy to q pi_ref.

    Takes TRL's arguments and those of the anchor. `estimator`, `rows`, `schedule` and `head_tokens`
    are as in the section `anchor` of `sage`; `estimator` takes the place of
    `use_bias_correction_kl` (`k3-corrected` is its True, TRL's default). `anchor` is that section
    whole, in the place of the four. A completion is correct where its reward, the weighted sum of
    `reward_funcs`, is at least `right_at`: needed by `rows` other than `all` and by guides that
    read grades. A `teacher`, a loaded model in evaluation mode with the policy's tokens, is the
    reference in place of the policy as it starts; where `vocabulary` is given, log-probabilities
    of both are normalised over so many entries. TRL's logs get the divergences (`kl/…`) and what q
    did (`guide/…`).

    Raises ConfigurationError for what would have no effect, before a model is loaded.
    """

    keeps_old_entropy = False
    """Whether batches carry `old_entropy_BT`, where TRL reads the policy that sampled them."""
    aux_loss_enabled: bool
    """Whether TRL adds the loss that balances a mixture's experts."""
    problem_ids: Sequence[str] = ()
    """The problem of each row of the data set, for guides that read it; TRL's data sets have none,
    and with them such guides are refused."""

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        args: GRPOConfig,
        *arguments: Any,
        guide: Guide | None = None,
        estimator: Estimator = "k3",
        schedule: AnchorSchedule = "constant",
        rows: Rows = "all",
        head_tokens: int = 32,
        right_at: float | None = None,
        anchor: AnchorSection | None = None,
        teacher: Any = None,
        vocabulary: int | None = None,
        **keywords: Any,
    ) -> None:
        guide = NoGuide() if guide is None else guide
        if anchor is None:
            _check_choices(estimator=(estimator, Estimator), schedule=(schedule, AnchorSchedule))
            _check_choices(rows=(rows, Rows))
            _check_anchor(guide, args.beta, estimator, rows, right_at, taught=teacher is not None)
            anchor = AnchorSection.model_construct(
                estimator=estimator, schedule=schedule, rows=rows, head_tokens=head_tokens
            )
        self.guide, self.anchor, self.right_at = guide, anchor, right_at
        # a method may read the reference though there is no KL term
        self.estimator = anchor.estimator if anchor.kl == "reverse" else "none"
        # What is known of completions is a field of `RolloutBatch`. The rest that one method leaves
        # for another are things that TRL, which calls both, doesn't hand on:
        # - the pass of the policy that sampled, of which TRL keeps the log-probabilities alone
        self._old_policy: Pass | None = None
        # - the rewards of all processes, of which TRL keeps the advantages alone
        self.rewards_B: Tensor = torch.empty(0)
        # - the pass that TRL's loss calls for, and with `beta` the weight that it reads, both set
        #   for the duration of that loss
        self._made: Pass | None = None
        # - the tokens of the step's micro-batches, until the step is logged
        self.tokens = TokenRecord()

        args, in_float32 = copy(args), args.cast_lm_head_to_fp32
        args.use_bias_correction_kl = anchor.estimator == "k3-corrected"
        # TRL looks for the embedding that shares a head's weights where an adapter has none
        args.cast_lm_head_to_fp32 = in_float32 and not hasattr(model, "peft_config")
        keywords |= dict(zip(_POSITIONAL, arguments, strict=False))
        self.kl_weight, self.vocabulary = args.beta, vocabulary
        # with a beta other than 0 TRL makes, wraps and heads the reference, or copies the adapter
        # to "ref"; with a beta of 0 afterwards it never asks it: the reference's pass is ours, and
        # the loss alone sets the weight, for its own duration. A teacher is loaded already.
        args.beta = 0.0 if teacher is not None else args.beta
        super().__init__(model=model, reward_funcs=reward_funcs, args=args, **keywords)
        self.beta = 0.0
        require_attributes(self)
        if self.aux_loss_enabled:
            self.aux_loss_enabled = can_balance(causal_of(self.model))
        if teacher is not None:
            add_fused_lm_head(teacher, self.temperature, cast_lm_head_to_fp32=in_float32)
            self.ref_model = prepare_frozen(self, teacher)
        self.args.cast_lm_head_to_fp32 = in_float32
        self._prepare_heads(teacher, in_float32=in_float32)
        self.add_callback(_Length(self))

    @property
    def is_sharded(self) -> bool:
        """True if no process has all weights."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def _prepare_heads(self, teacher: Any, *, in_float32: bool) -> None:
        """Have output layers compute and say what estimator, guide and teacher read of them.

        Raises TrainingError for a model or a launcher with which they can't.
        """
        guide, vocabulary = self.guide, self.vocabulary
        for each in (self.model, self.ref_model):
            if in_float32 and each is not None:
                compute_logits_in_float32(causal_of(each), self.temperature)
            if self.args.disable_dropout:
                switch_off_noise(each)
        self.head = HeadReader(self.anchor.head_tokens, self.temperature, in_float32)
        measures = guide.measured("policy") or guide.measured("reference")
        if self.estimator == "head" or measures:
            reader = "anchor.estimator head" if self.estimator == "head" else f"guide {guide.name}"
            if self.is_sharded:
                raise TrainingError(
                    f"{reader} reads the whole output layer, and the launcher shards it",
                    "choose `rl.accelerate` ddp, or another estimator or guide",
                )
            for each in (self.model, teacher):
                if each is not None:
                    self.head.require(self.accelerator.unwrap_model(each), reader)
        if vocabulary is not None:
            if self.is_sharded:
                raise TrainingError(
                    "policy and teacher pad their vocabularies to different sizes, which takes a "
                    "look at the whole output layer, and the launcher shards it",
                    "choose `rl.accelerate` ddp",
                )
            never_sample_beyond(self.accelerator.unwrap_model(self.model), vocabulary)
        if guide.reads_reference_entropy and self.ref_model is not None:
            add_fused_lm_head(
                self.accelerator.unwrap_model(self.ref_model),
                temperature=self.temperature,
                cast_lm_head_to_fp32=in_float32,
                outputs=("log_probs", "entropy"),
            )

    # a generation batch: TRL samples and grades it, then the reference is asked once

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        rewards_BF: Tensor = super()._calculate_rewards(*arguments)
        weights_F = self.reward_weights.to(rewards_BF.device)
        self.rewards_B = (rewards_BF * weights_F).nansum(dim=1)
        return rewards_BF

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> RolloutBatch:
        batch: RolloutBatch = super()._generate_and_score_completions(inputs)
        old, self._old_policy = self._old_policy, None
        if old is not None and old.entropy_BT is not None:
            # taken from the pass that TRL made for `old_per_token_logps`: a second pass over the
            # batch is not needed
            batch["old_entropy_BT"] = old.entropy_BT
        rows = len(batch["completion_ids"])
        first = self.accelerator.process_index * rows
        # TRL shuffles rows and cuts them into micro-batches: a row's id says to which group of the
        # generation batch it belongs, and seeds its noise whatever stands beside it
        batch["row_ids_B"] = torch.arange(first, first + rows)
        batch["prompt_names_B"] = prompt_names(batch["prompt_ids"], batch["prompt_mask"])
        if self.kl_weight:
            self._add_reference(batch)
        # what guides may know of rows follows from the rewards of all processes
        rewards_B = self.rewards_B
        rows_B = batch["row_ids_B"].to(rewards_B.device)
        batch["rewards_B"] = rewards_B[rows_B]
        if self.right_at is not None:
            training = self.model.training
            n = int(self.num_generations if training else self.num_generations_eval)
            right_B = rewards_B >= self.right_at
            # the rows of a group are neighbours, so the view is (groups, n)
            share_P = right_B.view(-1, n).double().mean(dim=1)
            batch["right_B"] = right_B[rows_B]
            batch["group_right_B"] = share_P.repeat_interleave(n)[rows_B].to(rewards_B)
        return batch

    def _add_reference(self, batch: RolloutBatch) -> None:
        """Run the reference once, and add all that the anchor and the guide read of it."""
        training = self.model.training
        at_once = (
            self.args.per_device_train_batch_size
            if training
            else self.args.per_device_eval_batch_size
        )
        checkpointing = self.args.gradient_checkpointing_kwargs
        model, adapter = self.ref_model, nullcontext()
        if model is None:
            # a LoRA policy finds it in itself: the adapter as it started, or no adapter
            model = self.model
            plain = self.accelerator.unwrap_model(model)
            adapter = use_adapter(plain, "ref" if "ref" in plain.peft_config else None)
        with torch.no_grad(), disable_gradient_checkpointing(self.model, checkpointing), adapter:
            reference = self.run_pass(
                "reference",
                model,
                *whole_texts(batch),
                batch["completion_ids"].shape[1],
                names_B=batch["prompt_names_B"],
                batch_size=at_once,
                compute_entropy=self.guide.reads_reference_entropy,
                **images_of(batch),
            )
        # TRL's own field: it is shuffled, cut and buffered with the rest of the batch
        batch["ref_per_token_logps"] = reference.logps_BT
        if reference.entropy_BT is not None:
            batch["reference_entropy_BT"] = reference.entropy_BT
        batch.update(cast("RolloutBatch", reference.measured))
        if reference.head_ids_BTH is not None and reference.head_logps_BTH is not None:
            batch["head_ids_BTH"] = reference.head_ids_BTH
            batch["head_reference_BTH"] = reference.head_logps_BTH
        if "reference_tilted_logps_BT" in self.guide.needs:
            tilted = {1.0: reference.logps_BT, **reference.tilted}
            wrong, right = self.guide.exponents
            batch["tilted_wrong_BT"], batch["tilted_right_BT"] = tilted[wrong], tilted[right]

    # the loss of a micro-batch

    def _compute_loss(self, model: Any, inputs: RolloutBatch) -> Tensor:
        batch, mask_BT = inputs, learned_tokens(inputs)
        policy = self.run_pass(
            "loss",
            model,
            *whole_texts(batch),
            batch["completion_ids"].shape[1],
            names_B=batch.get("prompt_names_B"),
            head_ids_BTH=batch.get("head_ids_BTH"),
            compute_entropy=True,
            compute_aux_loss=self.aux_loss_enabled,
            **images_of(batch),
        )
        assert policy.entropy_BT is not None  # as asked
        # q is a constant of the loss (Eq. 4): a gradient through it would let the policy lower its
        # KL by changing the anchor instead of itself
        logps_BT, entropy_BT = policy.logps_BT.detach(), policy.entropy_BT.detach()

        # later updates read the buffered batch again: only this copy, which TRL's loss reads, is
        # changed, or the anchor would be shaped twice
        view = batch.copy()
        view["advantages"], clipped_BT = self._advantages(batch, policy)
        beta, held_BT, divergence_BT = 0.0, None, None

        if "ref_per_token_logps" in batch:
            reference_BT = batch["ref_per_token_logps"]
            # q is fixed at an iteration's first pass: a later update would shape the anchor by
            # another policy than the one whose samples it is about
            if "log_q_BT" not in batch:
                calls = self.args.gradient_accumulation_steps
                now = self.guide.now(self.state.global_step, self.place_in_step, calls)
                signals = self._signals(batch, policy)
                batch["log_q_BT"] = self.guide.unchecked_log_q(signals, now)
                batch["log_ratio_BT"] = log_ratio(logps_BT, reference_BT, batch["log_q_BT"])
                if policy.head_logps_BTH is not None:
                    others_BTH = (
                        policy.head_logps_BTH.detach()
                        if self.guide.source == "policy"
                        else batch["head_reference_BTH"]
                    )
                    batch["head_log_q_BTH"] = self.guide.log_q_of_others(signals, now, others_BTH)
            log_q_BT, held_BT = batch["log_q_BT"], self._held(batch, mask_BT, entropy_BT)

            # TRL's term is k3, exp(d) - d - 1 with d = anchor - log pi (Eq. 38)
            anchor_BT = reference_BT + log_q_BT
            if policy.head_logps_BTH is not None:
                divergence_BT = self._head_divergence(batch, policy)
                # a reference whose k3 has the gradient of that divergence
                anchor_BT = as_k3(policy.logps_BT, divergence_BT)
            # where the anchor is the policy itself, k3 and its gradient are 0
            view["ref_per_token_logps"] = torch.where(held_BT, anchor_BT, logps_BT)

            weight = self.kl_weight * self.beta_share(self.state.global_step)
            if self.estimator == "reward":
                # the exact gradient of Eq. 6: the divergence joins the advantages, and TRL has no
                # term of its own
                to_go_BT = reward_to_go(batch["log_ratio_BT"] * held_BT, mask_BT, weight)
                advantages = view["advantages"]  # (B,), or (B, T) already
                per_token = advantages if advantages.dim() == 2 else advantages[:, None]
                view["advantages"] = per_token + to_go_BT
            elif self.estimator != "none":
                beta = weight
        self._record_tokens(batch, view, policy, held_BT, divergence_BT, clipped_BT)

        # for TRL's loss alone: it asks for this pass and reads its weight. Everywhere else beta is
        # 0, so that no code of TRL asks for a reference.
        self._made, self.beta = policy, beta
        try:
            loss: Tensor = super()._compute_loss(model, view)
        finally:
            self._made, self.beta = None, 0.0
        return self._with_terms(loss, model, batch, policy)

    def _advantages(self, batch: RolloutBatch, policy: Pass) -> tuple[Tensor, Tensor | None]:
        """Return the advantages (B,) or (B, T) of this update: those of the generation batch.

        A method that clips by itself also says where it did (B, T); else TRL's loss does, or none.
        """
        _ = policy
        return batch["advantages"], None

    def _with_terms(self, loss: Tensor, model: Any, batch: RolloutBatch, policy: Pass) -> Tensor:
        """Return the loss of a micro-batch with what a method adds to it."""
        _ = model, batch, policy
        return loss

    def _signals(self, batch: RolloutBatch, policy: Pass) -> Signals:
        """Return the signals that the guide reads: by default the policy's or the reference's."""
        assert policy.entropy_BT is not None  # as asked
        logps_BT, entropy_BT = policy.logps_BT.detach(), policy.entropy_BT.detach()
        optional: dict[str, Any] = {
            "token_ids_BT": batch["completion_ids"],
            "policy_logps_BT": logps_BT,
            "policy_entropy_BT": entropy_BT,
            "reference_logps_BT": batch["ref_per_token_logps"],
        }
        known: dict[Any, Any] = dict(batch)
        of_reference = self.guide.measured("reference")
        optional |= {name: known[name] for name in (*ROW_SIGNALS, *of_reference) if name in known}
        optional |= policy.measured
        if "right_B" in batch and "tilted_right_BT" in batch:
            right_B1 = batch["right_B"][:, None]
            optional["reference_tilted_logps_BT"] = torch.where(
                right_B1, batch["tilted_right_BT"], batch["tilted_wrong_BT"]
            )
        if "reference_entropy_BT" in batch:
            optional["reference_entropy_BT"] = batch["reference_entropy_BT"]
        if "problem_ids_B" in self.guide.needs:
            rows = batch["prompt_row_B"].tolist()
            optional["problem_ids_B"] = tuple(self.problem_ids[row] for row in rows)
        if self.guide.source == "reference":
            logps_BT, entropy_BT = optional["reference_logps_BT"], optional["reference_entropy_BT"]
        return Signals(logps_BT, entropy_BT, learned_tokens(batch), batch["row_ids_B"], optional)

    def _held(self, batch: RolloutBatch, mask_BT: Tensor, entropy_BT: Tensor) -> Tensor:
        """Return True (B, T) on the tokens that the KL term acts on."""
        anchor, held_BT = self.anchor, torch.ones_like(mask_BT, dtype=torch.bool)
        if self.estimator == "none":
            return ~held_BT
        if anchor.tokens != "all":
            uncertain_BT = uncertain_tokens(entropy_BT, mask_BT, anchor.uncertain_share)
            held_BT = uncertain_BT if anchor.tokens == "uncertain" else ~uncertain_BT
        if anchor.rows == "all":
            return held_BT
        held_B = anchored_rows(anchor.rows, batch["right_B"], batch["group_right_B"])
        return held_BT & held_B[:, None]

    def _record_tokens(
        self,
        batch: RolloutBatch,
        view: RolloutBatch,
        policy: Pass,
        held_BT: Tensor | None,
        divergence_BT: Tensor | None,
        clipped_BT: Tensor | None,
    ) -> None:
        """Keep what there is to say of a micro-batch's tokens until the step is logged.

        (B, T): `held_BT` says where the KL term acts, if there is one, `divergence_BT` are the
        terms of the estimator `head`, and `clipped_BT` says where a method clips by itself.
        """
        assert policy.entropy_BT is not None  # as asked
        mask_BT, logps_BT = learned_tokens(batch), policy.logps_BT.detach()
        noted = {"entropy": policy.entropy_BT.detach()}
        if divergence_BT is not None and policy.head_logps_BTH is not None:
            noted["head"] = divergence_BT
            noted["head_mass"] = policy.head_logps_BTH.detach().exp().sum(dim=-1)
        if held_BT is not None:
            noted |= {
                "logps": logps_BT,
                "reference": batch["ref_per_token_logps"],
                "log_q": batch["log_q_BT"],
                "held": held_BT.to(logps_BT),  # padding turns truths into integers
            }
            if "group_right_B" in batch:
                equal_B1 = equal_rows(batch["group_right_B"])[:, None]
                noted["equal"] = equal_B1.expand(held_BT.shape).to(logps_BT)
        if clipped_BT is not None:
            noted["clipped"] = clipped_BT.to(logps_BT)
        self.tokens.add(mask_BT, **noted)
        if clipped_BT is None and self.loss_type in CLIPPING_LOSSES:
            add_clipped(
                self.tokens,
                mask_BT,
                logps_BT - batch.get("old_per_token_logps", logps_BT),
                view["advantages"].detach(),
                (self.epsilon_low, self.epsilon_high),
                whole=self.importance_sampling_level == "sequence",
            )

    def _head_divergence(self, batch: RolloutBatch, policy: Pass) -> Tensor:
        """Return `head_kl` (B, T) of a micro-batch, with its gradient."""
        assert policy.head_logps_BTH is not None
        in_head_BT = (batch["head_ids_BTH"] == batch["completion_ids"][..., None]).any(dim=-1)
        old_BT = batch.get("old_per_token_logps", policy.logps_BT.detach())
        return head_kl(
            policy.head_logps_BTH,
            batch["head_reference_BTH"] + batch["head_log_q_BTH"],
            in_head_BT,
            log_ratio(policy.logps_BT, batch["ref_per_token_logps"], batch["log_q_BT"]),
            (policy.logps_BT - old_BT).exp(),
        )

    @property
    def place_in_step(self) -> int:
        """Return the number of the step's micro-batch whose loss is computed, from 0.

        TRL's counter gives no more: it begins anew where a training is resumed.
        """
        number: int = self._step % self.args.gradient_accumulation_steps
        return number

    def beta_share(self, step: int) -> float:
        """Return beta / beta_0 in a step, counted from 0."""
        # epochs give the number of steps only once the training has begun
        steps = int(self.state.max_steps or self.args.max_steps)
        return share_of_beta(self.anchor.schedule, step, steps)

    # passes

    def run_pass(
        self,
        purpose: Purpose,
        model: Any,
        ids_BX: Tensor,
        mask_BX: Tensor,
        tokens: int,
        *,
        names_B: Tensor | None = None,
        head_ids_BTH: Tensor | None = None,
        **asked: Any,
    ) -> Pass:
        """Pass texts (B, X) through a wrapped model, and return what it says of the last `tokens`.

        Every pass of a training is made here. `asked` are TRL's arguments: `batch_size` rows at
        once, `compute_entropy`, `compute_aux_loss`, and images. `names_B` are the rows'
        `prompt_names`, where they are known. With `head_ids_BTH` the pass also says the
        log-probabilities of these tokens.
        """
        plain = self.accelerator.unwrap_model(model)
        tilted: dict[float, Tensor] = {}
        heads: list[tuple[Tensor, Tensor]] = []
        values: list[dict[str, Tensor]] = []
        # q is fixed by the policy of the loss and by the reference: no other pass is asked
        asked_by_q = purpose in ("loss", "reference") and self.kl_weight
        of: Signal = "reference" if purpose == "reference" else "policy"
        measures = self.guide.measured(of) if asked_by_q else {}
        with ExitStack() as stack:
            if self.vocabulary is not None:
                stack.enter_context(cut_to(plain, self.vocabulary))
            # what is sharded is gathered for one pass of a layer, and given back after it
            # a method's own pass may be over other texts, whose rows have no group
            share = not self.is_sharded and purpose != "policy"
            stack.enter_context(completions_alone(plain, tokens, share=share, names_B=names_B))
            if purpose == "reference" and self.guide.tilts:
                tilts, in_float32 = sorted(self.guide.tilts), self.args.cast_lm_head_to_fp32
                stack.enter_context(
                    tilting(plain, tilts, self.temperature, tilted, in_float32=in_float32)
                )
            if head_ids_BTH is not None:
                heads = stack.enter_context(self.head.asked(plain, head_ids_BTH))
            elif purpose == "reference" and self.estimator == "head":
                heads = stack.enter_context(self.head.likeliest(plain))
            if measures:
                chosen_BT = ids_BX[:, -tokens:]
                values = stack.enter_context(self.head.measured(plain, measures, chosen_BT))
            logps_BT, entropy_BT, aux_loss = super()._get_per_token_logps_and_entropies(
                model, ids_BX, mask_BX, tokens, **asked
            )
        # TRL cuts a pass into batches of `batch_size` rows: one pair each, in the rows' order
        ids, logps = map(torch.cat, zip(*heads, strict=True)) if heads else (None, None)
        measured = {name: torch.cat([of_pass[name] for of_pass in values]) for name in measures}
        return Pass(logps_BT, entropy_BT, aux_loss, tilted, ids, logps, measured)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **asked: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Answer TRL: in its loss by the pass just made, before it by one of who sampled."""
        made = self._made
        if made is None:
            # TRL keeps the log-probabilities alone, and a method may read the entropies
            made = self._old_policy = self.run_pass(
                "old policy",
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size=batch_size,
                compute_entropy=compute_entropy or self.keeps_old_entropy,
                **asked,
            )
        return made.logps_BT, made.entropy_BT, made.aux_loss

    @torch.no_grad()
    def policy_signals(
        self, batch: RolloutBatch, *, batch_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B, T), `batch_size` rows at once (or all)."""
        tokens = batch["completion_ids"].shape[1]
        policy = self.run_pass(
            "policy",
            self.model,
            *whole_texts(batch),
            tokens,
            batch_size=batch_size,
            compute_entropy=True,
        )
        return policy.logps_BT, cast("Tensor", policy.entropy_BT)

    # records

    def prediction_step(self, *arguments: Any, **keywords: Any) -> Any:
        """Evaluate a batch as TRL does; what is recorded of tokens stays training's."""
        # an evaluation in the middle of a step would mix its tokens into the step's means
        of_training, self.tokens = self.tokens, TokenRecord()
        try:
            return super().prediction_step(*arguments, **keywords)
        finally:
            self.tokens = of_training

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add divergences and what q did, means over the tokens since the last log, to TRL's."""
        signals = self.tokens.drain(self.accelerator) if self.model.training else {}
        if len(signals.get("entropy", ())):
            figures = token_statistics(signals, self.guide) | self.anchor_record(self.kl_weight)
            # TRL's logs are numbers: what is undefined is left out
            logs |= {name: value for name, value in figures.items() if value is not None}
        super().log(logs, start_time)

    def anchor_record(self, beta: float) -> dict[str, float]:
        """`anchor/beta`, the weight in the step that was just taken, where it changes."""
        if self.anchor.schedule == "constant":
            return {}
        return {"anchor/beta": beta * self.beta_share(self.state.global_step - 1)}


@dataclass
class _Length(TrainerCallback):  # type: ignore[misc]
    """Sets the guide's number of steps, which Transformers computes when training begins."""

    trainer: GuidedGRPOTrainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Set the length of the guide's schedule."""
        self.trainer.guide = self.trainer.guide.for_training(state.max_steps)


def can_balance(causal: Any) -> bool:
    """Return True if TRL can compute the router loss of a mixture of experts, and let it do so.

    GraniteMoE's passes don't return what its routers said: it is trained without that loss, with a
    warning. PhiMoE calls its number of experts otherwise than TRL: the model's own name gets
    another one, which isn't saved.
    """
    recorded = (getattr(module, "_can_record_outputs", None) or {} for module in causal.modules())
    if not any("router_logits" in names for names in recorded):
        warnings.warn(
            f"a model of the type {causal.config.model_type} doesn't return its router's logits: "
            "it is trained without the loss that balances its experts",
            stacklevel=2,
        )
        return False
    config = causal.config.get_text_config()
    kind, names = type(config), type(config).attribute_map
    own = next((name for name in _EXPERTS if hasattr(config, names.get(name, name))), None)
    if not hasattr(config, "num_experts") and own is not None:
        kind.attribute_map = {**names, "num_experts": names.get(own, own)}
    return True


def _check_choices(**given: tuple[str, Any]) -> None:
    for name, (value, choices) in given.items():
        if value not in get_args(choices):
            names = ", ".join(get_args(choices))
            raise ConfigurationError(f"{name} is '{value}'", f"it can be {names}")


def _check_anchor(
    guide: Guide,
    beta: float,
    estimator: Estimator,
    rows: Rows,
    right_at: float | None,
    *,
    taught: bool,
) -> None:
    """Raise ConfigurationError for arguments that would do nothing, or that lack what they read."""
    shaped = rows != "all" or not isinstance(guide, NoGuide)
    if (shaped or taught) and beta == 0:
        raise ConfigurationError(
            "GRPOConfig.beta is 0, TRL's default: there is no KL term that guide, rows or teacher "
            "could change",
            "set it, as in GRPOConfig(beta=0.05)",
        )
    graded = sorted(GRADED & guide.needs)
    if right_at is None and (rows != "all" or graded):
        asking = f"rows='{rows}'" if rows != "all" else f"guide '{guide.name}'"
        raise ConfigurationError(
            f"{asking} needs to know which completions are correct, and TRL only has rewards",
            "set the reward from which a completion counts as correct, for example right_at=1.0",
        )
    if "problem_ids_B" in guide.needs:
        raise ConfigurationError(
            f"guide '{guide.name}' reads problem ids, which TRL's data sets don't have",
            "train with `sage rl`, or choose another guide",
        )
    if estimator == "head" and not guide.tells_of_others:
        raise ConfigurationError(
            f"estimator 'head' asks for q of tokens that were not sampled, and guide "
            f"'{guide.name}' knows it of sampled ones alone",
            "choose another estimator, or the guide token or branch",
        )
