"""The look of a policy."""

from __future__ import annotations

from typing_extensions import TypedDict


class Look(TypedDict):
    """The colour of a policy and its dashes, the same on every page.

    `colour` is a place in the palette, null for an initial policy, which is drawn in ink; `dash` a
    place among the dashes, which tell apart policies of one colour.
    """

    colour: int | None
    dash: int
