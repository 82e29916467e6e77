"""What a plan says of a configuration and of its runs."""

from __future__ import annotations

from typing import Any

from sage_cli import RESULT_VERSION
from sage_cli.config.schema import SageConfig
from sage_cli.models.policy import Policy
from sage_cli.models.shipped_base import shipped_source, why_not_shipped
from sage_cli.settings.anchor import AnchorSection
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.model import PretrainedModel, ScratchModel, kernel_arguments, trained_dtype
from sage_cli.settings.official import OFFICIAL
from sage_cli.settings.rollout import RolloutSection
from sage_cli.settings.sharding import accelerate_file
from sage_cli.store.run import CORRUPT, FAILED, FINISHED, INTERRUPTED, PRUNED, Run

ESTIMATORS = {
    "k3": "which pulls towards the anchor at each token, as in the authors' code",
    "k3-corrected": "k3 times the importance ratio, which is the exact reverse KL of each token",
    "head": "which is the reverse KL of each token, exact over the state's most likely tokens",
    "reward": "the log-ratio as a reward-to-go, whose gradient is exact for the sequence (Eq. 6)",
}
"""What is said of each estimator behind its name."""
REFERENCES = {"initial": "initial policy", "pre-sft": "model before SFT"}
"""What a plan calls the words of `anchor.reference`."""


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
    if not run.has_begun():
        return "comes with sage" if shipped_source(run) is not None else "not trained yet"
    state = run.read()
    if (corruption := state.corruption) is not None:
        return f"{CORRUPT}: {corruption.cause}"
    manifest, status = state.manifest, state.status
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
    state = run.read()
    manifest, same = state.manifest, state.manifest.get("result_version") == RESULT_VERSION
    if same or state.status not in (INTERRUPTED, FAILED):
        return None
    release = manifest.get("versions", {}).get("sage", "of an earlier release")
    commit = f", commit {manifest['commit']}" if manifest.get("commit") else ""
    return f"the release that began it (sage {release}{commit})"


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
    brought = kl_term_brought(config)
    if anchor.kl == "none" or anchor.beta == 0:
        return [f"no reference model is loaded: {brought}"]
    if anchor.kl == "forward":
        return [
            f"forward KL, beta {beta_in_words(anchor)}: cross-entropy on "
            f"{anchor.reference_samples} completions per prompt of the reference "
            f"({anchor.reference})"
        ]
    sentences = [
        f"KL term: beta {beta_in_words(anchor)} times the reverse KL to the "
        f"{reference_in_words(anchor)}, by the estimator {anchor.estimator}, "
        f"{ESTIMATORS[anchor.estimator]}",
        *anchor.changes,
        *([brought] if brought else []),
    ]
    if config.distils:
        sentences.append(
            "no reward: the policy learns from the teacher's log-probabilities of its own "
            "completions, whose grades are recorded only"
        )
    elif anchor.teacher is not None and anchor.estimator == "k3":
        sentences.append(
            "warning: under k3 a teacher pulls at a token by its probability divided by the "
            "policy's, without a bound where the two are far apart (use anchor.estimator=reward "
            "or head)"
        )
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


def kl_term_brought(config: SageConfig) -> str:
    """Return who brings the KL term, or that nothing does, with the unguided baseline's command.

    Empty where a method is trained as it is published: with its own KL term, or another one that
    was asked for.
    """
    algo, anchor, guide = config.rl.algo, config.anchor, config.guide.name
    brings_its_own = config.rl.kl_without_guide != "none"
    baseline = f"`sage rl --algo {algo}{'' if brings_its_own else ' --kl reverse'}`"
    if anchor.kl == "none" or anchor.beta == 0:
        lacks = "anchor.kl is none" if anchor.kl == "none" else "anchor.beta is 0"
        lacks = lacks if brings_its_own else f"{algo} has no KL term of its own"
        return (
            f"{lacks}, so nothing anchors this run; the unguided baseline of a guide is {baseline}"
        )
    if guide == "none":
        return ""
    does = (
        f"the guide {guide} reshapes the KL term of {algo}"
        if brings_its_own
        else f"the guide {guide} adds a KL term with beta {beta_in_words(anchor)} to {algo}, "
        "which has none of its own"
    )
    return f"{does}; its unguided baseline is {baseline} with the same other settings"


def reference_in_words(anchor: AnchorSection) -> str:
    """Return the reference of the KL term as plans call it."""
    return REFERENCES.get(anchor.reference, f"teacher {anchor.reference}")


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
        f"reference: {reference_in_words(anchor)}",
        *anchor.changes,
    ]
    brought = kl_term_brought(config)
    return {
        "anchor": "none" if anchor.kl == "none" else ", ".join(parts),
        **({"kl term": brought} if brought else {}),
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
