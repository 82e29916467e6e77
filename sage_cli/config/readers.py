"""The choices that decide whether anything reads a setting that was typed, searched or stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from sage_cli.guides import Guide
from sage_cli.methods.loop import Method
from sage_cli.settings.presets import BLOCKS
from sage_cli.settings.section import ReadWith, Section, in_file

TABLE = (
    ReadWith("anchor.reference_samples", "anchor.kl", "forward", refused=True),
    ReadWith("anchor.head_tokens", "anchor.estimator", "head", refused=True),
    ReadWith("anchor.uncertain_share", "anchor.tokens", "certain", ("all",), refused=True),
    ReadWith("anchor.ema_every", "anchor.ema", 0.9, (None,), refused=True),
    ReadWith("anchor.", "anchor.kl", "reverse", ("none",)),
    ReadWith("anchor.estimator", "anchor.kl", "reverse", ("forward",)),
    ReadWith("model.lora.", "model.tuning", "lora", ("full",)),
    ReadWith("guide.q_", "guide.name", "branch", ("none",)),
    ReadWith("sft.", "sft.enabled", True, (False,)),
    ReadWith("sft.epochs", "sft.steps", None),
    ReadWith("sft.warmup_ratio", "sft.warmup_steps", None),
    ReadWith("rollout.vllm.", "rollout.backend", "vllm", ("builtin", "transformers")),
    ReadWith("rollout.vllm.server_", "rollout.vllm.mode", "server"),
    ReadWith("rollout.vllm.tensor_parallel", "rollout.vllm.mode", "colocate"),
    ReadWith("rollout.vllm.memory_share", "rollout.vllm.mode", "colocate"),
    ReadWith("rollout.vllm.sleep", "rollout.vllm.mode", "colocate"),
    ReadWith("sampling.vllm.", "sampling.backend", "vllm", ("builtin", "server")),
    ReadWith("sampling.server", "sampling.backend", "server", ("builtin", "vllm")),
    ReadWith("executor.address", "executor.name", "ray"),
    ReadWith("executor.memory_gb", "executor.name", "slurm", ("local",)),
    *(
        ReadWith(f"executor.{name}", "executor.name", "slurm")
        for name in ("partition", "account", "lines", "setup")
    ),
)
"""The conditions of all sections but the method's and the guide's, whose classes say their own."""

_UNIONS: dict[str, Any] = {"rl": Method, "guide": Guide}
_Config = BaseModel | Mapping[str, Any]
_Part = TypeVar("_Part", bound=Section)


def unread(config: _Config, setting: str) -> tuple[str, Any, Any] | None:
    """Return the choice under which nothing reads a setting, its value, and one that reads it.

    None if the setting is read. `config` may be a stored one, as plain values: a section that it
    lacks makes no choice.
    """
    condition = _unmet(config, setting)
    if condition is None:
        return None
    return condition.choice, condition.value(config), condition.reading


def deciding_choices(config: _Config, setting: str) -> list[str]:
    """Return the settings on which it depends whether `setting` is read, methods and guides too."""
    above = [f"{section}.{union.tag}" for section, union in _UNIONS.items()]
    return list(dict.fromkeys([row.choice for row in _conditions(config, setting)] + above))


def idle_settings(config: BaseModel) -> list[str]:
    """Return a sentence for each value that would do nothing, whoever gives it.

    These are settings of one choice alone, so that no preset serves several choices by them.
    """
    rows = [row for row in _rows(config) if row.refused]
    idle = ((row, _value(config, row.setting)) for row in rows if row.is_unmet(config))
    return [
        f"{row.setting} {value} has no effect (add {row.choice}={row.reading}, or leave it out)"
        for row, value in idle
        if value != _default(config, row.setting)
    ]


def is_read(config: _Config, setting: str, searched: Collection[str] = ()) -> bool:
    """Return True if something reads a setting, or may under another value of what is searched."""
    decided = _unmet(config, setting) is not None
    return not decided or any(name in searched for name in deciding_choices(config, setting))


def as_read(config: BaseModel, name: str, searched: Collection[str] = ()) -> Any:
    """Return a section of `config` where each setting that nothing reads has its default.

    So two configurations that train alike have one run hash, and two sweeps one name: `searched`
    are the settings whose values a sweep chooses.
    """
    return _as_read(config, getattr(config, name), name, searched)


def _as_read(config: BaseModel, section: _Part, above: str, searched: Collection[str]) -> _Part:
    update: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        key, value = f"{above}.{name}", getattr(section, name)
        if isinstance(value, Section):
            update[name] = _as_read(config, value, key, searched)
        elif not is_read(config, key, searched):
            update[name] = field.get_default(call_default_factory=True)
    return section.model_copy(update=update)


def _unmet(config: _Config, setting: str) -> ReadWith | None:
    return next((row for row in _conditions(config, setting) if row.is_unmet(config)), None)


def _conditions(config: _Config, setting: str) -> Iterator[ReadWith]:
    key, _, inside = setting.partition(".")
    if key in BLOCKS:  # settings of one method or guide, such as guides.branch.tau
        section = BLOCKS[key]
        tag = _UNIONS[section].tag
        yield ReadWith(setting, f"{section}.{tag}", inside.partition(".")[0])
        return
    for row in _rows(config):
        if setting.startswith(row.setting) and setting != row.choice:
            yield row


def _rows(config: _Config) -> Iterator[ReadWith]:
    yield from TABLE
    for section, union in _UNIONS.items():
        chosen = _value(config, section)
        if isinstance(chosen, Mapping):  # stored; a plug-in's class may be gone
            chosen = in_file(union, str(chosen.get(union.tag)))
        yield from getattr(chosen, "read_with", ())


def _value(config: _Config, setting: str) -> Any:
    return ReadWith(setting, setting, None).value(config)


def _default(config: BaseModel, setting: str) -> Any:
    section = _value(config, setting.rpartition(".")[0])
    return type(section).model_fields[setting.rpartition(".")[2]].default
