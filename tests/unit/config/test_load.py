"""Values as `--set` takes them."""

import pytest

from sage_cli.config.load import typed
from sage_cli.settings.presets import yaml_value


@pytest.mark.parametrize("value", ["on", "1e-5", "1", "null", "", "a: b", "#x", "plain", 0.1, None])
def test_texts_stay_texts(value):
    assert yaml_value(typed(value)) == value
