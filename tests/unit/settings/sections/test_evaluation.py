"""How trainings are measured, as settings."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError


def test_temperatures_are_read_with_exact_chances_only():
    with pytest.raises(ConfigurationError, match=r"temperatures 1.2, 1.5 would do nothing without"):
        load(sets=["evaluation.temperatures=[1.2,1.5]"])
    both = ["evaluation.temperatures=[1.2]", "evaluation.chances=true"]
    assert load(sets=both).config.evaluation.temperatures == (1.2,)
