"""From `--space` to a space, with every key and value held against the schema."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError
from sage_cli.trials.sweep.read_space import WrittenSpace, guide_of, parse_line, read_space
from sage_cli.trials.sweep.space import SHORT, Range, Values, find_key, point_key


def config(**flags):
    return load(flags=flags).config


BRANCH = config(guide={"name": "branch"})


def refused(text, settings=BRANCH):
    with pytest.raises(ConfigurationError) as caught:
        read_space(text, settings)
    return caught.value


@pytest.fixture
def file(tmp_path):
    """Write a file of `sweeps/`; returns its path."""

    def file(text):
        path = tmp_path / "own.yaml"
        path.write_text(text)
        return str(path)

    return file


def typed(text):
    """The space that a text means, its values not held against the schema."""
    return WrittenSpace.model_validate(parse_line(text), context=BRANCH)


def test_ranges_values_and_conditions():
    space = typed(
        "tau=0.2:0.8, lr=1e-5:1e-3:log, steps=10:40:int, algo=grpo|dapo, "
        "dynamic_sampling=true|False, epsilon_high=0.2|.28 if algo=dapo and dynamic_sampling=true"
    )
    conditions = {"rl.algo": ("dapo",), "rl.dynamic_sampling": (True,)}
    assert list(space.parameters.items()) == [
        ("tau", Range(key="guide.tau", range=(0.2, 0.8))),
        ("lr", Range(key="rl.learning_rate", range=(1e-5, 1e-3), log=True)),
        ("steps", Range(key="rl.steps", range=(10, 40), integer=True)),
        ("algo", Values(key="rl.algo", values=("grpo", "dapo"))),
        ("dynamic_sampling", Values(key="rl.dynamic_sampling", values=(True, False))),
        ("epsilon_high", Values(key="rl.epsilon_high", values=(0.2, 0.28), when=conditions)),
    ]


def times(file, *factors):
    """A file that multiplies the learning rate."""
    return file(f"parameters: {{rate: {{key: rl.learning_rate, times: {list(factors)}}}}}")


@pytest.mark.parametrize("centre", [2.5e-6, 1e-6, 4e-9, 0.465])
def test_factors_keep_six_digits_however_small_the_value(file, centre):
    factors = [1 / 3, 0.5, 1, 1.00001, 3]
    small = load(sets=[f"rl.learning_rate={centre!r}"]).config
    (rate,) = read_space(times(file, *factors), small).parameters.values()
    # the seventh digit is rounded: at most 5 of it, of a first digit of at least 1
    assert rate.values == pytest.approx([f * centre for f in factors], rel=5e-6)
    # 3 x .1 is .30000000000000004 in binary
    tenth = load(sets=["rl.learning_rate=0.1"]).config
    (rate,) = read_space(times(file, 3), tenth).parameters.values()
    assert rate.values == (0.3,)


def test_the_shipped_grid_is_around_the_configured_pair_by_factors_apart(file):
    space = read_space("tau, rho", BRANCH)
    points = list(space.points())
    # 0.465 x (2/3, 1, 5/3) and 0.775 x (1/3, 1, 5/3)
    assert [point["guide.tau"] for point in points[::3]] == pytest.approx([0.31, 0.465, 0.775])
    assert [point["guide.rho"] for point in points[:3]] == pytest.approx([0.258333, 0.775, 1.29167])
    assert len(points) == 9
    small = load(sets=["rl.learning_rate=1e-6"]).config
    refusal = refused(times(file, 1, 2, 1.0000001), small)
    assert refusal.cause.startswith("rate has the value 1e-06 2 times")


def test_a_space_brings_its_guide_along_whose_settings_exist_with_it_alone():
    assert guide_of("tau,rho") == "branch"
    assert guide_of("tau=0.2:0.8,rho=0.1:1.0") == "branch"
    assert guide_of("alpha=1|2") == "token"
    assert guide_of("q_min=0.5|0.6") is None
    assert guide_of("beta=0.1|0.2") is None
    assert guide_of("guide=token|branch,tau=1:2") is None
    assert guide_of("tua=1:2") is None  # read_space says what is wrong
    assert "the configuration has guide none" in refused("tau,rho", config()).cause
    space = read_space("tau=0.1|0.2,guide=token|branch|none,q_min=0.5|0.6", config())
    conditions = {name: one.when for name, one in space.parameters.items()}
    clamped = {"guide.name": ("token", "branch")}  # no guide has no q
    assert conditions == {"guide": {}, "q_min": clamped, "tau": {"guide.name": ("branch",)}}
    assert len(list(space.points())) == 7  # token x 2 q_min + none + branch x 2 tau x 2 q_min
    space = read_space("algo=grpo|pkpo|pass-at-k,rl.k=2|4,steps=3|5", config())
    by_algo = Counter((point["rl.algo"], "rl.k" in point) for point in space.points())
    # steps are every method's: 2 of grpo, 2 x 2 of each of the others
    assert by_algo == {("grpo", False): 2, ("pkpo", True): 4, ("pass-at-k", True): 4}
    (token, branch) = read_space("guide=token|branch", config()).points()
    assert changed(config(), branch).guide == BRANCH.guide
    assert changed(BRANCH, token) == config(guide={"name": "token"})


def test_short_names_mean_settings_and_numbers_are_of_the_settings_kind():
    keys = {
        "beta=0.1|0.2": "anchor.beta",
        "steps=1|2": "rl.steps",
        "lr=0.1|0.2": "rl.learning_rate",
        "signal=policy|reference": "guide.signal",
        "temperature=0.9|1": "rollout.temperature",
        "sft.batch_size=1|2": "sft.batch_size",
        "rank=4|8": "model.lora.rank",
    }
    paper = load(["qwen2.5-math-7b"], {"guide": {"name": "branch"}}).config
    for text, key in keys.items():
        assert list(read_space(text, paper).keys.values()) == [key]
    (steps, tau) = read_space("steps=10:40,tau=1|2", BRANCH).parameters.values()
    assert steps == Range(key="rl.steps", range=(10, 40), integer=True)
    assert [type(value) for value in tau.values] == [float, float]


def test_short_names_are_a_closed_table_of_settings_that_may_be_searched():
    assert {name: find_key(name) for name in SHORT if name != "seed"} == {
        name: key for name, key in SHORT.items() if name != "seed"
    }
    with pytest.raises(ConfigurationError, match=r"'form' is not a short name: write rl\.form$"):
        find_key("form")  # of two methods


@pytest.mark.parametrize(
    ("text", "sets", "said"),
    [
        ("model.lora.rank=4|8", [], "model.lora.rank has no effect: model.tuning is 'full'"),
        ("beta=0.1|0.2", ["anchor.kl=none"], "anchor.beta has no effect: anchor.kl is 'none'"),
        ("estimator=k3|reward", ["anchor.kl=none"], "anchor.estimator has no effect"),
        ("epsilon_low=.1|.3", ["rl.algo=kl-cov"], "rl.epsilon_low has no effect: rl.clip is False"),
        ("sft.epochs=1|2", [], "sft.epochs has no effect: sft.steps is 875"),
        ("rl.max_extra_generations=1|2", [], "rl.max_extra_generations 1 has no effect"),
        ("beta=0.1:0.2", ["anchor.kl=none"], "anchor.beta has no effect"),
    ],
)
def test_a_searched_setting_is_read_at_its_points_or_refused(text, sets, said):
    assert said in refused(text, load(sets=sets).config).cause


def test_a_searched_choice_limits_a_setting_to_the_values_that_read_it():
    points = list(read_space("kl=reverse|none,beta=0.1|0.2", config()).points())
    assert [(point["anchor.kl"], point.get("anchor.beta")) for point in points] == [
        ("reverse", 0.1),
        ("reverse", 0.2),
        ("none", None),
    ]
    # DAPO has no KL term unless somebody says so
    points = read_space("algo=grpo|dapo,beta=0.1|0.2", config()).points()
    assert Counter(point["rl.algo"] for point in points) == {"grpo": 2, "dapo": 1}
    points = read_space("clip=true|false,epsilon_high=0.2|0.3", config()).points()
    assert Counter(point["rl.clip"] for point in points) == {True: 2, False: 1}


def test_every_mistake_is_named_at_once():
    cause = refused("tua=1:2,qqq=a|b,wandb=off|on,seed=1|2,limit=1|2,batch_rows=8|9").cause
    assert cause.splitlines() == [
        "there is no setting 'tua' (did you mean tau?)",
        "there is no setting 'qqq'",
        "tracking.wandb can't be searched: it says where results go, not what they are",
        "rl.seed can't be searched: it distinguishes the runs of a trial: --seeds N trains every "
        "trial with N seeds",
        "'limit' is not a short name: write data.sft.limit or data.rl.limit",
        "sampling.batch_rows can't be searched: it says how trials are measured, and only trials "
        "measured alike are compared",
    ]
    cause = refused("tau=-1:2,algo=grpo|dpao,beta=0.1|-3").cause
    causes = [line.partition(": ")[0] for line in cause.splitlines()]
    assert causes == ["guide.tau=-1.0", "rl.algo=dpao", "anchor.beta=-3"]
    assert "did you mean dapo?" in cause
    cause = refused("guide=none|branch,kl=reverse|none", config()).cause
    assert cause.startswith("guide.name=branch, anchor.kl=none: guide 'branch' reshapes the KL")
    assert len(cause.splitlines()) == 1
    found = refused("tau,roh")
    assert found.cause == (
        "there is no search space 'tau,roh' (did you mean tau-rho?); there are table6, tau-rho"
    )
    assert str(found.next_step).endswith('each setting: "tau=LOW:HIGH,roh=LOW:HIGH"')
    assert str(refused("tauroh").next_step).endswith('each setting: "tau=0.2:0.8"')


def test_a_file_has_all_that_the_line_has(file):
    path = file(
        "parameters:\n"
        "  algo: {choices: [grpo, dapo]}\n"
        "  lr: {range: [1e-5, 1e-3], log: true}\n"
        "  steps: {range: [10, 20], integer: true}\n"
        "  threshold: {key: guide.tau, times: [0.5, 1]}\n"
        "  eps: {key: rl.epsilon_high, values: [0.2, 0.28], when: {algo: dapo}}\n"
    )
    space = read_space(path, BRANCH)
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
        ("tau=", "'tau=' is not a parameter of a space"),
        ("=", "'=' is not a parameter of a space"),
        (",=1", "'=1' is not a parameter of a space"),
        ("tau=1:2,0.3", "'0.3' is not a parameter of a space"),
        ("tau=1|2 if algo", "'tau=1|2 if algo' is not a parameter of a space"),
        ("tau=0.2:0.8:lgo", "low:high:int (did you mean log?)"),
        ("tau=0.8:0.2", "tau: a range goes from a lower to a higher number, and 0.8:0.2 doesn't"),
        ("tau=0:1:log", "tau: a logarithmic range starts above 0, not at 0"),
        ("steps=0.5:3", "steps: a range of whole numbers begins and ends with one, not as 0.5:3"),
        ("tau=0.2:x", "tau range is 'x': input should be a valid number"),
        ("tau=" + "9" * 400, "guide.tau=999"),  # no float is that large
        ("tau=0.2|0.20", "tau has the value 0.2 2 times"),
        ("tau=1|1.0", "tau has the value 1.0 2 times"),
        ("sft.shuffle=true|1|false", "shuffle has the value True 2 times"),  # 1 is true here
        ("tau=1|2,tau=3|4", "names tau twice"),
        ("tau=1|2,guide.tau=3|4", "guide.tau is named twice"),
        ("tau=1|2 if rhoo=1,rho=1|2", "'rhoo', no other parameter here (did you mean rho?)"),
        ("tau=1|2 if tau=1", "tau exists only with 'tau', no other parameter here"),
        ("tau=1|2 if rho=3,rho=1|2", "tau exists only with rho=3: list it in rho"),
        ("tau=1|2 if rho=1,rho=1:2", "tau exists only with rho=1: list it in rho"),
        ("tau=1|2 if rho=1,rho=1|2 if tau=1", "tau and rho exist only with each other"),
        ("guide=token,tau=1|2", "guide.tau belongs to guide.name branch or shuffled, not token"),
        ("save_every=1|2", "sft.save_every can't be searched: it changes no result"),
    ],
)
def test_lines_that_are_no_space(text, said):
    assert said in refused(text).cause


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- tau", "its top level must be sections,"),
        ("guide: branch", "'parameters' is missing"),
        ("guide: [branch]", "needs guide ['branch']"),
        ("parameters: {}", "parameters is {}"),
        ("parametres: {tau: {values: [1]}}", "no 'parametres' (did you mean parameters?)"),
        ("parameters: {tau: {key: guide.tau}}", "tau: a parameter has one of values, choices, "),
        ("parameters: {tau: {key: tua, values: [1]}}", "there is no setting 'tua'"),
        ("parameters: {tau: {range: [1, 2, 3]}}", "1:2:3 doesn't"),
        ("parameters: {tau: {times: []}}", "tau: times is a list of numbers, not []"),
        ("parameters: {tau: {times: [a]}}", "tau: times is a list of numbers, not ['a']"),
        ("parameters: {tau: {values: []}}", "tau: a list of values needs at least one"),
        ("parameters: {tau: {values: [.inf]}}", "tau: a value is a finite number, a word, true"),
        ("parameters: {tau: {values: [[1]]}}", "tau: a value is a finite number, a word, true or"),
        ("parameters: {tau: {values: [1], log: true}}", "log and integer belong to a range"),
        ("parameters: {tau: {values: [1], times: [1]}}", "this one has values and times"),
        ("parameters: {tau: {values: [1], when: 3}}", "tau when is 3: input should be a valid di"),
        ("parameters: {tau: {vlaues: [1]}}", "tau: a parameter has no 'vlaues' (did you mean v"),
        ("parameters: {tau: [1, 2]}", "tau: a parameter has a key and one of values, choices, "),
        ("parameters: {algo: {times: [1, 2]}}", "`times` multiplies rl.algo, which is 'grpo'"),
    ],
)
def test_files_that_are_no_space(file, text, said):
    path = file(text)
    cause = refused(path).cause
    assert said in cause
    assert path in cause


KEYS = ("rl.learning_rate", "anchor.beta", "guide.tau", "rl.algo")
numbers = st.floats(1e-6, 1e6, allow_nan=False) | st.integers(1, 10**6)
words = st.sampled_from(["grpo", "a-b", "org/model", "x.y", True, False])
values = st.lists(numbers | words, min_size=1, unique_by=lambda value: point_key({"": value}))
ranges = st.tuples(
    st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=2, unique=True).map(sorted)
    | st.lists(st.integers(1, 10**6), min_size=2, max_size=2, unique=True).map(sorted),
    st.booleans(),
    st.booleans(),
).map(lambda drawn: (*drawn[:2], drawn[2] and isinstance(drawn[0][0], int)))


@given(st.lists(values | ranges, min_size=1, max_size=4))
def test_what_is_written_reads_as_the_same_space(drawn):
    parts, wanted = [], []
    for key, domain in zip(KEYS, drawn, strict=False):
        if isinstance(domain, list):
            parts.append(f"{key}={'|'.join(map(str, domain))}")
            wanted.append({"key": key, "values": domain})
        else:
            (low, high), log, integer = domain
            parts.append(f"{key}={low}:{high}{':log' * log}{':int' * integer}")
            ends = [low, high] if integer else [float(low), float(high)]
            wanted.append({"key": key, "log": log, "integer": integer, "range": ends})
    space = typed(",".join(parts))
    names = [key.rpartition(".")[2] for key in KEYS]
    plain = json.dumps(space.plain())  # tells 1, 1.0 and true apart
    assert plain == json.dumps(
        [{"name": name, **one} for name, one in zip(names, wanted, strict=False)]
    )
