"""Files of settings on the fly."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def layer(tmp_path: Path) -> Callable[..., str]:
    """Write a YAML file and give its path, as `--preset` takes it."""

    def write(text: str, name: str = "own.yaml") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
