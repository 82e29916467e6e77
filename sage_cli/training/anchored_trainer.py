"""The seam over TRL's GRPOTrainer: its reference becomes the shaped anchor q pi_ref (Eq. 3).

TRL's loss reads `ref_per_token_logps` after it has asked for the policy's log-probabilities. So
it is given a shallow copy of the buffered batch, and when the log-probabilities come back log q
is added to the reference in that copy. The buffered batch itself stays as it was: later passes
over it would otherwise shape the anchor twice. Under the estimator `reward` TRL's own KL term is
switched off, and the divergence enters the copy's advantages instead; under `head` the reference in
the copy makes that term the divergence over each state's likeliest tokens.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides import Guide, Signals
from sage_cli.guides.divergences import (
    anchored_rows,
    as_k3,
    equal_rows,
    log_ratio,
    reward_to_go,
    share_of_beta,
    uncertain_tokens,
)
from sage_cli.guides.guide import OptionalSignal
from sage_cli.methods.hooks import learned_tokens
from sage_cli.models.loading import causal_of, changes_weights, switch_off_own_dropout
from sage_cli.settings.training import AnchorSection
from sage_cli.training.passes import (
    ExactHead,
    Tilted,
    completions_alone,
    known_of_rows,
    prompt_names,
    tilted_name,
    tilting,
)
from sage_cli.training.step_record import TokenRecord

_EXPECTED = {
    "_compute_loss": ["self", "model", "inputs"],
    "_generate_and_score_completions": ["self", "inputs"],
    "_tokenize_prompts": ["self", "prompts"],
    "_generate_single_turn": [
        "self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images",
    ],
    "_get_per_token_logps_and_entropies": [
        "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size",
        "compute_entropy",
    ],
}  # fmt: skip


class AnchoredTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose KL term holds the policy to q pi_ref; q is fixed within an iteration.

    Batches carry `row_ids_B`, each row's index in the generation batch of all processes; once a
    micro-batch has been seen it carries its `log_q_BT`. `tokens` collects the step's signals. With
    `keeps_old_entropy` batches carry `old_entropy_BT`, of the policy that sampled them, where TRL
    reads that policy's log-probabilities.
    """

    def __init__(
        self,
        *,
        guide: Guide,
        anchor: AnchorSection,
        keeps_old_entropy: bool = False,
        **arguments: Any,
    ) -> None:
        check_seam()
        self.guide, self.anchor = guide, anchor
        # a method may read the reference though there is no KL term
        self.estimator = anchor.estimator if anchor.kl == "reverse" else "none"
        self.keeps_old_entropy = keeps_old_entropy
        self._entropies: list[Tensor] = []
        self.tokens = TokenRecord()
        self._buffered: dict[str, Any] | None = None
        self._view: dict[str, Any] = {}
        self._tilted: Tilted = {}
        self._prompts: list[int] | None = None
        self._scoring = False
        args = arguments["args"]
        in_float32 = args.cast_lm_head_to_fp32
        # TRL looks for the embedding that shares a head's weights where an adapter has none
        args.cast_lm_head_to_fp32 = in_float32 and not hasattr(arguments["model"], "peft_config")
        super().__init__(**arguments)
        self.args.cast_lm_head_to_fp32 = in_float32
        for model in (self.model, self.ref_model):
            if in_float32 and model is not None:
                compute_logits_in_float32(causal_of(model), self.temperature)
        self.head = ExactHead(self, anchor.head_tokens) if self.estimator == "head" else None
        if self.args.disable_dropout:
            for model in (self.model, self.ref_model):
                switch_off_own_dropout(model)
        if guide.reads_reference_entropy and self.ref_model is not None:
            add_fused_lm_head(
                self.accelerator.unwrap_model(self.ref_model),
                temperature=self.temperature,
                cast_lm_head_to_fp32=self.args.cast_lm_head_to_fp32,
                outputs=("log_probs", "entropy"),
            )

    @property
    def in_loss(self) -> bool:
        """Return True if the loss asks for log-probabilities, and so with gradients."""
        return self._buffered is not None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._entropies.clear()
        self._tilted, self._scoring = {}, True
        self._prompts = prompt_names(inputs)
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["prompt_names_B"] = torch.tensor(self._prompts)
        # TRL asks the policy first, where it asks it at all, and the reference last
        if self.keeps_old_entropy and "old_per_token_logps" in batch:
            batch["old_entropy_BT"] = self._entropies[0]
        if self.guide.reads_reference_entropy:
            batch["reference_entropy_BT"] = self._entropies[-1]
        self._entropies.clear()
        if self.head is not None:
            batch |= {"head_ids": self.head.ids_BTH, "head_reference": self.head.logps_BTH}
        batch |= {tilted_name(exponent): logps_BT for exponent, logps_BT in self._tilted.items()}
        self._tilted, self._scoring, self._prompts = {}, False, None
        rows = len(batch["completion_ids"])
        first = self.accelerator.process_index * rows
        # TRL shuffles rows and cuts them into micro-batches: a row's id says to which group of the
        # generation batch it belongs, and seeds its noise whatever stands beside it
        batch["row_ids_B"] = torch.arange(first, first + rows)
        return batch

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """Return ids of prompts, which have already what a tokenizer would put before them."""
        ids = self.processing_class(text=prompts, add_special_tokens=False)["input_ids"]
        return ids, None, {}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        # later passes read the same micro-batch: only the copy that TRL reads here is changed
        self._buffered, self._view = inputs, dict(inputs)
        # 0 skips TRL's KL term, where the divergence is part of the advantages or there is none
        in_loss = self.estimator not in ("reward", "none")
        self.beta = self.args.beta * self.beta_share if in_loss else 0.0
        try:
            loss: Tensor = super()._compute_loss(model, self._view)
        finally:
            self._buffered, self._view, self.beta = None, {}, self.args.beta
        return loss

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        names_B = (self._buffered or {}).get("prompt_names_B")
        prompts = self._prompts if names_B is None else names_B.tolist()
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            prompts = None  # a layer's weights are gathered for one pass, and given back after it
        with completions_alone(self.accelerator.unwrap_model(args[0]), args[3], prompts):
            return self._heard(*args, **kwargs)

    def _heard(self, *args: Any, **kwargs: Any) -> Any:
        """Return TRL's log-probabilities and entropies, after what they decide is in its batch."""
        # TRL asks here three times: for the policy that sampled and for the reference, before the
        # loss, and within it for the policy as it is now
        first = self.keeps_old_entropy and not self._entropies
        if not self.in_loss and (self.guide.reads_reference_entropy or first):
            kwargs["compute_entropy"] = True
        if self._scoring and self.guide.tilts:
            signals = self._tilting(*args, **kwargs)
        elif self.head is not None:
            with self.head.reading(self.accelerator.unwrap_model(args[0]), self._buffered):
                signals = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        else:
            signals = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._buffered is None:
            self._entropies.append(signals[1])
        else:
            self._view["advantages"] = self._advantages_now(self._buffered, *signals[:2])
            self._shape_anchor(self._buffered, signals[0], signals[1].detach())
        return signals

    def _tilting(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the log-probabilities, and keep those of the model tilted as the guide asks.

        The reference's overwrite the policy's, since TRL asks for the reference last.
        """
        self._tilted, tilts = {}, sorted(self.guide.tilts)
        plain = self.accelerator.unwrap_model(model)
        in_float32 = self.args.cast_lm_head_to_fp32
        with tilting(plain, tilts, self.temperature, self._tilted, in_float32=in_float32):
            signals = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        tokens = signals[0].shape[1]
        self._tilted = {phi: logps_BT[:, -tokens:] for phi, logps_BT in self._tilted.items()}
        return signals

    def _advantages_now(self, batch: dict[str, Any], *_signals_BT: Tensor) -> Tensor:
        """Return the advantages of this update: those of the generation batch.

        A subclass may shape them by the policy's log-probabilities, with gradient, and entropies.
        """
        advantages: Tensor = batch["advantages"]
        return advantages

    def _shape_anchor(self, batch: dict[str, Any], logps_BT: Tensor, entropy_BT: Tensor) -> None:
        """Put q pi_ref in the reference's place, in the copy that the loss reads."""
        with_gradient_BT, logps_BT = logps_BT, logps_BT.detach()
        mask_BT, reference_BT = learned_tokens(batch), batch.get("ref_per_token_logps")
        if reference_BT is None:
            self.tokens.add(mask_BT, entropy=entropy_BT)
            return
        # q is fixed at an iteration's first pass: a later update would shape by another policy
        if "log_q_BT" not in batch:
            signals = self._signals(batch, logps_BT, entropy_BT)
            batch["log_q_BT"] = self.guide.unchecked_log_q(signals, self._now())
            batch["log_ratio_BT"] = log_ratio(logps_BT, reference_BT, batch["log_q_BT"])
            if self.head is not None:
                batch["head_log_q"] = self.head.log_q(batch, self.guide, signals, self._now())
        log_q_BT, held_BT = batch["log_q_BT"], self._held(batch, mask_BT, entropy_BT)
        anchor_BT = reference_BT + log_q_BT
        if self.head is not None:
            divergence_BT = self.head.divergence(batch, with_gradient_BT)
            anchor_BT = as_k3(with_gradient_BT, divergence_BT)
            self.tokens.add(mask_BT, head=divergence_BT.detach(), head_mass=self.head.mass)
        # where the anchor is the policy itself, k3 and its gradient are 0
        self._view["ref_per_token_logps"] = torch.where(held_BT, anchor_BT, logps_BT)
        if self.estimator == "reward":
            beta = self.args.beta * self.beta_share
            divergence_BT = reward_to_go(batch["log_ratio_BT"] * held_BT, mask_BT, beta)
            advantages = self._view["advantages"]  # (B,), or (B, T) already
            per_token = advantages if advantages.dim() == 2 else advantages[:, None]
            self._view["advantages"] = per_token + divergence_BT
        self.tokens.add(
            mask_BT,
            entropy=entropy_BT,
            logps=logps_BT,
            reference=reference_BT,
            log_q=log_q_BT,
            held=held_BT.to(logps_BT),  # padding turns truths into integers
        )
        if "group_right_B" in batch:
            equal_B1 = equal_rows(batch["group_right_B"])[:, None]
            self.tokens.add(mask_BT, equal=equal_B1.expand(held_BT.shape).to(logps_BT))

    def _held(self, batch: dict[str, Any], mask_BT: Tensor, entropy_BT: Tensor) -> Tensor:
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

    @property
    def beta_share(self) -> float:
        """Return beta / beta_0 in this step. TRL decides by beta_0 whether to ask the reference."""
        return share_of_beta(self.anchor.schedule, self.state.global_step, self.training_steps)

    @property
    def training_steps(self) -> int:
        """Return the optimiser steps of the training, which epochs give only once it has begun."""
        return int(self.state.max_steps or self.args.max_steps)

    def anchor_record(self, beta: float) -> dict[str, float]:
        """`anchor/beta`, the weight in the step that was just taken, where it changes."""
        if self.anchor.schedule == "constant":
            return {}
        share = share_of_beta(self.anchor.schedule, self.state.global_step - 1, self.training_steps)
        return {"anchor/beta": beta * share}

    def _now(self) -> int:
        """Return the guide's clock; TRL's counter gives the place within the step alone."""
        calls = self.args.gradient_accumulation_steps
        return self.guide.now(self.state.global_step, self.place_in_step, calls)

    @property
    def place_in_step(self) -> int:
        """Return the number of the step's micro-batch whose loss is computed, from 0."""
        number: int = self._step % self.args.gradient_accumulation_steps
        return number

    def _signals(self, batch: dict[str, Any], logps_BT: Tensor, entropy_BT: Tensor) -> Signals:
        """Return the signals that the guide reads: by default the policy's or the reference's."""
        optional: dict[OptionalSignal, Any] = {
            **known_of_rows(self.guide, batch),
            "token_ids_BT": batch["completion_ids"],
            "policy_logps_BT": logps_BT,
            "policy_entropy_BT": entropy_BT,
            "reference_logps_BT": batch["ref_per_token_logps"],
        }
        if self.guide.reads_reference_entropy:
            optional["reference_entropy_BT"] = batch["reference_entropy_BT"]
        if self.guide.source == "reference":
            logps_BT, entropy_BT = optional["reference_logps_BT"], optional["reference_entropy_BT"]
        return Signals(logps_BT, entropy_BT, learned_tokens(batch), batch["row_ids_B"], optional)


def compute_logits_in_float32(causal: Any, temperature: float) -> None:
    """Have the head compute in float32 whatever autocast asks for, in TRL's fused passes, too.

    Raises ConfigurationError for a head that an adapter changes: its own weights alone are read.
    """
    head = causal.get_output_embeddings()
    if changes_weights(head):
        raise ConfigurationError(
            "rl.cast_lm_head_to_fp32 computes with the head's own weights, and the adapter has "
            "others",
            "leave it out, or start from an adapter that leaves the head as it is",
        )

    def forward(states: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias.float()
        with torch.autocast(states.device.type, enabled=False):
            return torch.nn.functional.linear(states.float(), head.weight.float(), bias)

    head.forward = forward
    outputs = ("log_probs", "entropy")
    add_fused_lm_head(causal, temperature, cast_lm_head_to_fp32=True, outputs=outputs)


def check_seam() -> None:
    """Refuse a TRL whose loss can't be reached this way, before anything is trained."""
    for name, expected in _EXPECTED.items():
        method = getattr(GRPOTrainer, name, None)
        parameters = list(inspect.signature(method).parameters) if method else []
        if parameters[: len(expected)] != expected:
            raise TrainingError(
                f"this release of TRL has changed GRPOTrainer.{name} "
                f"({', '.join(parameters) or 'gone'}; expected {', '.join(expected)}): the anchor "
                "can't be shaped",
                "install the release that constraints.txt pins",
            )
    source = inspect.getsource(GRPOTrainer._compute_loss)
    asks, reads = (
        source.find("_get_per_token_logps_and_entropies("),
        source.find('inputs["ref_per_token_logps"]'),
    )
    if not 0 <= asks < reads:
        raise TrainingError(
            "this release of TRL reads the reference before the policy: the anchor can't be shaped",
            "install the release that constraints.txt pins",
        )


_CHECKED_ROWS = 4
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Nats a token by which the same weights may differ when other rows are computed beside them.

On a GPU bfloat16 was seen to differ by 3.6e-3 on a small model; its 8 bits are 2^16 times coarser
than float32's 24.
"""


def choose_reference(model: Any, reference: str) -> None:
    """Make a LoRA policy's reference the adapter as it starts (`initial`) or no adapter (`base`).

    TRL copies the adapter it is given to "ref" and holds the policy to that copy; without the
    copy it switches the adapter off.
    """
    if reference == "pre-sft" and "ref" in getattr(model, "peft_config", {}):
        model.delete_adapter("ref")


def check_reference(trainer: Any, batch: dict[str, Any], reference: str) -> None:
    """Compare the reference's log-probabilities with separately computed ones, before any update.

    Under `initial` the reference is the policy itself as it starts, under `base` (LoRA) the model
    with its adapter off. Raises TrainingError when they differ.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    adapted = hasattr(model, "disable_adapter")
    if "ref_per_token_logps" not in batch or (reference == "pre-sft" and not adapted):
        return
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    rows = {name: batch[name][:_CHECKED_ROWS] for name in names}
    with model.disable_adapter() if reference == "pre-sft" else nullcontext():
        expected_BT, _ = trainer.policy_signals(rows)
    mask_BT = batch["completion_mask"][:_CHECKED_ROWS].bool()
    found_BT = batch["ref_per_token_logps"][:_CHECKED_ROWS]
    off = (found_BT - expected_BT)[mask_BT].abs().mean().item()
    tolerance = TOLERANCE[arithmetic(trainer)]
    if not off <= tolerance:
        whose = "the policy as it starts" if reference == "initial" else "the base model"
        raise TrainingError(
            f"anchor.reference is '{reference}', but at step 0 the reference's log-probabilities "
            f"differ from those of {whose} by {off:.3g} nats a token (tolerance {tolerance})",
            "check that the reference's folder is the model the policy was loaded from",
        )


def arithmetic(trainer: Any) -> torch.dtype:
    """Return the type of products: the trainer's autocast, else the weights' own."""
    if trainer.args.bf16:
        return torch.bfloat16
    weights: torch.dtype = trainer.accelerator.unwrap_model(trainer.model).dtype
    return weights
