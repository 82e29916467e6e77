"""What settings of TRL, verl, prime-rl and open-instruct are called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sage_cli.json_value import leaves

PROGRAMS = ("TRL", "verl", "prime-rl", "open-instruct")
_VERL = "actor_rollout_ref."
_EPOCHS = "rl.steps counts optimiser steps: epochs x problems / rl.prompts_per_step"
ABSENT = {
    "trainer.total_epochs": _EPOCHS,
    "num_train_epochs": _EPOCHS,
    "trainer.nnodes": "start `sage rl` on each machine by torchrun, which counts them",
    "data.max_prompt_length": "prompts are never cut: one that does not fit the model's context "
    "together with rollout.max_tokens is an error before training",
    "critic.model.path": "sage has no critic, so it cannot train by PPO with GAE",
    "reward_model.model.path": "sage loads no reward model: give a function as "
    "rl.rewards=[FILE.py:FUNCTION], which may ask a server",
}
"""Names elsewhere that have no setting here, and what to do instead."""
METHODS = {
    "ppo": "there is no critic here, so no PPO; the nearest method is grpo",
    "gae": "there is no critic here, so no GAE; the nearest method is grpo",
    "rloo": "RLOO is not here; grpo with --advantage none is the nearest",
    "remax": "ReMax is not here; the nearest method is grpo",
    "reinforce": "REINFORCE is not here; grpo with --advantage none is the nearest",
    "reinforce++": "REINFORCE++ is not here; the nearest method is grpo",
    "dpo": "DPO is here with guided retries only, as guided-dpo",
    "sft": "`sage sft` trains by SFT",
}
"""Methods of other programs that `--algo` has not, and what is here instead."""
COMMANDS = {
    "train": "`sage rl` trains by RL, and `sage sft` the initial policy",
    "grpo": "sage rl --algo grpo",
    "dapo": "sage rl --algo dapo",
    "ppo": "sage rl",
    "evaluate": "sage eval",
    "test": "`sage passk` measures pass@k, and `sage doctor` checks a preset",
    "generate": "sage passk",
    "finetune": "sage sft",
    "tune": "sage sweep",
    "serve": "sage export RUN FOLDER, which vLLM serves",
    "merge": "sage export RUN FOLDER",
    "list": "sage runs list",
    "show": "sage runs show RUN",
    "models": "`sage runs list` lists the models that you trained, and `sage config presets` those "
    "that have a preset",
    "presets": "sage config presets",
    "algos": "sage config algos",
    "methods": "sage config algos",
    "logs": "`sage runs show RUN` shows a run's last metrics, and `sage view` its curves",
    "log": "`sage runs show RUN` shows a run's last metrics, and `sage view` its curves",
    "status": "sage runs list",
    "plot": "`sage passk` draws pass@k, and `sage analyze dynamics` training",
    "report": "sage suite report SUITE",
    "resume": "type the command of the run again, which resumes it",
    "config guides": "`sage rl --help` lists the guides, and docs/guides.md explains them",
    "config methods": "sage config algos",
    "config list": "`sage config show` lists all settings, and `sage config presets` all presets",
    "suite show": "`sage suite plan SUITE` shows the arms, and `sage suite report SUITE` results",
    "runs logs": "sage runs show RUN",
    "samples list": "sage samples show RUN",
    "data download": "`sage doctor --preset PRESET` downloads what the preset needs",
}
"""Commands of other programs, and what to type here; those of a group begin with its name."""
_OTHERS = {
    "gpu_memory_utilization": "rollout.vllm.memory_share",
    "max_new_tokens": "sampling.max_tokens",
    "clip_ratio": "rl.epsilon_low",
}
"""Names of Transformers and vLLM, and short ones."""
FOREIGN_SECTIONS = ("actor_rollout_ref", "algorithm", "trainer", "orchestrator", "reward_model")
"""Top-level sections of configurations of verl and prime-rl."""


@dataclass(frozen=True)
class Counterpart:
    """A setting here with its names in `PROGRAMS`, empty where a program has none.

    `note` says what differs, and `example` is a value of the setting. A value of one of `other`
    names means something else here, so that it can't be typed as it is.
    """

    setting: str
    names: tuple[str, str, str, str]
    note: str = ""
    example: str = ""
    other: tuple[str, ...] = ()


COUNTERPARTS = (
    Counterpart(
        "rl.algo",
        ("", "algorithm.adv_estimator", "", ""),
        "`grpo` is verl's `grpo`; its `gae` (PPO with a critic), `rloo` and `remax` are not here",
        example="grpo",
    ),
    Counterpart(
        "model.path",
        ("model_name_or_path", f"{_VERL}model.path", "model.name", "model_name_or_path"),
        "`--init MODEL` starts from it without SFT",
        example="ORG/MODEL",
    ),
    Counterpart(
        "data.rl.name",
        ("dataset_name", "data.train_files", "", "dataset_mixer_list"),
        "a single file or data set, whose columns are recognised",
        example="train.jsonl",
    ),
    Counterpart(
        "evaluation.benchmark",
        ("", "data.val_files", "", ""),
        "the problems of pass@k, measured after training by `sage passk RUN` or with `--measure`; "
        "those during training are `evaluation.validation`",
        example="test.jsonl",
    ),
    Counterpart(
        "run.root",
        ("output_dir", "trainer.default_local_dir", "output_dir", "output_dir"),
        "a folder of runs; each run's own folder is named by its settings",
        example="runs",
    ),
    Counterpart(
        "rl.learning_rate",
        ("learning_rate", f"{_VERL}actor.optim.lr", "trainer.optim.lr", "learning_rate"),
        example="1e-6",
    ),
    Counterpart(
        "rl.weight_decay",
        (
            "weight_decay",
            f"{_VERL}actor.optim.weight_decay",
            "trainer.optim.weight_decay",
            "weight_decay",
        ),
        example="0.01",
    ),
    Counterpart(
        "rl.scheduler",
        ("lr_scheduler_type", "", "trainer.scheduler.type", "lr_scheduler_type"),
        example="constant",
    ),
    Counterpart(
        "rl.warmup_ratio",
        ("warmup_ratio", f"{_VERL}actor.optim.lr_warmup_steps_ratio", "", "warmup_ratio"),
        example="0.1",
    ),
    Counterpart(
        "rl.max_grad_norm",
        ("max_grad_norm", f"{_VERL}actor.grad_clip", "trainer.optim.max_norm", "max_grad_norm"),
        example="1.0",
    ),
    Counterpart("rl.optimizer", ("optim", "", "trainer.optim.type", ""), example="adamw"),
    Counterpart(
        "rl.steps",
        ("max_steps", "trainer.total_training_steps", "max_steps", "num_training_steps"),
        "optimiser steps; verl counts batches of rollouts, which may have several",
        example="200",
        other=("trainer.total_training_steps",),
    ),
    Counterpart(
        "rl.prompts_per_step",
        (
            "gradient_accumulation_steps",
            f"{_VERL}actor.ppo_mini_batch_size",
            "",
            "num_unique_prompts_rollout",
        ),
        "prompts per optimiser step, as in verl; TRL counts micro-batches of completions instead",
        example="32",
        other=("gradient_accumulation_steps",),
    ),
    Counterpart(
        "rl.rollouts_per_prompt",
        (
            "num_generations",
            f"{_VERL}rollout.n",
            "orchestrator.rollouts_per_example",
            "num_samples_per_prompt_rollout",
        ),
        example="8",
    ),
    Counterpart(
        "rl.micro_batch",
        (
            "per_device_train_batch_size",
            f"{_VERL}actor.ppo_micro_batch_size_per_gpu",
            "",
            "per_device_train_batch_size",
        ),
        "completions per forward pass of a process; with GRPO it changes results only by rounding",
        example="8",
    ),
    Counterpart(
        "rl.steps_per_generation",
        ("steps_per_generation", "data.train_batch_size", "", "num_mini_batches"),
        "optimiser steps per batch of rollouts; verl's `data.train_batch_size` is "
        "`rl.prompts_per_step` times this number",
        example="4",
        other=("data.train_batch_size",),
    ),
    Counterpart(
        "rl.iterations",
        ("num_iterations", f"{_VERL}actor.ppo_epochs", "", "num_epochs"),
        example="2",
    ),
    Counterpart(
        "rollout.max_tokens",
        (
            "max_completion_length",
            "data.max_response_length",
            "orchestrator.sampling.max_tokens",
            "response_length",
        ),
        example="1024",
    ),
    Counterpart(
        "rollout.temperature",
        (
            "temperature",
            f"{_VERL}rollout.temperature",
            "orchestrator.sampling.temperature",
            "temperature",
        ),
        example="1.0",
    ),
    Counterpart(
        "rollout.top_p", ("top_p", f"{_VERL}rollout.top_p", "", "vllm_top_p"), example="0.95"
    ),
    Counterpart("rollout.top_k", ("top_k", f"{_VERL}rollout.top_k", "", ""), example="50"),
    Counterpart(
        "rollout.backend",
        ("use_vllm", f"{_VERL}rollout.name", "", ""),
        "`auto` chooses vLLM if it is installed and there is a GPU",
        example="vllm",
        other=("use_vllm",),
    ),
    Counterpart(
        "rollout.vllm.memory_share",
        (
            "vllm_gpu_memory_utilization",
            f"{_VERL}rollout.gpu_memory_utilization",
            "",
            "vllm_gpu_memory_utilization",
        ),
        example="0.5",
    ),
    Counterpart(
        "rollout.vllm.tensor_parallel",
        (
            "vllm_tensor_parallel_size",
            f"{_VERL}rollout.tensor_model_parallel_size",
            "",
            "vllm_tensor_parallel_size",
        ),
        example="2",
    ),
    Counterpart(
        "rl.epsilon_low",
        ("epsilon", f"{_VERL}actor.clip_ratio_low", "", "clip_lower"),
        example="0.2",
    ),
    Counterpart(
        "rl.epsilon_high",
        ("epsilon_high", f"{_VERL}actor.clip_ratio_high", "", "clip_higher"),
        example="0.28",
    ),
    Counterpart(
        "rl.delta",
        ("delta", f"{_VERL}actor.clip_ratio_c", "", ""),
        "an upper limit of the ratio for negative advantages; it needs several updates per batch "
        "of rollouts",
        example="10",
    ),
    Counterpart(
        "rl.loss",
        ("loss_type", f"{_VERL}actor.loss_agg_mode", "", "loss_denominator"),
        "`dapo` is verl's `token-mean`, `grpo` its `seq-mean-token-mean`",
        example="dapo",
        other=(f"{_VERL}actor.loss_agg_mode", "loss_denominator"),
    ),
    Counterpart(
        "rl.importance_sampling_level",
        ("importance_sampling_level", "", "", ""),
        example="sequence",
    ),
    Counterpart(
        "rl.advantage",
        ("scale_rewards", "algorithm.norm_adv_by_std_in_grpo", "", "advantage_normalization_type"),
        "`group` divides by the group's deviation, `none` does not",
        example="none",
        other=(
            "scale_rewards",
            "algorithm.norm_adv_by_std_in_grpo",
            "advantage_normalization_type",
        ),
    ),
    Counterpart(
        "rl.dynamic_sampling",
        ("", "algorithm.filter_groups.enable", "", "filter_zero_std_samples"),
        "groups without variance are replaced by other prompts",
        example="true",
    ),
    Counterpart(
        "rl.max_extra_generations",
        ("", "algorithm.filter_groups.max_num_gen_batches", "", ""),
        "further generations per step; it needs dynamic sampling",
        example="10",
    ),
    Counterpart(
        "rl.overlong_buffer",
        ("", "reward_model.overlong_buffer.len", "", ""),
        "a share of rollout.max_tokens, where verl counts tokens",
        example="0.2",
        other=("reward_model.overlong_buffer.len",),
    ),
    Counterpart(
        "rl.mask_truncated_completions",
        ("mask_truncated_completions", "", "", "mask_truncated_completions"),
        example="true",
    ),
    Counterpart("rl.top_entropy_quantile", ("top_entropy_quantile", "", "", ""), example="0.2"),
    Counterpart(
        "rl.entropy_coefficient",
        ("entropy_coef", f"{_VERL}actor.entropy_coeff", "", ""),
        example="0.01",
    ),
    Counterpart(
        "rl.rewards",
        ("reward_funcs", "custom_reward_function.path", "", ""),
        "a function of your own is given as `FILE.py:FUNCTION`, and has TRL's signature",
        example="[grade]",
        other=("reward_funcs", "custom_reward_function.path"),
    ),
    Counterpart("anchor.beta", ("beta", f"{_VERL}actor.kl_loss_coef", "", "beta"), example="0.04"),
    Counterpart(
        "anchor.kl",
        ("", f"{_VERL}actor.use_kl_loss", "", "load_ref_policy"),
        "`none` turns the KL term off",
        example="none",
        other=(f"{_VERL}actor.use_kl_loss", "load_ref_policy"),
    ),
    Counterpart(
        "anchor.estimator",
        ("", f"{_VERL}actor.kl_loss_type", "", "kl_estimator"),
        "`k3` is verl's `low_var_kl`",
        example="k3",
        other=(f"{_VERL}actor.kl_loss_type", "kl_estimator"),
    ),
    Counterpart(
        "anchor.estimator",
        ("", "algorithm.use_kl_in_reward", "", ""),
        "`reward` where verl has `True`",
        example="reward",
        other=("algorithm.use_kl_in_reward",),
    ),
    Counterpart(
        "anchor.ema",
        ("ref_model_mixup_alpha", "", "", "alpha"),
        "the share of the average that is kept, where the others give the policy's share",
        example="0.9",
        other=("ref_model_mixup_alpha", "alpha"),
    ),
    Counterpart(
        "anchor.reset_every",
        ("ref_model_sync_steps", "", "", "ref_policy_update_freq"),
        example="100",
    ),
    Counterpart("rl.seed", ("seed", "", "", "seed"), example="1"),
    Counterpart(
        "rl.save_every",
        ("save_steps", "trainer.save_freq", "ckpt.interval", "save_freq"),
        example="50",
    ),
    Counterpart(
        "evaluation.every",
        ("eval_steps", "trainer.test_freq", "eval.interval", "local_eval_every"),
        example="20",
    ),
    Counterpart(
        "tracking.wandb",
        ("report_to", "trainer.logger", "wandb", "with_tracking"),
        "`offline` (the default) writes W&B's files below each run, `online` sends them, `off` "
        "does neither",
        example="online",
        other=("report_to", "trainer.logger", "wandb", "with_tracking"),
    ),
    Counterpart(
        "tracking.project",
        ("", "trainer.project_name", "wandb.project", "wandb_project_name"),
        example="my-project",
    ),
    Counterpart(
        "rl.gradient_checkpointing",
        (
            "gradient_checkpointing",
            f"{_VERL}model.enable_gradient_checkpointing",
            "",
            "gradient_checkpointing",
        ),
        example="true",
    ),
    Counterpart(
        "rl.processes", ("", "trainer.n_gpus_per_node", "", "num_learners_per_node"), example="8"
    ),
    Counterpart("model.lora.rank", ("lora_r", f"{_VERL}model.lora_rank", "", ""), example="16"),
    Counterpart(
        "model.lora.alpha", ("lora_alpha", f"{_VERL}model.lora_alpha", "", ""), example="32"
    ),
    Counterpart(
        "model.lora.targets",
        ("lora_target_modules", f"{_VERL}model.target_modules", "", ""),
        example="[q_proj,v_proj]",
    ),
    Counterpart("model.compute_dtype", ("bf16", "", "", ""), example="bfloat16", other=("bf16",)),
    Counterpart("model.dtype", ("torch_dtype", "", "", ""), example="bfloat16"),
    Counterpart("model.dtype", ("dtype", "", "", ""), example="bfloat16"),
    Counterpart(
        "model.attention",
        ("attn_implementation", "", "trainer.model.attn", "attn_implementation"),
        example="sdpa",
    ),
    Counterpart(
        "prompt.system",
        ("system_prompt", "", "", "system_prompt_override_file"),
        example="'Think step by step.'",
    ),
)
"""Settings with their names elsewhere, in the order in which one reads a configuration."""


@cache
def elsewhere() -> Mapping[str, str]:
    """Return the setting of every name elsewhere, whole and by its last part if that is clear."""
    named = {name: row.setting for row in COUNTERPARTS for name in row.names if name}
    short: dict[str, set[str]] = {}
    for name, setting in named.items():
        short.setdefault(name.rpartition(".")[2], set()).add(setting)
    clear = {name: settings.pop() for name, settings in short.items() if len(settings) == 1}
    return {**clear, **named, **_OTHERS}


def translated(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]] | None:
    """Return the settings that a configuration of another program means, and its unknown names.

    None for a configuration whose names are not theirs. Values are as they were written, although
    some mean another thing here: see the notes of `COUNTERPARTS`.
    """
    known = elsewhere()
    flat = sum(not isinstance(value, dict) and key in known for key, value in values.items()) > 1
    if not flat and not any(key in values for key in FOREIGN_SECTIONS):
        return None
    settings: dict[str, Any] = {}
    unknown: list[str] = []
    for name, value in leaves(values):
        if name in known:
            settings[known[name]] = value
        else:
            unknown.append(name)
    return settings, unknown


def notes_on(settings: Sequence[str]) -> list[str]:
    """Return what differs between these settings and their counterparts, a sentence each."""
    return [
        f"{setting}: {row.note}"
        for setting in settings
        for row in COUNTERPARTS
        if row.setting == setting and row.note
    ]


def notes_on_name(name: str) -> list[str]:
    """Return what differs between a setting here and its counterpart `name`, a sentence each."""
    return [
        row.note
        for row in COUNTERPARTS
        if row.note and any(_ends(whole, name) for whole in row.names)
    ]


def example_instead_of_value(name: str) -> str:
    """Return an example of the setting for a name whose values mean something else here, or ''."""
    named = (row for row in COUNTERPARTS if any(_ends(whole, name) for whole in row.other))
    return next((row.example for row in named), "")


def _ends(whole: str, name: str) -> bool:
    """Return True for a name or its last part, as `elsewhere` knows them."""
    return name in (whole, whole.rpartition(".")[2])


def absences(names: Sequence[str]) -> list[str]:
    """Return what to do instead of each of these names of others that `ABSENT` explains."""
    return [f"{name}: {ABSENT[name]}" for name in names if name in ABSENT]
