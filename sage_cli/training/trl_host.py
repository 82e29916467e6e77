"""What `sage` touches of TRL, all in one list, checked when it is imported.

A signature that changed would break the step silently or late, so it refuses the release. A body
that changed may well keep its meaning, so it warns: the releases below have been read and tested.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import trl
from trl import GRPOTrainer
from trl.generation import vllm_generation
from trl.models import utils as model_utils
from trl.trainer import utils

from sage_cli.errors import TrainingError

_PASS = (
    "self",
    "model",
    "input_ids",
    "attention_mask",
    "logits_to_keep",
    "batch_size",
    "compute_entropy",
    "compute_aux_loss",
)
_TURN = (
    "self",
    "prompt_ids",
    "images",
    "multimodal_fields",
    "num_generations",
    "has_tool_images",
)
OVERRIDDEN: Mapping[str, tuple[str, ...]] = {
    "__init__": ("self", "model", "reward_funcs", "args"),
    "_compute_loss": ("self", "model", "inputs"),
    "_generate": ("self", "prompts"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_generate_single_turn": _TURN,
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_get_per_token_logps_and_entropies": _PASS,
    "_load_optimizer_and_scheduler": ("self", "checkpoint"),
    "_prepare_inputs": ("self", "generation_batch"),
    "_save_checkpoint": ("self", "model", "trial"),
    "_tokenize_prompts": ("self", "prompts"),
    "log": ("self", "logs", "start_time"),
    "prediction_step": ("self", "model", "inputs", "prediction_loss_only", "ignore_keys"),
    "training_step": ("self", "model", "inputs", "num_items_in_batch"),
}
"""GRPOTrainer's methods that ours override or call, with the parameters that they begin with."""
ATTRIBUTES = (
    "_buffered_inputs",
    "_entropy_bonus_enabled",
    "_step",
    "accelerator",
    "aux_loss_enabled",
    "beta",
    "eos_token_ids",
    "epsilon_high",
    "epsilon_low",
    "importance_sampling_level",
    "loss_type",
    "num_generations",
    "num_generations_eval",
    "ref_model",
    "reward_weights",
    "temperature",
    "top_entropy_quantile",
    "use_vllm",
    "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode",
)
"""GRPOTrainer's attributes that ours read; `beta` and `_buffered_inputs` are set, too."""
CALLED: Mapping[str, tuple[str, ...]] = {
    "add_fused_lm_head": ("model", "temperature", "cast_lm_head_to_fp32", "outputs"),
    "disable_gradient_checkpointing": ("model", "gradient_checkpointing_kwargs"),
    "prepare_deepspeed": ("model", "accelerator"),
    "prepare_fsdp": ("model", "accelerator"),
    "use_adapter": ("model", "adapter_name"),
}
"""Functions of TRL's utilities."""
ENGINE: Mapping[str, tuple[str, ...]] = {
    "_iter_named_params": ("self",),
    "generate": ("self", "prompts", "images", "num_generations"),
    "sync_weights": ("self",),
}
"""VLLMGeneration's methods that rollouts.py puts others in the place of."""
READ = "1.16.0"
"""The release whose bodies the hashes below are of."""
BODIES: Mapping[str, str] = {
    "GRPOTrainer.__init__": "08b825a073b699ff",
    "GRPOTrainer._compute_loss": "16c4f3917b9fd264",
    "GRPOTrainer._generate": "bea6bc4f3207f396",
    "GRPOTrainer._generate_and_score_completions": "3d5cec813b83b396",
    "GRPOTrainer._generate_single_turn": "932da26950bae32c",
    "GRPOTrainer._calculate_rewards": "5017fb893c0ca9dd",
    "GRPOTrainer._get_per_token_logps_and_entropies": "fecf708797b16e29",
    "GRPOTrainer._load_optimizer_and_scheduler": "d6497323f7e1d3a4",
    "GRPOTrainer._prepare_inputs": "40caff99c2cf1292",
    "GRPOTrainer._save_checkpoint": "10fa449292ba1d3d",
    "GRPOTrainer._tokenize_prompts": "1056d2a0a7b475a0",
    "GRPOTrainer.log": "14517d3dbad259c0",
    "GRPOTrainer.prediction_step": "e38bf2fd8fef4b63",
    "GRPOTrainer.training_step": "15ea836c392b6976",
    "add_fused_lm_head": "422d009f04b66659",
    "disable_gradient_checkpointing": "1f3a5e7ca9cb5902",
    "prepare_deepspeed": "86d126e5d92c55d2",
    "prepare_fsdp": "80d48284544e7ceb",
    "use_adapter": "edd0e493f99fa685",
    "VLLMGeneration._iter_named_params": "e68f35cf66fe49f6",
    "VLLMGeneration.generate": "50190d860bb1870b",
    "VLLMGeneration.sync_weights": "657ae37767d95d44",
}
"""The first digits of the SHA-256 of each body."""
_NEXT = "install the release that constraints.txt pins"


def surface() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return everything that is touched by its name, with the parameters it has to begin with."""
    engine = vllm_generation.VLLMGeneration
    return {
        **{f"GRPOTrainer.{k}": (getattr(GRPOTrainer, k, None), v) for k, v in OVERRIDDEN.items()},
        **{k: (getattr(utils, k, getattr(model_utils, k, None)), v) for k, v in CALLED.items()},
        **{f"VLLMGeneration.{k}": (getattr(engine, k, None), v) for k, v in ENGINE.items()},
    }


def check_release() -> None:
    """Raise TrainingError for a release whose functions are gone or take something else.

    Warns of one whose bodies haven't been read.
    """
    touched = surface()
    for name, (function, expected) in touched.items():
        parameters = tuple(inspect.signature(function).parameters) if function else ()
        if parameters[: len(expected)] != expected:
            raise TrainingError(
                f"TRL {trl.__version__} has changed {name} ({', '.join(parameters) or 'gone'}; "
                f"expected {', '.join(expected)}): the anchor can't be shaped",
                _NEXT,
            )
    if changed := [name for name, (f, _) in touched.items() if body_hash(f) != BODIES.get(name)]:
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


def require_attributes(trainer: Any, names: Iterable[str] = ATTRIBUTES) -> None:
    """Raise TrainingError where a trainer of TRL's lacks what is read of it."""
    if lacking := [name for name in names if not hasattr(trainer, name)]:
        raise TrainingError(
            f"TRL {trl.__version__} has changed: its GRPOTrainer has no {', '.join(lacking)}", _NEXT
        )


check_release()

# after the check: releases before 1.15 have no such head, and an import would end in a traceback
add_fused_lm_head = utils.add_fused_lm_head
disable_gradient_checkpointing = model_utils.disable_gradient_checkpointing
prepare_deepspeed, prepare_fsdp = model_utils.prepare_deepspeed, model_utils.prepare_fsdp
use_adapter = utils.use_adapter
