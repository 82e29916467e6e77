"""Every YAML that ships resolves, and the paper's presets are the paper's."""

import json
import re

import pytest

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves
from sage_cli.settings.presets import preset_layers, preset_names, read_preset
from sage_cli.settings.shipped import shipped
from sage_cli.trials.sweep.read_space import guide_of, read_space
from sage_cli.trials.sweep.space import Range

PAPERS = ("qwen2.5-math-7b", "r1-distill-qwen-7b")
FULL = ("qwen2.5-math-1.5b-instruct-full", "qwen2.5-3b-instruct-full")
BRANCH = {"guide": {"name": "branch"}}
GUIDES = ("none", "random", "token", "branch")


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("guide", GUIDES)
def test_every_preset_resolves_with_every_guide(name, guide):
    for algo in ("grpo", "bnpo", "dapo", "dr-grpo"):
        config = load([name], {"rl": {"algo": algo}, "guide": {"name": guide}}).config
        assert SageConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("name", preset_names())
def test_what_a_preset_says_of_each_method_and_guide_is_valid(name):
    """A shipped preset's blocks are not checked where it is named: by its path they are."""
    load([str(shipped("configs") / f"{name}.yaml")])


def test_the_promised_presets_are_there():
    assert {
        "tiny",
        "qwen2.5-math-7b",
        "r1-distill-qwen-7b",
        "qwen2.5-math-1.5b-instruct-full",
        "qwen2.5-3b-instruct-full",
    } <= set(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_models_that_were_taught_to_box_their_answers_are_paid_for_it(name):
    config = load([name]).config
    chat = config.prompt.format == "chat"
    assert config.grading.extract == ("tags-then-boxed" if chat else None)


@pytest.mark.parametrize("path", sorted(shipped("sweeps").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_search_space_resolves(path):
    config = load(flags={"guide": {"name": guide_of(path.stem)}}).config
    space = read_space(path.stem, config)
    points = space.listed()
    assert points is None or len(points) >= 2  # None: ranges, whose points can't be listed
    assert (points is None) == any(isinstance(one, Range) for one in space.parameters.values())


def test_the_papers_tables_and_grid_are_there_as_printed(facts):
    """The factors of tau-rho.yaml around the paper's pair are its 3 x 3 grid."""
    table = json.loads((facts / "paper_tables.json").read_text())["table6_tau_rho"]
    space = read_space("tau,rho", load(["qwen2.5-math-7b"], BRANCH).config)
    points = [value for point in space.points() for value in point.values()]
    assert points == pytest.approx([value for row in table["rows"] for value in row[:2]])
    space = read_space("table6", load(["qwen2.5-math-7b"], BRANCH).config)
    points = [list(point.values()) for point in space.points()]
    assert points == [row[:2] for row in table["rows"]]
    assert load(["qwen2.5-math-7b"]).config.sweep.objective == ("pass@1", f"pass@{table['k']}")


def test_a_source_that_is_not_named_is_the_papers():
    data = load(["r1-distill-qwen-7b"], sets=["data.rl.limit=5", "data.sft.limit=3"]).config.data
    assert (data.rl.name, data.rl.limit) == ("dapo-math-17k", 5)
    assert (data.sft.name, data.sft.limit) == ("openmathreasoning-mini", 3)
    assert (data.sft.numeric_only, data.sft.max_prompt_share) == (True, 0.5)
    named = load(["r1-distill-qwen-7b"], sets=["data.rl.name=gsm8k"]).config.data.rl
    assert named.limit is None  # of another source nothing is assumed


@pytest.mark.parametrize("preset", [*PAPERS, *FULL])
def test_the_papers_protocol(preset):
    """Five evaluation seeds; a checkpoint every 100 steps, all of them where they are small."""
    config = load([preset]).config
    assert config.evaluation.seeds == 5
    assert (config.rl.steps, config.rl.save_every) == (1000, 100)
    assert config.rl.keep_checkpoints == (2 if preset in FULL else None)


@pytest.mark.parametrize("preset", preset_names())
def test_settings_are_chosen_on_problems_that_are_not_reported(preset):
    config = load([preset]).config
    assert "dev" in re.split(r"\W", config.sweep.benchmark)
    assert config.sweep.benchmark not in config.evaluation.benchmark.split(",")


def test_the_defaults_are_the_papers_preset():
    """What qwen2.5-math-7b spells out is what the schema says by itself.

    Aside from what depends on the machine (micro-batch, checkpoints) and the number of seeds.
    """
    preset = read_preset("qwen2.5-math-7b")
    guides = preset.pop("guides")
    defaults = SageConfig().model_dump(mode="json")
    spelt = dict(leaves(preset))
    assert spelt.pop("rl.micro_batch") == 8
    assert (spelt.pop("rl.save_every"), spelt.pop("rl.keep_checkpoints")) == (100, None)
    assert spelt.pop("evaluation.seeds") == 5
    flat = dict(leaves(defaults))
    assert {name: flat[name] for name in spelt} == spelt
    for name, said in guides.items():
        own = SageConfig.model_validate({"guide": {"name": name}}).guide.model_dump(mode="json")
        assert {key: own[key] for key in said} == said


SHARED = ("learning_rate", "weight_decay", "optimizer", "seed")
"""Settings of SFT and RL that the paper's tables have under our names."""


@pytest.mark.parametrize("preset", PAPERS)
def test_table_8(facts, preset):
    table = json.loads((facts / "paper_tables.json").read_text())["table8_rl"]
    config = load([preset]).config
    rl, rollout = config.rl, config.rollout
    assert (config.data.rl.name, config.data.rl.limit) == ("dapo-math-17k", 2000)
    assert "2000 rows of DAPO-Math-17K" in table["data"]
    names = {name: name for name in ("steps", "rollouts_per_prompt", "warmup_ratio", *SHARED)}
    names |= {"prompts_per_step": "batch_size", "scheduler": "lr_scheduler"}
    assert {own: getattr(rl, own) for own in names} == {own: table[names[own]] for own in names}
    assert (rollout.temperature, rollout.min_p) == (table["temperature"], table["min_p"])
    assert rollout.top_p == table["top_p"]
    assert (rollout.top_k, table["top_k"]) == (0, -1)  # both mean off, in two libraries' words
    assert config.anchor.beta == table["kl_coefficient_beta"]
    assert rl.epsilon_low == rl.epsilon_high == table["epsilon"]
    dapo = load([preset], {"rl": {"algo": "dapo"}}).config.rl
    assert (dapo.epsilon_low, dapo.epsilon_high) == (table["epsilon"], table["epsilon_high_dapo"])
    for name in ("branch", "random", "token"):
        guide = load([preset], {"guide": {"name": name}}).config.guide.model_dump(mode="json")
        assert [guide["q_min"], guide["q_max"]] == table["q_clamp"]
        said = {key: value for key, value in table[name].items() if key != "norm"}
        assert {key: guide[key] for key in said} == said
    assert table["token"]["norm"].startswith("minmax")
    assert load([preset], {"guide": {"name": "token"}}).config.guide.norm == "minmax"


def test_table_7_and_the_papers_evaluation(facts):
    table = json.loads((facts / "paper_tables.json").read_text())["table7_sft"]
    config = load(["qwen2.5-math-7b"]).config
    sft, model = config.sft, config.model
    assert (model.path, table["base_model"]) == ("Qwen/Qwen2.5-Math-7B", "Qwen2.5-Math-7B-Base")
    assert model.tuning == "lora"
    assert model.lora.rank == table["lora_rank"]
    assert {target.split("_")[0] for target in model.lora.targets} == {
        "q",
        "k",
        "v",
        "o",
        "gate",
        "up",
        "down",
    }
    assert sft.steps is None
    names = {name: name for name in ("epochs", "batch_size", "warmup_steps", *SHARED)}
    names |= {"max_length": "max_seq_len", "scheduler": "lr_scheduler"}
    assert {own: getattr(sft, own) for own in names} == {own: table[names[own]] for own in names}
    source = config.data.sft
    assert (source.name, source.numeric_only) == ("openmathreasoning-mini", True)
    assert source.max_prompt_share == 0.5  # "no longer than half of max_seq_len"
    table = json.loads((facts / "paper_tables.json").read_text())["evaluation"]
    config = load(["qwen2.5-math-7b"]).config
    assert config.sampling.temperature == table["temperature"]


@pytest.fixture
def preset(tmp_path):
    """A function that writes a preset and returns its path."""

    def write(name, text):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    return write


def test_a_preset_is_laid_over_the_one_that_it_extends_once(preset):
    preset("below/base.yaml", "extends: tiny\nrl: {steps: 7, micro_batch: 32}\n")
    own = preset("own.yaml", "extends: below/base.yaml\nrl: {steps: 9}\n")
    loaded = load([own])
    assert (loaded.config.rl.steps, loaded.config.rl.micro_batch) == (9, 32)
    assert loaded.config.model == load(["tiny"]).config.model
    assert loaded.origins["rl.steps"] == f"preset {own}"
    assert load([own]).config.model_dump() == load(["tiny", own]).config.model_dump()
    assert load(["qwen2.5-math-7b"], sets=[]).config != loaded.config
    first = preset("first.yaml", "extends: tiny\nrl: {steps: 7}\n")
    second = preset("second.yaml", "extends: tiny\nsft: {steps: 8}\n")
    assert list(preset_layers([first, second])) == ["tiny", first, second]
    assert load([first, second]).config.rl.steps == 7
    assert list(preset_layers([first, "tiny"])) == [first, "tiny"]
    assert load([first, "tiny"]).config.rl.steps == load(["tiny"]).config.rl.steps


@pytest.mark.parametrize(
    ("below", "complaint"),
    [
        ("own.yaml", "in a circle: .*own.yaml > .*own.yaml"),
        ("other.yaml", "in a circle: .*own.yaml > .*other.yaml > .*own.yaml"),
        ("tinny", "there is no preset 'tinny'"),
        ("absent.yaml", "there is no file .*absent.yaml"),
        ("[tiny]", "'extends' must be a section"),
    ],
)
def test_what_cannot_be_extended(preset, below, complaint):
    preset("other.yaml", "extends: own.yaml\n")
    with pytest.raises(ConfigurationError, match=complaint):
        load([preset("own.yaml", f"extends: {below}\n")])
