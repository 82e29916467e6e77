"""Starts that don't fit the configuration: other prompts, models, bases of adapters, tokenizers."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from peft import LoraConfig, get_peft_model
from random_model import save_scratch
from shown_runs import stored_run

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.compatibility import (
    check_fitting_layers,
    check_fitting_start,
    check_fitting_tokenizer,
    check_one_method,
    method_settings,
    named_training_seeds,
    own_controls,
    unchecked,
)
from sage_cli.models.loading import attach_lora, load_model, merge_adapter
from sage_cli.models.policy import Policy, named_policy
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.settings.prompt import PromptSection
from sage_cli.store.run import Runs
from sage_cli.training.run import RlTraining, SftTraining

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]


def config(*sets):
    return load(sets=[*SIZE, *sets]).config


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


@pytest.fixture
def run(runs):
    """A finished base: random weights, trained as far as its manifest says."""
    made, settings = runs.at("sft", "arithmetic", "1" * 8), config()
    save_scratch(settings.model, settings.prompt.tags, [], made.model)
    template = PromptTemplate.from_section(settings.prompt, load_tokenizer(made.model))
    with made.recording(settings.model_dump(mode="json"), kind="sft", template=template.hash):
        pass
    return made


def adapter_on(base, folder):
    attach_lora(load_model(base), config().model.lora).save_pretrained(folder)
    load_tokenizer(base).save_pretrained(folder)
    return folder


def start(policy, settings):
    allowed = settings.rl.allow_template_mismatch
    check_fitting_start(policy, settings.model, settings.prompt, other_template=allowed)


def refusal(policy, settings):
    with pytest.raises(ConfigurationError) as caught:
        start(policy, settings)
    return caught.value.cause


def test_what_fits_passes(run, runs, tmp_path):
    tuned = ["model.tuning=lora", "model.seed=9", "model.dtype=bfloat16", "rl.steps=3"]
    start(named_policy(run.id, runs), config(*tuned))
    copied = shutil.copytree(run.model, tmp_path / "copied")
    for theirs in (
        copied,
        adapter_on(run.model, tmp_path / "a"),
        adapter_on(copied, tmp_path / "b"),
    ):
        start(Policy(str(theirs)), config(*tuned))


def test_another_prompt_is_named_and_can_be_asked_for(run, runs):
    policy = named_policy(run.id, runs)
    other = ["prompt.answer_open=<S>", "prompt.format=paper"]
    said = refusal(policy, config(*other))
    trained = run.read_manifest()["template"]
    now = PromptTemplate.from_section(config(*other).prompt, policy.tokenizer).hash
    assert f"{run.id} was trained with prompt template {trained}, and this training" in said
    assert f"{now} (prompt.format, prompt.answer_open differs)" in said
    start(policy, config(*other, "rl.allow_template_mismatch=true"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["model.hidden=32"], "hidden_size 16 and 32"),
        (["model.layers=2", "model.feed_forward=64"], "size 32 and 64, num_hidden_layers 1 and 2"),
        (["model.tokenizer=bpe"], "tokenizer characters and bpe of 1500"),
    ],
)
def test_a_run_of_another_model(run, runs, changed, said):
    assert said in refusal(named_policy(run.id, runs), config(*changed))


def test_models_of_another_kind_and_adapters_of_another_model_are_named(run, runs, tmp_path):
    sets = ["prompt.format=plain", "prompt.system=null"]
    paper = load(["qwen2.5-math-7b"], sets=sets).config
    adapter = adapter_on(run.model, tmp_path / "adapter")  # told by the run it was made for
    for policy in (named_policy(run.id, runs), Policy(str(adapter))):
        assert "kind scratch and pretrained" in refusal(policy, paper)
    adapter = adapter_on(run.model, tmp_path / "adapter")
    file = adapter / "adapter_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"base_model_name_or_path": "Qwen/Other"}))
    paper = load(["qwen2.5-math-7b"]).config
    assert "path Qwen/Other and Qwen/Qwen2.5-Math-7B" in refusal(Policy(str(adapter)), paper)
    assert "kind pretrained and scratch" in refusal(Policy(str(adapter)), config())


def test_a_folder_and_an_adapters_base_of_another_shape(run, tmp_path):
    copied = shutil.copytree(run.model, tmp_path / "copied")
    wide = config("model.hidden=32")
    assert "hidden_size 16 and 32" in refusal(Policy(str(copied)), wide)
    # an adapter is told by its base: a folder by its shape, a run by what it says
    for base in (copied, run.model):
        adapter = adapter_on(base, tmp_path / f"adapter-{base.parent.name}")
        assert "hidden_size 16 and 32" in refusal(Policy(str(adapter)), wide)


def _image_token(tokenizer):
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})


def _prompted_token(tokenizer):
    _image_token(tokenizer)
    tokenizer.chat_template = "<image>{{ messages[0].content }}"


UNFIT = "the tokenizer of copied has {} entries, and its model 101"


@pytest.mark.parametrize("by", ["files", "library", "dry run"])
@pytest.mark.parametrize(
    ("enlarge", "settings", "expected"),
    [
        (lambda _: None, {}, None),
        (lambda t: t.add_tokens([f"<extra{n}>" for n in range(5)]), {}, UNFIT.format(106)),
        (_image_token, {}, None),  # as Gemma 3's models of text have one
        (_prompted_token, {}, UNFIT.format(102)),
        (_image_token, {"pad_token": "<image>"}, UNFIT.format(102)),
        (lambda _: None, {"pad_token": "[PAD]"}, UNFIT.format(102)),
        (lambda _: None, {"eos_token": None}, "no end-of-sequence token"),
    ],
)
def test_a_tokenizer_that_its_model_cannot_follow(run, tmp_path, by, enlarge, settings, expected):
    copied = shutil.copytree(run.model, tmp_path / "copied")
    tokenizer = load_tokenizer(copied)
    enlarge(tokenizer)
    tokenizer.save_pretrained(copied)
    file = copied / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    starts = {
        "files": partial(check_fitting_tokenizer, planned=PromptSection()),
        "library": check_fitting_tokenizer,
    }
    sets = ["model.kind=pretrained", f"model.path={copied}", f"run.root={tmp_path}"]
    pretrained = load(sets=sets).config

    def start():
        if by in starts:
            starts[by](Policy(str(copied)))
        else:
            RlTraining.of(pretrained, init=str(copied)).start.describe()
            SftTraining.of(pretrained).describe()

    with nullcontext() if expected is None else pytest.raises(ConfigurationError, match=expected):
        start()


def test_an_adapter_that_brings_embeddings_of_its_tokenizers_size(run, tmp_path):
    model, tokenizer = load_model(run.model), load_tokenizer(run.model)
    tokenizer.add_tokens([f"<extra{number}>" for number in range(5)])
    model.resize_token_embeddings(len(tokenizer))
    resized = get_peft_model(model, LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    resized.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    for planned in (None, PromptSection()):
        check_fitting_tokenizer(Policy(str(tmp_path / "adapter")), planned=planned)
    assert len(load_model(tmp_path / "adapter").get_input_embeddings().weight) == 106


def test_a_plan_refuses_a_chat_prompt_without_a_template(run, tmp_path):
    sets = ["model.kind=pretrained", f"model.path={run.model}", f"run.root={tmp_path}"]
    chat = load(sets=[*sets, "prompt.format=chat"]).config
    for start in (RlTraining.of(chat, init=str(run.model)).start, SftTraining.of(chat)):
        with pytest.raises(ConfigurationError, match="has no chat template"):
            start.describe()


def test_rl_refuses_before_it_writes(run, runs):
    before = sorted(runs.root.rglob("*"))
    other = config(f"run.root={runs.root}", "prompt.answer_open=<S>")
    with pytest.raises(ConfigurationError, match="prompt template"):
        RlTraining.of(other, init=run.id).execute(Silent())
    assert sorted(runs.root.rglob("*")) == before


BRANCH = {"anchor": {"kl": "reverse"}, "guide": {"name": "branch"}}


def trained(root, identity, parent, **settings):
    """A run of RL with those settings; `rl.seed` is its own."""
    told = {"rl": {"algo": "dapo", "seed": int(identity, 16)}, **settings}
    run = stored_run(root, "dapo", identity, parent=parent.id, settings=told)
    return Policy.of_run(run)


def start_one_method(root, identity, **sft):
    settings = {
        "sft": {"seed": int(identity, 16), **sft},
        "data": {"arithmetic": {"seed": int(identity, 16)}},
    }
    return stored_run(root, "arithmetic", identity, kind="sft", settings=settings)


def test_seeds_of_the_training_and_of_the_initial_policy_may_differ(tmp_path):
    runs = Runs(tmp_path)
    seeds = {"data": {"arithmetic": {"seed": 7}}}
    one = trained(tmp_path, "1", start_one_method(tmp_path, "a"), **BRANCH)
    # another width of the grading's pool changes no result
    other = trained(
        tmp_path, "2", start_one_method(tmp_path, "b"), **BRANCH, **seeds, grading={"workers": 2}
    )
    assert method_settings(one, runs)["guide.name"] == "branch"
    check_one_method([one, other], [one], runs)


def test_other_settings_are_named_with_their_values_and_the_way_to_compare(tmp_path):
    parent = start_one_method(tmp_path, "a")
    one = trained(tmp_path, "1", parent, **BRANCH)
    other = trained(tmp_path, "2", parent, anchor={"kl": "none"})
    with pytest.raises(ConfigurationError) as error:
        check_one_method([one, other], [Policy.of_run(parent)], Runs(tmp_path))
    # the guide's own settings go without saying
    assert error.value.cause.endswith(
        "differ in anchor.kl (reverse and none), guide.name (branch and none)"
    )
    assert error.value.next_step == (
        "compare them one by one: "
        f"sage compare {one.word} {parent.id}; sage compare {other.word} {parent.id}"
    )


def test_initial_policies_are_seeds_of_one_too(tmp_path):
    one = trained(tmp_path, "1", start_one_method(tmp_path, "a"))
    other = trained(tmp_path, "2", start_one_method(tmp_path, "b", steps=10))
    with pytest.raises(ConfigurationError, match=r"initial policy: sft.steps \(875 and 10\)"):
        check_one_method([one, other], [], Runs(tmp_path))


def test_a_checkpoint_is_of_its_step(tmp_path):
    parent = start_one_method(tmp_path, "a")
    one, other = (trained(tmp_path, identity, parent) for identity in "12")
    at = [Policy(one.path, one.run, checkpoint=step) for step in (10, 20)]
    with pytest.raises(ConfigurationError, match=r"checkpoint \(10 and 20\)"):
        check_one_method([at[0], Policy(other.path, other.run, checkpoint=20)], [], Runs(tmp_path))


def test_a_model_without_settings_is_passed_over_and_named(tmp_path):
    run = trained(tmp_path, "1", start_one_method(tmp_path, "a"))
    sides = [run, Policy("org/model")], [Policy("org/other")]
    check_one_method(*sides, Runs(tmp_path))
    assert [unchecked(side, Runs(tmp_path)) for side in sides] == [["model"], []]


@pytest.fixture
def seeds_of_two(tmp_path):
    """Three seeds of DAPO with a guide, of which the second was trained last, and one without."""
    parent = start_one_method(tmp_path, "a")
    for identity in "312":
        trained(tmp_path, identity, parent, **BRANCH)
    trained(tmp_path, "4", parent, anchor={"kl": "none"})
    return parent


@pytest.mark.parametrize("name", ["rl-dapo-1", "rl-dapo-22222222", "33333333"])
def test_all_training_seeds_of_a_method_are_named_by_one_of_its_runs(tmp_path, seeds_of_two, name):
    # `stored_run` notes seed 1 of each run, so that the IDs order them
    guided = [f"rl-dapo-{digit * 8}" for digit in "123"]
    named = named_training_seeds(["other", f"{name}@seeds"], Runs(tmp_path))
    assert named == ["other", *guided]
    assert named_training_seeds(["rl-dapo-4@seeds"], Runs(tmp_path)) == ["rl-dapo-44444444"]


def test_a_name_of_two_methods_names_their_difference_and_both(tmp_path, seeds_of_two):
    with pytest.raises(ConfigurationError, match="'rl-dapo' fits 2 methods") as error:
        named_training_seeds(["rl-dapo@seeds"], Runs(tmp_path))
    assert error.value.cause.endswith(
        "differ in anchor.kl (reverse and none), guide.name (branch and none)"
    )
    assert "rl-dapo-33333333@seeds or rl-dapo-44444444@seeds" in error.value.next_step


def test_no_training_seed_is_left_out_in_silence(tmp_path, seeds_of_two):
    runs = Runs(tmp_path)
    runs.find("rl-dapo-2").note(status="failed")
    with pytest.raises(ConfigurationError, match="of the 3 runs of rl-dapo-1@seeds") as error:
        named_training_seeds(["rl-dapo-1@seeds"], runs)
    assert "rl-dapo-22222222 is failed" in error.value.cause
    assert error.value.next_step.endswith("rl-dapo-11111111,rl-dapo-33333333")


@pytest.mark.parametrize("name", ["rl-grpo", "sft-arithmetic"])
def test_training_seeds_of_no_training_run(tmp_path, seeds_of_two, name):
    with pytest.raises(StoreError, match=name):
        named_training_seeds([f"{name}@seeds"], Runs(tmp_path))


PLAIN = {"anchor": {"kl": "reverse", "beta": 0.1}, "guide": {"name": "none"}}
OTHER_BETA = {"anchor": {"kl": "reverse", "beta": 0.2}, "guide": {"name": "none"}}
GUIDED = {"anchor": {"kl": "reverse", "beta": 0.1}, "guide": {"name": "branch", "tau": 1}}


@pytest.mark.parametrize(
    ("stored", "compared", "note"),
    [
        ([PLAIN], PLAIN, "{2} is {1}'s unguided baseline"),
        ([PLAIN], OTHER_BETA, "`sage compare {1} {2}` comes first"),
        ([], OTHER_BETA, "train it with `sage rl --config {0}/{1}/config.json --guide none`"),
        ([PLAIN], "initial policy", "`sage compare {1} {2}` comes first"),
        ([GUIDED], "initial policy", "not compared: train it with `sage rl --config"),
    ],
)
def test_a_comparison_says_whether_it_is_with_the_own_control(tmp_path, stored, compared, note):
    parent = start_one_method(tmp_path, "a")
    guided = trained(tmp_path, "1", parent, **GUIDED)
    policies = {str(told): trained(tmp_path, "2", parent, **told) for told in stored}
    if compared == "initial policy":
        opposite = Policy.of_run(parent)
    else:
        opposite = policies.get(str(compared)) or trained(tmp_path, "3", parent, **compared)
    _, (sentence,) = own_controls([guided], [opposite], Runs(tmp_path))
    assert note.format(tmp_path, guided.label, "rl-dapo-22222222") in sentence
    if compared != "initial policy":  # without a guide there is nothing to say
        assert own_controls([opposite], [guided], Runs(tmp_path)) == ([], [])


def test_the_command_of_a_missing_baseline_starts_where_the_guided_runs_did(tmp_path):
    parent = start_one_method(tmp_path, "a")
    guided = [trained(tmp_path, identity, parent, **GUIDED) for identity in "12"]
    for policy in guided:
        assert policy.run is not None
        policy.run.note(command=f"sage rl --init {parent.id} --guide branch")
    _, (sentence,) = own_controls(guided, [Policy.of_run(parent)], Runs(tmp_path))
    config = f"{tmp_path}/rl-dapo-11111111/config.json"
    assert sentence.endswith(
        f"`sage rl --config {config} --guide none --init {parent.id}`, and the same for the other "
        "1 run"
    )


def test_of_several_own_controls_the_one_of_the_same_seed_is_offered(tmp_path):
    parent = start_one_method(tmp_path, "a")
    guided = trained(tmp_path, "1", parent, **GUIDED)
    trained(tmp_path, "2", parent, **PLAIN)
    newer = trained(tmp_path, "3", parent, **PLAIN).run
    assert newer is not None
    newer.note(seed=2)
    (control,), (sentence,) = own_controls([guided], [Policy.of_run(parent)], Runs(tmp_path))
    assert "rl-dapo-22222222` comes first" in sentence
    assert control.label == "rl-dapo-22222222"


@pytest.mark.parametrize(
    ("parent", "settings", "expected"),
    [
        ("a", {}, "rl-dapo-33333333"),  # of two runs of the seed the newer
        ("b", {}, "rl-dapo-22222222"),  # from the initial policy of another SFT seed
        ("a", {"data": {"arithmetic": {"seed": 9}}}, "rl-dapo-22222222"),
    ],
)
def test_an_own_control_has_the_same_initial_policy_and_data(tmp_path, parent, settings, expected):
    starts = {name: start_one_method(tmp_path, name) for name in "ab"}
    guided = trained(tmp_path, "1", starts["a"], **GUIDED)
    older = trained(tmp_path, "2", starts["a"], **PLAIN)
    newer = trained(tmp_path, "3", starts[parent], **PLAIN, **settings)
    for policy, started in ((older, 1), (newer, 2)):
        assert policy.run is not None
        policy.run.note(started=f"2026-01-0{started}T00:00:00+00:00")
    controls, _ = own_controls([guided], [Policy.of_run(starts["a"])], Runs(tmp_path))
    assert [control.label for control in controls] == [expected]


@pytest.mark.parametrize(("step", "is_control"), [(2, True), (3, False), (None, False)])
def test_a_checkpoints_own_control_is_the_same_step_without_the_guide(tmp_path, step, is_control):
    parent = start_one_method(tmp_path, "a")
    guided = replace(trained(tmp_path, "1", parent, **GUIDED), checkpoint=2)
    plain = replace(trained(tmp_path, "2", parent, **PLAIN), checkpoint=step)
    _, (sentence,) = own_controls([guided], [plain], Runs(tmp_path))
    assert ("is rl-dapo-11111111@2's unguided baseline" in sentence) == is_control


@pytest.mark.parametrize(
    ("adapter", "settings", "said"),
    [
        ({"target_modules": ["q_proj", "v_proj"]}, (), None),
        ({"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}, (), None),
        ({"target_modules": ["q_proj", "lm_head"]}, (), "has lm_head among its targets"),
        ({"target_modules": ["q_proj"], "lora_bias": True}, (), "has lora_bias"),
        (None, ("model.tuning=lora",), None),
        (
            None,
            ("model.tuning=lora", "model.lora.targets=[q_proj, lm_head]"),
            "model.lora.targets has lm_head",
        ),
        (None, ("model.tuning=full",), None),
    ],
)
def test_layers_that_a_step_cannot_compute_with_are_refused_by_name(
    run, tmp_path, adapter, settings, said
):
    """As PEFT writes them: an adapter on the head is left out by the fused head's product."""
    folder = run.model
    if adapter is not None:
        made = get_peft_model(load_model(run.model), LoraConfig(r=2, **adapter))
        folder = tmp_path / "adapter"
        made.save_pretrained(folder)
    expected = nullcontext() if said is None else pytest.raises(ConfigurationError, match=said)
    with expected:
        check_fitting_layers(Policy(str(folder)), config(*settings).model)


def test_a_model_without_a_backbone_is_refused_by_its_type(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama4_text"}))
    with pytest.raises(ConfigurationError, match="a llama4_text has no part"):
        check_fitting_layers(Policy(str(tmp_path)), config().model)


def test_biases_that_no_layer_can_take_are_refused_before_they_are_merged(run):
    biased = LoraConfig(r=2, target_modules=["o_proj"], lora_bias=True)  # which has no bias
    with pytest.raises(ConfigurationError, match=r"layers\.0\.self_attn\.o_proj has no bias"):
        merge_adapter(get_peft_model(load_model(run.model), biased))
    # Qwen2's q_proj has one
    biased = LoraConfig(r=2, target_modules=["q_proj"], lora_bias=True)
    merge_adapter(get_peft_model(load_model(run.model), biased))
