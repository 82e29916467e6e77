"""Methods that can't act are refused before anything is loaded, with what would let them."""

import pytest

from sage_cli.config.load import changed, load
from sage_cli.config.unread_settings import check_settings_read
from sage_cli.errors import ConfigurationError
from sage_cli.methods.loop import Method
from sage_cli.settings.section import built_in


def algo(name):
    return {"rl": {"algo": name}}


@pytest.mark.parametrize(
    ("name", "guide"),
    [
        (name, guide)
        for name, method in built_in(Method).items()
        for guide in ("none", "token", "branch")
        if guide == "none" or method.takes_a_guide
    ],
)
def test_every_method_loads_with_every_guide(name, guide):
    config = load(["tiny"], {**algo(name), "guide": {"name": guide}}).config
    assert (config.anchor.kl == "none") == (
        guide == "none" and built_in(Method)[name].kl_without_guide == "none"
    )
    assert type(config.rl) is built_in(Method)[name]
    for key, value in built_in(Method)[name].anchored.items():
        # a preset's values go before a method's, and tiny has a beta
        assert getattr(config.anchor, key) == (0.04 if key == "beta" else value)


def test_a_method_drops_the_settings_of_the_one_before_and_a_searched_choice_reads_its_own():
    of_sets = load(flags=algo("pass-at-k"), sets=["rl.k=2"]).config
    assert changed(of_sets, {"guide.name": "branch"}).rl.k == 2
    assert changed(of_sets, {"rl.algo": "steer"}) == load(flags=algo("steer")).config
    back = changed(changed(of_sets, {"rl.algo": "kl-cov"}), {"rl.algo": "grpo"})
    assert back == load(flags=algo("grpo")).config
    loaded = load(["tiny"], {"anchor": {"kl": "none"}}, ["anchor.beta=0.1"])
    check_settings_read(loaded, "sweep", searched=["anchor.kl"])
    check_settings_read(load(sets=["guides.branch.tau=0.2"]), "sweep", searched=["guide.name"])
    with pytest.raises(ConfigurationError, match=r"anchor\.beta"):
        check_settings_read(loaded, "sweep", searched=["rl.learning_rate"])
    check_settings_read(load(), "sweep", searched=["sft.steps"])
    with pytest.raises(ConfigurationError, match=r"sft\.steps can't be searched: `sage sweep --i"):
        check_settings_read(load(), "sweep --init", searched=["sft.steps"])


FULL = "model.tuning=full"
BETA, NO_KL = "anchor: {beta: 0.1}\n", "anchor: {beta: 0.1, kl: none}\n"


@pytest.mark.parametrize(
    ("own", "flags", "sets", "said"),
    [
        # typed: whatever else is said
        ("", {"anchor": {"kl": "none", "beta": 0.1}}, [], r"anchor\.beta \(--beta\).*'none'"),
        ("", {"anchor": {"kl": "none"}}, ["anchor.estimator=reward"], r"anchor\.estimator \(--set"),
        ("", {"anchor": {"kl": "none"}}, ["anchor.reference=initial"], r"anchor\.reference"),
        ("", algo("dapo"), ["anchor.beta=0.1"], r"anchor\.beta \(--set\)"),
        (
            "",
            {},
            [
                "model.kind=pretrained",
                "model.path=m",
                FULL,
                "model.lora.rank=8",
                "model.dtype=float32",
            ],
            r"model\.lora\.rank.*'full'",
        ),
        (BETA, {"anchor": {"kl": "none"}}, ["anchor.beta=0.2"], r"anchor\.beta \(--set\)"),
        # a preset that contradicts itself
        (NO_KL, {}, [], r"anchor\.beta \(preset .*own\.yaml\)"),
        ("rl: {algo: dapo}\n" + BETA, {}, [], r"anchor\.beta \(preset .*own\.yaml\)"),
        # a preset that serves other choices too, and shipped ones
        (BETA, {"anchor": {"kl": "none"}}, [], None),
        (BETA, algo("dapo"), [], None),
        ("rl: {algo: dapo}\n" + BETA, {"guide": {"name": "branch"}}, [], None),
        (BETA, {}, [], None),
        ("", {"anchor": {"kl": "none"}}, [], None),
        ("", {"anchor": {"beta": 0.1}}, ["anchor.estimator=reward"], None),
        ("", {**algo("dapo"), "guide": {"name": "branch"}}, ["anchor.beta=0.1"], None),
        ("sft: {steps: 5, epochs: 3}\nguide: {q_min: 0.5}\n", {}, [], None),
    ],
)
def test_a_value_that_the_user_gives_and_nothing_reads_is_refused(tmp_path, own, flags, sets, said):
    file = tmp_path / "own.yaml"
    file.write_text(own or "{}")
    loaded = load(["tiny", str(file)], flags, sets)
    if said is None:
        check_settings_read(loaded, "rl")
        return
    with pytest.raises(ConfigurationError, match=said) as refusal:
        check_settings_read(loaded, "rl")
    assert str(refusal.value.next_step).startswith("add --")


SERVED = 'sampling.servers=["http://a"]'
CPU = "rollout.backend=sampler"


@pytest.mark.parametrize(
    ("command", "sets", "reason"),
    [
        ("rl", ["anchor.kl=forward", "anchor.estimator=reward"], "anchor.kl is 'forward'"),
        ("rl", [CPU, "rollout.vllm.importance_cap=3"], "rollout.backend is 'builtin'"),
        ("rl", ["rollout.backend=vllm", "rollout.vllm.server_timeout_s=9"], "mode is 'colocate'"),
        (
            "rl",
            [
                "rollout.backend=vllm",
                "rollout.vllm.mode=server",
                "rollout.vllm.server_url=http://a",
                "rollout.vllm.sleep=true",
            ],
            "mode is 'server'",
        ),
        ("rl", ["guide.q_min=0.5"], "guide.name is 'none'"),
        (
            "rl",
            ["sft.enabled=false", "model.kind=pretrained", "model.path=m", "sft.steps=3"],
            "sft.enabled is False",
        ),
        ("rl", ["sft.epochs=3"], "sft.steps is 875"),  # of tiny
        ("rl", ["sft.warmup_steps=9", "sft.warmup_ratio=0.1"], "sft.warmup_steps is 9"),
        ("rl", ["sampling.backend=transformers", "sampling.vllm.swap=6"], "'builtin"),
        ("passk", ["sampling.backend=server", SERVED, "sampling.vllm.swap=6"], "'server'"),
        ("eval", ["sampling.backend=vllm", SERVED], "sampling.backend is 'vllm'"),
        ("sweep", ["executor.partition=gpu"], "executor.name is 'local'"),
        ("sweep --init", ["sft.learning_rate=1"], "`sage sweep --init` reads no setting of sft"),
        ("rl", ["sweep.trials=3"], "`sage rl` reads no setting of sweep"),
        ("rl", ["executor.workers=3"], "`sage rl` reads no"),
        ("rl --init", ["sft.learning_rate=1"], "`sage rl --init` reads no setting of sft"),
        ("sft", ["rl.steps=3"], "`sage sft` reads no setting of rl"),
        ("sft", ["anchor.beta=1"], "no setting of anchor"),
        ("sft", ["data.rl.name=asdiv"], "no setting of data.rl"),
        ("rl --init", ["data.sft.name=asdiv"], "no setting of data.sft"),
        ("eval", ["guide.name=branch"], "no setting of guide"),
        ("passk", ["rollout.max_tokens=9"], "no setting of rollout"),
        ("passk", ["sft.steps=9"], "no setting of sft"),
        ("compare", ["rl.steps=9"], "no setting of rl"),
        ("compare FILE", ["sampling.temperature=1"], "no setting of sampling"),
        ("power", ["guide.name=branch"], "no setting of guide"),
        ("grade", ["evaluation.samples=4"], "no setting of evaluation"),
        ("doctor", ["anchor.kl=none", "anchor.beta=0.1"], "anchor.kl is 'none'"),
        ("rl", ["guides.branch.tau=0.2"], "guide.name is 'none'"),
        ("rl", ["guide.name=token", "guides.branch.tau=0.2"], "guide.name is 'token'"),
        ("rl", ["methods.dapo.learning_rate=1e-4"], "rl.algo is 'grpo'"),
        ("passk", ["guides.branch.tau=0.2"], "no setting of guides"),
        ("doctor", ["sweep.trials=3"], "no setting of sweep"),
        ("samples tokens", ["sft.steps=9"], "no setting of sft"),
        ("data", ["rl.steps=9"], "no setting of rl"),
        ("sft", ["model.tuning=lora"], "random weights are trained in full"),
        # read
        ("rl", ["anchor.kl=forward", "anchor.beta=0.1", "anchor.reference=initial"], None),
        ("rl", ["rollout.backend=auto", "rollout.vllm.importance_cap=3"], None),
        ("rl", ["guide.name=branch", "guide.q_min=0.5"], None),
        ("rl", ["guide.name=branch", "guides.branch.tau=0.2"], None),
        ("rl", ["rl.algo=dapo", "methods.dapo.learning_rate=1e-4"], None),
        ("rl", ["sft.steps=3"], None),
        ("rl", ["sft.steps=null", "sft.epochs=3"], None),
        ("sft", ["sft.steps=3", "evaluation.samples=8"], None),
        ("sft", ["model.tuning=full"], None),
        ("sft", ["model.kind=pretrained", "model.path=m", "model.lora.rank=4"], None),
        ("rl", ["model.tuning=lora", "model.lora.rank=4"], None),
        ("rl", ["evaluation.every=5", "sweep.benchmark=arithmetic-dev"], None),  # validates on it
        ("passk", ["sft.enabled=false", "sweep.benchmark=arithmetic-dev"], None),
        ("grade", ["grading.mode=math-verify", "prompt.answer_open=<a>"], None),
        ("compare FILE", ["evaluation.confidence=0.9"], None),
        ("doctor", ["executor.name=slurm", "executor.partition=gpu", "sft.steps=3"], None),
        ("samples tokens", ["guide.name=branch", "guide.q_min=0.5"], None),
        ("passk", ["sampling.vllm.max_model_len=64", "sampling.min_p=0"], None),
        ("eval", [SERVED, "sampling.server_attempts=2"], None),
        ("rl", ["rollout.backend=vllm", "rollout.vllm.sleep=true"], None),
        ("sweep", ["rl.steps=3", "executor.name=slurm", "executor.partition=gpu"], None),
    ],
)
def test_a_typed_value_is_read_by_the_command_or_refused(command, sets, reason):
    loaded = load(["tiny"], {}, sets)
    if reason is None:
        check_settings_read(loaded, command)
        return
    with pytest.raises(ConfigurationError, match=reason) as refusal:
        check_settings_read(loaded, command)
    assert f"{sets[-1].partition('=')[0]} (--set) has no effect" in str(refusal.value)


@pytest.mark.parametrize(
    ("flags", "typed", "why", "step"),
    [
        (
            algo("dapo"),
            "beta=0.1",
            "anchor.kl is 'none'$",
            "add --set anchor.kl=reverse, or leave it out",
        ),
        (
            algo("alpha-dpg"),
            "beta=0.1",
            "and rl.algo 'alpha-dpg' holds the policy by something else",
            "leave it out",
        ),
        (
            algo("guided-dpo"),
            "beta=0.1",
            "and rl.algo 'guided-dpo' holds the policy by",
            "leave it out",
        ),
        # tiny's model is random before SFT, and can't be held to
        (
            {"anchor": {"kl": "none"}},
            "reference=base",
            "from scratch has random weights$",
            "leave it out",
        ),
    ],
)
def test_a_next_step_leads_on(flags, typed, why, step):
    with pytest.raises(ConfigurationError, match=why) as refusal:
        check_settings_read(load(flags=flags, sets=[f"anchor.{typed}"]), "rl")
    assert refusal.value.next_step == step


def test_stored_configurations_are_trained_as_they_are():
    stored = load(["tiny"], {}, [CPU]).config.model_dump(mode="json")
    again = ["rollout.vllm.server_url=http://a", SERVED, "rl.rewards=grade"]
    for command in ("rl", "sft", "eval"):
        check_settings_read(load(stored=stored, sets=again), command)
    stored = load(["tiny"], {"anchor": {"kl": "none", "beta": 0.1}}).config.model_dump(mode="json")
    check_settings_read(load(stored=stored, sets=["rl.steps=3"]), "rl")
