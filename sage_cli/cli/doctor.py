"""`sage doctor`: what prevents a preset from running here, a line for each check."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from sage_cli.cli.console import console, emit
from sage_cli.cli.live import doing
from sage_cli.cli.options import (
    Algo,
    ConfigFile,
    Data,
    Guide,
    Init,
    Json,
    Presets,
    RunRoot,
    Sets,
    load_config,
)
from sage_cli.errors import EXIT_OTHER

if TYPE_CHECKING:
    from sage_cli.commands.doctor import Finding


def command(
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    algo: Algo = None,
    guide: Guide = None,
    init: Init = None,
    data: Data = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Check whether a preset can run on this machine; exit with 1 if it cannot.

    Missing data and small files of a model are fetched, as a training does, and torch is loaded to
    find GPUs. Nothing is trained or stored.
    """
    settings = load_config(
        preset,
        config,
        set_,
        rl={"algo": algo},
        guide={"name": guide},
        run={"root": runs},
        data={"rl": {"name": data}},
    ).config
    with doing("loading libraries"):
        from sage_cli.commands.doctor import checks

    findings: list[Finding] = []
    for check in checks(settings, init):
        with doing(f"looking at {check.name}"):
            finding = check.run()
        findings.append(finding)
        if not json:
            _print(finding)
    obstacles = [finding for finding in findings if finding.obstacle]
    name = ", ".join(preset or ([str(config)] if config else ["tiny"]))
    if json:
        told = [asdict(finding) for finding in findings]
        emit({"configuration": name, "can_run": not obstacles, "checks": told})
    elif obstacles:
        console.print(f"\n{name} can't run here: {len(obstacles)} of {len(findings)} checks fail")
    else:
        console.print(f"\n{name} can run here")
    if obstacles:
        raise typer.Exit(EXIT_OTHER)


def _print(finding: Finding) -> None:
    mark, colour = ("✗", "red") if finding.obstacle else ("✓", "green")
    if finding.mend and not finding.obstacle:
        mark, colour = "!", "yellow"
    text = Text.assemble((f"{mark} ", colour), (finding.check, "bold"), f"  {finding.said}")
    if finding.mend:
        text.append(f"\n    {finding.mend}", "cyan")
    console.print(text, soft_wrap=True)
