"""The configuration that named models are measured with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from sage_cli.config.consent import JUDGE, require_files, without_consent
from sage_cli.config.load import load, runs_root
from sage_cli.config.schema import SageConfig
from sage_cli.config.unread_settings import check_settings_read
from sage_cli.errors import ConfigurationError
from sage_cli.models.policy import named_policy, named_run, stored_settings
from sage_cli.settings.k_values import capped_ks, parse_ks
from sage_cli.settings.presets import preset_for, read_layer
from sage_cli.store.run import IMPORTED, Run, Runs


def load_measured_settings(
    names: Sequence[str],
    presets: Sequence[str],
    config: Path | None,
    sets: Sequence[str],
    runs: Path | None,
    command: str | None,
    flags: Mapping[str, dict[str, Any]],
) -> tuple[SageConfig, str | None]:
    """Load presets or a configuration where they are named, else what the first model says.

    That is a run's stored configuration (of the latest run, where no model is named), or the
    `sage.json` of an exported model. Flags and `sets` lie over it. Where only n was typed, the ks
    that nobody asked for end there. Returns a note for the terminal, too, where nothing says how
    the models are sampled.

    Raises ConfigurationError, before anything is trained or sampled, for a model that nobody says
    how to prompt, `model.path` beside others' names, k > n, and a value that `command` never reads.
    """
    root = runs_root(presets, runs, sets)
    check_model_path(names, sets, Runs(root))
    stored = None if config is None else read_layer(config)
    if config is None and not presets:
        stored = _own_settings(names, sets, Runs(root))
    made_with = stored or {}
    if stored is not None:  # stored samples need no code; what loads a model asks for consent
        stored = without_consent(stored)
    flags = {**flags, "run": {"root": root}}
    loaded = load(presets, flags, sets, stored)
    if command is not None:
        check_settings_read(loaded, command)
    require_files(made_with, loaded.origins, JUDGE)
    note = None
    if names and "sampling.temperature" not in loaded.origins:
        sampling = loaded.config.sampling
        note = (
            f"[yellow]nothing says how {escape(names[0])} is sampled[/]: temperature "
            f"{sampling.temperature:g}, min_p {sampling.min_p:g} and {sampling.max_tokens} tokens, "
            "the paper's, unless --set sampling.temperature=1 and the like say otherwise"
        )
    evaluation = loaded.config.evaluation
    origins = (loaded.origins.get(f"evaluation.{key}") for key in ("k", "samples"))
    if [origin in ("flag", "--set") for origin in origins] == [False, True]:
        fitting = {"k": capped_ks(evaluation.k, evaluation.samples)}
        flags["evaluation"] = {**flags.get("evaluation", {}), **fitting}
        return load(presets, flags, sets, stored).config, note
    parse_ks(evaluation.k, evaluation.samples)
    return loaded.config, note


def _own_settings(names: Sequence[str], sets: Sequence[str], runs: Runs) -> dict[str, Any] | None:
    """Return the settings of the first model; None if none is named and there is no run."""
    made_by = {name: named_run(name, runs) for name in names}
    foreign = [name for name, run in made_by.items() if run is None]
    settings = {name: named_policy(name, runs).own_settings for name in foreign}
    run = made_by[names[0]] if names else runs.latest()
    own = settings.get(names[0], {}) if names else {}
    silent = [name for name in foreign if not settings[name]]
    if silent and (grown := _trained_from(silent, list(made_by.values()), runs)):
        run, silent = run or (None if own else grown), []
    check_prompt_known(silent, sets, others_settings=run is not None or bool(own))
    if run is not None:
        return stored_settings(run)
    return {"model": {"kind": "pretrained", "path": names[0]}, **own} if names else None


def _trained_from(names: Sequence[str], made_by: Sequence[Run | None], runs: Runs) -> Run | None:
    """Return the first named run, if all of `names` are models that named runs were trained from.

    Such a model is prompted as the run that it is measured beside.
    """
    trained = [run for run in made_by if run is not None]
    parents = {run.read_manifest().get("parent_weights") for run in trained}
    all_known = all(named_policy(name, runs).fingerprint in parents for name in names)
    return trained[0] if trained and all_known else None


def check_prompt_known(names: Sequence[str], sets: Sequence[str], *, others_settings: bool) -> None:
    """Refuse models that don't say how they are prompted, unless `--set` does.

    With `others_settings` the configuration is another model's: then the limit of tokens has to be
    named as well. A prompt or a limit that was made for a model of another make would score the
    model near 0 and say nothing.
    """
    lacking = [] if any(_sets(text, "prompt.") for text in sets) else ["prompt.format=chat"]
    if others_settings and not any(_sets(text, "sampling.max_tokens") for text in sets):
        lacking.append("sampling.max_tokens=2048")
    if not names or not lacking:
        return
    preset = preset_for(names[0])
    raise ConfigurationError(
        f"no run here made {' or '.join(names)}, so that the right prompt is unknown",
        "add "
        + " ".join(f"--set {setting}" for setting in lacking)
        + " (chat is the model's own chat "
        f"template; paper and plain need none), or --preset {preset or 'NAME'}",
    )


def check_model_path(names: Sequence[str], sets: Sequence[str], runs: Runs) -> None:
    """Refuse a `model.path` that is neither what is measured nor the setting of a measured run."""
    path = path_set(sets)
    if names and path is not None and path not in names:
        made_by = (named_run(name, runs) for name in names)
        trained = [run for run in made_by if run and run.read_manifest().get("kind") != IMPORTED]
        if path in [run.read_config()["model"].get("path") for run in trained]:
            return
        raise ConfigurationError(
            f"model.path is '{path}', but the model to measure is {', '.join(names)}",
            f"give only the model to measure: {path}",
        )


def path_set(sets: Sequence[str]) -> str | None:
    """Return the model that `--set model.path=...` names."""
    paths = [text.partition("=")[2].strip() for text in sets if _sets(text, "model.path")]
    return paths[-1] if paths else None


def _sets(text: str, name: str) -> bool:
    key = text.partition("=")[0].strip()
    return key == name or (name.endswith(".") and key.startswith(name))


def measured_names(
    names: Sequence[str] | None, sets: Sequence[str] | None, k: str | None = None
) -> list[str]:
    """Return the models that are named: beside the command, or else by `--set model.path`.

    Raises ConfigurationError for `--k 1 8 64`, whose 8 and 64 would be runs.
    """
    loose = [name for name in names or () if name.isdecimal() and not Path(name).exists()]
    if k is not None and loose:
        raise ConfigurationError(
            f"{' '.join(loose)} after --k {k} would be read as a run",
            f"separate values of k with commas: --k {','.join((k, *loose))}",
        )
    path = path_set(sets or ())
    return list(names or ([] if path is None else [path]))
