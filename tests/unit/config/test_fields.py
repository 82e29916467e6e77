"""What the schema says of its settings."""

from sage_cli.config.fields import settings
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
