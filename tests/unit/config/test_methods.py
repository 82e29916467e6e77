"""Methods beside the paper's: what choosing one sets, and what can't be said beside it."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError


def chosen(algo, *sets):
    return load(flags={"rl": {"algo": algo}}, sets=sets).config


def test_what_rivals_of_the_anchor_bring():
    assert chosen("dph-rl").rl.samples_beforehand == 8
    weights = {
        kind: chosen("dph-rl", f"rl.divergence={kind}").rl.weighs
        for kind in ("forward", "js", "alpha")
    }
    assert weights == {"forward": 0.03, "js": 0.125, "alpha": 0.03}
    assert chosen("dph-rl", "rl.weight=0").rl.weighs == 0
    said = chosen("dph-rl", "rl.divergence=alpha", "rl.solved=.75").rl.describe()["divergence"]
    assert said == (
        "alpha 0.2 x 0.03, on problems where at least 75% of the initial policy's 8 samples are "
        "correct"
    )
    assert chosen("pacs", "guide.name=branch").anchor.kl == "reverse"
    config = chosen("archer")
    assert (config.anchor.tokens, config.anchor.rows) == ("certain", "informative")
    assert config.rl.anchored["beta"] == 0.001  # tiny has one of its own
    assert chosen("grpo").anchor.tokens == "all"
    assert chosen("dars").rl.allocation == "et"
    config = chosen("rlpr")
    assert (config.rl.reward_filter, config.rl.epsilon_high) == (0.5, 0.27)
    assert chosen("annealed-kl").anchor.schedule == "cosine"
    assert chosen("grpo").anchor.schedule == "constant"
    assert chosen("grpo", "anchor.schedule=cosine").anchor.schedule == "cosine"


SERVER = "rollout.backend=vllm rollout.vllm.mode=server rollout.vllm.server_url=http://a:1"
ELSEWHERE = {
    "pacs": "epsilon_high=0.28 epsilon_low=0.1 delta=4.0 importance_sampling_level=sequence "
    "top_entropy_quantile=0.2 overlong_buffer=0.2",
    "guided-dpo": "epsilon_high=0.28 delta=4.0 clip=false top_entropy_quantile=0.2 "
    "entropy_coefficient=0.01 dynamic_sampling=true overlong_buffer=0.2 advantage=beta "
    "reward_filter=0.1 iterations=2 steps_per_generation=2",
}
"""Settings that others read and these would not."""


@pytest.mark.parametrize(
    ("algo", "sets", "reason"),
    [
        ("annealed-kl", "anchor.kl=none", "there is no KL anchor"),
        ("annealed-kl", "anchor.beta=0", "there is no KL anchor"),
        ("dph-rl", "rl.dynamic_sampling=true", "would replace just them"),
        ("dph-rl", "anchor.kl=forward", "has others of its own"),
        ("dph-rl", "rl.alpha=.5", "rl.alpha 0.5 has no effect"),
        ("dph-rl", "rl.alpha=0", "rl.alpha is 0"),
        ("dph-rl", "rl.alpha=1", "rl.alpha is 1"),
        ("dph-rl", "rl.solved=0", "rl.solved is 0"),
        ("dph-rl", "rl.log_ratio_limit=0", "rl.log_ratio_limit is 0"),
        ("dph-rl", "anchor.reference_samples=4", "reference_samples 4 has no effect"),
        (
            "archer",
            "anchor.kl=none",
            r"anchor.rows is informative, and .* anchor.kl is 'none' \(use --kl reverse\)$",
        ),
        ("archer", "rl.loss=sapo", "rl.loss is 'sapo'"),
        ("archer", "rl.steps_per_generation=1", "rl.delta has nothing to clip with one update"),
        ("alpha-dpg", "anchor.kl=reverse", "by something else than a KL term"),
        ("alpha-dpg", "guide.name=branch", "by something else than a KL term"),
        ("alpha-dpg", "rl.rewards=format", "reads grades alone and would ignore rl.rewards"),
        ("alpha-dpg", "rl.dynamic_sampling=true", "learns from groups of equal grades"),
        ("alpha-dpg", "rl.alpha=1", "rl.alpha is 1"),
        ("rlpr", "prompt.answer=boxed", "between the answer's tags"),
        ("rlpr", "rl.advantage=beta", "'beta' reads grades"),
        ("rlpr", "rl.dynamic_sampling=true", "dynamic_sampling reads grades"),
        ("dars", "rl.rollouts_per_prompt=2", "gives shares of 0 and 1, or 1/2 between them"),
        ("dars", "rl.most_rollouts=8 rl.rollouts_per_prompt=8", "the first alone has"),
        ("dars", "rl.loss=dapo", "unequal size"),
        ("dars", "rl.advantage=group", "rl.advantage has an effect only"),
        ("dars", "rl.dynamic_sampling=true", "dynamic_sampling replaces them"),
        ("dars", SERVER, "asked for equal ones"),
        ("dars", "anchor.kl=forward", "row by row in turn"),
        ("guided-dpo", "guide.name=branch", "by something else than a KL term"),
        ("guided-dpo", "anchor.kl=reverse", "by something else than a KL term"),
        ("guided-dpo", "anchor.kl=forward", "by something else than a KL term"),
        ("guided-dpo", "rl.processes=2", "trains in one process"),
        ("guided-dpo", "rl.hint=Think.", "must contain {question}"),
        ("guided-dpo", "rl.hint=Try{question}", "must contain {hint}"),
        ("guided-dpo", "rl.continued=true prompt.format=chat", "'chat' puts more between"),
        ("guided-dpo", "rl.continued=true rl.hint={hint}{question}", "rl.hint must begin with"),
        ("pass-at-k", "rl.k=9", "k is 9, and a group has 8 .* no subset of k"),
        ("pass-at-k", "rl.k=8", "its only subset of k is the group"),
        ("pass-at-k", "rl.k=0", "rl.k is 0: .* greater than or equal"),
        ("pass-at-k", "rl.overlong_buffer=0.2", "'pass-at-k' reads grades alone"),
        ("pkpo", "rl.k=9", "'favoured' takes at most 8 of a group's 8 completions"),
        (
            "pkpo",
            "rl.k=8 rl.form=leave-one-out",
            "'leave-one-out' takes at most 7 of a group's 8 completions",
        ),
        ("pkpo", "rl.advantage=beta", "rl.advantage has an effect only with .*grpo"),
        ("kl-cov", "rl.steps_per_generation=1", "with one update per generation that is 0"),
        ("kl-cov", "rl.clip=true", "'kl-cov' adds to a loss that isn't clipped"),
        ("gspo", "rl.steps_per_generation=1", "'sequence' .* has no effect"),
        (
            "gspo",
            "anchor.kl=reverse anchor.estimator=reward",
            "'reward' gives each token an advantage of its own",
        ),
        (
            "steer",
            "rl.importance_sampling_level=sequence",
            "'steer' gives each token an advantage of its own",
        ),
        ("steer", "rl.clip=false", "without rl.delta"),
        ("steer", "rl.forn=exp", r"rl has no 'forn' \(did you mean form\?\)"),
        (
            "adaptive-entropy",
            "rl.entropy_coefficient=2",
            "above 1, and rl.entropy_target keeps it in",
        ),
        (
            "80-20",
            "rl.prompts_per_step=2048 rollout.max_tokens=2048",
            r"up to 33,554,432 here, and at most 16,777,216 can be sorted",
        ),
        ("grpo", "rl.delta=3", "rl.delta has nothing to clip with one update per generation"),
        ("grpo", "rl.clip=false rl.loss=sapo", "rl.clip is false, and only the losses grpo"),
        ("grpo", "rl.k=2", "rl.k has an effect only with the pass-at-k and pkpo methods"),
        ("grpo", "rl.score_scale=2", "rl.score_scale has an effect only with the pacs method"),
        ("grpo", "rl.reward_filter=0.9", "reward_filter has an effect only with the rlpr method"),
        ("grpo", "rl.max_extra_generations=2", "rl.max_extra_generations 2 has no effect"),
        ("grpo", "rl.entropy_coefficient_step=0.1", "entropy_coefficient_step 0.1 has no effect"),
        (
            "grpo",
            "anchor.reference_samples=4",
            r"has no effect \(add anchor.kl=forward, or leave it",
        ),
        *(
            (
                algo,
                f"rl.{said}",
                rf"rl\.{said.split('=')[0]} has an effect only with .*, or add --algo",
            )
            for algo, sets in ELSEWHERE.items()
            for said in sets.split()
        ),
    ],
)
def test_a_method_refuses_what_has_no_place_beside_it(algo, sets, reason):
    group = [] if algo == "dars" else ["rl.rollouts_per_prompt=8"]
    with pytest.raises(ConfigurationError, match=reason):
        chosen(algo, *group, *sets.split())


@pytest.mark.parametrize("algo", ["gspo", "kl-cov"])
def test_two_updates_give_them_something_to_act_on(algo):
    assert chosen(algo, "rl.steps_per_generation=1", "rl.iterations=2").rl.iterations == 2


@pytest.mark.parametrize("algo", ["pacs", "alpha-dpg", "guided-dpo", "dph-rl"])
def test_methods_that_have_no_anchor_of_their_own(algo):
    config = chosen(algo)
    assert (config.rl.algo, config.anchor.kl) == (algo, "none")
