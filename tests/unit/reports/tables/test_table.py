"""Tables taken apart for narrow terminals."""

from __future__ import annotations

from dataclasses import replace

from sage_cli.reports.tables.table import Column, Row, Table
from sage_cli.reports.terminal import narrowed

COLUMNS = (Column("model"), Column("1", "a"), Column("8", "a"), Column("1", "b"), Column("n", "c"))
TABLE = Table("t", COLUMNS, (Row(("m", 1, 2, 3, 4), "s"),), ("note",))


def test_what_fits_is_left_whole():
    assert narrowed(TABLE, lambda table: True) == [TABLE]


def test_each_part_has_the_names_and_the_last_the_notes():
    first, *_, last = narrowed(TABLE, lambda table: len(table.columns) <= 3)
    assert [column.name for column in first.columns] == ["model", "1", "8"]
    assert first.rows == (Row(("m", 1, 2), "s"),)
    assert (first.title, first.notes) == ("t: a", ())
    assert last.notes == ("note",)


def test_a_part_that_is_too_wide_is_taken_apart():
    first, second, *_, last = narrowed(TABLE, lambda table: len(table.columns) <= 2)
    assert first.rows == (Row(("m", 1), "s"),)
    assert second.rows == (Row(("m", 2), "s"),)
    assert (second.title, second.notes) == ("t: a (continued)", ())
    assert last.rows == (Row(("m", 4), "s"),)
    assert (last.title, last.notes) == ("t: c", ("note",))


def test_as_many_parts_as_fit_stay_together():
    parts = narrowed(TABLE, lambda table: len(table.columns) <= 3)
    assert [part.title for part in parts] == ["t: a", "t: b, c"]
    assert parts[1].rows == (Row(("m", 3, 4), "s"),)


def test_columns_of_a_part_stay_together_without_a_heading():
    columns = (Column("cell"), Column("value", part="values"), Column("run", part="runs"))
    table = Table("t", columns, (Row(("1", 2, "rl-1")),))
    assert [part.title for part in narrowed(table, lambda _: False)] == ["t: values", "t: runs"]


def test_without_parts_there_is_one():
    table = Table("t", (Column("k"),), (Row((1,)),))
    assert narrowed(table, lambda table: False) == [table]


def test_without_parts_every_column_but_the_first_is_one():
    table = Table("t", (Column("k"), Column("a"), Column("b"), Column("c")), (Row((1, 2, 3, 4)),))
    first, last = narrowed(table, lambda table: len(table.columns) <= 3)
    assert (first.title, first.rows) == ("t", (Row((1, 2, 3)),))
    assert (last.title, last.rows) == ("t (continued)", (Row((1, 4)),))


def test_the_columns_of_one_part_are_taken_apart():
    columns = (Column("p"), Column("n"), *(Column(f"pass@{k}", "gain") for k in (1, 16, 256)))
    table = Table("t", columns, (Row((40, 64, 1, 2, 3)), Row((40, 128, 4, 5, 6))), ("note",))
    first, last = narrowed(table, lambda table: len(table.columns) <= 4)
    assert first.columns == (*columns[:2], *(replace(one, part=one.name) for one in columns[2:4]))
    assert [column.name for column in last.columns] == ["p", "n", "pass@256"]
    assert (first.title, last.title, last.notes) == ("t", "t (continued)", ("note",))


def test_the_columns_that_tell_the_rows_apart_stand_in_every_part():
    columns = (Column("model"), Column("k"), Column("a"), Column("b"))
    rows = tuple(Row((model, k, 0, 0)) for model in ("x", "y") for k in (1, 8))
    parts = narrowed(Table("t", columns, rows), lambda table: len(table.columns) <= 3)
    assert [[column.name for column in part.columns] for part in parts] == [
        ["model", "k", "a"],
        ["model", "k", "b"],
    ]


def test_a_first_word_that_all_rows_have_goes_to_the_title():
    columns = tuple(map(Column, ("benchmark", "policy", "one", "n")))
    rows = (Row(("mine", "p", "a", 1)), Row(("mine", "q", "a", 1)))
    table = Table("t", columns, rows, ("note",))
    (only,) = narrowed(table, lambda part: len(part.columns) <= 3)
    assert [column.name for column in only.columns] == ["policy", "one", "n"]
    assert only.rows == (Row(("p", "a", 1)), Row(("q", "a", 1)))
    assert (only.title, only.notes) == ("t: mine", ("note",))
    assert narrowed(table, lambda part: len(part.columns) <= 4) == [table]


def test_what_names_the_only_row_stays_in_it():
    table = Table("t", (Column("policy"), Column("n")), (Row(("p", 1)),))
    assert [(part.title, part.rows) for part in narrowed(table, lambda _: False)] == [
        ("t", table.rows)
    ]
