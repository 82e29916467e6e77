"""How layers are merged: which value wins, and what a choice takes back."""

from pathlib import Path

import pytest

from sage_cli.config.load import changed, load, runs_root, typed
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves, value_at
from sage_cli.settings.presets import read_layer
from sage_cli.settings.yaml_files import yaml_value


def branch(**more):
    return {"guide": {"name": "branch", **more}}


def test_later_layers_win_and_every_value_keeps_its_origin(layer):
    first = layer("rl: {steps: 11, seed: 12, warmup_ratio: 0.3, weight_decay: 0.2}", "first.yaml")
    second = layer("rl: {seed: 22, warmup_ratio: 0.4, weight_decay: 0.3}", "second.yaml")
    flags = {"rl": {"warmup_ratio": 0.5, "weight_decay": 0.4, "steps": None}}
    loaded = load([first, second], flags, ["rl.weight_decay=0.5"])
    rl = loaded.config.rl
    assert (rl.steps, rl.seed, rl.warmup_ratio, rl.weight_decay) == (11, 22, 0.5, 0.5)
    assert rl.rollouts_per_prompt == 8  # a default: Table 8
    origins = {name: origin for name, _, origin in loaded.table() if name.startswith("rl.")}
    assert origins["rl.steps"] == f"preset {first}"
    assert origins["rl.seed"] == f"preset {second}"
    assert origins["rl.warmup_ratio"] == "flag"
    assert origins["rl.weight_decay"] == "--set"
    assert origins["rl.rollouts_per_prompt"] == "default"


def test_a_stored_configuration_lies_below_presets():
    assert load().config == load(["tiny"]).config
    stored = load(["qwen2.5-math-7b"]).config.model_dump(mode="json")
    again = load(stored=stored)
    assert again.config == load(["qwen2.5-math-7b"]).config
    assert again.origins["rl.steps"] == "stored configuration"
    stored = load().config.model_dump(mode="json")
    both = load(["r1-distill-qwen-7b"], stored=stored).config
    assert both.rl.micro_batch == 2
    assert both.rl.learning_rate == pytest.approx(2e-4)  # tiny's, which is stored


def test_numbers_of_yaml_and_json_are_numbers(tmp_path):
    sets = [
        "data.rl.limit=7",
        "data.knights_knaves.people=[2, 3]",
        "evaluation.limit=null",
        "sft.shuffle=yes",
    ]
    config = load(sets=[*sets, "rl.learning_rate=1e-5", "tracking.wandb=off"]).config
    people = config.data.knights_knaves.people
    assert (config.data.rl.limit, people, config.evaluation.limit) == (7, (2, 3), None)
    assert config.sft.shuffle is True
    assert config.rl.learning_rate == 1e-5  # YAML 1.1 alone would read a string
    assert config.tracking.wandb == "off"  # and here False
    """YAML takes 1e-06 for a text, and that is how JSON writes a millionth."""
    file = tmp_path / "config.json"
    file.write_text('{"rl": {"learning_rate": 1e-06}}')
    assert read_layer(file) == {"rl": {"learning_rate": 0.000001}}


@pytest.mark.parametrize("text", ["rl.steps", "steps=3", "=3", "rl.=3", ".steps=3"])
def test_set_without_section_key_value_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"section\.key=value"):
        load(sets=[text])


def test_an_algorithm_is_a_layer_below_what_is_said_beside_it():
    loaded = load(flags={"rl": {"algo": "dapo"}})
    assert loaded.config.rl.epsilon_high == 0.28
    assert loaded.origins["rl.epsilon_high"] == "method dapo"
    own = load(flags={"rl": {"algo": "dapo", "epsilon_high": 0.5}}).config.rl
    assert (own.loss, own.epsilon_high) == ("dapo", 0.5)
    # whichever of two --set comes first
    for sets in (["rl.algo=dapo", "rl.epsilon_high=0.4"], ["rl.epsilon_high=0.4", "rl.algo=dapo"]):
        assert load(sets=sets).config.rl.epsilon_high == 0.4
    loaded = load(flags={"rl": {"algo": "dapo"}, "anchor": {"kl": "reverse"}})
    assert (loaded.config.anchor.kl, loaded.origins["anchor.kl"]) == ("reverse", "flag")


@pytest.mark.parametrize(
    ("algo", "guide", "kl"),
    [
        ("dapo", "none", "none"),
        ("dapo", "branch", "reverse"),
        ("grpo", "none", "reverse"),
        ("bnpo", "token", "reverse"),
    ],
)
def test_the_kl_that_is_left_open_follows_algorithm_and_guide(algo, guide, kl):
    loaded = load(flags={"rl": {"algo": algo}, "guide": {"name": guide}})
    assert loaded.config.anchor.kl == kl
    assert loaded.origins["anchor.kl"] == f"method {algo}"


def test_a_guide_takes_the_presets_blocks_and_what_it_was_told(layer):
    loaded = load(flags=branch())
    assert (loaded.config.guide.tau, loaded.config.guide.rho) == (0.465, 0.775)
    assert loaded.origins["guide.tau"] == "preset tiny, guides.branch"
    assert load(flags=branch(tau=0.9)).config.guide.tau == 0.9
    # a preset that says nothing of the guide leaves the paper's setting
    assert load(["r1-distill-qwen-7b"], branch()).config.guide.tau == 1.2
    own = layer("guide: {name: branch, tau: 0.9}")
    assert load(["tiny", own], branch()).config.guide.tau == 0.9
    assert load(sets=["guide.tau=3", "guide.name=branch"]).config.guide.tau == 3
    assert load([layer("guide: {tau: 2}")], branch()).config.guide.tau == 2
    own = layer("guides: {branch: {tau: 1}}")
    guide = load(["tiny", own], branch()).config.guide
    assert (guide.tau, guide.rho) == (1.0, 0.775)
    chosen = layer("guide: {name: branch}", "chosen.yaml")
    guide = load([chosen, own], {}).config.guide
    assert (guide.tau, guide.rho) == (1.0, 0.3)


def test_another_choice_drops_the_others_settings(layer):
    token = layer("guide: {name: token, alpha: [0.4, 0.2], q_max: 2}")
    loaded = load([token], branch())
    assert loaded.config.guide.model_dump() == {
        "name": "branch",
        "tau": 1.2,
        "rho": 0.3,
        "q_min": 0.6,
        "q_max": 1.4,
        "signal": "policy",
    }
    assert "guide.alpha" not in loaded.origins
    config = load(["tiny", "qwen2.5-math-7b"]).config
    assert config.model.kind == "pretrained"
    assert load(["qwen2.5-math-7b", "tiny"]).config.model == load(["tiny"]).config.model
    dapo = layer("rl: {algo: dapo}")
    rl = load([dapo], {"rl": {"algo": "grpo"}}).config.rl
    assert (rl.loss, rl.epsilon_high) == ("grpo", 0.2)
    assert not rl.dynamic_sampling
    assert rl.overlong_buffer is None


def test_changed_checks_again_and_a_typed_setting_of_another_method_is_refused():
    config = load().config
    assert changed(config, {"rl.steps": 3, "tracking.group": "g"}).rl.steps == 3
    with pytest.raises(ConfigurationError, match="did you mean steps"):
        changed(config, {"rl.stepps": 3})
    for flags, sets in (
        ({"rl": {"algo": "dapo"}}, ["rl.k=2"]),
        ({"guide": {"tau": 0.2}}, ["guide.name=token"]),
    ):
        with pytest.raises(ConfigurationError, match=r"has an effect only|has no 'tau'"):
            load(flags=flags, sets=sets)
    values = {"a": {"b": 1, "c": {}, "d": [2]}, "e": None}
    assert dict(leaves(values)) == {"a.b": 1, "a.c": {}, "a.d": [2], "e": None}
    for name, leaf in leaves(values):
        assert value_at(values, name) == leaf
    for name in ("a", "a.b.x", "a.x", "x", ""):  # sections, and what is not there
        assert value_at(values, name) is None


def test_a_stored_configuration_may_name_a_plugin_that_is_not_installed():
    stored = load().config.model_dump(mode="json")
    stored["guide"] = {"name": "theirs", "strength": 1, "q_min": 0.6, "q_max": 1.4}
    stored["rl"] |= {"algo": "theirs", "strength": 3}
    stored["sampling"] |= {"backend": "theirs", "options": {"beam": 3}}
    assert load(stored=stored).config.guide.name == "theirs"
    # other settings of one's own change nothing about that, not even another plug-in's name
    for more in ("sampling.temperature=0.5", "guide.strength=2", "data.rl.limit=3"):
        assert load(sets=[more], stored=stored).config.guide.name == "theirs"
    own = load(
        (),
        {"guide": {"name": "branch"}},
        ["sampling.options={}", "sampling.backend=server"],
        stored,
    ).config
    assert (own.guide.name, own.sampling.backend, own.rl.algo) == ("branch", "server", "theirs")
    assert own.rl.model_dump()["strength"] == 3
    for choice, said in (
        ("guide.name=theirs", "guide.name is 'theirs'"),
        ("rl.algo=theirs", "rl.algo is 'theirs'; it can be 80-20"),
        ("sampling.backend=theirs", "unknown sampler 'theirs'"),
    ):
        for given in (None, stored):
            with pytest.raises(ConfigurationError, match=said):
                load(sets=[choice], stored=given)


def test_what_travels_with_a_stored_configuration(monkeypatch):
    stored = load(sets=["run.root=/where/it/was/made"]).config.model_dump(mode="json")
    assert str(load(stored=stored).config.run.root) == "runs"
    monkeypatch.setenv("SAGE_RUNS", "/elsewhere")
    assert str(load(stored=stored).config.run.root) == "/elsewhere"
    stored = {**load().config.model_dump(mode="json"), "sweep": {"k": [1, 64], "samples": 128}}
    with pytest.raises(ConfigurationError, match=r"This version has no sweep\.k"):
        load(stored=stored)
    stored = load(["tiny"]).config.model_dump(mode="json")
    assert load((), branch(), stored=stored).config.guide.tau == 0.465
    dapo = load((), {"rl": {"algo": "dapo"}}, stored=stored).config.rl
    assert (dapo.overlong_buffer, dapo.epsilon_high) == (0.0625, 0.28)


def test_the_folder_of_runs_has_one_source(monkeypatch, tmp_path):
    preset = tmp_path / "mine.yaml"
    preset.write_text("run: {root: from-preset}")
    monkeypatch.setenv("SAGE_RUNS", "from-environment")
    flag, sets = Path("from-flag"), ["run.root=from-set"]
    found = [
        runs_root(),
        runs_root([str(preset)]),
        runs_root([str(preset)], flag),
        runs_root([str(preset)], flag, sets),
    ]
    assert [str(path) for path in found] == [
        "from-environment",
        "from-preset",
        "from-flag",
        "from-set",
    ]
    monkeypatch.delenv("SAGE_RUNS")
    assert str(runs_root()) == "runs"


def test_a_presets_setting_survives_the_choice_of_a_method_or_falls_with_its_own(layer):
    own = layer("rl: {epsilon_high: 0.3}")
    for algo in ("grpo", "dapo", "clip-cov"):
        assert load([own], {"rl": {"algo": algo}}).config.rl.epsilon_high == 0.3
    own = layer("rl: {algo: gspo, epsilon_high: 0.001, steps: 7}")
    again = load([own], {"rl": {"algo": "gspo"}}).config.rl
    assert (again.epsilon_high, again.steps) == (0.001, 7)
    other = load([own], {"rl": {"algo": "dapo"}}).config.rl
    assert (other.epsilon_high, other.steps) == (0.28, 7)
    pkpo = layer("rl: {algo: pkpo}", "pkpo.yaml")
    k = layer("rl: {k: 2}", "k.yaml")
    assert load([pkpo, k], {"rl": {"algo": "pkpo"}}).config.rl.k == 2
    assert load([pkpo, k], {"rl": {"algo": "pass-at-k"}}).config.rl.k == 4


def test_methods_blocks_hold_for_the_chosen_method_and_are_checked(layer):
    own = layer("methods: {dapo: {epsilon_high: 0.4}, pacs: {score_scale: 3}}")
    loaded = load([own], {"rl": {"algo": "dapo"}})
    assert loaded.config.rl.epsilon_high == 0.4
    assert loaded.origins["rl.epsilon_high"] == f"preset {own}, methods.dapo"
    assert load([own]).config.rl.epsilon_high == 0.2
    wrong = layer("methods: {pacs: {epsilon_high: 0.4}}", "wrong.yaml")
    with pytest.raises(
        ConfigurationError, match=r"methods.pacs: rl.epsilon_high has an effect only"
    ):
        load([wrong])


@pytest.mark.parametrize("value", ["on", "1e-5", "1", "null", "", "a: b", "#x", "plain", 0.1, None])
def test_texts_stay_texts(value):
    assert yaml_value(typed(value)) == value


@pytest.mark.parametrize(
    "below",
    [
        {},
        {"algo": "dapo"},
        {"algo": "archer"},
        {"algo": "kl-cov", "compat": "official"},
    ],
)
@pytest.mark.parametrize(
    "settings",
    [
        {"guide.tau": 0.2, "tracking.group": "x"},
        {"rl.seed": 7},
        {"anchor.beta": 0.3},
        {"rl.algo": "grpo", "rl.steps": 3},
        {"guide.name": "none"},
        {"guides.branch.tau": 0.1},
        {"model.tuning": "lora", "model.lora.rank": 2},
        {"rl.compat": "official"},
        {"sft.steps": 4},
        {"guide": {"name": "token", "q_min": 0.5}},
        {"prompt.format": "chat"},
    ],
)
def test_a_layer_that_decides_nothing_is_laid_over_what_the_others_were_merged_to(below, settings):
    config = load(flags={"rl": below, "guide": {"name": "branch"}}).config
    for first in ({}, {"rl.learning_rate": 1e-5}):
        start = changed(config, first) if first else config
        quick = changed(start, settings)
        start._merged = None  # all layers are merged anew
        whole = changed(start, settings)
        assert quick == whole
        assert quick._merged == whole._merged
        assert quick._layers == whole._layers
