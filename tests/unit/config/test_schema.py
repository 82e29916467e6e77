"""The schema: which settings change no result, and what an accelerate file contradicts."""

from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from sage_cli.config.load import changed, load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.settings.section import is_cosmetic, usual_where_set

SEVERAL = {"distributed_type": "MULTI_GPU"}
FIRST = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1}}  # has plain tensors
SECOND = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
FULL, LORA, EIGHT = "model.tuning=full ", "model.tuning=lora ", "rl.optimizer=adamw_8bit"
NO_EIGHT = "'fsdp2': rl.optimizer 'adamw_8bit' can't .*--set rl.optimizer=adamw"
NO_DARS = r"rl.algo 'dars' computes .* fsdp2 or ddp"


@pytest.mark.parametrize(
    ("file", "sets", "complaint"),
    [
        (
            SEVERAL | {"num_processes": 8},
            "",
            "is for 8 processes, and rl.processes is 2 .*--processes 8",
        ),
        (
            SEVERAL | {"num_machines": 2},
            "",
            "is for 2 machines, and --processes starts all of them on this one",
        ),
        (SEVERAL | {"num_processes": 2, "num_machines": 1}, "", None),
        (SEVERAL | {"num_processes": -1}, "", None),
        (SEVERAL, "", None),
        ("gone.yaml", "", None),  # left to the launch
        ("zero3", LORA, "'zero3': DeepSpeed's ZeRO stage 3 fails"),
        ("zero3", FULL, None),
        ("fsdp2", LORA + "rl.optimizer=adamw", None),
        ("zero3", FULL + "rl.algo=dars", NO_DARS),
        (SECOND, FULL + "rl.algo=dars", NO_DARS),
        (SECOND, FULL, None),
        (SECOND | {"deepspeed_config": {"zero_stage": "auto"}}, FULL, None),
        ("fsdp2", "rl.algo=dars", None),
        ("fsdp2", FULL + EIGHT, NO_EIGHT),
        ("fsdp2", LORA + EIGHT, NO_EIGHT),
        ("fsdp2", FULL + "rl.optimizer=adamw", None),
        ("zero3", FULL + EIGHT, None),
        (FIRST, FULL + EIGHT, None),
        (FIRST, LORA + EIGHT, None),
    ],
)
def test_what_an_accelerate_file_can_train(tmp_path, file, sets, complaint):
    if not isinstance(file, str):
        (tmp_path / "own.yaml").write_text(yaml.safe_dump(file))
        file = str(tmp_path / "own.yaml")
    sets = [f"rl.accelerate={file}", "rl.processes=2", *sets.split()]
    if complaint is None:
        assert load(sets=sets).config.rl.accelerate == file
    else:
        with pytest.raises(ConfigurationError, match=complaint):
            load(sets=sets)


@pytest.mark.parametrize("preset", ["qwen2.5-3b-instruct-full", "qwen2.5-math-1.5b-instruct-full"])
def test_presets_of_all_weights_can_be_sharded(preset):
    sets = ["rl.accelerate=fsdp2", "rl.processes=4"]
    assert load([preset], sets=sets).config.rl.optimizer == "adamw"


COSMETIC = {
    "model.allow_lost_updates",
    "data.root",
    "sft.shipped",
    "sft.save_every",
    "sft.save_minutes",
    "rl.gradient_checkpointing",
    "rl.compat",
    "rl.save_every",
    "rl.save_minutes",
    "rl.keep_checkpoints",
    "rl.accelerate",
    "rl.allow_template_mismatch",
    "rl.stop_when_stuck",
    "rl.preflight",
    "rollout.vllm.max_model_len",
    "rollout.vllm.memory_share",
    "rollout.vllm.sleep",
    "rollout.vllm.server_url",
    "rollout.vllm.server_model",
    "rollout.vllm.server_timeout_s",
    "rollout.vllm.server_group_port",
    "sampling.backend",
    "sampling.batch_rows",
    "sampling.servers",
    "sampling.timeout_s",
    "sampling.server_attempts",
    "sampling.server_patience_s",
    "sampling.options",
    "sampling.vllm",
    "grading.workers",
    "evaluation.allow_template_mismatch",
    "evaluation.compat",
    "evaluation.every",
    "evaluation.validation",
    "evaluation.validation_samples",
    "sweep.study",
    "sweep.trials",
    "sweep.retries",
    "sweep.max_infeasible",
    "executor.name",
    "executor.workers",
    "executor.threads",
    "executor.gpus",
    "executor.memory_gb",
    "executor.minutes",
    "executor.address",
    "executor.partition",
    "executor.account",
    "executor.lines",
    "executor.setup",
    "tracking.wandb",
    "tracking.project",
    "tracking.group",
    "tracking.tensorboard",
    "tracking.trackio",
    "tracking.rollouts",
    "tracking.rollouts_every",
    "run.root",
    "run.sweep",
    "methods",
    "guides",
}
"""Every other setting decides a result."""
WHERE_SET = {
    "anchor.head_tokens",
    "anchor.tokens",
    "anchor.uncertain_share",
    "data.rl.fields.any_of",
    "data.sft.fields.any_of",
    "evaluation.fields.any_of",
    "grading.judge",
    "grading.unfinished",
    "model.attention",
    "model.kernels",
    "rollout.stop_at_answer",
    "rollout.vllm.importance_floor",
}
"""Of these, those that are in an identity only where they are set."""


def sections(annotation):
    """The section classes that an annotation names, through unions and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections(part)]


def leaves(model, above=""):
    """(dotted name, class, field) of every setting."""
    for name, field in model.model_fields.items():
        inner = sections(field.annotation)
        if inner and not is_cosmetic(model, name):
            for section in inner:
                yield from leaves(section, f"{above}{name}.")
        else:
            yield f"{above}{name}", model, name


def test_every_field_is_listed_as_cosmetic_as_later_or_as_neither():
    found = {name for name, model, field in leaves(SageConfig) if is_cosmetic(model, field)}
    assert found == COSMETIC
    found = {name for name, model, field in leaves(SageConfig) if field in usual_where_set(model)}
    assert found == WHERE_SET
    # else the settings of vLLM, and those of guided retries, decide nothing
    config = load(flags={"rl": {"algo": "guided-dpo"}}, sets=["rollout.backend=auto"]).config
    for name in set(type(config).model_fields) - {"methods", "guides"}:
        section = getattr(config, name)
        kept, everything = set(section.determinants()), set(section.model_dump())
        said = {n.partition(".")[2] for n in COSMETIC | WHERE_SET if n.startswith(f"{name}.")}
        # a model from scratch has fewer settings than a pretrained one
        assert everything - kept == {one for one in said if "." not in one} & everything
    config = load(sets=["model.tuning=lora"]).config
    assert config.model.determinants()["lora"]["rank"] == 8
    phases = config.data.arithmetic.determinants()["phases"]
    assert phases[0] == {
        "share": 0.6,
        "mix": {"S": 0.45, "R": 0.40, "D": 0.15},
        "loss": "completion",
    }


@pytest.mark.parametrize(
    "setting",
    ["rl.save_every=7", "data.root=/elsewhere", "sampling.batch_rows=3", "grading.workers=9"],
)
def test_a_cosmetic_change_leaves_the_determinants_alone(setting):
    name, _, value = setting.partition("=")
    section = name.partition(".")[0]
    config = load().config
    other = changed(config, {name: value})
    assert getattr(other, section) != getattr(config, section)
    assert getattr(other, section).determinants() == getattr(config, section).determinants()
