"""Which settings are part of an identity."""

from pydantic import Field

from sage_cli.settings.section import COSMETIC, WHERE_SET, Section


class Before(Section):
    a: int = 1


class Since(Section):
    a: int = 1
    b: int | None = Field(None, json_schema_extra=WHERE_SET)
    c: int = Field(2, json_schema_extra=COSMETIC)


def test_a_later_setting_counts_only_where_it_is_set():
    assert Since().determinants() == Before().determinants() == {"a": 1}
    assert Since(b=0).determinants() == {"a": 1, "b": 0}


def test_a_cosmetic_setting_never_counts():
    assert Since(c=3).determinants() == {"a": 1}
