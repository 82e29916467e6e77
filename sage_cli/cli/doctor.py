"""`sage doctor`: what prevents a preset from running here, a line for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    from sage_cli.cli.terminal.answers import CheckJson, DoctorAnswer
    from sage_cli.commands.doctor import Finding


def command(
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    rollouts: Annotated[
        bool,
        typer.Option(
            "--rollouts",
            help="Also sample a few rollouts of the initial policy, and compare the engine's "
            "log-probabilities with the trainer's.",
        ),
    ] = False,
    algo: Algo = None,
    guide: Guide = None,
    init: Init = None,
    data: Data = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Check whether a preset can run on this machine; exit with 1 if it cannot.

    Missing data and small files of a model are fetched, as a training does, and torch is loaded to
    find GPUs. Nothing is trained or stored; --rollouts takes a step without a reward in a folder of
    its own.
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
        from sage_cli.commands.doctor_rollouts import rollout_findings

    findings: list[Finding] = []

    def add(finding: Finding) -> None:
        if not json:
            same = (earlier.check for earlier in findings if _alike(earlier, finding))
            _print(finding, before=next(same, None))
        findings.append(finding)

    for check in checks(settings, init):
        with doing(f"looking at {check.name}"):
            finding = check.run()
        add(finding)
    if rollouts and not any(finding.obstacle for finding in findings):
        with doing("sampling rollouts and reading them"):
            found = rollout_findings(settings, init)
        for finding in found:
            add(finding)
    obstacles = [finding for finding in findings if finding.obstacle]
    name = ", ".join(preset or ([str(config)] if config else ["tiny"]))
    if json:
        answer: DoctorAnswer = {
            "configuration": name,
            "can_run": not obstacles,
            "checks": [_as_json(finding) for finding in findings],
        }
        emit(answer)
    elif obstacles:
        console.print(f"\n{name} can't run here: {len(obstacles)} of {len(findings)} checks fail")
    else:
        console.print(f"\n{name} can run here")
    if obstacles:
        raise typer.Exit(EXIT_OTHER)


def _as_json(finding: Finding) -> CheckJson:
    return {
        "check": finding.check,
        "said": finding.said,
        "mend": finding.mend,
        "obstacle": finding.obstacle,
        "fine": finding.fine,
    }


def _alike(a: Finding, b: Finding) -> bool:
    return a.obstacle and (a.said, a.mend) == (b.said, b.mend)


def _print(finding: Finding, before: str | None) -> None:
    """Print a finding; `before` is an earlier check with the same obstacle."""
    mark, colour = ("✗", "red") if finding.obstacle else ("✓", "green")
    if not finding.fine and not finding.obstacle:
        mark, colour = "!", "yellow"
    said = f"fails for the same reason as {before}" if before else finding.said
    text = Text.assemble((f"{mark} ", colour), (finding.check, "bold"), f"  {said}")
    if finding.mend and not before:
        text.append(f"\n    {finding.mend}", "cyan")
    console.print(text, soft_wrap=True)
