"""What a user can get wrong in settings, and what is said about it."""

import pytest

from sage_cli.config.explain import ELSEWHERE, named_elsewhere
from sage_cli.config.load import load
from sage_cli.config.schema import settings
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide


def complaint(*arguments, **named):
    with pytest.raises(ConfigurationError) as caught:
        load(*arguments, **named)
    return caught.value


GUIDED = "guide.name=branch "
TWO = "rl.processes=2 evaluation.every=5 rl.accelerate="
PRETRAINED = "model.kind=pretrained "


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("rl.algo=dpao", "rl.algo is 'dpao' (did you mean dapo?)"),
        ("rl.algo=theirs", "rl.algo is 'theirs'; it can be 80-20, adaptive-entropy"),
        ("rl.learning_rat=1", "rl has no 'learning_rat' (did you mean learning_rate?)"),
        ("modle.hidden=8", "the configuration has no 'modle' (did you mean model?)"),
        (
            "guide.name=brnch",
            f"guide.name is 'brnch'; it can be {', '.join(Guide.names())} (did you mean branch?)",
        ),
        ("data.sft.fields.qestion=a", "data.sft.fields has no 'qestion' (did you mean question?)"),
        ("guide.tau=1", "guide.tau has an effect only with the branch and shuffled guides"),
        ("model.path=a", "model.path needs model.kind=pretrained"),
        ("model.kind=scrath", "model.kind is 'scrath'; it can be pretrained, scratch (did you mea"),
        ("rl.steps=0", "rl.steps is 0: input should be greater than or equal to 1"),
        ("rl.learning_rate=.nan", "rl.learning_rate is nan: input should be a finite number"),
        ("rl.algo=[dapo]", "rl.algo is '['dapo']' (did you mean dapo?)"),
        ("rl.zzz=1", "rl has no 'zzz'; it has algo, compat, steps,"),
        ("rl.num_generations=4", "rl has no 'num_generations': it is rl.rollouts_per_prompt here"),
        # contradictions
        (GUIDED + "anchor.kl=none", "there is nothing to reshape"),
        (GUIDED + "anchor.kl=forward", "forward KL has none"),
        (GUIDED + "anchor.beta=0", "the guide would have no effect"),
        (GUIDED + "guide.q_min=1.5", "q_min 1.5 is above q_max 1.4"),
        ("guide.name=random guide.epsilon=[2,0]", "epsilon is a probability"),
        ("rl.micro_batch=7", "rl.micro_batch 7 doesn't divide the 256 completions"),
        ("rl.processes=3", "rl.micro_batch 85 x rl.processes 3 doesn't divide the 256 completions"),
        (TWO + "fsdp2", "validates the policy in one process, and rl.accelerate 'fsdp2' (FSDP) sp"),
        (TWO + "zero3", "'zero3' (DEEPSPEED) spreads it"),
        ("rl.accelerate=ddp", "launches several processes, and rl.processes is 1"),
        (
            "rl.advantage=beta rl.overlong_buffer=0.2",
            "rl.advantage 'beta' is defined for rewards in [0, 1]",
        ),
        ("rl.loss=cispo", "rl.loss 'cispo' reads rl.epsilon_high as an absolute cap"),
        ("grading.extract=text", "grading.mode is 'strict', which compares answers"),
        ("sft.micro_batch=7", "sft.micro_batch 7 doesn't divide sft.batch_size 64"),
        ("sweep.samples=8", "sweep.objective asks for pass@64 of 8 samples"),
        ("anchor.reference=base", "a model from scratch has random weights"),
        ("model.dtype=bfloat16", "all but about 1% are rounded away there"),
        ("data.arithmetic.low=99", "low 99 is not below high 99"),
        # kernels and ratios
        ("model.attention=spda", "neither an attention implementation of Transformers nor"),
        ("model.attention=spda", "did you mean sdpa?"),
        ("model.attention=a/b", "a kernel of the Hub, and a model from scratch runs none"),
        (
            PRETRAINED + "model.attention=kernels-community/flash-attn2",
            "code of the Hub, which is run only where that is said",
        ),
        (PRETRAINED + "model.kernels=true", "(add model.trust_remote_code=true"),
        ("rollout.vllm.importance_floor=3", "importance_floor 3 is above importance_cap 2"),
    ],
)
def test_one_sentence_with_what_was_probably_meant(sets, said):
    assert said in complaint(sets=sets.split()).cause


@pytest.mark.parametrize(
    ("option", "typed"),
    [
        ("--learning_rate", "--lr"),
        ("--learning-rate", "--lr"),
        ("--num_generations", "--set rl.rollouts_per_prompt=..."),
        ("--foo", None),
    ],
)
def test_options_of_other_programs_have_a_name_here(option, typed):
    assert named_elsewhere(option) == typed


def test_every_name_from_elsewhere_is_a_setting_and_presets_have_names():
    assert set(ELSEWHERE.values()) <= set(settings())
    error = complaint(["tinny"])
    assert "there is no preset 'tinny'; there are " in error.cause
    assert error.next_step == "did you mean tiny?"


def test_all_problems_at_once_in_the_schemas_order():
    sets = [*GUIDED.split(), "run.nmae=a", "rl.steps=0", "sft.scheduler=linaer", "guide.rho=-1"]
    lines = complaint(sets=sets).cause.splitlines()
    assert [line.split()[0] for line in lines] == ["sft.scheduler", "rl.steps", "guide.rho", "run"]
    sets = [*GUIDED.split(), "anchor.kl=none", "rl.micro_batch=7", "sft.micro_batch=7"]
    assert len(complaint(sets=[*sets, "sweep.samples=8"]).cause.splitlines()) == 4


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("{brnch: {tau: 1}}", "guides.brnch: guide.name is 'brnch'"),
        ("{token: {alhpa: [1, 1]}}", "guides.token: guide has no 'alhpa' (did you mean alpha?)"),
        ("{branch: 5}", "'guides.branch' must be a section, not 5"),
        ("branch", "'guides' must be a section, not 'branch'"),
    ],
)
def test_a_guides_block_is_checked_whatever_guide_is_chosen(layer, block, said):
    assert said in complaint([layer(f"guides: {block}")]).cause


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rl: {steps: 3", "can't be read as YAML"),
        ("just words", "its top level must be sections,"),
        ("- rl", "its top level must be sections,"),
        ("1: {steps: 3}", "its top level must be sections,"),
        ("steps: 3\nseed: 4", "'steps' must be a section, not 3"),
    ],
)
def test_files_that_hold_no_settings(layer, text, said):
    path = layer(text)
    error = complaint([path])
    assert said in error.cause
    assert path in error.cause


def test_files_of_bytes_or_nothing(tmp_path, layer):
    path = tmp_path / "weights.yaml"
    path.write_bytes(bytes(range(128, 256)))
    assert "can't be read as YAML" in complaint([str(path)]).cause
    assert "there is no file" in complaint([str(tmp_path / "gone.yaml")]).cause
    assert load(["tiny", layer(""), layer("rl:\nguides:\n", "b.yaml")]).config == load().config
