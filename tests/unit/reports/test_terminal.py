from __future__ import annotations

import io

from rich.console import Console

from sage_cli.reports.document import Document
from sage_cli.reports.table import Column, Measure, Row, Table
from sage_cli.reports.terminal import print_document

TABLE = Table(
    "A_1 & more",
    (Column("model"), Column("pass@1", "aime"), Column("pass@256", "aime"), Column("k", "amc")),
    (
        Row(("grpo|x", Measure(1 / 3, 0.0125), Measure(float("nan")), 4)),
        Row(("[b] (paper)", Measure(0.5), Measure(0.25, interval=(-0.1, 0.4)), 8), "paper"),
    ),
    ("5 % noise",),
)


def shown(width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_document(Document("x", "x", {}, tables=(TABLE,), notes=("[i], seed 0",)), console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_everything_is_shown_and_names_are_no_markup() -> None:
    for words in ("A_1 & more", "aime", "pass@256", "0.333 ± 0.013", "[b] (paper)", "5 % noise"):
        assert words in shown(120)
    assert shown(120).count("model") == 1
    assert shown(120).splitlines()[-1] == "[i], seed 0"


def test_where_it_does_not_fit_each_group_is_a_table() -> None:
    narrow = shown(58)
    assert narrow.count("model") == 2
    assert "A_1 & more, aime" in narrow
    assert max(map(len, narrow.splitlines())) <= 58
    assert "…" not in narrow
    assert narrow.count("5 % noise") == 1
