"""The preset that a stored configuration's model comes from."""

from sage_cli.config.load import load
from sage_cli.config.preset_of import guide_settings


def test_shipped_models_are_recognised_whatever_else_was_changed():
    tiny = load(sets=["rl.steps=3", "model.tuning=lora", "rl.algo=dapo"]).config
    assert guide_settings(tiny, "branch") == ("tiny", {"tau": 0.465, "rho": 0.775})
    paper = load(["qwen2.5-math-7b"], sets=["model.lora.rank=4", "model.dtype=bfloat16"]).config
    name, values = guide_settings(paper, "token")
    assert name == "qwen2.5-math-7b"
    assert (values["alpha"], values["norm"]) == ([0.3, 0.1], "minmax")


def test_what_a_preset_does_not_say_is_empty():
    assert guide_settings(load().config, "random") == ("tiny", {})


def test_another_model_has_no_preset():
    other = load(sets=["model.layers=7"]).config
    assert guide_settings(other, "branch") == (None, {})
    elsewhere = load(["qwen2.5-math-7b"], sets=["model.path=my/own"]).config
    assert guide_settings(elsewhere, "branch") == (None, {})
