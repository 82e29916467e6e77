"""Tables taken apart for narrow terminals."""

from __future__ import annotations

from sage_cli.reports.table import Column, Row, Table, by_group


def test_a_part_has_the_names_and_one_group_and_the_last_the_notes():
    columns = (Column("model"), Column("1", "a"), Column("8", "a"), Column("1", "b"))
    table = Table("t", columns, (Row(("m", 1, 2, 3), "s"),), ("note",))
    first, last = by_group(table)
    assert [column.name for column in first.columns] == ["model", "1", "8"]
    assert first.rows == (Row(("m", 1, 2), "s"),)
    assert first.notes == ()
    assert last.rows == (Row(("m", 3), "s"),)
    assert (last.title, last.notes) == ("t, b", ("note",))


def test_without_groups_there_is_one_part():
    table = Table("t", (Column("k"),), (Row((1,)),))
    assert by_group(table) == [table]
