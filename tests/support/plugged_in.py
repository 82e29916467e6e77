"""What another package would register, without installing one."""

from importlib.metadata import EntryPoint

import pytest


def plug_in(monkeypatch: pytest.MonkeyPatch, group: str, **objects: object) -> None:
    """Register `objects` by name under the entry-point group `group`, and nothing else."""

    class Point(EntryPoint):
        def load(self) -> object:
            if isinstance(objects[self.name], Exception):
                raise objects[self.name]
            return objects[self.name]

    points = [Point(name, f"package:{name.title()}", group) for name in objects]
    monkeypatch.setattr(
        "sage_cli.settings.own_code.entry_points",
        lambda **asked: [point for point in points if point.group == asked["group"]],
    )
