"""The facts of a policy's model card, from what is stored; nothing is sampled or graded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.consent import JUDGE, REWARDS, own_functions
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import curve, parse_ks
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.reports.model_card import CardFacts, Measurement
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.rewards import Reward, in_words
from sage_cli.store.runs.evaluations import evaluation_figures
from sage_cli.store.runs.run import Run
from sage_cli.store.runs.run_facts import RunFacts


def card_facts(
    policy: Policy, config: SageConfig | None, progress: Progress, task: str | None = None
) -> CardFacts:
    """Return the facts of a policy; `config` is its run's configuration, or an exported model's.

    Curves are those of the benchmark of `config`, where every sample is stored and graded.
    """
    run = policy.run
    base = policy.pretrained.path if policy.pretrained is not None else None
    of_hub = base is not None and not Path(base).exists()
    return CardFacts(
        name=policy.label,
        base=base if of_hub and (base != policy.path or run is None) else None,
        origin=_origin(policy, run, config),
        settings={**RunFacts.of(run).method, **_own(run)} if run is not None else {},
        prompt=_prompt(config.prompt) if config is not None else None,
        command=run.manifest.get("command") if run is not None else None,
        measured=_measured(policy, config, progress) if config is not None and run else (),
        task=task,
    )


def _own(run: Run) -> dict[str, str]:
    """Return a run's own judge, and its rewards as a sum where a function is among them."""
    own = own_functions(run.config)
    if REWARDS in own:
        own[REWARDS] = in_words([Reward.model_construct(**one) for one in own[REWARDS]])
    return own


def _prompt(section: PromptSection) -> str:
    """Return the prompt of a question, under `chat` the user's turn alone."""
    template = PromptTemplate(section, eos="<eos>")
    chat = section.format == "chat"
    return template.user_turn("{question}") if chat else template.render("{question}")


def _origin(policy: Policy, run: Run | None, config: SageConfig | None) -> dict[str, Any]:
    if run is None:
        return {"source": policy.place, "weights (fingerprint)": policy.fingerprint}
    manifest: Mapping[str, Any] = run.manifest
    data = manifest.get("data")
    if data is None and config is not None:
        data = config.data.rl.name if manifest.get("kind") == "rl" else config.data.sft.name
    return {
        "run": policy.word,
        "trained by": {"rl": "RL", "sft": "SFT"}.get(str(manifest.get("kind")), "–"),
        "initial policy": manifest.get("parent"),
        "weights of the initial policy (fingerprint)": manifest.get("parent_weights"),
        "data": ", ".join(data) if isinstance(data, list) else data,
        "training seed": str(manifest.get("seed")),
        "identity of the run": run.identity,
        "weights (fingerprint)": policy.fingerprint,
        "prompt template (hash)": policy.template,
        "commit of sage": manifest.get("commit"),
        "versions": ", ".join(
            f"{name} {version}" for name, version in (manifest.get("versions") or {}).items()
        ),
    }


def _measured(policy: Policy, config: SageConfig, progress: Progress) -> list[Measurement]:
    """Return the curves of a policy on the configured benchmarks, as far as samples are stored.

    Benchmarks may have to be fetched, so nothing is looked for where no measurement is recorded.
    """
    if policy.run is None or not evaluation_figures(policy.run):
        return []
    judge = own_functions(policy.run.config).get(JUDGE)
    if judge is not None and config.grading.judge is None:
        progress.say(
            f"the model card has no curve: the grades are those of {judge}, which is code; "
            f"--set {JUDGE}={judge} has it run"
        )
        return []
    spec, root = EvaluationSpec.of(config), config.run.root
    evaluation, sampling = spec.evaluation, spec.sampling
    n = evaluation.samples
    ks = parse_ks(f"1..{n}:pow2", n)
    found = []
    try:
        for benchmark in load_benchmarks(evaluation, spec.data, spec.grading.judge):
            counts = stored_counts(policy, benchmark, spec, root, (n,))[n]
            if any((one.n_P < n).any() for one in counts):
                continue
            line = curve(counts, ks, Resampling(evaluation.confidence, evaluation.bootstrap))
            seeds = [evaluation.seed + number for number in range(evaluation.seeds)]
            how = (
                f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g}, min_p "
                f"{sampling.min_p:g}, {sampling.max_tokens:,} tokens at most, grading "
                f"{spec.grading.mode}"
            )
            found.append(Measurement(benchmark.name, line, n, seeds, how))
    except SageError as error:
        progress.say(f"the model card has no curve: {error.cause}")
    return found
