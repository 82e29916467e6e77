"""Which settings are part of an identity."""

from pydantic import Field

from sage_cli.settings.section import COSMETIC, WHERE_SET, Section


class Before(Section):
    a: int = 1


class Since(Section):
    a: int = 1
    b: int | None = Field(None, json_schema_extra=WHERE_SET)
    c: int = Field(2, json_schema_extra=COSMETIC)


def test_cosmetic_settings_never_count_and_later_ones_where_they_are_set():
    assert Since().determinants() == Before().determinants() == {"a": 1}
    assert Since(b=0).determinants() == {"a": 1, "b": 0}
    assert Since(c=3).determinants() == {"a": 1}
