"""Rollouts: what refuses a configuration of them, who samples them, and those of the reference.

An engine is chosen or refused, seeded, and given merged weights. No library is loaded before.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, SamplingError, TrainingError
from sage_cli.json_value import json_value
from sage_cli.models.config_json import model_config
from sage_cli.models.folders import adapter_base, is_adapter
from sage_cli.models.policy import Policy
from sage_cli.models.reference import reference_policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.passwords import password_of
from sage_cli.settings.rollout import NO_SERVER, LogprobsMode, RolloutSection
from sage_cli.training.launch import launchers_sharding
from sage_cli.training.pass_rates import training_problems
from sage_cli.training.prompt_order import rows_seen
from sage_cli.training.training import Training

if TYPE_CHECKING:
    from peft.tuners.lora import LoraLayer
    from torch import Tensor

    from sage_cli.evaluation.policy_samples import PolicySamples
    from sage_cli.store.completion import Completion


Ids = list[int]
SampleRollouts = Callable[[Any, Sequence[Ids], str, int], list[Ids]]
"""(model, prompts' ids, batch, sampled) -> a completion's ids for each prompt, in order.

`batch` names the generation batch and the process, `sampled` says how many completions this process
has sampled for it before: both with the training's seed decide what is sampled."""


def require_rollouts(rollout: RolloutSection, start: Policy, processes: int) -> None:
    """Raise SageError where `processes` that train from `start` can't sample rollouts so.

    A server is asked which model it serves, and which log-probabilities it returns.
    """
    if not rollout.may_use_vllm:
        return
    settled = resolve_engine(rollout, processes)
    if settled.backend != "vllm":
        return
    require_heads(settled, model_config(start.path).get("num_attention_heads"))
    vllm = settled.vllm
    if vllm.mode == "server":
        if vllm.server_url is None:
            raise ConfigurationError(f"rollout.vllm: {NO_SERVER}")
        if password_of(vllm.server_url):  # TRL would ask without it, or keep it in checkpoints
            raise ConfigurationError(
                f"rollout.vllm.server_url {vllm.server_url} was given with a password, and "
                "rollouts are requested without one",
                "let the server listen where only the trainer reaches it, for example on 127.0.0.1",
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
    # a plan without them needs no arrays
    from sage_cli.evaluation.policy_samples import PolicySamples

    sampled = reference_policy(start, config) if config.anchor.kl == "forward" else start
    return PolicySamples.for_rollouts(sampled, config, root)


def problems_held(problems: Sequence[Problem], config: SageConfig) -> list[Problem]:
    """Return the problems that the training comes to, whose completions are sampled beforehand."""
    return [problems[row] for row in rows_seen(len(problems), config.rl)]


def sample_reference(training: Training, progress: Progress) -> None:
    """Sample what a training takes beforehand and isn't stored, if it takes any."""
    if count := training.config.samples_beforehand:
        from sage_cli.evaluation.policy_sampler import PolicySampler

        samples = reference_samples(training.config, training.start, training.config.run.root)
        with PolicySampler(samples, training.config.sampling, progress) as sampler:
            sampler.sample(
                training.config.rl.seed, problems_held(training.problems, training.config), count
            )


def reference_facts(config: SageConfig, start: Policy, root: Path) -> dict[str, str]:
    """Return the completions that a training from `start` samples of its reference beforehand.

    Nothing where it samples none, or where the problems aren't on this machine.
    """
    n = config.samples_beforehand
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
    if not (count := training.config.samples_beforehand):
        return None
    completions: defaultdict[str, list[Completion]] = defaultdict(list)
    ids = [problem.id for problem in problems_held(training.problems, training.config)]
    stored = reference_samples(training.config, training.start, training.config.run.root).at(
        training.config.rl.seed
    )
    for completion in stored.completions(ids, count):
        completions[completion.problem_id].append(completion)
    return {id_: sorted(rows, key=lambda row: row.index) for id_, rows in completions.items()}


_INSTEAD = "use --set rollout.backend=transformers"


def resolve_engine(rollout: RolloutSection, processes: int) -> RolloutSection:
    """`rollout` with the backend that samples here: `auto` is decided.

    Raises ConfigurationError where vLLM is asked for and can't run in so many `processes`, or the
    sampler and a launcher spreads the weights.
    """
    backend, is_whole = rollout.backend, launchers_sharding() is None
    obstacle = _obstacle() if rollout.may_use_vllm else None
    if backend == "auto" and not obstacle:
        backend = "vllm"
    elif backend == "auto":
        import torch

        # the speed of our own loop on GPUs has not been measured
        backend = "builtin" if is_whole and not torch.cuda.is_available() else "transformers"
    if backend == "builtin" and not is_whole:
        raise ConfigurationError(
            "rollout.backend 'builtin' needs all weights in each process, and the launcher spreads "
            "them over several",
            _INSTEAD,
        )
    if backend == "vllm":
        if obstacle:
            raise ConfigurationError(f"rollout.backend 'vllm' {obstacle[0]}", obstacle[1])
        _require_groups(rollout, processes)
        if problem := rollout.correction_problem():
            raise ConfigurationError(f"rollout.{problem[0]}", problem[1])
    return rollout.model_copy(update={"backend": backend})


def is_colocated(rollout: RolloutSection) -> bool:
    """Return True if the training processes hold a vLLM engine of their own."""
    uses_vllm = rollout.backend == "vllm" or (rollout.backend == "auto" and _obstacle() is None)
    return uses_vllm and rollout.vllm.mode == "colocate"


def require_heads(rollout: RolloutSection, heads: int | None) -> None:
    """Raise ConfigurationError where a model's attention heads can't be dealt out to an engine."""
    parts = rollout.vllm.tensor_parallel
    if rollout.backend == "vllm" and heads is not None and heads % parts:
        fitting = [str(n) for n in range(1, parts) if heads % n == 0]
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the model's {heads} "
            "attention heads",
            f"use one of {', '.join(fitting)}: --set rollout.vllm.tensor_parallel={fitting[-1]}",
        )


def _require_groups(rollout: RolloutSection, processes: int) -> None:
    parts = rollout.vllm.tensor_parallel
    if rollout.vllm.mode == "colocate" and processes % parts:
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the training's {processes} "
            f"process{'es' if processes > 1 else ''}, which hold the engine on a GPU each",
            f"use --processes {-(-processes // parts) * parts}, or a smaller tensor_parallel",
        )


def _obstacle() -> tuple[str, str] | None:
    """Return why vLLM cannot sample rollouts here and the remedy, or None."""
    import torch

    if not torch.cuda.is_available():
        return (
            "needs a GPU, and this machine has none: on CPUs the weights can't be handed from the "
            "trainer to the engine",
            _INSTEAD,
        )
    if find_spec("vllm") is None:
        return (
            "needs vLLM, which isn't installed",
            f"pip install -e '.[vllm]' in the checkout of sage, or {_INSTEAD}",
        )
    return None


_CHANGED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
)
"""What the building of a colocated engine changes in the environment."""


def context_length(rollout: RolloutSection, prompts: Iterable[int], positions: int | None) -> int:
    """Return the context for prompts of so many tokens, in a model of so many `positions`.

    Raises ConfigurationError where the longest prompt and a whole completion don't fit.
    """
    longest = max(prompts)
    needed = longest + rollout.max_tokens
    limit = rollout.vllm.max_model_len if rollout.backend == "vllm" else None
    length = limit or needed
    room = min(length, positions or length)
    if needed > room:
        whose = "rollout.vllm.max_model_len" if room == length else "the model's context"
        raise ConfigurationError(
            f"the longest prompt has {longest} tokens, and with rollout.max_tokens "
            f"{rollout.max_tokens} that is more than {whose} of {room}",
            f"use --set rollout.max_tokens={room - longest}"
            if room > longest
            else "leave the longest prompts out, or take a model with a longer context",
        )
    return room


@contextmanager
def as_launched() -> Iterator[None]:
    """Take back what TRL and vLLM say in the environment when they build an engine.

    TRL names rank and world size also where no launcher did, and a process that finds them named
    takes itself for launched. vLLM has every further engine live in this process, whose end takes
    the first one's process groups along.
    """
    before = {name: os.environ.get(name) for name in _CHANGED}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def engine_as_asked(seed: int, step: int, logprobs_mode: LogprobsMode) -> Iterator[None]:
    """Inside, TRL's colocated engine is built with our seed and with `logprobs_mode`.

    The seed is of (seed, its rank, first step). TRL passes the rank alone, so that two training
    seeds would sample the same rollouts, and a resumed training those of its beginning. TRL also
    asks for probabilities after truncation, whose ratio with the trainer's is the mass kept. Its
    advice to a server's user to do the same isn't passed on: `require_rollouts` asks the server.
    """
    from trl.generation import vllm_generation

    logger = logging.getLogger("trl.trainer.grpo_trainer")
    logger.addFilter(_not_on_logprobs)
    plain = getattr(vllm_generation, "LLM", None)

    def build(**arguments: Any) -> Any:
        ours = {"seed": engine_seed(seed, arguments["seed"], step), "logprobs_mode": logprobs_mode}
        return plain(**{**arguments, **ours})  # type: ignore[misc]

    if plain is not None:
        vllm_generation.LLM = build
    try:
        yield
    finally:
        logger.removeFilter(_not_on_logprobs)
        if plain is not None:
            vllm_generation.LLM = plain


def _not_on_logprobs(record: logging.LogRecord) -> bool:
    return "--logprobs-mode" not in record.getMessage()


def engine_seed(seed: int, rank: int, step: int) -> int:
    """Return 31 bits that differ wherever seed, rank or step do."""
    import numpy as np

    return int(np.random.SeedSequence((seed, rank, step)).generate_state(1)[0] >> 1)


def ask_for_each_row(generation: Any) -> None:
    """Make TRL's `generation` request one completion of each row's own prompt from a server.

    TRL takes every G-th row of all processes for a prompt with G completions. Rows of a second
    stage come in no such order, nor do those that replace a group which processes share: they
    would be given completions of other prompts. An engine of one's own is asked row by row anyway.
    """
    generate = generation.generate

    def row_by_row(**arguments: Any) -> Any:
        return generate(**{**arguments, "num_generations": 1})

    generation.generate = row_by_row


_BEFORE = "base_model.model."
_IN_PLACE = ("merge_adapter", "unmerge_adapter")


def merge_beside(generation: Any) -> None:
    """Make TRL's `generation` send merged weights without changing those of its model.

    Raises TrainingError for an adapter that isn't plain LoRA, and with the first weights handed
    over for one of whose they aren't all, and for a TRL that merges elsewise.
    """
    import torch

    model = generation.model
    if not hasattr(model, "peft_config"):
        return
    layers = adapted_layers(model)
    theirs = generation._iter_named_params

    def named_weights() -> Iterator[tuple[str, Tensor]]:
        unsent = set(layers)
        with torch.no_grad(), _untouched(model) as asked:
            for name, weight in theirs():
                if "modules_to_save." in name:  # the reference's: TRL has renamed the policy's
                    continue
                layer = layers.get(name)
                unsent.discard(name)
                yield name, weight if layer is None else merged_weight(weight, layer)
        if unsent:
            raise _unfit(min(unsent))
        if asked != set(_IN_PLACE):
            raise TrainingError(
                "this release of TRL hands a LoRA policy's weights to vLLM in a way that isn't "
                "known to leave them as they are",
                "install the release that constraints.txt pins",
            )

    generation._iter_named_params = named_weights


def adapted_layers(model: Any) -> dict[str, LoraLayer]:
    """Return the layers with an adapter, by the name that their weight has without it.

    A layer of stacked experts has several adapters, one within the other.
    """
    from peft.tuners.lora import LoraLayer
    from peft.utils.other import TrainableTokensWrapper

    from sage_cli.models.loading import changes_weights

    layers, special = {}, []
    for path, layer in model.named_modules():
        name = path.removeprefix(_BEFORE).replace(".base_layer", "")
        if isinstance(layer, LoraLayer):
            layers[f"{name}.{getattr(layer, 'parameter_name', 'weight')}"] = layer
            if layer.lora_variant or any(layer.lora_bias.values()):
                special.append(name)
        elif isinstance(layer, TrainableTokensWrapper):
            special.append(name)
    whole = model.get_base_model()
    config, ends = whole.config, (whole.get_input_embeddings(), whole.get_output_embeddings())
    entries = model_config(whole.name_or_path).get("vocab_size")
    if entries not in (None, config.get_text_config().vocab_size):
        special.append("another vocabulary than its base's")
    if config.tie_word_embeddings and any(map(changes_weights, ends)):
        special.append("one of the embedding and the head that share their weights")
    if special or not layers:
        raise _unfit(special[0] if special else "no LoRA layer")
    return layers


def _unfit(why: str) -> TrainingError:
    return TrainingError(
        f"vLLM's rollouts take an adapter of plain LoRA, and the policy's is another ({why})",
        "use --set rollout.backend=transformers, or train from what `sage export` makes of it",
    )


def merged_weight(weight: Tensor, layer: LoraLayer) -> Tensor:
    """Return W + s B A of the active adapter as a new tensor of W's type, never sharded."""
    for adapter in layer.active_adapters:
        delta = layer.get_delta_weight(adapter)
        whole = delta.full_tensor() if hasattr(delta, "full_tensor") else delta
        weight = (weight.float() + whole.to(weight.device).float()).to(weight.dtype)
    return weight


@contextmanager
def _untouched(model: Any) -> Iterator[set[str]]:
    """Inside, nobody merges in place. Yields who was asked to."""
    asked: set[str] = set()
    for name in _IN_PLACE:
        # the layers' weights are added up as they are handed over: merging and unmerging them in
        # bfloat16 changes the base a little at every step
        setattr(model, name, lambda *_, name=name, **__: asked.add(name))
    try:
        yield asked
    finally:
        for name in _IN_PLACE:
            delattr(model, name)
