"""The parameters of a request, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sage_cli.errors import ConfigurationError
from sage_cli.view.stored.columns import Filters
from sage_cli.view.topics.samples import Wanted


@dataclass(frozen=True)
class Query:
    """Parameters by name, as they stand in an address."""

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a text; None if it is absent or empty."""
        return self.values.get(name) or None

    def names(self, name: str) -> list[str]:
        """Return the names of a list with commas, each once."""
        listed = (one.strip() for one in self.values.get(name, "").split(","))
        return list(dict.fromkeys(filter(None, listed)))

    def number(self, name: str) -> int | None:
        """Return a whole number from 0, None if it is absent. Raises ConfigurationError."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise ConfigurationError(f"{name} is '{text[:40]}', and takes a whole number")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """Return True for 1 and False for 0; None if it is absent."""
        return {"1": True, "0": False}.get(self.values.get(name, ""))

    def required(self, name: str) -> str:
        """Return a text. Raises ConfigurationError if it is absent."""
        text = self.text(name)
        if text is None:
            raise ConfigurationError(f"the address has no {name}", "begin at the table of runs")
        return text

    @property
    def wanted(self) -> Wanted:
        """Return which samples are asked for."""
        problem = self.text("problem")
        return Wanted(
            Filters(
                problems=(problem,) if problem else None,
                grade=self.text("grade"),
                truncated=self.flag("truncated"),
                shortest=self.number("shortest"),
                longest=self.number("longest"),
                seed=self.number("seed"),
            ),
            self.text("text") or "",
            self.number("offset") or 0,
            min(self.number("limit") or 25, 200),
        )
