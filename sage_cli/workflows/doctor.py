"""`sage doctor`: checks whether a configuration can run on this machine.

An obstacle is an error of the commands themselves: the checks call the same functions, before
anything is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from platform import python_version

from sage_cli import __version__
from sage_cli.config.model import ScratchModel
from sage_cli.config.recipe import RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.development import development
from sage_cli.executors.build import local_places, require_executor
from sage_cli.models.folders import TokenizerFacts
from sage_cli.models.policies.planned import planned_base
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.build import chosen_backend
from sage_cli.store.mirrors.follower import require_mirrors
from sage_cli.store.runs.run import Runs
from sage_cli.store.storage_check import require_storage
from sage_cli.store.surroundings import require_tested_versions
from sage_cli.training.optimizers import require_optimizer
from sage_cli.training.plugins import require_plugins
from sage_cli.workflows.sft import sft_inputs


@dataclass(frozen=True)
class Finding:
    """The result of a check; `obstacle` if a command of this configuration would fail."""

    check: str
    said: str
    mend: str | None = None
    obstacle: bool = False

    @property
    def fine(self) -> bool:
        """Return True if there is nothing to fix."""
        return self.mend is None and not self.obstacle


@dataclass(frozen=True)
class Check:
    """A check: `ask` returns a description, or raises the obstacle.

    A check that is not `needed` is no obstacle for commands.
    """

    name: str
    ask: Callable[[], str]
    needed: bool = True

    def run(self) -> Finding:
        """Return the finding."""
        try:
            return Finding(self.name, self.ask())
        except SageError as error:
            return Finding(self.name, error.cause, error.next_step, obstacle=self.needed)


def checks(config: SageConfig) -> Iterator[Check]:
    """Yield the checks of `config`, quick ones first, those that load data and libraries last."""
    yield Check("sage", lambda: f"{__version__} on Python {python_version()}, {sys.executable}")
    yield Check("versions", require_tested_versions, needed=False)
    yield Check("runs folder", lambda: require_storage(config.run.root))
    yield Check("mirrors", lambda: _mirrors(config))
    yield Check("executor", lambda: _executor(config))
    yield Check("plug-ins", lambda: _plugins(config))
    yield Check("model", lambda: _model(config))
    yield Check("prompt template", lambda: _template(config))
    if config.sft.enabled:
        yield Check(f"SFT data {config.data.sft.name}", lambda: _demonstrations(config))
    yield Check(f"RL data {config.data.rl.name}", lambda: _counted(_training(config)))
    yield Check(f"benchmark {config.evaluation.benchmark}", lambda: _benchmarks(config))
    yield Check("device", lambda: _device(config))
    yield Check("optimizers", lambda: _optimizers(config))
    yield Check("rollouts", lambda: _rollouts(config))
    yield Check("sampling", lambda: _sampling(config))


def _mirrors(config: SageConfig) -> str:
    tracking = config.tracking
    require_mirrors(tracking)
    board = ", TensorBoard" if tracking.tensorboard else ""
    if tracking.wandb != "online":
        return f"W&B {tracking.wandb}{board}"
    from sage_cli.store.mirrors.wandb_mirror import has_key

    return f"W&B {'online' if has_key() else 'has no key: offline (`wandb login`)'}{board}"


def _executor(config: SageConfig) -> str:
    require_executor(config.executor)
    if config.executor.name != "local":
        return f"{config.executor.name}: its package is installed; the cluster was not asked"
    places = local_places(config.executor, config.rl.processes)
    return f"this machine, {places} {'task' if places == 1 else 'tasks'} at once"


def _plugins(config: SageConfig) -> str:
    require_plugins(RlRecipe.of(config))
    return f"guide {config.guide.name}, method {config.rl.algo}"


def _model(config: SageConfig) -> str:
    if isinstance(config.model, ScratchModel):
        return f"from scratch, {config.model.layers} layers of {config.model.hidden}"
    files = Policy(config.model.path, section=config.model).files
    weights = any(files.glob("*.safetensors"))
    return f"{config.model.path}: weights {'in' if weights else 'yet to be fetched into'} {files}"


def _template(config: SageConfig) -> str:
    if isinstance(config.model, ScratchModel):
        facts = TokenizerFacts("<eos>", None, "a model from scratch")
        template = PromptTemplate.from_section(config.prompt, facts)
    else:
        policy = planned_base(SftRecipe.of(config), Runs(config.run.root))
        foundation = Policy(config.model.path, section=config.model)
        tokenizer = (foundation if policy.run else policy).tokenizer()
        template = PromptTemplate.from_section(config.prompt, tokenizer)
    return f"{config.prompt.format}: a prompt has {len(template.render('1+1=?'))} characters"


def _demonstrations(config: SageConfig) -> str:
    from sage_cli.training.sft import tokenized

    tokenizer, _, examples = sft_inputs(SftRecipe.of(config))
    most = config.sft.max_length
    fitting = len(tokenized(examples, tokenizer, most)["input_ids"])
    return f"{fitting:,} of {len(examples):,} demonstrations fit in sft.max_length={most} tokens"


def _training(config: SageConfig) -> int:
    problems = len(load_training_problems(config.data))
    development(config)  # fails for validation problems that are trained on
    return problems


def _counted(problems: int) -> str:
    return f"{problems:,} problems"


def _benchmarks(config: SageConfig) -> str:
    found = load_benchmarks(config.evaluation, config.data)
    counted = ", ".join(f"{one.name} {len(one.problems):,}" for one in found)
    return f"problems whose golds are right by their judge: {counted}"


def _device(config: SageConfig) -> str:
    from sage_cli.training.hardware import device, precision

    computed = precision(config.model.compute_dtype)
    return f"{device()}; computes in {'bfloat16' if computed['bf16'] else 'float32'}"


def _optimizers(config: SageConfig) -> str:
    require_optimizer(config.rl.optimizer, "rl.optimizer")
    if not config.sft.enabled:
        return f"RL {config.rl.optimizer}"
    require_optimizer(config.sft.optimizer, "sft.optimizer")
    return f"SFT {config.sft.optimizer}, RL {config.rl.optimizer}"


def _rollouts(config: SageConfig) -> str:
    backend = config.rollout.backend
    if config.rollout.may_use_vllm:  # the others are always here
        from sage_cli.training.rollout_engine import settled_engine

        backend = settled_engine(config.rollout, config.rl.processes).backend
    if config.rl.accelerate is not None:
        from sage_cli.training.launch import accelerate_configuration

        accelerate_configuration(config.rl.accelerate)
    processes = config.rl.processes
    return f"{backend}, in {processes} {'process' if processes == 1 else 'processes'}"


def _sampling(config: SageConfig) -> str:
    backend = chosen_backend(config.sampling)
    if backend == "vllm":
        from sage_cli.sampling.engines.vllm_sampler import require_vllm

        require_vllm()
    if backend == "server":
        return f"servers {', '.join(config.sampling.servers)}, which are asked when sampling begins"
    asked = config.sampling.backend
    return backend if backend == asked else f"{backend} (sampling.backend is '{asked}')"
