"""What another package would register, without installing one."""

from importlib import metadata

import pytest


def plug_in(monkeypatch: pytest.MonkeyPatch, group: str, **objects: object) -> None:
    """Register `objects` by name under the entry-point group `group`, and nothing else."""

    class Point(metadata.EntryPoint):
        def load(self) -> object:
            if isinstance(objects[self.name], Exception):
                raise objects[self.name]
            return objects[self.name]

    points = [Point(name, f"package:{name.title()}", group) for name in objects]
    monkeypatch.setattr(
        metadata, "entry_points", lambda **asked: [p for p in points if p.group == asked["group"]]
    )
