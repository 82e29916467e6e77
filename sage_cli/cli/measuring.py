"""Which configuration a measuring command uses: presets when named, else its first run's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sage_cli.cli.console import console
from sage_cli.cli.options import load_config

if TYPE_CHECKING:
    from sage_cli.config.load import Loaded
    from sage_cli.config.schema import SageConfig


def load_for_measuring(
    names: Sequence[str],
    preset: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    runs: Path | None,
    **flags: dict[str, Any],
) -> Loaded:
    """The stored configuration of the first run named, or of the latest, then flags, `--set`.

    Where only n was typed, the ks that nobody asked for end there; k > n is refused here, before
    anything is trained or sampled.
    """
    from sage_cli.config.load import runs_root
    from sage_cli.store.run import Run, Runs, run_of

    root = runs_root(preset or (), runs, sets or ())
    flags = {**flags, "run": {"root": root}}
    run: Run | None = None
    if not preset and config is None:
        store = Runs(root)
        first = names[0].partition("@")[0] if names else None
        if first is None:
            run = store.latest()
        elif run_of(Path(first)) is not None or not Path(first).is_dir():
            run = store.find(first)
    from sage_cli.metrics.ks import capped_ks, parse_ks

    stored = run.folder / "config.json" if run is not None else config
    loaded = load_config(preset, stored, sets, **flags)
    evaluation = loaded.config.evaluation
    origins = (loaded.origins.get(f"evaluation.{key}") for key in ("k", "samples"))
    if [origin in ("flag", "--set") for origin in origins] == [False, True]:
        fitting = {"k": capped_ks(evaluation.k, evaluation.samples)}
        flags["evaluation"] = {**flags.get("evaluation", {}), **fitting}
        return load_config(preset, stored, sets, **flags)
    parse_ks(evaluation.k, evaluation.samples)
    return loaded


def may_train(asked: bool | None, names: Sequence[str] | None, config: SageConfig) -> bool:
    """Whether a base may be trained where there is no run to measure.

    As `--train` and `--no-train` say; else a person at a terminal is asked, and a script, which
    can't be, gets what it typed.
    """
    from sage_cli.store.run import Runs

    root = config.run.root
    if names or asked is not None or Runs(root).latest() is not None:
        return bool(asked)
    if not (console.is_terminal and sys.stdin.isatty()):
        return True
    console.print(f"{root.resolve()} holds no finished run to measure")
    return typer.confirm("train the preset's base and measure it?")


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
