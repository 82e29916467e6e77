import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.store import manifest
from sage_cli.store.manifest import require_tested_versions


@pytest.fixture
def asked(monkeypatch):
    """What a distribution asks for, and what is installed."""

    def set_(needs, installed):
        monkeypatch.setattr(manifest, "requires", lambda _: needs)
        monkeypatch.setattr(manifest, "_installed", installed.get)

    return set_


def test_a_build_for_cpus_is_of_the_tested_version(asked):
    asked(["torch==2.13.0", "numpy>=2"], {"torch": "2.13.0+cpu", "numpy": "2.4.1"})
    assert require_tested_versions() == "torch 2.13.0+cpu"


def test_an_extra_counts_where_it_is_installed(asked):
    needs = ["torch==2.13.0", "vllm==0.31.0; extra == 'vllm'"]
    asked(needs, {"torch": "2.13.0"})
    assert require_tested_versions() == "torch 2.13.0"
    asked(needs, {"torch": "2.13.0", "vllm": "0.32.0"})
    with pytest.raises(ConfigurationError, match=r"^vllm 0.32.0 \(tested: ==0.31.0\)$"):
        require_tested_versions()


def test_what_is_missing_is_named_beside_what_is_too_new(asked):
    asked(["trl==1.16.0", "peft~=0.21"], {"trl": "1.17.0"})
    with pytest.raises(ConfigurationError, match=r"trl 1.17.0 .*, peft is missing") as refused:
        require_tested_versions()
    assert "constraints.txt" in refused.value.next_step


def test_a_distribution_that_is_not_installed():
    with pytest.raises(ConfigurationError, match="no-such-distribution is not installed"):
        require_tested_versions("no-such-distribution")
