"""Load models from the Hub or from folders, or make them; attach adapters; keep freed memory."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.folders import (
    ADAPTER_WEIGHTS,
    adapter_base,
    embedding_rows,
    is_adapter,
    load_explained,
    model_files,
    without_weights,
)
from sage_cli.models.hub_cache import pinned_revision
from sage_cli.models.verification import verify_weights
from sage_cli.settings.model import LoraSection, ScratchModel

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

_SAID = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""malloc.h's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
_KEPT_BLOCK, _KEPT = 2**28, 2**30
"""Bytes of the largest block that is kept, and of all that is kept at the heap's end."""
NOISY = ("drop", "jitter", "noise")
"""What modules call the numbers by which they compute at random in training."""


def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 256 MB in this process for the next tensor, if the system allows.

    As it comes, glibc gives every block above 32 MB back to the system at once. A training step
    frees and asks for the same logits dozens of times, and is given fresh pages to be cleared each
    time: a tenth of a small model's step (docs/results/speed.md). Larger blocks go back as
    before, since some of each size may be kept. What the environment says of glibc's allocator
    stays, and other systems' allocators are left alone. Returns whether it was done; mallopt(3).
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SAID):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return all([mallopt(_MMAP_THRESHOLD, _KEPT_BLOCK) == 1, mallopt(_TRIM_THRESHOLD, _KEPT) == 1])


def load_model(
    path: str | Path,
    *,
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    trainable: bool = False,
    kernels: Mapping[str, Any] | None = None,
    verify_later: bool = False,
) -> Any:
    """Return a causal language model, with the LoRA adapter that its folder may hold.

    Only safetensors are read. `trainable` leaves the adapter's weights open to gradients; `kernels`
    are `kernel_arguments`. Raises DataError when there is no model at `path`, and StoreError if its
    content isn't what was recorded of it; with `verify_later` that is found by `require_verified`.
    """
    # hashing has time while the libraries are imported
    with verify_weights(path, revision, later=verify_later):
        return _load(path, dtype, revision, trust_remote_code, trainable, kernels)


def _load(
    path: str | Path,
    dtype: str,
    revision: str | None,
    trust_remote_code: bool,
    trainable: bool,
    kernels: Mapping[str, Any] | None,
) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model_files(str(path), revision)
    if without_weights(Path(path)) is not None:
        raise DataError(
            f"{path} belongs to imported samples, which have no weights",
            "measure its stored samples; to sample or train, give the model itself",
        )
    keep_freed_memory()
    has_adapter = is_adapter(Path(path))
    if has_adapter and not (Path(path) / ADAPTER_WEIGHTS).is_file():  # PEFT would ask the Hub
        raise DataError(
            f"no model can be loaded from {path}: it describes an adapter, whose weights "
            f"({ADAPTER_WEIGHTS}) aren't there",
            "copy them into the folder, or name the model itself",
        )
    with load_explained("model", path, "a Hugging Face folder with config.json and *.safetensors"):
        base = adapter_base(Path(path)) if has_adapter else str(path)
        model = AutoModelForCausalLM.from_pretrained(
            base,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            revision=pinned_revision(base, revision),
            trust_remote_code=trust_remote_code,
            use_safetensors=True,
            **(kernels or {}),
        )
        if has_adapter:
            from peft import PeftModel

            rows = embedding_rows(Path(path))
            if rows not in (None, len(model.get_input_embeddings().weight)):
                model.resize_token_embeddings(rows, mean_resizing=False)
            model = PeftModel.from_pretrained(model, str(path), is_trainable=trainable)
            _name_base(model, base)
    whole = causal_of(model)
    _settle(whole, (kernels or {}).get("attn_implementation"))
    return model


def build_scratch(section: ScratchModel, tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """Return the model that `section` describes, with random weights sampled from its seed."""
    import torch

    model = random_qwen2(
        tokenizer,
        seed=section.seed,
        hidden_size=section.hidden,
        intermediate_size=section.feed_forward,
        num_hidden_layers=section.layers,
        num_attention_heads=section.heads,
        num_key_value_heads=section.heads,
        max_position_embeddings=section.max_positions,
        tie_word_embeddings=section.tie_embeddings,
    )
    if section.attention is not None:
        model.set_attn_implementation(section.attention)
    return model.to(getattr(torch, section.dtype))


def random_qwen2(tokenizer: Qwen2Tokenizer, *, seed: int, **sizes: Any) -> Qwen2ForCausalLM:
    """A Qwen2 model with random weights for `tokenizer`'s vocabulary; `sizes` as Qwen2Config's."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    ends = {
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = Qwen2Config(**{"vocab_size": len(tokenizer)} | sizes, **ends)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def causal_of(model: Any) -> Any:
    """Return the causal language model inside an adapter; one without an adapter as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def outline(path: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Return the model that a folder describes, without weights or adapter; raises DataError."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    whole = model_files(adapter_base(Path(path))) if is_adapter(Path(path)) else path
    expected = "a Hugging Face folder with config.json"
    with load_explained("model", path, expected), torch.device("meta"):
        config = AutoConfig.from_pretrained(str(whole), trust_remote_code=trust_remote_code)
        return AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)


def context_of(config: Any) -> int | None:
    """Return how many tokens a model of this Transformers configuration reads; None: any number.

    As vLLM counts: RoPE that is stretched by a factor reads so many times more than it was
    trained on.
    """
    text = config.get_text_config()
    context = getattr(text, "max_position_embeddings", None)
    if not isinstance(context, int) or context < 1:
        return None
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") not in ("linear", "dynamic", "yarn"):
        return context
    trained = rope.get("original_max_position_embeddings") or context
    return max(context, int(trained * rope.get("factor", 1)))


def _settle(model: Any, attention: str | None) -> None:
    """Make a loaded model fit to be sampled from, trained and saved.

    Generation settings keep token ids alone: nothing else is used, and those that contradict one
    another can't be saved. Attention scores are capped where the configuration says so, which
    Transformers' default attention ignores. Weights that texts never pass, as a vision tower's,
    are frozen: processes that train together would wait for their gradients.
    """
    from transformers import GenerationConfig

    given = vars(model.generation_config) if model.generation_config is not None else {}
    ids = {name: given[name] for name in given if name.endswith("_token_id")}
    model.generation_config = GenerationConfig(**ids)
    text = model.config.get_text_config()
    if getattr(text, "attn_logit_softcapping", None):
        if attention == "sdpa":
            raise ConfigurationError(
                f"model.attention is 'sdpa', which ignores that {type(model).__name__} caps its "
                "attention scores",
                "leave model.attention out, or use --set model.attention=flex_attention",
            )
        model.set_attn_implementation(attention or "eager")
    if text is not model.config:
        read = {*model.get_decoder().parameters(), *model.get_output_embeddings().parameters()}
        for weight in set(model.parameters()) - read:
            weight.requires_grad_(False)


def attach_lora(model: Any, lora: LoraSection, seed: int = 0) -> Any:
    """`model` with fresh low-rank adapters on `lora.targets`, everything else frozen.

    Targets are linear layers, or stacked experts, of the text model: not of a vision tower, and
    not the head. The adapters' random halves depend on `seed` alone, so that a repeated training is
    the same. Raises ConfigurationError, with the names that exist, where a target matches nothing.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    text, head = model.get_decoder(), model.get_output_embeddings()
    (prefix,) = [name for name, module in model.named_modules() if module is text]
    linear = {
        name
        for name, module in text.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
    }
    reads_images = model.config.get_text_config() is not model.config
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        exclude_modules=rf"(?!{re.escape(prefix)}\.).*" if reads_images else None,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            adapted, problem = get_peft_model(model, config), ""
        except ValueError as error:
            problem = str(error).partition("\n")[0]
    # peft has taken the names of experts, which are stacked parameters, out of `target_modules`
    left = [target for target in lora.targets if target in config.target_modules]
    lacking = [target for target in left if not any(f".{n}".endswith(f".{target}") for n in linear)]
    if lacking:
        problem = f"{', '.join(lacking)} of model.lora.targets match no layer"
    if problem:
        names = ",".join(sorted({name.rpartition(".")[2] for name in linear}))
        raise ConfigurationError(
            f"no adapters can be put on {type(model).__name__}: {problem}",
            f"the linear layers of its text model: --set 'model.lora.targets=[{names}]'",
        )
    _name_base(adapted, model.name_or_path)
    return adapted


def changes_weights(layer: Any) -> bool:
    """Return True if an adapter changes the weights of `layer`, or has others in their place."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    return isinstance(layer, BaseTunerLayer | AuxiliaryTrainingWrapper)


def merge_adapter(model: Any) -> Any:
    """Return a model with its adapter merged.

    A head that shares the embedding's weights gets its own where the adapter changes one of them.
    Raises ConfigurationError for an adapter with biases on a layer that has none.
    """
    import torch
    from peft.tuners.lora import LoraLayer

    for name, layer in model.named_modules():
        has_biases = isinstance(layer, LoraLayer) and any(layer.lora_bias.values())
        if has_biases and getattr(layer.get_base_layer(), "bias", None) is None:
            raise ConfigurationError(
                f"the adapter has lora_bias, and {name.removeprefix('base_model.model.')} has no "
                "bias that it could be merged into",
                "use the adapter as it is, or train one without lora_bias",
            )
    whole = model.get_base_model()
    embedding, head = whole.get_input_embeddings(), whole.get_output_embeddings()
    if whole.config.tie_word_embeddings and (changes_weights(embedding) or changes_weights(head)):
        plain = getattr(head, "base_layer", getattr(head, "original_module", head))
        plain.weight = torch.nn.Parameter(plain.weight.detach().clone())
        whole.config.tie_word_embeddings = False
        whole.config.get_text_config().tie_word_embeddings = False
    return model.merge_and_unload(safe_merge=True)


def _name_base(adapted: Any, base: str) -> None:
    """Write the base's absolute path into the adapter's files, for any working directory.

    Its targets are a set, which each process would write in an order of its own.
    """
    path = str(Path(base).resolve()) if Path(base).is_dir() else base
    for settings in adapted.peft_config.values():
        settings.base_model_name_or_path = path
        if isinstance(settings.target_modules, set):
            settings.target_modules = sorted(settings.target_modules)


def switch_off_noise(model: Any) -> None:
    """Set every number of a module of `model`, if there is one, that is named for noise to 0.

    Attention layers of Transformers hold a probability, not a `torch.nn.Dropout`, and routers of
    mixtures of experts the width of their jitter: each pass would have noise of its own, and the
    policy another ratio than 1 to itself. The model's configuration, which is saved with it, stays
    as it was.
    """
    for module in model.modules() if model is not None else ():
        numbers = [name for name, value in vars(module).items() if isinstance(value, float)]
        for name in numbers:
            if any(word in name for word in NOISY):
                setattr(module, name, 0.0)


def release_memory() -> None:
    """Release the memory of models that are no longer referenced."""
    import torch

    gc.collect()  # trainers and their callbacks name each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
