"""What the schema says of its settings."""

import subprocess
import sys

import pytest

from sage_cli.config.fields import setting, settings, settings_of
from sage_cli.config.layers import leaves
from sage_cli.config.load import load


def test_every_setting_of_a_configuration_is_known():
    config = load(flags={"guide": {"name": "branch"}}).config
    known = settings()
    open_ = tuple(f"{key}." for key, one in known.items() if one.open)
    for key, _ in leaves(config.model_dump(mode="json")):
        assert key in known or key.startswith(open_), key


def test_whole_numbers_cosmetics_and_mappings_are_told():
    known = settings()
    assert known["rl.steps"].integer
    assert known["rl.micro_batch"].integer  # or null
    assert not known["guide.tau"].integer
    assert not known["rl.dynamic_sampling"].integer
    assert known["rl.save_every"].cosmetic
    assert not known["rl.steps"].cosmetic
    assert known["sampling.options"].open
    assert not known["guide.name"].open


def test_one_setting_is_found_as_among_all():
    for key, one in settings().items():
        found = setting(key)
        assert found is not None
        assert found == one, key
    assert setting("data.generators.mine.size").key == "data.generators"  # open to plug-ins
    for unknown in ("rl", "rl.tau", "rl.steps.more", "steps", "guide.epsilon_high"):
        assert setting(unknown) is None, unknown
    assert set(settings_of(["guide"])) == {key for key in settings() if key.startswith("guide.")}


@pytest.mark.parametrize("key", ["rl.steps", "guide.name", "anchor.beta"])
def test_no_other_methods_file_is_read_for_what_all_methods_have(key):
    code = (
        "import sys; from sage_cli.config.fields import setting; "
        f"assert setting('{key}'); print([m for m in sys.modules if m.endswith('.pacs')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
