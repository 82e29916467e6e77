"""Reads stored configurations without the settings that only the person who types may give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves, value_at
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.model import PretrainedModel, ScratchModel
from sage_cli.settings.own_code import names_code
from sage_cli.settings.sampling import SamplingSection
from sage_cli.settings.shipped import is_path

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig

_KEPT_OF_SAMPLING = {
    *DecodingSection.model_fields,
    "stop_at_answer",
    "batch_rows",
    "vllm.tensor_parallel_size",
    "vllm.max_model_len",
    "vllm.gpu_memory_utilization",
}
SERVICES: Mapping[str, Mapping[str, Any]] = {
    "sampling": {
        name: usual
        for name, usual in SamplingSection().model_dump(mode="json").items()
        if name not in _KEPT_OF_SAMPLING
    },
    "rollout": {"vllm.server_url": None, "vllm.server_model": None},
    "executor": {"address": None, "lines": {}, "setup": []},
}
"""By section, the settings that name servers and clusters, or what is done there, with
their defaults. Runs are copied between people, so a stored file never decides where requests, keys
and commands go: these settings are typed, or said in a preset that is named."""
NOT_TAKEN_OVER = ("run.root", "run.sweep")
"""Settings that do not travel with a stored configuration."""
CONSENT = "model.trust_remote_code"
HOW_TO_CONSENT = f"read that code, and add --set {CONSENT}=true if it may be run here"
TEACHER = "anchor.reference"
JUDGE, REWARDS, LAUNCHER = "grading.judge", "rl.rewards", "rl.accelerate"
_WHAT_IT_IS = {
    LAUNCHER: "that file says which addresses a launcher listens on and what it starts, and a "
    "stored configuration can choose none but those that ship with sage",
}
_CODE = "that is Python code, and a stored configuration can't have it run"


def current(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return `stored` without services and without where and for what it was made."""
    values = _without(stored, lambda name: name in NOT_TAKEN_OVER or _names_a_service(name))
    if value_at(values, "tracking.wandb") == "online":  # a run may be copied
        values["tracking"]["wandb"] = "offline"
    return values


def without_services(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration, nested by section, that names no server or cluster."""
    return _without(values, _names_a_service)


def services(
    values: Mapping[str, Any], sections: Sequence[str] = tuple(SERVICES)
) -> dict[str, Any]:
    """Return the services of a configuration by dotted name, without those by default."""
    return {
        f"{section}.{name}": value
        for section in sections
        for name, value in leaves(values.get(section) or {})
        if _names_a_service(f"{section}.{name}") and value != SERVICES[section].get(name, {})
    }


def set_words(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words that say settings again: `--set`, `name=value`, ..."""
    return tuple(
        word
        for name, value in settings.items()
        for word in ("--set", f"{name}={json.dumps(value, ensure_ascii=False)}")
    )


def _without(
    values: Mapping[str, Any], is_dropped: Callable[[str], bool], above: str = ""
) -> dict[str, Any]:
    """Return nested settings but those whose dotted name is dropped."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            rest = _without(value, is_dropped, f"{name}.")
            if rest or not above:  # an absent section has other defaults: those of the import
                kept[key] = rest
        elif not is_dropped(name):
            kept[key] = value
    return kept


def _names_a_service(setting: str) -> bool:
    """Return True if a setting is one of `SERVICES` or lies inside one."""
    section, _, name = setting.partition(".")
    if section == "sampling" and name in _KEPT_OF_SAMPLING:
        return False
    return any(f"{name}.".startswith(f"{service}.") for service in SERVICES.get(section, ()))


def without_consent(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration without consent to code, and without files of one's own."""
    kept = dict(stored)
    for name in (CONSENT, *own_files(stored)):
        section, _, setting = name.partition(".")
        if isinstance(inside := stored.get(section), Mapping):
            kept[section] = {key: value for key, value in inside.items() if key != setting}
    return kept


def own_files(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that name files of one's own that decide what is run, by dotted name.

    Judges and rewards are functions of them, and a launcher of processes is configured by one.
    """
    judge, rewards = value_at(values, JUDGE), value_at(values, REWARDS)
    launcher = value_at(values, LAUNCHER)
    listed = rewards if isinstance(rewards, list | tuple) else ()
    names = [reward.get("name") if isinstance(reward, Mapping) else reward for reward in listed]
    return {
        **({JUDGE: judge} if names_code(judge) else {}),
        **({REWARDS: list(listed)} if any(map(names_code, names)) else {}),
        **({LAUNCHER: launcher} if isinstance(launcher, str) and is_path(launcher) else {}),
    }


def is_typed_again(setting: str) -> bool:
    """Return True if a stored configuration can't say `setting`, so it is typed for any command."""
    return _names_a_service(setting) or setting in (CONSENT, JUDGE, REWARDS, LAUNCHER, TEACHER)


def require_files(stored: Mapping[str, Any], given: Mapping[str, Any], *names: str) -> None:
    """Raise ConfigurationError for `own_files` that `stored` alone names under settings `names`.

    `given` are the settings that are typed or stand in a preset.
    """
    for name, value in own_files(stored).items():
        if name in names and name not in given:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            raise ConfigurationError(
                f"the stored configuration has {name}={text}: {_WHAT_IT_IS.get(name, _CODE)}",
                f"read that file, and add --set {name}='{text}' if it may be run here, or name the "
                "preset that has it (--preset FILE)",
            )


def asks_for_code(stored: Mapping[str, Any]) -> bool:
    """Return True if a stored configuration's model was run with code of its own."""
    return bool(value_at(stored, CONSENT))


def consents(model: PretrainedModel | ScratchModel | None) -> bool:
    """Return True if the configuration allows code that a model brings."""
    return isinstance(model, PretrainedModel) and model.trust_remote_code


def require_consent(stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ConfigurationError where `stored` asks for code and no `given` setting decides."""
    if asks_for_code(stored) and CONSENT not in given:
        raise ConfigurationError(
            f"the stored configuration has {CONSENT}=true: its model runs Python code "
            "of its own, and a stored configuration cannot consent to that",
            f"{HOW_TO_CONSENT}; with =false it is another run, of Transformers' own code",
        )
    require_files(stored, given, JUDGE, REWARDS, LAUNCHER)


def typed_again(config: SageConfig) -> tuple[str, ...]:
    """Return the options that allow a command that reads `config` from a file what it allows here.

    A file alone never has it run a model's own code or files of one's own, ask servers, or send to
    W&B.
    """
    values = config.model_dump(mode="json")
    settings = services(values, ("sampling", "rollout"))
    if consents(config.model):
        settings[CONSENT] = True
    reference = value_at(values, TEACHER)
    if isinstance(reference, str) and reference.count("/") == 1:  # as a model of the Hub is named
        settings[TEACHER] = reference
    online = ("--set", "tracking.wandb=online") if config.tracking.wandb == "online" else ()
    return (*set_words(settings | own_files(values)), *online)
