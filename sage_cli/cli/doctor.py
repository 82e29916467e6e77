"""`sage doctor`: what prevents a preset from running here, a line for each check."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from sage_cli.cli import options
from sage_cli.cli.console import console, emit, in_flags
from sage_cli.cli.live import doing
from sage_cli.errors import EXIT_OTHER, SageError


def command(
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    algo: options.Algo = None,
    guide: options.GuideName = None,
    init: options.Init = None,
    data: options.Data = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    generate: Annotated[
        bool,
        typer.Option(
            "--generate",
            help="Sample 8 completions of the initial policy, 64 if none has a readable answer.",
        ),
    ] = False,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Check whether a preset, a model and data can be used on this machine; exit with 1 if not.

    Missing data and small files of a model are downloaded, as in training, and torch is loaded to
    find GPUs. Nothing is trained or stored.
    """
    settings = options.load_config(
        preset,
        config,
        set_,
        "doctor --init" if init else "doctor",
        rl={"algo": algo},
        guide={"name": guide},
        run={"root": runs},
        data={"rl": {"name": data, "fields": {"question": question_field, "gold": gold_field}}},
    )
    with doing("loading libraries"):
        from sage_cli.models.start_settings import unnamed_preset
        from sage_cli.trials.readiness import WARNINGS, Readiness

    note = unnamed_preset(init, settings, named=bool(preset or config))
    findings: list[_Finding] = []
    failed: dict[str, str] = {}  # what is wrong -> the first check that found it
    for check, ask in Readiness.of(settings, init).listed(generate=generate):
        with doing(f"checking {check}"):
            try:
                finding = _Finding(check, ask())
            except SageError as error:
                obstacle = check not in WARNINGS
                advice = in_flags(error.next_step, "doctor")
                finding = _Finding(check, error.cause, advice, obstacle=obstacle)
        findings.append(finding)
        first = failed.setdefault(finding.answer, check) if finding.advice else check
        if not json:
            same = replace(finding, answer=f"see {first}, above", advice=None)
            _print(finding if first == check else same, warns=finding.advice is not None)
    obstacles = [finding for finding in findings if finding.obstacle]
    name = ", ".join(preset or ([str(config)] if config else ["tiny"]))
    if json:
        checked = [finding.as_json() for finding in findings]
        emit({"configuration": name, "can_run": not obstacles, "checks": checked})
    elif obstacles:
        console.print(f"\n{name} can't run here: {len(obstacles)} of {len(findings)} checks fail")
    else:
        warned = sum(finding.advice is not None for finding in findings)
        but = f", but {warned} of {len(findings)} checks give a warning" if warned else ""
        console.print(f"\n{name} can run here{but}")
    if note and not json:
        console.print(note)
    if not obstacles and not json:
        from sage_cli.trials.trial import Words

        typed = {
            "config": config,
            "algo": algo,
            "guide": guide,
            "init": init,
            "data": data,
            "question-field": question_field,
            "gold-field": gold_field,
            "runs": runs,
        }
        flags = {name: str(value) for name, value in typed.items() if value is not None}
        words = Words(tuple(preset or ()), flags, tuple(set_ or ())).all
        console.print(f"next: {escape(shlex.join(['sage', 'rl', *words]))}", soft_wrap=True)
    if obstacles:
        raise typer.Exit(EXIT_OTHER)


def _print(finding: _Finding, *, warns: bool) -> None:
    mark, colour = ("✗", "red") if finding.obstacle else ("✓", "green")
    if warns and not finding.obstacle:
        mark, colour = "!", "yellow"
    text = Text.assemble((f"{mark} ", colour), (finding.check, "bold"), f"  {finding.answer}")
    if finding.advice:
        text.append(f"\n    {finding.advice}", "cyan")
    console.print(text, soft_wrap=True)


@dataclass(frozen=True)
class _Finding:
    """The answer of a check. With an `obstacle`, commands refuse this configuration."""

    check: str
    answer: str
    advice: str | None = None
    obstacle: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints, where the advice has the key `mend`."""
        return {
            "check": self.check,
            "answer": self.answer,
            "mend": self.advice,
            "obstacle": self.obstacle,
        }
