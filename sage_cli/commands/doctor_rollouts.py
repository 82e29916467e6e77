"""`sage doctor --rollouts`: do the rollout engine and the trainer mean the same probabilities?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from sage_cli.commands.doctor import Finding
from sage_cli.commands.train.initial_policy import InitialPolicy, with_model_of
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import RlSpec
from sage_cli.errors import SageError
from sage_cli.evaluation.training_pool import training_problems
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.rollout import RolloutSection

if TYPE_CHECKING:
    from sage_cli.training.rollouts.probe import Probe

_SAMPLED = "rollouts sampled"
"""The check that the engine samples at all."""


def rollout_findings(config: SageConfig, init: str | None = None) -> list[Finding]:
    """Return what a handful of rollouts of the initial policy, or `init`, say; stores nothing."""
    try:
        config = with_model_of(init, config)
        spec, root = RlSpec.of(config), config.run.root
        start = InitialPolicy.of(config, init).policy
        if not start.exists:
            said = f"the initial policy {start.label} isn't trained yet"
            return [Finding(_SAMPLED, said, "train it with `sage sft`, then ask again")]
        from sage_cli.training.rollouts.probe import probe

        with TemporaryDirectory() as folder:
            found = probe(spec, start, training_problems(spec, root), Path(folder) / "probe")
    except SageError as error:
        return [Finding(_SAMPLED, error.cause, error.next_step, obstacle=True)]
    rollout = spec.rollout
    return [
        _difference(found, rollout),
        _temperature(found, rollout),
        _truncation(found, rollout),
        _template(found, spec, start),
        _ends(found, rollout),
        _precision(found, rollout),
    ]


def _difference(found: Probe, rollout: RolloutSection) -> Finding:
    """Describe all that differs, as the losses would meet it."""
    import torch

    from sage_cli.training.trainer.token_record import mismatch_statistics

    corrected = found.reports and rollout.vllm.importance_correction != "none"
    signals = {"mismatch": torch.from_numpy(found.trainer_T - found.engine_T)}
    figures = mismatch_statistics(signals, rollout.vllm.importance_cap if corrected else None)
    of = {name.removeprefix("mismatch/"): value for name, value in figures.items()}
    cut = f", {of['cut']:.1%} above the cap" if "cut" in of else ""
    whose = "which it reports" if found.reports else "computed as it samples"
    return Finding(
        "engine against trainer",
        f"{sum(found.ends.values())} completions by {found.backend}, {len(found.trainer_T):,} "
        f"tokens; log-probabilities of the engine ({whose}) differ from the trainer's by "
        f"{of['difference_mean']:.2g} on average, at most {of['difference_max']:.2g}; ratio "
        f"{of['ratio_mean']:.4g} ({of['ratio_min']:.4g} to {of['ratio_max']:.4g}){cut}; "
        f"KL {of['kl']:.2g}",
    )


def _temperature(found: Probe, rollout: RolloutSection) -> Finding:
    """Compare the trainer's log-probabilities with both temperatures' that it may mean."""
    asked = rollout.temperature
    tempered, untempered = (
        float(np.abs(found.trainer_T - of_T).mean()) for of_T in (found.whole_T, found.untempered_T)
    )
    if asked == 1 or tempered <= untempered:
        return Finding("temperature", f"{asked:g} in engine and trainer")
    return Finding(
        "temperature",
        f"the engine samples at {asked:g}, and the trainer's log-probabilities are those at 1",
        "use --set rollout.temperature=1",
    )


def _truncation(found: Probe, rollout: RolloutSection) -> Finding:
    """Describe the share of probability that is sampled from, where tokens are left out."""
    if not rollout.truncates:
        return Finding("truncation", "off: the engine samples from the whole vocabulary")
    mass_T = np.exp(found.whole_T - found.kept_T)
    said = (
        f"the engine samples from {mass_T.mean():.4f} of the probability (least {mass_T.min():.3g})"
    )
    if mass_T.min() > 1 - 1e-3:
        return Finding("truncation", said)
    return Finding(
        "truncation",
        f"{said}, and the trainer's log-probabilities are over all of it",
        "expect ratios of that size, or use --set rollout.min_p=0 --set rollout.top_p=1 "
        "--set rollout.top_k=0",
    )


def _template(found: Probe, spec: RlSpec, start: Policy) -> Finding:
    """Compare the prompts with those that the initial policy was trained on."""
    ours = PromptTemplate.from_section(spec.prompt, start.tokenizer_facts).hash
    if start.template not in (None, ours):
        return Finding(
            "template",
            f"rollouts are prompted by {ours}, and {start.label} was trained with {start.template}",
            "use the prompt settings that it was trained with",
        )
    bos = start.tokenizer().bos_token_id
    if bos is not None and any(list(ids[:2]) == [bos, bos] for ids in found.prompts):
        return Finding(
            "template", "prompts begin with two beginning-of-sequence tokens",
            "leave one out of the prompt settings",
        )  # fmt: skip
    return Finding("template", f"{ours}, in rollouts as in the initial policy's training")


def _ends(found: Probe, rollout: RolloutSection) -> Finding:
    """Describe how completions ended; an end that the trainer doesn't know counts as none."""
    counted = ", ".join(f"{n} by {end}" for end, n in sorted(found.ends.items()))
    said = f"{sum(found.ends.values())} completions ended: {counted}"
    if found.ends["something else"]:
        mend = "check the end-of-sequence ids in generation_config.json and the tokenizer"
        return Finding("stop tokens", said, mend)
    if found.ends["limit"] == sum(found.ends.values()):
        mend = f"use rollout.max_tokens above {rollout.max_tokens}"
        return Finding("stop tokens", said, mend)
    return Finding("stop tokens", said)


def _precision(found: Probe, rollout: RolloutSection) -> Finding:
    """Describe rounding alone: the trainer, and an engine that reports, against one plain pass."""
    from sage_cli.training.trainer.reference import TOLERANCE

    offs = {"trainer": np.abs(found.trainer_T - found.whole_T)}
    if found.reports:
        whole = not rollout.truncates or rollout.logprobs_mode == "raw_logprobs"
        offs["engine"] = np.abs(found.engine_T - (found.whole_T if whole else found.kept_T))
    kind = str(found.products).removeprefix("torch.")
    said = f"{kind}; against a plain pass: " + ", ".join(
        f"{who} {of_T.mean():.2g} on average, at most {of_T.max():.2g}"
        for who, of_T in offs.items()
    )
    if max(of_T.mean() for of_T in offs.values()) <= TOLERANCE[found.products]:
        return Finding("precision", said)
    return Finding(
        "precision", said, "use the same type in engine and trainer (model.compute_dtype)"
    )
