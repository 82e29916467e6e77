"""From `--space` to a space, with every key and value held against the schema."""

import pytest

from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.read import guide_of, read_space
from sage_cli.sweep.space import Range, Values


def config(**flags):
    return load(flags=flags).config


BRANCH = config(guide={"name": "branch"})


def refused(text, settings=BRANCH):
    with pytest.raises(ConfigurationError) as caught:
        read_space(text, settings)
    return caught.value


def times(tmp_path, key, *factors):
    """A file of one parameter, `rate`, which multiplies the setting `key`."""
    path = tmp_path / "space.yaml"
    path.write_text(f"parameters: {{rate: {{key: {key}, times: {list(factors)}}}}}")
    return str(path)


@pytest.mark.parametrize("centre", [2.5e-6, 1e-6, 4e-9, 0.465])
def test_factors_keep_six_digits_however_small_the_value(tmp_path, centre):
    factors = [1 / 3, 0.5, 1, 1.00001, 3]
    small = load(sets=[f"rl.learning_rate={centre!r}"]).config
    (rate,) = read_space(times(tmp_path, "rl.learning_rate", *factors), small).parameters.values()
    # the seventh digit is rounded: at most 5 of it, of a first digit of at least 1
    assert rate.values == pytest.approx([f * centre for f in factors], rel=5e-6)
    # 3 x .1 is .30000000000000004 in binary
    tenth = load(sets=["rl.learning_rate=0.1"]).config
    (rate,) = read_space(times(tmp_path, "rl.learning_rate", 3), tenth).parameters.values()
    assert rate.values == (0.3,)


def test_factors_that_give_one_value_are_refused_by_name(tmp_path):
    small = load(sets=["rl.learning_rate=1e-6"]).config
    refusal = refused(times(tmp_path, "rl.learning_rate", 1, 2, 1.0000001), small)
    assert refusal.cause.startswith("rate has the value 1e-06 2 times")
    # a switch takes 1 for true
    assert "has the value True 2 times" in refused("sft.shuffle=true|1|false").cause


def test_the_shipped_grid_around_the_configured_pair():
    space = read_space("tau, rho", BRANCH)
    cells = list(space.cells())
    # 0.465 x (2/3, 1, 5/3) and 0.775 x (1/3, 1, 5/3)
    assert [cell["guide.tau"] for cell in cells[::3]] == pytest.approx([0.31, 0.465, 0.775])
    assert [cell["guide.rho"] for cell in cells[:3]] == pytest.approx([0.258333, 0.775, 1.29167])
    assert len(cells) == 9


def test_a_space_brings_its_guide_along():
    assert guide_of("tau,rho") == "branch"
    assert guide_of("tau=0.2:0.8,rho=0.1:1.0") == "branch"
    assert guide_of("alpha=1|2") == "token"
    assert guide_of("q_min=0.5|0.6") is None
    assert guide_of("beta=0.1|0.2") is None
    assert guide_of("guide=token|branch,tau=1:2") is None
    assert guide_of("tua=1:2") is None  # read_space says what is wrong
    assert "the configuration has guide none" in refused("tau,rho", config()).cause


def test_a_guides_own_settings_exist_with_that_guide_alone():
    space = read_space("tau=0.1|0.2,guide=token|branch|none,q_min=0.5|0.6", config())
    conditions = {name: one.when for name, one in space.parameters.items()}
    assert conditions == {"guide": {}, "q_min": {}, "tau": {"guide.name": ("branch",)}}
    assert len(list(space.cells())) == 8  # (token, none) x 2 q_min + branch x 2 tau x 2 q_min
    assert "guide.tau is a setting of branch, not of token" in refused("guide=token,tau=1|2").cause


def test_a_cells_guide_has_the_values_that_its_preset_has_for_it():
    (token, branch) = read_space("guide=token|branch", config()).cells()
    assert changed(config(), branch).guide == BRANCH.guide
    assert changed(BRANCH, token) == config(guide={"name": "token"})


def test_short_names_are_looked_for_near_first():
    keys = {
        "beta=0.1|0.2": "anchor.beta",
        "steps=1|2": "rl.steps",
        "lr=0.1|0.2": "rl.learning_rate",
        "signal=policy|reference": "guide.signal",
        "temperature=0.9|1": "rollout.temperature",
        "sft.steps=1|2": "sft.steps",
        "rank=4|8": "model.lora.rank",
    }
    paper = load(["qwen2.5-math-7b"], {"guide": {"name": "branch"}}).config
    for text, key in keys.items():
        assert list(read_space(text, paper).keys.values()) == [key]


def test_whole_numbers_are_searched_as_such():
    (steps,) = read_space("steps=10:40", BRANCH).parameters.values()
    assert steps == Range(key="rl.steps", range=(10, 40), integer=True)


def test_values_are_what_the_schema_makes_of_them():
    (tau,) = read_space("tau=1|2", BRANCH).parameters.values()
    assert [type(value) for value in tau.values] == [float, float]


def test_every_mistake_is_named_at_once():
    cause = refused("tua=1:2,runs.root=a|b,wandb=off|on,seed=1|2,limit=1|2,batch_rows=8|9").cause
    assert cause.splitlines() == [
        "there is no setting 'tua' (did you mean tau?)",
        "there is no setting 'runs.root'",
        "tracking.wandb isn't searched: it says where results go, not which",
        "rl.seed isn't searched: it is no setting to choose: --seeds N trains every cell with N of "
        "them",
        "'limit' may be data.sft.limit or data.rl.limit: write the one meant",
        "sampling.batch_rows isn't searched: it is how cells are measured: cells that are measured "
        "differently can't be compared",
    ]


def test_every_value_and_both_ends_are_tried():
    cause = refused("tau=-1:2,algo=grpo|dpao,beta=0.1|-3").cause
    assert [line.partition(": ")[0] for line in cause.splitlines()] == [
        "guide.tau=-1.0",
        "rl.algo=dpao",
        "anchor.beta=-3",
    ]
    assert "did you mean dapo?" in cause
    assert "rl.save_every isn't searched: it changes no result" in refused("save_every=1|2").cause


def test_values_that_contradict_each_other_are_refused_with_their_cell():
    cause = refused("guide=none|branch,kl=reverse|none", config()).cause
    assert cause.startswith("guide.name=branch, anchor.kl=none: guide 'branch' reshapes the KL")
    assert len(cause.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tau=1|2 if rhoo=1,rho=1|2", "only with 'rhoo', no other parameter (did you mean rho?)"),
        ("tau=1|2 if rho=3,rho=1|2", "tau exists only with rho=3, which rho never is"),
        ("tau=1|2 if rho=1,rho=1:2", "tau exists only with rho=1, which rho never is"),
        ("tau=1|2 if rho=1,rho=1|2 if tau=1", "tau and rho exist only with each other"),
        ("tau=1|2,guide.tau=3|4", "guide.tau is named twice"),
    ],
)
def test_conditions_that_cannot_be_met(text, said):
    assert said in refused(text).cause


def test_an_unknown_space_names_the_known():
    found = refused("tau,roh")
    assert found.cause == (
        "there is no search space 'tau,roh' (did you mean tau-rho?); there are table6, tau-rho"
    )


def test_a_file_has_all_that_the_line_has(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "parameters:\n"
        "  algo: {choices: [grpo, dapo]}\n"
        "  lr: {range: [1e-5, 1e-3], log: true}\n"
        "  steps: {range: [10, 20], integer: true}\n"
        "  threshold: {key: guide.tau, times: [0.5, 1]}\n"
        "  eps: {key: rl.epsilon_high, values: [0.2, 0.28], when: {algo: dapo}}\n"
    )
    space = read_space(str(path), BRANCH)
    when = {"rl.algo": ("dapo",)}
    assert list(space.parameters.items()) == [
        ("algo", Values(key="rl.algo", values=("grpo", "dapo"))),
        ("lr", Range(key="rl.learning_rate", range=(1e-5, 1e-3), log=True)),
        ("steps", Range(key="rl.steps", range=(10, 20), integer=True)),
        ("threshold", Values(key="guide.tau", values=(0.2325, 0.465))),  # 0.465 / 2
        ("eps", Values(key="rl.epsilon_high", values=(0.2, 0.28), when=when)),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parameters: {}", "parameters is {}"),
        ("guide: branch", "'parameters' is missing"),
        ("parameters: {tau: {key: guide.tau}}", "tau: a parameter has one of values, choices, "),
        ("parameters: {tau: {values: [1], times: [1]}}", "this one has values and times"),
        ("parameters: {tau: {vlaues: [1]}}", "tau: a parameter has no 'vlaues' (did you mean v"),
        ("parameters: {tau: [1, 2]}", "tau: a parameter has a key and one of values, choices, "),
        (
            "parameters: {tau: {values: [1], when: 3}}",
            "tau when is 3: input should be a valid dict",
        ),
        ("parameters: {tau: {key: tua, values: [1]}}", "there is no setting 'tua'"),
        ("parameters: {tau: {times: [a]}}", "tau: times is a list of numbers, not ['a']"),
        ("guide: [branch]", "is about guide ['branch']"),
        ("parametres: {tau: {values: [1]}}", "no 'parametres' (did you mean parameters?)"),
        ("- tau", "its top level must be names"),
        ("parameters: {tau: {times: []}}", "tau: times is a list of numbers, not []"),
        ("parameters: {tau: {values: []}}", "tau: a list of values holds at least one"),
        ("parameters: {tau: {values: [[1]]}}", "tau: a value is a finite number, a word, true or"),
        ("parameters: {tau: {range: [1, 2, 3]}}", "1:2:3 doesn't"),
        ("parameters: {tau: {values: [1], log: true}}", "log and integer are said of a range"),
    ],
)
def test_files_that_are_no_space(tmp_path, text, said):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    cause = refused(str(path)).cause
    assert said in cause
    assert str(path) in cause


def test_factors_need_a_number_to_multiply(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("parameters: {algo: {times: [1, 2]}}")
    assert "multiplies rl.algo, which is 'grpo' here" in refused(str(path)).cause
