"""All of TRL that is overridden or used, in one list that is checked when it is imported.

A signature that changed would break the step silently or late, so it refuses the release. A body
that changed may well keep its meaning, so it warns: the release below has been read and tested.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
import warnings
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import transformers
import trl
from trl import DPOTrainer, GRPOTrainer, SFTTrainer, rewards
from trl.generation import vllm_generation
from trl.models import utils as model_utils
from trl.trainer import utils as trainer_utils

from sage_cli.errors import TrainingError

READ = "1.16.0"
"""The release whose bodies were read."""
OVERRIDDEN_OR_USED: Mapping[str, tuple[str, str | None]] = {
    "GRPOTrainer.__init__": ("self, model, reward_funcs, args", "08b825a073b699ff"),
    "GRPOTrainer._calculate_rewards": (
        "self, inputs, prompts, completions, completion_ids_list",
        "5017fb893c0ca9dd",
    ),
    "GRPOTrainer._compute_loss": ("self, model, inputs", "16c4f3917b9fd264"),
    "GRPOTrainer._generate": ("self, prompts", "bea6bc4f3207f396"),
    "GRPOTrainer._generate_and_score_completions": ("self, inputs", "3d5cec813b83b396"),
    "GRPOTrainer._generate_single_turn": (
        "self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images",
        "932da26950bae32c",
    ),
    "GRPOTrainer._get_per_token_logps_and_entropies": (
        "self, model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, "
        "compute_aux_loss",
        "fecf708797b16e29",
    ),
    "GRPOTrainer._load_from_checkpoint": ("self, resume_from_checkpoint", None),
    "GRPOTrainer._load_optimizer_and_scheduler": ("self, checkpoint", "d6497323f7e1d3a4"),
    "GRPOTrainer._prepare_inputs": ("self, generation_batch", "40caff99c2cf1292"),
    "GRPOTrainer._save": ("self, output_dir, state_dict", None),
    "GRPOTrainer._save_checkpoint": ("self, model, trial", "10fa449292ba1d3d"),
    "GRPOTrainer._tokenize_prompts": ("self, prompts", "1056d2a0a7b475a0"),
    "GRPOTrainer.add_callback": ("self, callback", None),
    "GRPOTrainer.create_model_card": ("self", "868cba276e080ec4"),
    "GRPOTrainer.create_scheduler": ("self, num_training_steps, optimizer", None),
    "GRPOTrainer.log": ("self, logs, start_time", "14517d3dbad259c0"),
    "GRPOTrainer.prediction_step": (
        "self, model, inputs, prediction_loss_only, ignore_keys",
        "e38bf2fd8fef4b63",
    ),
    "GRPOTrainer.remove_callback": ("self, callback", None),
    "GRPOTrainer.save_model": ("self, output_dir", None),
    "GRPOTrainer.train": ("self, resume_from_checkpoint", None),
    "GRPOTrainer.training_step": ("self, model, inputs, num_items_in_batch", "15ea836c392b6976"),
    "DPOTrainer.__init__": ("self, model, ref_model, args", "4c044e0328dba317"),
    "DPOTrainer._prepare_dataset": ("self, dataset", "24efb2432f23ec9e"),
    "DPOTrainer._save_checkpoint": ("self, model, trial", "4ed3621b6867c9ca"),
    "SFTTrainer.__init__": ("self, model, args", "76d729b676b4c752"),
    "SFTTrainer._save_checkpoint": ("self, model, trial", "4ed3621b6867c9ca"),
    # it builds `LLM`, which ours replace
    "VLLMGeneration._init_vllm": ("self", "9910080dcf75821f"),
    "VLLMGeneration._iter_named_params": ("self", "e68f35cf66fe49f6"),
    "VLLMGeneration.generate": ("self, prompts, images, num_generations", "50190d860bb1870b"),
    "VLLMGeneration.sync_weights": ("self", "657ae37767d95d44"),
    "models.utils.disable_gradient_checkpointing": (
        "model, gradient_checkpointing_kwargs",
        "1f3a5e7ca9cb5902",
    ),
    "models.utils.prepare_deepspeed": ("model, accelerator", "86d126e5d92c55d2"),
    "models.utils.prepare_fsdp": ("model, accelerator", "80d48284544e7ceb"),
    "rewards.get_soft_overlong_punishment": (
        "max_completion_len, soft_punish_cache",
        "53240e93290b31a6",
    ),
    "trainer.utils.add_fused_lm_head": (
        "model, temperature, cast_lm_head_to_fp32, outputs",
        "422d009f04b66659",
    ),
    "trainer.utils.use_adapter": ("model, adapter_name", "edd0e493f99fa685"),
}
"""Functions that ours override, call or put others in the place of: their first parameters, and the
first digits of the SHA-256 of their bodies.

Bodies of Transformers have none: its releases are allowed in a range, within which they change
without another meaning (`make test-versions` trains with both ends).
"""
ATTRIBUTES = (
    "_buffered_inputs",
    "_entropy_bonus_enabled",
    "_step",
    "accelerator",
    "args",
    "aux_loss_enabled",
    "beta",
    "control",
    "eos_token_ids",
    "epsilon_high",
    "epsilon_low",
    "importance_sampling_level",
    "is_deepspeed_enabled",
    "is_fsdp_enabled",
    "loss_type",
    "lr_scheduler",
    "model",
    "model_wrapped",
    "num_generations",
    "num_generations_eval",
    "optimizer",
    "processing_class",
    "ref_model",
    "reward_weights",
    "state",
    "temperature",
    "top_entropy_quantile",
    "train_dataset",
    "use_vllm",
    "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode",
    "args._setup_devices",
    "args.beta",
    "args.bf16",
    "args.cast_lm_head_to_fp32",
    "args.device",
    "args.disable_dropout",
    "args.fp16",
    "args.generation_kwargs",
    "args.get_warmup_steps",
    "args.gradient_accumulation_steps",
    "args.gradient_checkpointing_kwargs",
    "args.max_steps",
    "args.output_dir",
    "args.per_device_eval_batch_size",
    "args.per_device_train_batch_size",
    "args.save_steps",
    "args.should_save",
    "args.steps_per_generation",
    "args.use_bias_correction_kl",
    "args.vllm_max_model_length",
)
"""GRPOTrainer's attributes that ours read or set once it is made, and those of its arguments."""
OF_ENGINE = ("vllm_generation", "vllm_generation.model")
"""Those that it has where vLLM samples."""
OF_LOOP = ("current_gradient_accumulation_steps",)
"""Those that it has from its first step on, in which a lack of them is an error anyway."""
_INSTALLED = f"TRL {trl.__version__} with Transformers {transformers.__version__}"
_NEXT = "install the release that constraints.txt pins"


def overridden_or_used() -> dict[str, Any]:
    """Return each function of the list by its name; None where this release has none."""
    owners = {
        "GRPOTrainer": GRPOTrainer,
        "DPOTrainer": DPOTrainer,
        "SFTTrainer": SFTTrainer,
        "VLLMGeneration": vllm_generation.VLLMGeneration,
        "models.utils": model_utils,
        "rewards": rewards,
        "trainer.utils": trainer_utils,
    }
    parts = {name: name.rpartition(".") for name in OVERRIDDEN_OR_USED}
    return {name: getattr(owners[owner], last, None) for name, (owner, _, last) in parts.items()}


def check_release() -> None:
    """Raise TrainingError for a release whose functions are gone or take something else.

    Warns of one whose bodies haven't been read.
    """
    changed = []
    for name, function in overridden_or_used().items():
        expected, body = OVERRIDDEN_OR_USED[name]
        taken = ", ".join(inspect.signature(function).parameters) if function else ""
        if not f"{taken}, ".startswith(f"{expected}, "):
            raise TrainingError(
                f"{_INSTALLED} has changed {name} ({taken or 'gone'}; expected {expected}): the "
                "anchor can't be shaped",
                _NEXT,
            )
        if body is not None and body_hash(function) != body:
            changed.append(name)
    if changed:
        warnings.warn(
            f"TRL {trl.__version__} computes {', '.join(changed)} otherwise than TRL {READ}, with "
            f"which sage was tested: compare the records of a training run, or {_NEXT}",
            stacklevel=2,
        )


def body_hash(function: Any) -> str:
    """Return the first digits of the SHA-256 of a function's source, whatever its decorators."""
    try:
        source = inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):  # no source is installed
        return ""
    return hashlib.sha256(textwrap.dedent(source).encode()).hexdigest()[:16]


def require_attributes(trainer: Any) -> None:
    """Raise TrainingError where a trainer of TRL's lacks what ours read or set of it."""
    lacking = []
    for name in (*ATTRIBUTES, *(OF_ENGINE if getattr(trainer, "use_vllm", False) else ())):
        try:
            attrgetter(name)(trainer)
        except AttributeError:
            lacking.append(name)
    if lacking:
        raise TrainingError(
            f"{_INSTALLED} has changed: its GRPOTrainer has no {', '.join(lacking)}", _NEXT
        )


check_release()

# after the check: releases before 1.15 have no such head, and an import would end in a traceback
add_fused_lm_head = trainer_utils.add_fused_lm_head
disable_gradient_checkpointing = model_utils.disable_gradient_checkpointing
prepare_deepspeed, prepare_fsdp = model_utils.prepare_deepspeed, model_utils.prepare_fsdp
use_adapter = trainer_utils.use_adapter
