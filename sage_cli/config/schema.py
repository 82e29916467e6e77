"""The schema: one section per noun, what two sections can't say together, settings by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Field, PrivateAttr, SerializeAsAny, model_validator

from sage_cli.config.readers import idle_settings
from sage_cli.errors import ConfigurationError, SageError
from sage_cli.guides import Guide, NoGuide
from sage_cli.methods.grpo import Grpo
from sage_cli.methods.loop import Method, batch_of
from sage_cli.settings.anchor import DISTILLING, AnchorSection
from sage_cli.settings.data import DataSection
from sage_cli.settings.evaluation import EvaluationSection
from sage_cli.settings.executor import ExecutorSection
from sage_cli.settings.former_names import today_key
from sage_cli.settings.grading import GradingSection
from sage_cli.settings.model import ModelSection, PretrainedModel, ScratchModel, trained_dtype
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rewards import PLURALITY, pays_nothing
from sage_cli.settings.rollout import RolloutSection
from sage_cli.settings.run import RunSection
from sage_cli.settings.sampling import SamplingSection
from sage_cli.settings.section import COSMETIC, Extensible, Section, in_file, is_cosmetic
from sage_cli.settings.sft import SftSection
from sage_cli.settings.sharding import FSDP_2, ZERO_3, Sharding, accelerate_file, sharding_of
from sage_cli.settings.sweep import SweepSection
from sage_cli.settings.tracking import TrackingSection
from sage_cli.settings.yaml_files import read_yaml

if TYPE_CHECKING:
    from sage_cli.config.layer import Layer
Blocks = dict[str, dict[str, Any] | None]
UNIONS = {"rl": "algo", "guide": "name", "model": "kind"}
"""Sections that are unions, and the key that tells their members apart."""


def unfit_for(sharding: Sharding | None, rl: Method, tuning: str) -> list[str]:
    """Return what cannot be trained under this sharding, one sentence each."""
    problems = []
    if sharding == Sharding("DEEPSPEED", ZERO_3) and tuning == "lora":
        problems.append(
            "DeepSpeed's ZeRO stage 3 fails at the first step of adapters in float32 on a frozen "
            "model in bfloat16 (use --accelerate ddp, under which every GPU holds the frozen "
            "model; or fsdp2, or model.tuning=full)"
        )
    if sharding == Sharding("FSDP", FSDP_2) and rl.optimizer == "adamw_8bit":
        problems.append(
            "rl.optimizer 'adamw_8bit' can't update weights that FSDP 2 shards: bitsandbytes fails "
            "at the first step (use --set rl.optimizer=adamw, whose state takes 8 bytes for each "
            "trained number, divided by the processes)"
        )
    if sharding is not None and sharding.kind == "DEEPSPEED" and rl.loss_in_parts:
        problems.append(
            f"rl.algo '{rl.algo}' computes a step's loss in parts, and DeepSpeed updates the "
            "weights after each of them (use --accelerate fsdp2 or ddp)"
        )
    return problems


def spread_over(processes: int, rl: Method) -> str | None:
    """The value of `rl.processes`, and what it takes beside it, that spreads a model by FSDP 2.

    None where the method needs the model in one piece.
    """
    if rl.needs_whole_model:
        return None
    also = "" if rl.optimizer == "adamw" else " and rl.optimizer=adamw"
    return f"{processes} with rl.accelerate=fsdp2{also}"


def launch_problems(rl: Method, tuning: str) -> list[str]:
    """Return the conflicts of `rl.accelerate` with `rl` and `model.tuning`, one sentence each.

    A broken file is refused later.
    """
    accelerate, processes = rl.accelerate, rl.processes
    if accelerate is None:
        return []
    if processes == 1:
        return [
            f"rl.accelerate '{accelerate}' launches several processes, and rl.processes is 1 "
            "(use --processes N, one for each GPU)"
        ]
    try:
        settings = read_yaml(accelerate_file(accelerate))
    except (SageError, OSError):
        return []
    problems = []
    meant, machines = _count(settings, "num_processes"), _count(settings, "num_machines")
    if meant not in (None, processes):
        problems.append(
            f"rl.accelerate '{accelerate}' is for {meant} processes, and rl.processes is "
            f"{processes} (use --processes {meant}, or leave num_processes out of the file)"
        )
    if machines not in (None, 1):
        problems.append(
            f"rl.accelerate '{accelerate}' is for {machines} machines, and --processes starts "
            "all of them on this one (use torchrun on each machine: docs/scaling.md)"
        )
    unfit = unfit_for(sharding_of(accelerate), rl, tuning)
    return problems + [f"rl.accelerate '{accelerate}': {sentence}" for sentence in unfit]


def _count(settings: Mapping[str, Any], name: str) -> int | None:
    """Return a positive number that the file says; accelerate writes -1 where none is meant."""
    value = settings.get(name)
    return value if isinstance(value, int) and value > 0 else None


class SageConfig(Section):
    """All settings, in one section per subject."""

    model: ModelSection = PretrainedModel()
    prompt: PromptSection = PromptSection()
    data: DataSection = DataSection()
    sft: SftSection = SftSection()
    rl: SerializeAsAny[Method] = Grpo()
    rollout: RolloutSection = RolloutSection()
    anchor: AnchorSection = AnchorSection()
    guide: SerializeAsAny[Guide] = NoGuide()
    sampling: SamplingSection = SamplingSection()
    grading: GradingSection = GradingSection()
    evaluation: EvaluationSection = EvaluationSection()
    sweep: SweepSection = SweepSection()
    executor: ExecutorSection = ExecutorSection()
    tracking: TrackingSection = TrackingSection()
    run: RunSection = RunSection()
    methods: Blocks = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Settings per method, which apply when that method is chosen."""
    guides: Blocks = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Settings per guide, which apply when that guide is chosen."""

    _layers: tuple[Layer, ...] = PrivateAttr(())
    """What was said, from which it was made: see `sage_cli.config.load.changed`."""
    _merged: Any = PrivateAttr(None)
    """The layers laid over each other, a `Merged`, for `changed` to lay one more over them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SageConfig) and dict(self) == dict(other)

    def named_here(self, setting: str) -> bool:
        """Return True if the user says `setting`, not a shipped preset or a stored run alone."""
        return any(layer.names(setting) for layer in self._layers)

    def origin(self, setting: str) -> str | None:
        """Return who sets `setting`: `flag`, `--set`, `preset NAME` or a file; None by default."""
        origins = (layer.origin for layer in reversed(self._layers) if layer.says(setting))
        return next((origin for origin in origins if origin != "changed"), None)

    @property
    def distils(self) -> bool:
        """Return True if the policy learns from a teacher alone, without a reward."""
        taught = self.anchor.teacher is not None and self.anchor.kl == "reverse"
        return taught and self.rl.online and pays_nothing(self.rl.used_rewards)

    @property
    def samples_beforehand(self) -> int:
        """The number of completions of each problem that are sampled before the training."""
        forward = self.anchor.kl == "forward"
        return self.anchor.reference_samples if forward else self.rl.samples_beforehand

    @model_validator(mode="after")
    def _sections_agree(self) -> SageConfig:
        problems = contradictions(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self


def contradictions(config: SageConfig) -> list[str]:
    """Return every pair of settings that can't both hold, one sentence each."""
    return [
        *idle_settings(config),
        *_of_the_anchor(config),
        *(_of_distillation(config) if config.distils else ()),
        *config.rl.refusals(config),
        *_of_the_model(config),
        *_of_the_batch(config),
        *_of_the_processes(config),
        *_of_measuring(config),
    ]


def _of_the_anchor(config: SageConfig) -> list[str]:
    problems = config.anchor.conflicts(config.rl.steps)
    guided, kl = config.guide.name != "none", config.anchor.kl
    if guided and kl == "none":
        problems.append(
            f"guide '{config.guide.name}' reshapes the KL anchor, and anchor.kl is 'none': "
            "there is nothing to reshape (use --kl reverse or --guide none)"
        )
    if guided and kl == "forward":
        problems.append(
            f"guide '{config.guide.name}' reshapes the reverse-KL anchor; forward KL has none "
            "(use --kl reverse or --guide none)"
        )
    if guided and config.anchor.beta == 0:
        problems.append("anchor.beta is 0: the guide would have no effect (use --beta above 0)")
    if config.anchor.estimator == "head" and not config.guide.tells_of_others:
        problems.append(
            f"anchor.estimator 'head' asks for q of tokens that were not sampled, and guide "
            f"'{config.guide.name}' knows it of sampled ones alone (use --guide token or branch, "
            "or another estimator)"
        )
    if config.anchor.schedule != "constant" and (kl == "none" or config.anchor.beta == 0):
        problems.append(
            f"anchor.schedule '{config.anchor.schedule}' takes beta down to 0, and there is no KL "
            "anchor: anchor.kl is 'none' or anchor.beta 0 (use --kl reverse and --beta above 0)"
        )
    return problems


def _of_distillation(config: SageConfig) -> list[str]:
    """Return what a policy that learns from a teacher alone can't be trained with."""
    anchor, guide, rl, problems = config.anchor, config.guide, config.rl, []
    if anchor.estimator not in DISTILLING:
        problems.append(
            f"anchor.estimator '{anchor.estimator}' can't distil: its gradient weighs tokens by "
            "how far the teacher's probability is above the policy's, without a bound (use "
            "anchor.estimator=reward, the sequence's reverse KL, or head, that of each token)"
        )
    drops_out = guide.of_states if anchor.estimator == "head" else guide.is_noise
    if guide.name != "none" and drops_out:
        problems.append(
            f"guide '{guide.name}' drops out in expectation under anchor.estimator "
            f"'{anchor.estimator}', and there is no reward beside it (use --guide token, or "
            "branch under anchor.estimator=reward)"
        )
    if not getattr(rl, "learns_without_reward", False):
        problems.append(
            f"rl.algo '{rl.algo}' makes its loss of rewards, and rl.rewards has none (use "
            "--algo grpo or dapo)"
        )
    if getattr(rl, "overlong_buffer", None) is not None:
        problems.append(
            "rl.overlong_buffer punishes lengths, which is a reward, and rl.rewards has none "
            "(use rl.overlong_buffer=null)"
        )
    return problems


def _of_the_batch(config: SageConfig) -> list[str]:
    problems = []
    rl, sft = config.rl, config.sft
    try:
        batch_of(rl, rl.processes)
    except ConfigurationError as error:
        problems.append(error.cause)
    if sft.micro_batch is not None and sft.batch_size % sft.micro_batch:
        problems.append(
            f"sft.micro_batch {sft.micro_batch} doesn't divide sft.batch_size {sft.batch_size}"
        )
    return problems


def _of_the_processes(config: SageConfig) -> list[str]:
    rl = config.rl
    problems = launch_problems(rl, config.model.tuning)
    if config.evaluation.every is not None and (sharding := sharding_of(rl.accelerate)):
        problems.append(
            f"evaluation.every validates the policy in one process, and rl.accelerate "
            f"'{rl.accelerate}' ({sharding.kind}) spreads it over all of them (use --accelerate "
            "ddp, or measure checkpoints afterwards: `sage eval RUN@all`)"
        )
    return problems


def _of_measuring(config: SageConfig) -> list[str]:
    problems = []
    if config.grading.extract == "text" and config.grading.mode != "math-verify":
        problems.append(
            "grading.extract 'text' has Math-Verify search the whole completion, and grading.mode "
            f"is '{config.grading.mode}', which compares answers (use grading.mode=math-verify, or "
            "grading.extract=tags-then-boxed)"
        )
    plural = PLURALITY in (reward.name for reward in config.rl.used_rewards)
    if plural and config.grading.extract == "text":
        problems.append(
            f"rl.rewards: '{PLURALITY}' counts answers, and grading.extract 'text' searches whole "
            "completions for the gold without taking an answer (use another grading.extract)"
        )
    chat, format_ = config.sampling.server_form == "chat", config.prompt.format
    if chat and format_ != "chat":
        problems.append(
            f"sampling.server_form 'chat' sends messages, and prompt.format is '{format_}' "
            "(use prompt.format=chat)"
        )
    needed = max(objective.samples_needed for objective in config.sweep.objectives)
    if needed > config.sweep.samples:
        problems.append(
            f"sweep.objective asks for pass@{needed} of {config.sweep.samples} samples "
            f"(use --set sweep.samples={needed})"
        )
    return problems


def _of_the_model(config: SageConfig) -> list[str]:
    model, anchor, problems = config.model, config.anchor, []
    scratch, full = isinstance(model, ScratchModel), model.tuning == "full"
    coarse = trained_dtype(model) in ("bfloat16", "float16")
    if coarse and full and not model.allow_lost_updates:
        problems.append(
            f"model.dtype is '{model.dtype}' and all weights are trained: of AdamW's updates at a "
            "learning rate of 1e-6 all but about 1% are rounded away there (use model.dtype="
            "float32, with model.compute_dtype=bfloat16 for speed, or "
            "model.allow_lost_updates=true)"
        )
    if scratch and model.attention is not None and "/" in model.attention:
        problems.append(
            f"model.attention is '{model.attention}', a kernel of the Hub, and a model from "
            "scratch runs none (use model.attention=sdpa, or model.kind=pretrained)"
        )
    if isinstance(model, PretrainedModel) and _runs_hub_kernels(model):
        problems.append(
            "model.attention and model.kernels name code of the Hub, which is run only where that "
            "is said (add model.trust_remote_code=true, or use model.attention=sdpa and "
            "model.kernels=false)"
        )
    if scratch and full and anchor.kl != "none" and anchor.reference == "pre-sft":
        problems.append(
            "anchor.reference is 'pre-sft', and before SFT a model from scratch has "
            "random weights (use anchor.reference=initial)"
        )
    return problems


def _runs_hub_kernels(model: PretrainedModel) -> bool:
    """Return True if kernels of the Hub are asked for without consent to code."""
    asked = model.kernels or (model.attention is not None and "/" in model.attention)
    return asked and not model.trust_remote_code


@dataclass(frozen=True)
class Setting:
    """A setting's dotted name and the sections that have it.

    In a union these are some of its members, `members` of them in all.
    """

    key: str
    sections: tuple[type[BaseModel], ...]
    members: int

    @property
    def name(self) -> str:
        """The name of its field, without the sections that it lies in."""
        return self.key.rpartition(".")[2]

    @cached_property
    def integer(self) -> bool:
        """Return True if it takes whole numbers only."""
        return all(parts <= {int, NoneType} for parts in self._types)

    @cached_property
    def cosmetic(self) -> bool:
        """Return True if it changes no result."""
        return all(is_cosmetic(section, self.name) for section in self.sections)

    @cached_property
    def open(self) -> bool:
        """Return True if it is a mapping, whose keys the schema doesn't know."""
        return any(get_origin(part) is dict for parts in self._types for part in parts)

    @property
    def _types(self) -> list[set[Any]]:
        return [_parts(section.model_fields[self.name].annotation) for section in self.sections]


def settings() -> dict[str, Setting]:
    """Return every setting, over all members of unions, in the schema's order."""
    return _settings((*Method.members(), *Guide.members()))


@cache
def _settings(_members: tuple[type[Section], ...]) -> dict[str, Setting]:
    return {setting.key: setting for setting in _below((SageConfig,), "")}


def setting(key: str) -> Setting | None:
    """Return the setting called `key`, or the mapping that is open to it; None if there is neither.

    A former name will do. Of a union only the root is read if it has the setting, and not each
    member's file.
    """
    models: Sequence[type[BaseModel]] = (SageConfig,)
    parts = today_key(key).split(".")
    for depth, part in enumerate(parts, 1):
        having = [model for model in models if part in model.model_fields]
        following = parts[depth : depth + 1]
        annotations = [model.model_fields[part].annotation for model in having]
        inner = [
            section for annotation in annotations for section in _having(annotation, following)
        ]
        if having and not inner:
            setting = Setting(".".join(parts[:depth]), tuple(having), len(models))
            return setting if setting.open or not following else None
        models = inner
    return None


def _having(annotation: Any, following: Sequence[str]) -> list[type[BaseModel]]:
    """Return the sections that a field may hold; of a union its root, if that has the next key."""
    is_union = isinstance(annotation, type) and issubclass(annotation, Extensible)
    if is_union and following and following[0] in annotation.model_fields:
        return [annotation]
    return sections_of(annotation)


def _below(sections: Sequence[type[BaseModel]], above: str) -> Iterator[Setting]:
    """Yield the settings of sections, or of a union's members, and of the sections inside them."""
    for name in dict.fromkeys(name for section in sections for name in section.model_fields):
        having = tuple(section for section in sections if name in section.model_fields)
        types = [section.model_fields[name].annotation for section in having]
        inner = dict.fromkeys(
            section for annotation in types for section in sections_of(annotation)
        )
        if inner:
            yield from _below(tuple(inner), f"{above}{name}.")
        else:
            yield Setting(f"{above}{name}", having, len(sections))


def default_member(section: str) -> str:
    """Return which member of a union applies where none is chosen."""
    return str(getattr(SageConfig.model_fields[section].default, UNIONS[section]))


def union_members(section: str) -> dict[str, type[BaseModel]]:
    """Return the members of a union by name; the one for any other name is called ""."""
    tag = UNIONS[section]
    return {
        next(map(str, get_args(kind.model_fields[tag].annotation)), ""): kind
        for kind in sections_at([section])
    }


def member_of(section: str, name: str) -> type[BaseModel]:
    """Return the section that `name` chooses in a union; its default's for an unknown name."""
    union = SageConfig.model_fields[section].annotation
    if isinstance(union, type) and issubclass(union, Extensible) and (kind := in_file(union, name)):
        return kind
    kinds = union_members(section)
    return kinds.get(name) or kinds.get("") or kinds[default_member(section)]


def own_settings(section: str, name: str) -> set[str]:
    """Return the settings that a member of a union shares with no class that it inherits from."""
    kind = member_of(section, name)
    inherited = {key for base in kind.__bases__ for key in getattr(base, "model_fields", ())}
    return set(kind.model_fields) - inherited


def sections_at(path: Sequence[str]) -> Sequence[type[BaseModel]]:
    """Return the sections at `path`; more than one if it is a union."""
    models: Sequence[type[BaseModel]] = (SageConfig,)
    for part in path:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in sections_of(annotation)]
    return models


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a field of this type may hold: none, one, or a union's members."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return list(annotation.members())
    return [model for part in _arguments(annotation) for model in sections_of(part)]


def _parts(annotation: Any) -> set[Any]:
    if inner := _arguments(annotation):
        return {part for argument in inner for part in _parts(argument)}
    return {annotation}


def _arguments(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that is annotated; none of any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return arguments[:1]
    return arguments if get_origin(annotation) in (Union, UnionType) else ()
