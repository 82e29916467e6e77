"""Plans: the stages of a command in words, and the run of a configuration before it is trained.

At the end are facts and warnings about a configuration. A run is known from its settings and its
parent alone.

No weights are read, so that a plan can say exactly what is done and what is missing. What the
weights really were is noted when a run ends (`sage_cli.models.compatibility`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sage_cli import RESULT_VERSION
from sage_cli.config.consent import consents
from sage_cli.config.readers import as_read
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import (
    adapter_base,
    fingerprint,
    is_adapter,
    require_model,
    require_whole_weights,
)
from sage_cli.models.policy import Policy, named_policy
from sage_cli.models.shipped_base import shipped_run, source_of, why_not_shipped
from sage_cli.problems.identity import demonstrations_identity, training_identity
from sage_cli.problems.source_errors import reading
from sage_cli.settings.inputs import PretrainedModel, ScratchModel, kernel_arguments, trained_dtype
from sage_cli.settings.presets import OFFICIAL, accelerate_file
from sage_cli.settings.sampling import DecodingSection, RolloutSection
from sage_cli.settings.training import AnchorSection
from sage_cli.store.files import identity_of
from sage_cli.store.run import FAILED, FINISHED, INTERRUPTED, PRUNED, TORN, Run, Runs, run_of


@dataclass(frozen=True)
class Described:
    """A stage in words: its title, and its facts by name."""

    title: str
    facts: dict[str, Any]


class Stage(ABC):
    """One part of a command's work. Each kind carries itself out with what it needs for that."""

    @abstractmethod
    def describe(self) -> Described:
        """Describe what the stage would do, and what of it is done; loads and writes nothing."""

    def memory(self, gpu_gb: int) -> Described | None:  # noqa: ARG002
        """Lay the stage's memory against GPUs of so many GB; None if it computes nothing."""
        return None


def plan_of(stages: Sequence[Stage], gpu_gb: int | None = None) -> list[Described]:
    """Describe the stages of a command, and their memory on GPUs of so many GB."""
    return [*(stage.describe() for stage in stages), *memory_of(stages, gpu_gb)]


def memory_of(stages: Sequence[Stage], gpu_gb: int | None) -> list[Described]:
    """Describe the memory that each stage takes on GPUs of so many GB; empty without one."""
    described = (stage.memory(gpu_gb) for stage in stages if gpu_gb is not None)
    return [memory for memory in described if memory is not None]


_HELD_BY = {"reverse": "kl", "forward": "forward-kl", "none": "no-kl"}


def base_label(config: SageConfig) -> str:
    """Return the label of an initial policy: its model, or its task for one from scratch."""
    if isinstance(config.model, ScratchModel):
        return Path(config.data.sft.name.partition(":")[0]).stem.lower()
    return Path(config.model.path).name.lower()


def rl_label(config: SageConfig) -> str:
    """Return algorithm and anchor of a run: a guide's name, `kl`, `forward-kl` or `no-kl`."""
    guide = config.guide.name
    return f"{config.rl.algo}-{guide if guide != 'none' else _HELD_BY[config.anchor.kl]}"


def planned_base(config: SageConfig, runs: Runs) -> Policy:
    """Return the base of a configuration: a run's model, trained or not yet, or the model as it is.

    The run is the base that comes with `sage` where that one was trained under these settings.
    Raises ConfigurationError where a model from scratch is not to be trained.
    """
    if config.sft.enabled:
        trained = sft_run(config, runs)
        shipped = shipped_run(trained) if config.sft.shipped else None
        return Policy.of_run(shipped or trained, consent=consents(config.model))
    if isinstance(config.model, PretrainedModel):
        return Policy(config.model.path, section=config.model)
    raise ConfigurationError(
        "model.kind is 'scratch' and sft.enabled is false, so that RL would start "
        "from random weights",
        "use --set sft.enabled=true, or --init RUN",
    )


def sft_run(config: SageConfig, runs: Runs) -> Run:
    """Return the run of a base, identified by model, prompt, SFT settings and demonstrations."""
    with reading(config, "data.sft"):
        demonstrations = demonstrations_identity(config.data, config.sft)

    def determinants(section: Callable[[str], Any]) -> dict[str, Any]:
        return {
            "model": _start(section("model")),
            "prompt": section("prompt").determinants(),
            "sft": section("sft").determinants(),
            "data": demonstrations,
        }

    return _run_of(config, runs, ("sft", base_label(config)), determinants)


def rl_run(
    config: SageConfig,
    parent: Policy,
    runs: Runs,
    processes: int,
    pool: Mapping[str, Any] | None = None,
) -> Run:
    """Return the run of a policy that is trained by RL from `parent` in so many processes.

    `pool` is what decides which problems were chosen by pass rates, if any were.
    """
    model, anchor, guide = config.model, config.anchor, config.guide
    with reading(config, "data.rl"):
        problems = training_identity(config.data)
    lora = model.lora.determinants() if model.tuning == "lora" else None
    kernels = kernel_arguments(model)

    def determinants(section: Callable[[str], Any]) -> dict[str, Any]:
        return {
            "parent": parent.identity,
            "tuning": [model.tuning, trained_dtype(model), lora],
            "compute": model.compute_dtype,
            "prompt": section("prompt").determinants(),
            # each process samples rollouts of its own
            "rl": {**section("rl").determinants(), "processes": processes},
            "rollout": section("rollout").determinants(),
            "anchor": section("anchor").determinants() if anchor.kl != "none" else None,
            "guide": section("guide").determinants() if guide.name != "none" else None,
            "grading": section("grading").determinants(),
            **({"kernels": kernels} if kernels else {}),
            "data": problems | ({"pool": dict(pool)} if pool else {}),
        }

    return _run_of(config, runs, ("rl", rl_label(config)), determinants)


def _run_of(
    config: SageConfig,
    runs: Runs,
    named: tuple[str, str],
    determinants: Callable[[Callable[[str], Any]], dict[str, Any]],
) -> Run:
    """Return the run of kind and label `named` that `determinants` of the sections identify.

    In the hash, a setting that nothing reads has its default. Earlier releases hashed it as it was
    given; where a folder has a run under that hash, and none under today's, it is the same
    training, and is meant.
    """
    kind, label = named
    today = determinants(partial(as_read, config))
    formerly = determinants(partial(getattr, config))
    run = runs.at(kind, label, identity_of(kind, today))
    if formerly == today or run.begun:
        return run
    former = runs.at(kind, label, identity_of(kind, formerly))
    return former if former.begun else run


def _start(model: PretrainedModel | ScratchModel) -> dict[str, Any]:
    settings = {**model.determinants(), "dtype": trained_dtype(model)}
    if isinstance(model, ScratchModel):
        # random weights are always trained in full: the tuning is RL's
        return {key: v for key, v in settings.items() if key not in ("tuning", "lora")}
    require_model(model.path)
    require_whole_weights(model.path)
    weights = fingerprint(model.path, model.revision)
    return {**settings, "path": None, "weights": weights}


def run_facts(run: Run) -> dict[str, Any]:
    """Return the run's id and its state, for plans."""
    return {"run": run.id, "state": state(run)}


def base_facts(base: Policy) -> dict[str, Any]:
    """Return the initial policy of RL, for plans: a run with its state, or a model as it is."""
    return run_facts(base.run) if base.run else {"model": f"{base.path}, used without SFT"}


def state(run: Run) -> str:
    """Return the state of a run, for plans.

    `finished`, `interrupted at step 9 of 20`, `running`, `failed: ...`, `not trained yet`,
    `pruned at step 9 of 20: ...`, if a sweep ended it, or `comes with sage`.
    """
    if not run.begun:
        return "comes with sage" if source_of(run) is not None else "not trained yet"
    if (torn := run.torn) is not None:
        return f"{TORN}: {torn.cause}"
    manifest, status = run.manifest, run.status
    if status == FINISHED:
        return status
    records = run.metrics.read()
    progress = f" at step {records[-1]['step']} of {records[-1].get('of', '?')}" if records else ""
    explained = status in (FAILED, PRUNED) and manifest.get("reason")
    why = f": {manifest['reason']}" if explained else ""
    release = other_release(run)
    return f"{status}{progress}{why}{f'; can be resumed by {release}' if release else ''}"


def other_release(run: Run) -> str | None:
    """Return by which release an unfinished run goes on, where this one computes otherwise."""
    manifest = run.manifest
    if run.status not in (INTERRUPTED, FAILED) or manifest.get("result_version") == RESULT_VERSION:
        return None
    release = manifest.get("versions", {}).get("sage", "of an earlier release")
    commit = f", commit {manifest['commit']}" if manifest.get("commit") else ""
    return f"the release that began it (sage {release}{commit})"


def reference_policy(start: Policy, config: SageConfig) -> Policy:
    """Return the frozen model that `anchor.reference` means for a training from `start`.

    `initial` is `start` itself. `base` is the model below its adapter, or the one that its run
    began with; `start` again where there is neither, and under LoRA where it has no adapter yet.
    Raises ConfigurationError where nothing but random weights came before.
    """
    folder = Path(start.path)
    if config.anchor.reference == "initial":
        return start
    if is_adapter(folder):
        below = adapter_base(folder)
        return Policy(below, run_of(Path(below)), section=start.pretrained)
    if config.model.tuning == "lora" or start.run is None:
        return start
    if start.pretrained is None:
        raise ConfigurationError(
            f"anchor.reference is 'pre-sft', but {start.label} was trained from random weights",
            "use --set anchor.reference=initial",
        )
    return Policy(start.pretrained.path, section=start.pretrained)


def reference_of(policy: Policy, config: SageConfig, runs: Runs) -> Policy:
    """Return the frozen model that the policy of a run of RL was anchored to.

    Raises ConfigurationError for a policy that was trained without a reference.
    """
    parent = policy.run.manifest.get("parent") if policy.run is not None else None
    if parent is None:
        raise ConfigurationError(
            f"guide.signal is 'reference', and {policy.label} was trained without a reference",
            "use --set guide.signal=policy",
        )
    is_run = any(run.id == parent for run in runs.all())
    section = config.model if isinstance(config.model, PretrainedModel) else None
    start = named_policy(parent, runs, section) if is_run else Policy(parent, section=section)
    return reference_policy(start, config)


def policy_and_reference(config: SageConfig, base: Policy) -> tuple[Any, Path | None]:
    """The trainable policy, and the folder of a reference that isn't inside the policy itself."""
    from sage_cli.models.loading import attach_lora

    model = base.model(
        dtype=trained_dtype(config.model),
        trainable=True,
        kernels=kernel_arguments(config.model),
        verify_later=True,  # the trainer waits before its first update
    )
    has_adapter = hasattr(model, "peft_config")
    if config.model.tuning == "full":
        held = config.anchor.kl == "reverse" or config.rl.keeps_reference
        return model, reference_policy(base, config).folder if held else None
    return (model if has_adapter else attach_lora(model, config.model.lora)), None


ESTIMATORS = {
    "k3": "k3 as a loss term (the authors'): the pull towards q pi_ref at each state",
    "k3-corrected": "k3 times the importance ratio: the exact reverse KL of each token",
    "head": "exact over the likeliest tokens of a state: the reverse KL of each token",
    "reward": "log-ratio as reward-to-go: the exact gradient of the sequence's pseudo-KL (Eq. 6)",
}


REFERENCES = {"initial": "initial policy", "pre-sft": "model before SFT"}
"""What a plan calls the values of `anchor.reference`."""


def remarks(config: SageConfig) -> list[str]:
    """Return sentences on divergence, estimator and reference, and warnings."""
    sentences, model = [], config.model
    if config.rl.compat == OFFICIAL:
        sentences.append(
            "compat official: where the authors' code differs from the paper, its settings are "
            "used (docs/fidelity.md lists them)"
        )
    sentences += [*config.rl.warnings(), *_of_the_anchor(config)]
    if model.tuning == "lora" and model.lora.dropout:
        sentences.append(
            f"model.lora.dropout {model.lora.dropout:g} has no effect in RL, which trains without "
            "dropout"
        )
    return sentences


def _of_the_anchor(config: SageConfig) -> list[str]:
    anchor = config.anchor
    if not config.rl.takes_a_guide:  # it has something else that holds it
        return []
    if anchor.kl == "none" or anchor.beta == 0:
        return ["there is no KL anchor, so no reference model is loaded"]
    if anchor.kl == "forward":
        return [
            f"forward KL, beta {beta_in_words(anchor)}: cross-entropy on "
            f"{anchor.reference_samples} completions per prompt of the reference "
            f"({anchor.reference})"
        ]
    sentences = [
        f"reverse KL, beta {beta_in_words(anchor)}, reference: {anchor.reference}; "
        f"estimator {anchor.estimator}: {ESTIMATORS[anchor.estimator]}",
        *anchor.changes,
    ]
    guided = config.guide.name != "none"
    if guided and config.guide.of_states and anchor.estimator in ("k3-corrected", "head"):
        sentences.append(
            f"warning: {config.guide.name} depends on the state alone and drops out in expectation "
            f"under {anchor.estimator}: it only adds variance (use anchor.estimator=k3 or reward)"
        )
    if anchor.estimator == "head" and config.rollout.truncates:
        sentences.append(
            "warning: rollouts leave out unlikely tokens (rollout.top_p, top_k or min_p), and "
            "the estimator head sees of those only the anchor.head_tokens most likely ones"
        )
    return sentences


def beta_in_words(anchor: AnchorSection) -> str:
    """Return the anchor's weight, and where it goes."""
    return f"{anchor.beta:g}" + (" decaying to 0" if anchor.schedule == "cosine" else "")


def sft_facts(config: SageConfig) -> dict[str, Any]:
    """Return the facts of SFT."""
    section, model = config.sft, config.model
    length = f"{section.steps} steps" if section.steps else f"{section.epochs} epochs"
    why = why_not_shipped(config)
    return {
        **({"trained because": why} if why else {}),
        "model": model.path if isinstance(model, PretrainedModel) else "random initial weights",
        "tuning": _tuning(model) if isinstance(model, PretrainedModel) else "full",
        "weights": _weights(model),
        "demonstrations": config.data.sft.name,
        "length": f"{length}, batch size {section.batch_size}",
        "learning rate": f"{section.learning_rate:g}, {section.scheduler}",
        "optimizer": section.optimizer,
        "seed": section.seed,
    }


def rl_facts(config: SageConfig) -> dict[str, Any]:
    """Return the facts of a training by RL: objective, anchor, batch arithmetic, amounts."""
    rl, rollout, limit = config.rl, config.rollout, config.data.rl.limit
    launched = f", launched by {accelerate_file(rl.accelerate)}" if rl.accelerate else ""
    return {
        "algorithm": f"{rl.algo} ({rl.source})",
        "compat": rl.compat,
        **rl.describe(),
        **(_anchor_facts(config) if rl.takes_a_guide else {}),
        "tuning": _tuning(config.model),
        "weights": _weights(config.model),
        "problems": config.data.rl.name + (f", first {limit:,}" if limit else ""),
        **rl.amounts(rollout.max_tokens),
        "rollout": _decoding(rollout) + (f", {_engine(rollout)}" if rl.online else ""),
        "learning rate": f"{rl.peak_rate:g}, {rl.scheduler}, "
        f"warm-up in the first {100 * rl.warmup_ratio:g}% of the steps",
        "weight decay": f"{rl.weight_decay:g}",
        "optimizer": rl.optimizer,
        "processes": f"{rl.processes}{launched}",
        "seed": rl.seed,
    }


def _anchor_facts(config: SageConfig) -> dict[str, str]:
    anchor, guide = config.anchor, config.guide
    parts = [
        f"{anchor.kl} KL",
        f"beta {beta_in_words(anchor)}",
        f"estimator {anchor.estimator}",
        f"reference: {REFERENCES[anchor.reference]}",
        *anchor.changes,
    ]
    return {
        "anchor": "none" if anchor.kl == "none" else ", ".join(parts),
        "guide": guide.describe() if guide.name != "none" else "none",
    }


def _decoding(section: DecodingSection) -> str:
    return (
        f"temperature {section.temperature:g}, min_p {section.min_p:g}, "
        f"at most {section.max_tokens} new tokens"
    )


def evaluation_facts(config: SageConfig) -> dict[str, Any]:
    """Return the facts of a measurement: benchmarks, samples, k, sampling and grading."""
    evaluation, sampling = config.evaluation, config.sampling
    seeds = f" with each of {evaluation.seeds} evaluation seeds" if evaluation.seeds > 1 else ""
    return {
        "benchmarks": evaluation.benchmark,
        "samples": f"{evaluation.samples} per problem{seeds}",
        "k": evaluation.k,
        "sampling": f"{_decoding(sampling)}, backend {sampling.backend}",
        "grading": f"{config.grading.mode}, answer format "
        + (config.grading.extract or config.prompt.answer),
    }


def _engine(rollout: RolloutSection) -> str:
    if not rollout.may_use_vllm:
        return rollout.backend
    vllm = rollout.vllm
    mode = f"in {vllm.server_url}" if vllm.mode == "server" else "colocated"
    if vllm.mode == "colocate" and vllm.tensor_parallel > 1:
        mode += f" over {vllm.tensor_parallel} GPUs each"
    engine = f"vLLM {mode}, importance correction {vllm.importance_correction}"
    if vllm.importance_correction != "none":
        engine += f" by {rollout.logprobs_mode.replace('_logprobs', '')} log-probabilities"
    return engine if rollout.backend == "vllm" else f"{engine}; without a GPU the builtin backend"


def _weights(model: PretrainedModel | ScratchModel) -> str:
    weights, products = trained_dtype(model), model.compute_dtype
    kept = "weights as stored" if weights == "auto" else f"{weights} weights"
    computed = (
        "bfloat16 compute on GPUs that support it" if products == "auto" else f"{products} compute"
    )
    chosen = "".join(f", {name} {value}" for name, value in kernel_arguments(model).items())
    return f"{kept}, {computed}{chosen}"


def _tuning(model: PretrainedModel | ScratchModel) -> str:
    if model.tuning == "full":
        return "full"
    lora = model.lora
    return f"LoRA r = {lora.rank}, alpha = {lora.alpha}, {', '.join(lora.targets)}"
