"""Rollouts: what refuses a configuration of them, who samples them, and those of the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, SamplingError, TrainingError
from sage_cli.json_value import json_value
from sage_cli.models.folders import adapter_base, is_adapter, model_config
from sage_cli.models.planned import reference_policy
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.passwords import secrets_of
from sage_cli.settings.sampling import NO_SERVER, LogprobsMode, RolloutSection
from sage_cli.training.training import SampleRollouts, Training, rows_seen, training_problems

if TYPE_CHECKING:
    from sage_cli.evaluation.stored import PolicySamples
    from sage_cli.store.sample_parts import Completion


def require_rollouts(rollout: RolloutSection, start: Policy, processes: int) -> None:
    """Raise SageError where `processes` that train from `start` can't sample rollouts so.

    A server is asked which model it serves, and which log-probabilities it returns.
    """
    if not rollout.may_use_vllm:
        return
    from sage_cli.training.rollout_engine import require_heads, settled_engine

    settled = settled_engine(rollout, processes)
    if settled.backend != "vllm":
        return
    require_heads(settled, model_config(start.path).get("num_attention_heads"))
    vllm = settled.vllm
    if vllm.mode == "server":
        if vllm.server_url is None:
            raise ConfigurationError(f"rollout.vllm: {NO_SERVER}")
        if secrets_of(vllm.server_url):  # TRL would ask without it, or keep it in checkpoints
            raise ConfigurationError(
                f"rollout.vllm.server_url {vllm.server_url} was given with a password, and "
                "rollouts are requested without one",
                "let the server listen where only the trainer reaches it, as on 127.0.0.1",
            )
        _require_served(vllm.server_url, _whole(start), vllm.server_model)
        reshaped = settled.truncates or settled.temperature != 1  # else all modes are one
        if vllm.importance_correction != "none" and reshaped:
            _require_logprobs(vllm.server_url, settled.logprobs_mode)


def sampled_rollouts(parameters: SamplingParameters, seed: int, tokenizer: Any) -> SampleRollouts:
    """Return what samples rollouts of the policy in training: the loop that samples evaluations.

    Raises TrainingError for a model that the loop can't compute.
    """
    from sage_cli.sampling.decoder import TransformersSampler
    from sage_cli.sampling.sampler import SampleRequest

    def sample(
        model: Any, prompts: Sequence[list[int]], batch: str, sampled: int
    ) -> list[list[int]]:
        requests = [
            (SampleRequest(batch, "", (sampled + number,), seed), tuple(ids))
            for number, ids in enumerate(prompts)
        ]
        completions: list[list[int]] = [[]] * len(prompts)
        sampler = TransformersSampler(model, tokenizer, parameters, len(prompts))
        try:
            for completion in sampler.sample_ids(requests):
                completions[completion.index - sampled] = list(completion.token_ids or ())
        except SamplingError as error:
            raise TrainingError(error.cause, "use --set rollout.backend=transformers") from error
        return completions

    return sample


def _whole(start: Policy) -> str:
    """Return the model that an engine loads: below the adapter, where there is one."""
    folder = Path(start.path)
    return adapter_base(folder) if is_adapter(folder) else start.path


def _require_served(url: str, meant: str, name: str | None) -> None:
    """Weights are handed over at every step, but into a model of another make they don't fit."""
    from sage_cli.sampling.server_api import CONNECT_S, Login, ServerHttp, served_model

    with closing(ServerHttp(CONNECT_S)) as http:
        served_model(http, Login.parse(url), meant, name, setting="rollout.vllm.server_model")


def _require_logprobs(url: str, needed: LogprobsMode) -> None:
    """The ratio to a server's probabilities is of the distribution that the server was told of.

    A server that doesn't tell is left to TRL, which refuses one without its development mode.
    """
    import httpx

    from sage_cli.sampling.server_api import CONNECT_S, LIST_BYTES, Login, ServerHttp

    try:
        with closing(ServerHttp(CONNECT_S)) as http:
            answer = http.ask(Login.parse(url), "/server_info?config_format=json", LIST_BYTES)
        returned = json_value(answer.content)["vllm_config"]["model_config"]["logprobs_mode"]
    except (httpx.RequestError, ValueError, LookupError, TypeError):
        return
    if returned != needed:
        raise SamplingError(
            f"{url} returns {returned}, and the importance ratio of these rollouts needs {needed}",
            f"start it again with `vllm serve ... --logprobs-mode {needed}`, or use "
            "--set rollout.vllm.importance_correction=none",
        )


def reference_samples(config: SageConfig, start: Policy, root: Path) -> PolicySamples:
    """Return the completions that a training from `start` takes beforehand, sampled or not.

    Forward KL's are of the model that `anchor.reference` means, a method's own of `start`; their
    seed is `rl.seed`.
    """
    from sage_cli.evaluation.stored import PolicySamples  # a plan without them needs no arrays

    sampled = reference_policy(start, config) if config.anchor.kl == "forward" else start
    return PolicySamples.for_rollouts(sampled, config, root)


def samples_beforehand(config: SageConfig) -> int:
    """Return the number of completions of each problem that are sampled before the training."""
    forward = config.anchor.kl == "forward"
    return config.anchor.reference_samples if forward else config.rl.samples_beforehand


def problems_held(problems: Sequence[Problem], config: SageConfig) -> list[Problem]:
    """Return the problems that the training comes to, whose completions are sampled beforehand."""
    return [problems[row] for row in rows_seen(len(problems), config.rl)]


def sample_reference(training: Training, progress: Progress) -> None:
    """Sample what a training takes beforehand and isn't stored, if it takes any."""
    if count := samples_beforehand(training.config):
        from sage_cli.evaluation.measure import PolicySampler

        samples = reference_samples(training.config, training.start, training.config.run.root)
        with PolicySampler(samples, training.config.sampling, progress) as sampler:
            sampler.sample(
                training.config.rl.seed, problems_held(training.problems, training.config), count
            )


def reference_facts(config: SageConfig, start: Policy, root: Path) -> dict[str, str]:
    """Return the completions that a training from `start` samples of its reference beforehand.

    Nothing where it samples none, or where the problems aren't on this machine.
    """
    n = samples_beforehand(config)
    if not n:
        return {}
    try:
        problems = problems_held(training_problems(config, root), config)
    except DataError:
        return {}
    total = missing = n * len(problems)
    samples = reference_samples(config, start, root) if start.exists else None
    if samples is not None and samples.policy.exists:
        stored = samples.at(config.rl.seed, read_only=True)
        missing = stored.inventory().count_missing([problem.id for problem in problems], n)
    counted = f"{missing:,} of {total:,} to sample, {n} of each of {len(problems):,} problems"
    return {"reference samples": counted}


def reference_completions(training: Training) -> dict[str, list[Completion]] | None:
    """The stored completions of each problem, in the order of their indices; None without any."""
    if not (count := samples_beforehand(training.config)):
        return None
    completions: defaultdict[str, list[Completion]] = defaultdict(list)
    ids = [problem.id for problem in problems_held(training.problems, training.config)]
    stored = reference_samples(training.config, training.start, training.config.run.root).at(
        training.config.rl.seed
    )
    for completion in stored.completions(ids, count):
        completions[completion.problem_id].append(completion)
    return {id_: sorted(rows, key=lambda row: row.index) for id_, rows in completions.items()}
