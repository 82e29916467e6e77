"""Methods beside the paper's: what choosing one sets, and what can't be said beside it."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError

SERVER = ("rollout.vllm.mode=server", "rollout.vllm.server_url=http://there:8000")


def chosen(algo, *sets):
    return load(flags={"rl": {"algo": algo}}, sets=sets).config


def test_annealing_is_chosen_and_given_up_with_its_algorithm():
    assert chosen("annealed-kl").anchor.schedule == "cosine"
    assert chosen("grpo").anchor.schedule == "constant"
    assert chosen("grpo", "anchor.schedule=cosine").anchor.schedule == "cosine"


def test_nothing_is_annealed_without_an_anchor():
    for sets in (["anchor.kl=none"], ["anchor.beta=0"]):
        with pytest.raises(ConfigurationError, match="there is no KL anchor"):
            chosen("annealed-kl", *sets)


def test_pacs_is_its_loss_without_an_anchor_of_its_own():
    config = chosen("pacs")
    assert (config.rl.algo, config.anchor.kl) == ("pacs", "none")
    guided = load(flags={"rl": {"algo": "pacs"}, "guide": {"name": "branch"}}).config
    assert guided.anchor.kl == "reverse"


@pytest.mark.parametrize(
    "said",
    [
        "epsilon_high=0.28", "epsilon_low=0.1", "delta=4.0", "importance_sampling_level=sequence",
        "top_entropy_quantile=0.2", "overlong_buffer=0.2",
    ],
)  # fmt: skip
def test_pacs_refuses_what_it_would_not_read(said):
    with pytest.raises(ConfigurationError, match=rf"rl\.{said.split('=')[0]} belongs to .*dapo"):
        chosen("pacs", f"rl.{said}")


def test_dph_rl_has_no_kl_and_a_weight_for_each_divergence():
    config = chosen("dph-rl")
    assert (config.anchor.kl, config.rl.samples_beforehand) == ("none", 8)
    weights = {kind: chosen("dph-rl", f"rl.divergence={kind}").rl.weighs
               for kind in ("forward", "js", "alpha")}  # fmt: skip
    assert weights == {"forward": 0.03, "js": 0.125, "alpha": 0.03}
    assert chosen("dph-rl", "rl.weight=0").rl.weighs == 0
    said = chosen("dph-rl", "rl.divergence=alpha", "rl.solved=.75").rl.describe()["divergence"]
    assert said == "alpha 0.2 x 0.03, where at least 75% of 8 initial samples are right"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("rl.dynamic_sampling=true", "would replace just them"),
        ("anchor.kl=forward", "has others of its own"),
        ("rl.alpha=.5", "rl.alpha 0.5 would do nothing"),
        ("rl.alpha=0", "rl.alpha is 0"),
        ("rl.alpha=1", "rl.alpha is 1"),
        ("rl.solved=0", "rl.solved is 0"),
        ("rl.log_ratio_limit=0", "rl.log_ratio_limit is 0"),
        ("anchor.reference_samples=4", "those of forward KL"),
    ],
)
def test_dph_rl_refuses(said, reason):
    with pytest.raises(ConfigurationError, match=reason):
        chosen("dph-rl", said)


@pytest.mark.parametrize(
    ("algo", "said", "reason"),
    [
        (
            "archer",
            "anchor.kl=none",
            r"anchor.rows is informative, and .* anchor.kl is 'none' \(use --kl reverse\)$",
        ),
        ("archer", "rl.loss=sapo", "rl.loss is 'sapo'"),
        ("archer", "rl.steps_per_generation=1", "rl.delta has nothing to clip with one update"),
        ("alpha-dpg", "anchor.kl=reverse", "by something else than a KL term"),
        ("alpha-dpg", "rl.rewards=format", "reads grades alone and would ignore rl.rewards"),
        ("alpha-dpg", "rl.dynamic_sampling=true", "learns from groups of equal grades"),
        ("alpha-dpg", "rl.alpha=1", "rl.alpha is 1"),
        ("support-floor", "anchor.kl=forward", "has others of its own"),
        ("support-floor", "rl.seldom=0", "rl.seldom is 0"),
    ],
)
def test_rivals_of_the_anchor_refuse(algo, said, reason):
    with pytest.raises(ConfigurationError, match=reason):
        chosen(algo, said)


def test_rivals_of_the_anchor_bring_their_own():
    config = chosen("archer")
    assert (config.anchor.tokens, config.anchor.rows) == ("certain", "informative")
    assert config.rl.anchored["beta"] == 0.001  # tiny has one of its own
    assert chosen("grpo").anchor.tokens == "all"
    assert chosen("alpha-dpg").anchor.kl == chosen("support-floor").anchor.kl == "none"
    with pytest.raises(ConfigurationError, match="by something else than a KL term"):
        load(flags={"rl": {"algo": "alpha-dpg"}, "guide": {"name": "branch"}})


def test_rlpr_pays_for_probabilities_and_is_given_up_with_its_algorithm():
    config = chosen("rlpr")
    assert (config.rl.reward_filter, config.rl.epsilon_high) == (0.5, 0.27)
    with pytest.raises(ConfigurationError, match="reward_filter belongs to the rlpr method"):
        chosen("grpo", "rl.reward_filter=0.9")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("prompt.answer=boxed", "between the answer's tags"),
        ("rl.advantage=beta", "'beta' reads grades"),
        ("rl.dynamic_sampling=true", "dynamic_sampling reads grades"),
    ],
)
def test_probabilities_are_not_paid_where_grades_are_read(said, reason):
    with pytest.raises(ConfigurationError, match=reason):
        chosen("rlpr", said)


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (["rl.rollouts_per_prompt=2"], "gives shares of 0 and 1, or 1/2 between them"),
        (["rl.most_rollouts=8", "rl.rollouts_per_prompt=8"], "the first alone has"),
        (["rl.loss=dapo"], "unequal size"),
        (["rl.advantage=group"], "rl.advantage belongs to"),
        (["rl.dynamic_sampling=true"], "dynamic_sampling replaces them"),
        (
            [
                "rollout.backend=vllm",
                "rollout.vllm.mode=server",
                "rollout.vllm.server_url=http://a:1",
            ],
            "asked for equal ones",
        ),
        (["anchor.kl=forward"], "row by row in turn"),
    ],
)
def test_dars_refuses_what_its_pools_can_not_be_combined_with(sets, reason):
    assert chosen("dars").rl.allocation == "et"
    with pytest.raises(ConfigurationError, match=reason):
        chosen("dars", *sets)


def test_guided_retries_are_their_loss_without_an_anchor():
    config = chosen("guided-dpo")
    assert (config.rl.algo, config.anchor.kl) == ("guided-dpo", "none")


@pytest.mark.parametrize(
    "said",
    [
        "epsilon_high=0.28", "delta=4.0", "clip=false", "top_entropy_quantile=0.2",
        "entropy_coefficient=0.01", "dynamic_sampling=true", "overlong_buffer=0.2",
        "advantage=beta", "reward_filter=0.1", "iterations=2", "steps_per_generation=2",
    ],
)  # fmt: skip
def test_guided_retries_refuse_what_pairs_would_not_read(said):
    with pytest.raises(
        ConfigurationError, match=rf"rl\.{said.split('=')[0]} belongs to .*: add --algo"
    ):
        chosen("guided-dpo", f"rl.{said}")


@pytest.mark.parametrize(
    ("flags", "sets", "reason"),
    [
        ({"guide": {"name": "branch"}}, [], "by something else than a KL term"),
        ({}, ["anchor.kl=reverse"], "by something else than a KL term"),
        ({}, ["anchor.kl=forward"], "by something else than a KL term"),
        ({}, ["rl.processes=2"], "trains in one process"),
        ({}, ["rl.hint=Think."], "must hold {question}"),
        ({}, ["rl.hint=Try {question}"], "must hold {hint}"),
        ({}, ["rl.continued=true", "prompt.format=chat"], "'chat' puts more between"),
        (
            {},
            ["rl.continued=true", "rl.hint={hint}{question}"],
            "hint begins otherwise",
        ),
    ],
)
def test_guided_retries_refuse_what_has_no_place_beside_them(flags, sets, reason):
    with pytest.raises(ConfigurationError, match=reason):
        load(flags={"rl": {"algo": "guided-dpo"}, **flags}, sets=sets)
