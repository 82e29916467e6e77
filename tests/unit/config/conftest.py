"""Files of settings on the fly."""

import pytest


@pytest.fixture
def layer(tmp_path):
    """Write a YAML file and give its path, as `--preset` takes it."""

    def write(text, name="own.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
