"""The configuration of a measuring command: presets if named, else its first run's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sage_cli.cli.console import console
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.config.load import Loaded
    from sage_cli.store.runs.run import Run, Runs


def load_for_measuring(
    names: Sequence[str],
    preset: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    runs: Path | None,
    *,
    any_k: bool = False,
    **flags: dict[str, Any],
) -> Loaded:
    """Presets or a configuration where they are named, else what the first model says of itself.

    That is a run's stored configuration (of the latest run, where no model is named), or the
    `sage.json` of an exported model. Flags and `--set` lie over it. Where only n was typed, the ks
    that nobody asked for end there. Refuses here, before anything is trained or sampled: a model
    that nobody says how to prompt, `model.path` beside other names, and k > n unless `any_k`.
    """
    from sage_cli.config.consent import JUDGE, require_functions, without_consent
    from sage_cli.config.load import load, runs_root
    from sage_cli.models.policies.prompting import refuse_other_path
    from sage_cli.settings.ks import capped_ks, parse_ks
    from sage_cli.settings.presets import read_layer
    from sage_cli.store.runs.run import Runs

    root = runs_root(preset or (), runs, sets or ())
    refuse_other_path(names, sets or ())
    stored = None if config is None else read_layer(config)
    if config is None and not preset:
        stored = _own_settings(names, sets or (), Runs(root))
    made_with = stored or {}
    if stored is not None:  # stored samples need no code; what loads a model asks for consent
        stored = without_consent(stored)
    flags = {**flags, "run": {"root": root}}
    loaded = load(preset or (), flags, sets or (), stored)
    require_functions(made_with, loaded.origins, JUDGE)
    if any_k:
        return loaded
    evaluation = loaded.config.evaluation
    origins = (loaded.origins.get(f"evaluation.{key}") for key in ("k", "samples"))
    if [origin in ("flag", "--set") for origin in origins] == [False, True]:
        fitting = {"k": capped_ks(evaluation.k, evaluation.samples)}
        flags["evaluation"] = {**flags.get("evaluation", {}), **fitting}
        return load(preset or (), flags, sets or (), stored)
    parse_ks(evaluation.k, evaluation.samples)
    return loaded


def _own_settings(names: Sequence[str], sets: Sequence[str], runs: Runs) -> dict[str, Any] | None:
    """The settings of the first model; None if none is named and there is no run."""
    from sage_cli.models.policies.names import named_policy, named_run
    from sage_cli.models.policies.prompting import require_prompt, stored_settings

    made_by = {name: named_run(name, runs) for name in names}
    foreign = [name for name, run in made_by.items() if run is None]
    settings = {name: named_policy(name, runs).own_settings for name in foreign}
    run = made_by[names[0]] if names else runs.latest()
    own = settings.get(names[0], {}) if names else {}
    silent = [name for name in foreign if not settings[name]]
    if silent and (grown := _grown_from(silent, list(made_by.values()), runs)):
        run, silent = run or (None if own else grown), []
    require_prompt(silent, sets, others_settings=run is not None or bool(own))
    if run is not None:
        return stored_settings(run)
    return {"model": {"kind": "pretrained", "path": names[0]}, **own} if names else None


def _grown_from(names: Sequence[str], made_by: Sequence[Run | None], runs: Runs) -> Run | None:
    """The first named run, if all of `names` are models that named runs were trained from.

    Such a model is prompted as the run that it is measured beside.
    """
    from sage_cli.models.policies.names import named_policy

    trained = [run for run in made_by if run is not None]
    parents = {run.manifest.get("parent_weights") for run in trained}
    known = all(named_policy(name, runs).fingerprint in parents for name in names)
    return trained[0] if trained and known else None


def measured_names(
    names: Sequence[str] | None, sets: Sequence[str] | None, k: str | None = None
) -> list[str]:
    """The models that are named: beside the command, or else by `--set model.path`.

    Raises ConfigurationError for `--k 1 8 64`, whose 8 and 64 would be runs.
    """
    from sage_cli.models.policies.prompting import set_path

    loose = [name for name in names or () if name.isdecimal() and not Path(name).exists()]
    if k is not None and loose:
        raise ConfigurationError(
            f"{' '.join(loose)} stands beside --k {k}, and would name a run",
            f"write several ks as one word: --k {','.join((k, *loose))}",
        )
    path = set_path(sets or ())
    return list(names or ([] if path is None else [path]))


def labelled_names(typed: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """`RUN=Label` as the run's name, and the labels by name; a path that exists has none."""
    from sage_cli.models.policies.names import split_label

    pairs = [split_label(text) for text in typed]
    return [name for name, _ in pairs], {name: label for name, label in pairs if label}


def may_train(asked: bool | None, names: Sequence[str] | None, root: Path, *, chosen: bool) -> bool:
    """Return True if an initial policy may be trained where `root` holds no run to measure.

    `--train` and `--no-train` decide; else a person at a terminal is asked. Without a terminal the
    built-in `tiny` one is trained, which takes a minute or two; a configuration that was `chosen`
    may take days, so it needs `--train`.
    """
    from sage_cli.store.runs.run import Runs

    if names or asked is not None or Runs(root).latest() is not None:
        return bool(asked)
    if not (console.is_terminal and sys.stdin.isatty()):
        return not chosen
    console.print(f"{root.resolve()} holds no finished run to measure")
    return typer.confirm("train the preset's initial policy and measure it?")


def evaluation_flags(
    benchmark: str | None,
    k: str | None,
    n: int | None,
    seeds: int | None,
    limit: int | None,
    allow_template_mismatch: bool,
) -> dict[str, Any]:
    """The flags that measuring commands share, as settings of `evaluation`."""
    return {
        "benchmark": benchmark,
        "k": k,
        "samples": n,
        "seeds": seeds,
        "limit": limit,
        "allow_template_mismatch": allow_template_mismatch or None,
    }
