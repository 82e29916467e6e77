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
    assert (config.rl.loss, config.rl.advantage, config.anchor.kl) == ("pacs", "none", "none")
    guided = load(flags={"rl": {"algo": "pacs"}, "guide": {"name": "branch"}}).config
    assert guided.anchor.kl == "reverse"


@pytest.mark.parametrize(
    "said",
    [
        "epsilon_high=0.28", "epsilon_low=0.1", "delta=4.0", "importance_sampling_level=sequence",
        "top_entropy_quantile=0.2", "overlong_punishment=true",
    ],
)  # fmt: skip
def test_pacs_refuses_what_it_would_not_read(said):
    with pytest.raises(ConfigurationError, match=rf"'pacs' neither clips.*{said.split('=')[0]}"):
        chosen("pacs", f"rl.{said}")


def test_rlpr_pays_for_probabilities_and_is_given_up_with_its_algorithm():
    config = chosen("rlpr")
    assert (config.rl.reward, config.rl.epsilon_high) == ("probability", 0.27)
    assert chosen("grpo").rl.reward == "verdict"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("prompt.answer=boxed", "between the answer's tags"),
        ("rl.loss=pacs", "'pacs' reads verdicts"),
        ("rl.advantage=beta", "'beta' reads verdicts"),
        ("rl.dynamic_sampling=true", "dynamic_sampling reads verdicts"),
    ],
)
def test_probabilities_are_not_paid_where_verdicts_are_read(said, reason):
    algo = "grpo" if "pacs" in said else "rlpr"
    with pytest.raises(ConfigurationError, match=reason):
        chosen(algo, "rl.reward=probability", said)


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (["rl.rollouts_per_prompt=2"], "gives shares of 0 and 1, or 1/2 between them"),
        (["rl.dars_most=8", "rl.rollouts_per_prompt=8"], "the first alone has"),
        (["rl.loss=dapo"], "unequal size"),
        (["rl.advantage=group"], "unequal size"),
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
    assert chosen("dars").rl.dars == "et"
    assert chosen("grpo").rl.dars is None
    with pytest.raises(ConfigurationError, match=reason):
        chosen("dars", *sets)
