"""Settings that a command does not read, which it rejects where they are typed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sage_cli.config.consent import is_typed_again
from sage_cli.config.explain import said_by
from sage_cli.config.load import PRESET, STORED, Loaded, changed, typed
from sage_cli.config.readers import unread
from sage_cli.config.schema import (
    SageConfig,
)
from sage_cli.errors import ConfigurationError, in_short
from sage_cli.settings.presets import BLOCKS, preset_names

_OF_PRESETS = ("anchor.kl", "model.tuning")
_CHOICES = ("rl.algo", "guide.name", *_OF_PRESETS)
_TYPED = ("flag", "--set")
_OF_SWEEPS = ("sweep", "executor")
_OF_TRAINED = ("rl", "rollout", "anchor", "guide", *BLOCKS, *_OF_SWEEPS)
_MEASURING = ("eval", "passk", "compare", "power", "analyze", "samples show")
_OF_STUDIES = ("sft.enabled", "sweep.benchmark")
"""What all commands of a study may be told: scripts share these words, and a training that is
validated reads the benchmark of sweeps."""


def _all_but(*sections: str) -> tuple[str, ...]:
    return tuple(name for name in SageConfig.model_fields if name not in sections)


NOT_READ_BY: Mapping[str, Sequence[str]] = {
    "rl": _OF_SWEEPS,
    "rl --init": ("sft", "data.sft", *_OF_SWEEPS),
    "sweep --init": ("sft", "data.sft"),
    "doctor": ("sweep",),
    "doctor --init": ("sft", "data.sft", "sweep"),
    "sft": ("data.rl", *_OF_TRAINED),
    **dict.fromkeys(_MEASURING, ("sft", *_OF_TRAINED)),
    "samples tokens": ("sft", *_OF_SWEEPS),
    **dict.fromkeys(
        ("compare FILE", "passk FILE", "power FILE"), _all_but("evaluation", "grading", "run")
    ),
    "grade": _all_but("grading", "prompt", "run"),
    "data": _all_but("data", "evaluation"),
}
"""By command, the sections and parts of sections of which it reads nothing."""


def not_read(command: str, setting: str, config: SageConfig) -> str | None:
    """Return the part of `config` that `sage command` never reads and the setting is of, if any."""
    parts = NOT_READ_BY.get(command, ()) if setting not in _OF_STUDIES else ()
    if command == "sft" and config.model.kind == "scratch" and config.model.tuning == "lora":
        parts = (*parts, "model.tuning", "model.lora")  # random weights are trained in full
    return next((part for part in parts if f"{setting}.".startswith(f"{part}.")), None)


def check_settings_read(loaded: Loaded, command: str, searched: Collection[str] = ()) -> None:
    """Raise ConfigurationError for a value that the user gives and that `sage command` never reads.

    A preset of one's own may serve several choices, so its values are left where one is typed. A
    choice that is `searched` may be any. What a stored configuration may not say is typed for all.
    """
    for name in searched:
        if (part := not_read(command, name, loaded.config)) is not None:
            raise ConfigurationError(
                f"{name} can't be searched: `sage {command}` reads no setting of {part}",
                "search another setting",
            )
    origins, shipped = loaded.origins, [f"{PRESET}{name}" for name in preset_names()]
    chosen = any(origins.get(choice) in _TYPED for choice in _CHOICES)
    for name, origin in origins.items():
        part, again = not_read(command, name, loaded.config), is_typed_again(name)
        of_preset = origin.startswith(PRESET) and origin.partition(",")[0] not in shipped
        if origin in _TYPED and not again and part is not None:
            full = ", since random weights are trained in full" * part.startswith("model.")
            raise ConfigurationError(
                f"{name} ({said_by(name, origin)}) has no effect: `sage {command}` reads no "
                f"setting of {part}{full}",
                "leave it out",
            )
        choice, value, reading = unread(loaded.config, name) or ("", None, None)
        if not choice or choice in searched or (again and STORED in origins.values()):
            continue
        if origin in _TYPED or (of_preset and not chosen and choice in _OF_PRESETS):
            why, step = (
                f"{choice} is {in_short(value)}",
                f"add --set {choice}={typed(reading)}, or ",
            )
            try:
                changed(loaded.config, {choice: reading})
            except ConfigurationError as error:  # nothing that could be added lets it be read
                why, step = f"{why}, and {error.cause.partition(' (')[0]}", ""
            raise ConfigurationError(
                f"{name} ({said_by(name, origin)}) has no effect: {why}", f"{step}leave it out"
            )
