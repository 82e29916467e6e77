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
from sage_cli.commands.doctor_lengths import described_lengths, start_positions, start_tokenizer
from sage_cli.commands.train.initial_policy import InitialPolicy, with_model_of
from sage_cli.commands.train.sft import sft_inputs
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec, RlSpec, SftSpec
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.training_pool import training_problems
from sage_cli.methods.method import Method
from sage_cli.models.folders import TokenizerFacts
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.build import chosen_backend
from sage_cli.settings.sections.executor import ExecutorSection
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.settings.sections.training import SftSection
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.surroundings import require_storage, require_tested_versions
from sage_cli.training.rewards.load import require_plugins
from sage_cli.training.trainer.optimizers import require_optimizer
from sage_cli.training.validation import configured_validation
from sage_cli.trials.executors.build import local_places, require_executor


@dataclass(frozen=True)
class Finding:
    """The answer of a check. With an `obstacle`, a command of this configuration is refused."""

    check: str
    said: str
    mend: str | None = None
    obstacle: bool = False

    @property
    def fine(self) -> bool:
        """Return True if there is nothing to mend."""
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


def checks(config: SageConfig, init: str | None = None) -> Iterator[Check]:
    """Every question about `config`, from what is quickly told to what loads data and libraries.

    With `init` RL starts from that model.
    """
    config = with_model_of(init, config)
    start = InitialPolicy.of(config, init)
    sft, rl, evaluation = SftSpec.of(config), RlSpec.of(config), EvaluationSpec.of(config)
    yield Check("sage", lambda: f"{__version__} on Python {python_version()}, {sys.executable}")
    yield Check("versions", require_tested_versions, needed=False)
    yield Check("runs folder", lambda: require_storage(config.run.root))
    yield Check("mirrors", lambda: _mirrors(config.tracking))
    yield Check("executor", lambda: _executor(config.executor, rl.rl.processes))
    yield Check("plug-ins", lambda: _plugins(rl))
    yield Check("model", lambda: _model(start))
    yield Check("prompt template", lambda: _template(start))
    if start.is_trained_here:
        yield Check(f"SFT data {sft.data.sft.name}", lambda: _demonstrations(sft))
    yield Check(f"RL data {rl.data.rl.name}", lambda: _problems(rl, evaluation, config))
    yield Check("lengths", lambda: _lengths(rl, start, config), needed=False)
    yield Check(f"benchmark {config.evaluation.benchmark}", lambda: _benchmarks(evaluation))
    yield Check("device", lambda: _device(rl.model))
    yield Check("optimizers", lambda: _optimizers(sft.sft, rl.rl))
    yield Check("rollouts", lambda: _rollouts(rl))
    yield Check("sampling", lambda: _sampling(evaluation.sampling))


def _mirrors(tracking: TrackingSection) -> str:
    require_mirrors(tracking)
    others = {"TensorBoard": tracking.tensorboard, "trackio": tracking.trackio}
    board = "".join(f", {name}" for name, wanted in others.items() if wanted)
    if tracking.wandb != "online":
        return f"W&B {tracking.wandb}{board}"
    from sage_cli.store.wandb_mirror import has_key

    return f"W&B {'online' if has_key() else 'has no key: offline (`wandb login`)'}{board}"


def _executor(executor: ExecutorSection, processes: int) -> str:
    require_executor(executor)
    if executor.name != "local":
        return f"{executor.name}: its package is installed; the cluster wasn't asked"
    places = local_places(executor, processes)
    return f"this machine, {places} {'task' if places == 1 else 'tasks'} at once"


def _plugins(spec: RlSpec) -> str:
    require_plugins(spec)
    return f"guide {spec.guide.name}, method {spec.rl.algo}"


def _model(start: InitialPolicy) -> str:
    model = start.spec.model
    if start.init is not None:
        return f"{start.policy.label}: weights in {start.policy.files}"
    if isinstance(model, ScratchModel):
        return f"from scratch, {model.layers} layers of {model.hidden}"
    files = Policy(model.path, section=model).files
    weights = any(files.glob("*.safetensors"))
    return f"{model.path}: weights {'in' if weights else 'yet to be fetched into'} {files}"


def _template(start: InitialPolicy) -> str:
    section = start.spec.prompt
    if isinstance(start.spec.model, ScratchModel) and start.init is None:
        facts = TokenizerFacts("<eos>", None, "a model from scratch")
        template = PromptTemplate.from_section(section, facts)
    else:
        template = PromptTemplate.from_section(section, start_tokenizer(start))
    return f"{section.format}: a prompt has {len(template.render('1+1=?'))} characters"


def _demonstrations(spec: SftSpec) -> str:
    from sage_cli.training.sft import tokenized

    tokenizer, _, examples = sft_inputs(spec)
    most = spec.sft.max_length
    fitting = len(tokenized(examples, tokenizer, most)["input_ids"])
    return f"{fitting:,} of {len(examples):,} demonstrations fit in sft.max_length={most} tokens"


def _problems(rl: RlSpec, spec: EvaluationSpec, config: SageConfig) -> str:
    problems = len(training_problems(rl, config.run.root))
    configured_validation(spec, config.sweep)  # refuses to validate on what is trained on
    return f"{problems:,} problems"


def _lengths(rl: RlSpec, start: InitialPolicy, config: SageConfig) -> str:
    problems = training_problems(rl, config.run.root)
    return described_lengths(rl, problems, start_tokenizer(start), start_positions(start))


def _benchmarks(spec: EvaluationSpec) -> str:
    found = load_benchmarks(spec.evaluation, spec.data, spec.grading.judge)
    counted = ", ".join(f"{one.name} {len(one.problems):,}" for one in found)
    return f"problems whose golds are right by their judge: {counted}"


def _device(model: PretrainedModel | ScratchModel) -> str:
    from sage_cli.training.launch.hardware import device, precision, require_kernels

    computed = "bfloat16" if precision(model.compute_dtype)["bf16"] else "float32"
    return f"{device()}; computes in {computed}, {require_kernels(model)}"


def _optimizers(sft: SftSection, rl: Method) -> str:
    require_optimizer(rl.optimizer, "rl.optimizer")
    if not sft.enabled:
        return f"RL {rl.optimizer}"
    require_optimizer(sft.optimizer, "sft.optimizer")
    return f"SFT {sft.optimizer}, RL {rl.optimizer}"


def _rollouts(spec: RlSpec) -> str:
    backend, processes = spec.rollout.backend, spec.rl.processes
    if spec.rollout.may_use_vllm:  # the others are always here
        from sage_cli.training.rollouts.engine import settled_engine

        backend = settled_engine(spec.rollout, processes).backend
    if spec.rl.accelerate is not None:
        from sage_cli.training.launch.launch import accelerate_configuration

        accelerate_configuration(spec.rl.accelerate)
    return f"{backend}, in {processes} {'process' if processes == 1 else 'processes'}"


def _sampling(sampling: SamplingSection) -> str:
    backend = chosen_backend(sampling)
    if backend == "vllm":
        from sage_cli.sampling.engines.vllm_sampler import require_vllm

        require_vllm()
    if backend == "server":
        return f"servers {', '.join(sampling.servers)}, which are asked when sampling begins"
    asked = sampling.backend
    return backend if backend == asked else f"{backend} (sampling.backend is '{asked}')"
