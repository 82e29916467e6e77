"""A token report's table and its terminal form: numbers, shares, colours."""

import io
import math

import torch
from rich.console import Console

from sage_cli.guides import BranchGuide
from sage_cli.guides.token_values import token_values
from sage_cli.reports.token_report import (
    MORE,
    ReportedCompletion,
    TokenReport,
    completion_text,
    strongest,
    summary_table,
    to_rich,
)

HOSTILE = "<script>\"&'</script>"


def view(tau=0.6, tokens=("plain", HOSTILE, "\n", ""), gold="4", notes=("a <b>note</b>",)):
    """Four tokens: q = 1, 1.3, 1.4 (clamped) and 1; a wrong answer, then a right one."""
    signals = [
        (torch.tensor([-0.5, -2.0, -1.0, 0.0]), torch.tensor([0.4, 1.6, 3.0, 0.0])),
        (torch.tensor([-0.25]), torch.tensor([1.5])),
    ]
    rows, summary = token_values(signals, BranchGuide(tau=tau, rho=0.3), 0)
    return TokenReport(
        policy="rl-<x>",
        guide="branch (tau 0.6)",
        step=9,
        q_min=0.6,
        q_max=1.4,
        tau=tau,
        completions=(
            ReportedCompletion(
                "p<1>", "2+2 < 5?", gold, "wrong", "5", tokens, rows[0], retokenized=True
            ),
            ReportedCompletion("p2", "1+1", "2", "right", "2", ("2",), rows[1]),
        ),
        summary=summary,
        notes=notes,
    )


def test_the_table_says_grade_shares_and_percentiles():
    cells = [str(cell) for row in summary_table(view()).rows for cell in row.cells]
    # wrong: 2 of 4 tokens shaped, 1 of 4 clamped; entropies 0, 0.4, 1.6, 3.0 have the median 1.0
    assert cells[:5] == ["1", "wrong", "4", "50.0%", "25.0%"]
    assert cells[5] == f"{(math.log(1.3) + math.log(1.4)) / 4:+.4f}"
    assert cells[6] == "1.000"
    assert cells[11:16] == ["2", "correct", "1", "100.0%", "0.0%"]
    assert cells[22:25] == ["all", "1/2 correct", "5"]


def shown(renderable, width=80, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_shaped_tokens_have_a_background_and_numbers_without_colours():
    spans = completion_text(view().completions[0]).spans
    # "plain" and the empty token have q = 1
    assert [(span.start, span.style) for span in spans] == [(5, MORE), (5 + len(HOSTILE), MORE)]
    one = view().completions[0]
    assert shown(completion_text(one)).startswith(f"plain{HOSTILE}↵\n∅")
    assert strongest(one) == f'"↵" 1.400, "{HOSTILE}" 1.300'
    assert strongest(view(tau=9.0).completions[0]) == ""


def test_the_terminals_table_fits_and_counts_steps_from_one():
    # the report's step 9 is the tenth
    written = " ".join(shown(to_rich(view())).split())
    assert "guide branch (tau 0.6), with its values at training step 10" in written
    assert "the numbers are of the tokens of 2 completions" in written
    lines = shown(to_rich(view()), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    assert any(line.split()[:3] == ["all", "1/2", "correct"] for line in lines)
