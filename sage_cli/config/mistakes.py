"""Turn the schema's complaints into sentences: where, what, and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from sage_cli.config.schema import UNIONS, sections_at, settings
from sage_cli.errors import ConfigurationError, did_you_mean

_FLAGS = {"rl": ("method", "--algo"), "guide": ("guide", "--guide")}
"""Sections of which a flag chooses the class: what a class is called, and the flag."""
_NEEDED = re.compile(r" needs ([a-z_.]+=[\w-]+)$", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")
ELSEWHERE = {
    "bf16": "model.compute_dtype",
    "dataset_name": "data.rl.name",
    "epsilon": "rl.epsilon_low",
    "gpu_memory_utilization": "rollout.vllm.memory_share",
    "gradient_accumulation_steps": "rl.prompts_per_step",
    "learning_rate": "rl.learning_rate",
    "lora_alpha": "model.lora.alpha",
    "lora_r": "model.lora.rank",
    "lora_target_modules": "model.lora.targets",
    "loss_type": "rl.loss",
    "lr_scheduler_type": "rl.scheduler",
    "max_completion_length": "rollout.max_tokens",
    "max_new_tokens": "sampling.max_tokens",
    "max_steps": "rl.steps",
    "model_name_or_path": "model.path",
    "num_generations": "rl.rollouts_per_prompt",
    "num_iterations": "rl.iterations",
    "optim": "rl.optimizer",
    "output_dir": "run.root",
    "per_device_train_batch_size": "rl.micro_batch",
    "report_to": "tracking.wandb",
    "save_steps": "rl.save_every",
    "scale_rewards": "rl.advantage",
    "torch_dtype": "model.dtype",
    "use_vllm": "rollout.backend",
    "warmup_ratio": "rl.warmup_ratio",
}
"""Names of TRL, Transformers and vLLM for what a setting here does."""
_FLAG_OF = {
    "data.rl.name": "--data",
    "model.path": "--init",
    "rl.learning_rate": "--lr",
    "rl.steps": "--steps",
    "run.root": "--runs",
}
"""Settings that are typed as a flag."""


def explain(error: ValidationError) -> list[str]:
    """Return one sentence for every problem that `error` found, in the schema's order."""
    sentences: list[str] = []
    for complaint in error.errors():
        sentences += _sentences(complaint)
    return sentences


def remedy(problems: Sequence[str], error: ValidationError | None = None) -> str:
    """Return the next step for `problems`: a plug-in's own, or where a setting is explained."""
    for complaint in error.errors() if error else ():
        refused = complaint.get("ctx", {}).get("error")
        if isinstance(refused, ConfigurationError) and refused.next_step:
            return refused.next_step
    if needed := _NEEDED.findall("\n".join(problems)):
        return "add " + " ".join(f"--set {setting}" for setting in dict.fromkeys(needed))
    by_name = settings()
    for name in _NAME.findall("\n".join(problems)):
        if name in by_name:
            return f"`sage config explain {name}` says what it takes"
    return "`sage config show` prints every setting with its default"


def _sentences(complaint: Any) -> list[str]:
    path = _path(complaint["loc"])
    name, kind, given = ".".join(path), complaint["type"], complaint.get("input")
    if kind == "extra_forbidden":
        return [_unknown_key(path)]
    if kind in ("literal_error", "union_tag_invalid"):
        expected = complaint["ctx"].get("expected") or complaint["ctx"].get("expected_tags")
        choices = re.findall(r"'([^']*)'", str(expected))
        if kind == "union_tag_invalid":
            name, given = f"{name}.kind", complaint["ctx"].get("tag")
        return [f"{name} is '{given}'; it can be {', '.join(choices)}{meant(str(given), choices)}"]
    if kind == "value_error":
        text = str(error := complaint["ctx"]["error"])
        if not path or isinstance(error, ConfigurationError):
            return text.splitlines()
        choices = re.findall(r"[\w-]+", text.partition("known: ")[2])
        typed = given.get("name") if isinstance(given, dict) else given  # of a reward
        return [f"{name}: {text}{meant(str(typed), choices) if choices else ''}"]
    message = complaint["msg"][0].lower() + complaint["msg"][1:]
    return [f"{name} is {given!r}: {message}"]


def _unknown_key(path: Sequence[str]) -> str:
    """Return the sentence on a key that no section has, or that another member of a union has."""
    *above, key = path
    sections = sections_at(above)
    where = ".".join(above) or "the configuration"
    if having := [section for section in sections if key in section.model_fields]:
        tag = UNIONS[where]
        names = [str(get_args(kind.model_fields[tag].annotation)[0]) for kind in having]
        if where not in _FLAGS:
            return f"{where}.{key} needs {where}.{tag}={' or '.join(names)}"
        noun, flag = _FLAGS[where]
        owners = f"{' and '.join(names)} {noun}{'s' if len(names) > 1 else ''}"
        flags = " or ".join(f"{flag} {name}" for name in names)
        return f"{where}.{key} belongs to the {owners}: add {flags}"
    if setting := ELSEWHERE.get(key):
        return f"{where} has no '{key}': it is {setting} here"
    keys = list(dict.fromkeys(key for section in sections for key in section.model_fields))
    return f"{where} has no '{key}'{meant(key, keys) or '; it has ' + ', '.join(keys)}"


def meant(given: str, names: Iterable[str]) -> str:
    """Return ` (did you mean tau?)` for the nearest of the known names, or an empty text."""
    near = did_you_mean(given, dict.fromkeys(names), 0.5)
    return near and f" ({near})"


def named_elsewhere(option: str) -> str | None:
    """Return what to type for an option of TRL, Transformers or vLLM, or None.

    `--learning_rate` and `--learning-rate` give `--lr`; `--num_generations` gives a `--set`.
    """
    setting = ELSEWHERE.get(option.lstrip("-").replace("-", "_"))
    return setting and _FLAG_OF.get(setting, f"--set {setting}=...")


def _path(location: Sequence[str | int]) -> list[str]:
    """Return the setting's name, without the union's tag that pydantic puts after its section."""
    path = [str(part) for part in location]
    if path[:1] == ["model"] and len(path) > 1:
        path.pop(1)
    return path
