"""`sage doctor`: what here is in the way of a preset, a line for each thing looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from sage_cli.cli.console import console, emit
from sage_cli.cli.live import doing
from sage_cli.cli.options import ConfigFile, Json, Presets, RunRoot, Sets, load_config
from sage_cli.errors import EXIT_OTHER

if TYPE_CHECKING:
    from sage_cli.cli.answers import CheckJson, DoctorAnswer
    from sage_cli.workflows.doctor import Finding


def command(
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Check whether a preset can run on this machine; exit with 1 where it can't.

    Data and a model's small files that aren't here are fetched as a training would fetch them, and
    torch is loaded to see GPUs. Nothing is trained or stored.
    """
    settings = load_config(preset, config, set_, run={"root": runs}).config
    with doing("loading libraries"):
        from sage_cli.workflows.doctor import checks

    found: list[Finding] = []
    for check in checks(settings):
        with doing(f"looking at {check.name}"):
            finding = check.found()
        if not json:
            _print(finding, before=next((one.check for one in found if _alike(one, finding)), None))
        found.append(finding)
    obstacles = [one for one in found if one.obstacle]
    name = ", ".join(preset or ([str(config)] if config else ["tiny"]))
    if json:
        answer: DoctorAnswer = {
            "configuration": name,
            "can_run": not obstacles,
            "checks": [_as_json(one) for one in found],
        }
        emit(answer)
    elif obstacles:
        console.print(f"\n{name} can't run here: {len(obstacles)} of {len(found)} are in the way")
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
    """A line; `before` is the check that was answered with the same obstacle."""
    mark, colour = ("✗", "red") if finding.obstacle else ("✓", "green")
    if not finding.fine and not finding.obstacle:
        mark, colour = "!", "yellow"
    said = f"in the way for the same reason as {before}" if before else finding.said
    text = Text.assemble((f"{mark} ", colour), (finding.check, "bold"), f"  {said}")
    if finding.mend and not before:
        text.append(f"\n    {finding.mend}", "cyan")
    console.print(text, soft_wrap=True)
