"""The contracts are in one place, and where they were a notice says so."""

from importlib import import_module

import pytest

import sage_cli.testing

FORMERLY = {
    "GuideContract": "sage_cli.guides.guide_contract",
    "MethodContract": "sage_cli.methods.method_contract",
    "SamplerContract": "sage_cli.sampling.sampler_contract",
}


@pytest.mark.parametrize("name", sage_cli.testing.__all__)
def test_a_contract_has_one_home_and_its_former_name_a_notice(name):
    contract = getattr(sage_cli.testing, name)
    assert contract.__name__ == name
    with pytest.warns(FutureWarning, match=f"from sage_cli.testing import {name}"):
        assert getattr(import_module(FORMERLY[name]), name) is contract
    for module in (sage_cli.testing, import_module(FORMERLY[name])):
        with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
            module.Nobody  # noqa: B018
