"""`sage doctor`: what prevents a preset from running here, a line for each check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from sage_cli.cli import options
from sage_cli.cli.console import console, doing, emit, in_flags
from sage_cli.errors import EXIT_OTHER, ConfigurationError, SageError

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.problems.problem import Problem
    from sage_cli.problems.template import PromptTemplate
    from sage_cli.training.checks import RlChecks
    from sage_cli.training.run import InitialPolicy
    from sage_cli.training.sft import Example


def command(
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    algo: options.Algo = None,
    guide: options.Guide = None,
    init: options.Init = None,
    data: options.Data = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    generate: Annotated[
        bool,
        typer.Option(
            "--generate",
            help="Sample 8 completions of the initial policy, 64 if none has a readable answer.",
        ),
    ] = False,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Check whether a preset, a model and data can be used on this machine; exit with 1 if not.

    Missing data and small files of a model are downloaded, as in training, and torch is loaded to
    find GPUs. Nothing is trained or stored.
    """
    settings = options.load_config(
        preset,
        config,
        set_,
        "doctor --init" if init else "doctor",
        rl={"algo": algo},
        guide={"name": guide},
        run={"root": runs},
        data={"rl": {"name": data, "fields": {"question": question_field, "gold": gold_field}}},
    )
    with doing("loading libraries"):
        from sage_cli.training.run import unnamed_preset

    note = unnamed_preset(init, settings, named=bool(preset or config))
    findings: list[_Finding] = []
    failed: dict[str, str] = {}  # what is wrong -> the first check that found it
    for check, ask in checks(settings, init, generate=generate):
        with doing(f"checking {check}"):
            try:
                finding = _Finding(check, ask())
            except SageError as error:
                obstacle = check not in HINTS
                advice = in_flags(error.next_step, "doctor")
                finding = _Finding(check, error.cause, advice, obstacle=obstacle)
        findings.append(finding)
        first = failed.setdefault(finding.answer, check) if finding.advice else check
        if not json:
            same = replace(finding, answer=f"see {first}, above", advice=None)
            _print(finding if first == check else same, warns=finding.advice is not None)
    obstacles = [finding for finding in findings if finding.obstacle]
    name = ", ".join(preset or ([str(config)] if config else ["tiny"]))
    if json:
        checked = [finding.as_json() for finding in findings]
        emit({"configuration": name, "can_run": not obstacles, "checks": checked})
    elif obstacles:
        console.print(f"\n{name} can't run here: {len(obstacles)} of {len(findings)} checks fail")
    else:
        warned = sum(finding.advice is not None for finding in findings)
        but = f", but {warned} of {len(findings)} checks give a warning" if warned else ""
        console.print(f"\n{name} can run here{but}")
    if note and not json:
        console.print(note)
    if obstacles:
        raise typer.Exit(EXIT_OTHER)


def _print(finding: _Finding, *, warns: bool) -> None:
    mark, colour = ("✗", "red") if finding.obstacle else ("✓", "green")
    if warns and not finding.obstacle:
        mark, colour = "!", "yellow"
    text = Text.assemble((f"{mark} ", colour), (finding.check, "bold"), f"  {finding.answer}")
    if finding.advice:
        text.append(f"\n    {finding.advice}", "cyan")
    console.print(text, soft_wrap=True)


@dataclass(frozen=True)
class _Finding:
    """The answer of a check. With an `obstacle`, commands refuse this configuration."""

    check: str
    answer: str
    advice: str | None = None
    obstacle: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints, where the advice has the key `mend`."""
        return {
            "check": self.check,
            "answer": self.answer,
            "mend": self.advice,
            "obstacle": self.obstacle,
        }


_QUESTION = "1+1=?"
"""The question whose prompt is measured."""
HINTS = ("answer round trip", "golds", "characters", "lengths")
"""Checks whose failure makes a run worse, but prevents no command."""


def checks(
    config: SageConfig, init: str | None = None, *, generate: bool = False
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks of `config`: a name, and what returns a description or raises the obstacle.

    They go from what is quickly told to what loads data and libraries. With `init` RL starts from
    that model, with `generate` the last check samples some of its completions.
    """
    from sage_cli.store.storage import require_storage
    from sage_cli.training.checks import RlChecks
    from sage_cli.training.run import InitialPolicy, with_model_of

    config = with_model_of(init, config)
    start = InitialPolicy.of(config, init)
    # what several checks look at is made once: 56,000 demonstrations take a second each time
    rl = RlChecks(config)
    asked = cache(lambda: _asked(rl))

    @cache
    def inputs() -> tuple[Any, PromptTemplate, list[Example]]:
        from sage_cli.training.sft import sft_inputs  # loads TRL, which not every check needs

        return sft_inputs(config)

    @cache
    def tokenizer() -> Any:
        policy = start.with_files  # of a model that is to be trained here there are none yet
        return inputs()[0] if policy is None else policy.tokenizer

    yield "runs folder", lambda: require_storage(config.run.root)
    yield "packages", lambda: _packages(config)
    yield "model", lambda: _model(start)
    yield "prompt template", lambda: _template(start, tokenizer)
    yield "answer round trip", lambda: _answer(tokenizer(), config)
    if start.is_trained_here:
        yield f"SFT data {config.data.sft.name}", lambda: _demonstrations(inputs(), config)
    yield from rl.listed()
    yield "golds", lambda: _golds(asked(), config)
    yield "characters", lambda: _characters(asked(), tokenizer())
    yield "lengths", lambda: _lengths(start, tokenizer(), rl)
    yield f"benchmark {config.evaluation.benchmark}", lambda: _benchmarks(config)
    yield "device", lambda: _device(config)
    yield "rollouts", lambda: _rollouts(start)
    yield "sampling", lambda: _sampling(start)
    if generate:
        yield "completions", lambda: _completions(start, rl)


def _packages(config: SageConfig) -> str:
    """Return where tasks run. Raises ConfigurationError for a package that is missing."""
    from sage_cli.store.mirrors import require_mirrors
    from sage_cli.trials.executors.build import require_executor

    require_mirrors(config.tracking)
    require_executor(config.executor)
    return f"all are installed; tasks run with the executor {config.executor.name}"


def _model(start: InitialPolicy) -> str:
    from sage_cli.models.compatibility import check_fitting_tokenizer
    from sage_cli.models.folders import is_adapter, require_whole_weights
    from sage_cli.models.loading import attach_lora
    from sage_cli.settings.inputs import ScratchModel

    model, policy = start.config.model, start.with_files
    if model.tuning == "lora" and policy is not None and not is_adapter(policy.files):
        attach_lora(policy.outline, model.lora)
    if policy is not None:
        check_fitting_tokenizer(policy)
    if start.init is not None:
        return f"{start.policy.label}: weights are in {start.policy.files}"
    if isinstance(model, ScratchModel):
        return (
            f"random initial weights, {model.layers} layers, hidden size {model.hidden}, "
            f"tokenizer {model.tokenizer}"
        )
    require_whole_weights(model.path)
    files = (policy or start.policy).files
    weights = any(files.glob("*.safetensors"))
    return f"{model.path}: weights {'are in' if weights else 'will be downloaded to'} {files}"


def _template(start: InitialPolicy, tokenizer: Callable[[], Any]) -> str:
    from sage_cli.models.folders import TokenizerFacts
    from sage_cli.problems.template import PromptTemplate
    from sage_cli.settings.inputs import ScratchModel

    section = start.config.prompt
    if isinstance(start.config.model, ScratchModel) and start.init is None:
        facts = TokenizerFacts("<eos>", None, "a model from scratch")
        template = PromptTemplate.from_section(section, facts)
    else:
        template = PromptTemplate.from_section(section, tokenizer())
    characters = len(template.render(_QUESTION))
    return f"format {section.format}; the question {_QUESTION!r} becomes {characters} characters"


def _answer(tokenizer: Any, config: SageConfig) -> str:
    """Grade a correct answer after writing and reading it as tokens, and describe that.

    Raises ConfigurationError if it is not graded as correct, or if the prompt opens no turn for it.
    """
    from sage_cli.evaluation.benchmarks import grader_of
    from sage_cli.models.tokenizer import keep_tags
    from sage_cli.problems.template import PromptTemplate
    from sage_cli.solution_text import CLOSE

    section = config.prompt
    template = PromptTemplate.from_section(section, tokenizer)
    written, opened = template.complete("3 + 4", "7"), template.opened or ""
    if section.format == "chat":
        written = (CLOSE if opened else "") + template.final("7")
    keep_tags(tokenizer, section)
    ids = tokenizer([written], add_special_tokens=False)["input_ids"]
    text = tokenizer.batch_decode(ids, skip_special_tokens=True)[0]
    with grader_of("math", None, config.grading, section) as grader:
        status = grader.grade("7", opened + text).status
    if status != "right":
        raise ConfigurationError(
            f"a correct answer, {written!r}, is read as {text!r} and graded {status}",
            "set the prompt's tags to texts that the tokenizer can write (prompt.answer_open, "
            "prompt.answer_close, prompt.reasoning_close)",
        )
    if not template.opens_turn:
        raise ConfigurationError(
            "the chat template ignores add_generation_prompt, so that the model would "
            "have to write the beginning of its own turn",
            "fix the template, or use --set prompt.format=plain",
        )
    return f"a correct answer ({len(ids[0])} tokens) is extracted and graded correct"


def _demonstrations(inputs: tuple[Any, PromptTemplate, list[Example]], config: SageConfig) -> str:
    from sage_cli.training.sft import tokenized

    tokenizer, _, examples = inputs
    most = config.sft.max_length
    fitting = len(tokenized(examples, tokenizer, most)["input_ids"])
    return f"{fitting:,} of {len(examples):,} demonstrations fit in sft.max_length={most} tokens"


def _asked(rl: RlChecks) -> list[Problem]:
    """Return the problems that are trained on and those that are measured."""
    from sage_cli.problems.load import load_problems

    measured, data = rl.config.evaluation, rl.config.data
    benchmark = load_problems(measured.benchmark, data, measured.fields, measured.limit)
    return [*rl.problems, *benchmark]


def _golds(asked: Sequence[Problem], config: SageConfig) -> str:
    """Return the kinds of golds; those of other judges than mathematics are theirs to read."""
    from sage_cli.evaluation.benchmarks import described_golds, judge_of

    judge = config.grading.judge
    compared = [p for p in asked if judge_of(p.benchmark, judge)[0] == "math"]
    return described_golds(compared) or "only the benchmarks' own judges read them"


def _characters(asked: Sequence[Problem], tokenizer: Any) -> str:
    """Raise ConfigurationError for characters that vanish from questions and golds."""
    texts = [p.question + "".join(p.golds) for p in asked]
    used = sorted({c for text in texts for c in text if not c.isspace()})
    tokens = tokenizer(used, add_special_tokens=False)["input_ids"]
    lost = [
        c for c, ids in zip(used, tokens, strict=True) if not ids or tokenizer.unk_token_id in ids
    ]
    if lost:
        affected = sum(not set(lost).isdisjoint(text) for text in texts)
        raise ConfigurationError(
            f"the tokenizer has no tokens for {' '.join(lost[:20])}: {affected:,} of "
            f"{len(asked):,} problems are read without them",
            "rewrite these questions, or choose a model whose tokenizer has these characters",
        )
    return f"the tokenizer covers all {len(used)} characters in questions and golds"


def _benchmarks(config: SageConfig) -> str:
    from sage_cli.evaluation.benchmarks import load_benchmarks
    from sage_cli.problems.misprints import known_misprints
    from sage_cli.problems.source_errors import reading

    with reading(config, "evaluation"):
        benchmarks = load_benchmarks(config.evaluation, config.data, config.grading.judge)
    counted = ", ".join(f"{len(b.problems):,} problems of {b.name}" for b in benchmarks)
    misprints = [
        f"{misprint.name}: {misprint.wrong}"
        for benchmark in benchmarks
        for _, misprint in known_misprints(benchmark.problems)
    ]
    known = f"; known misprints: {'; '.join(misprints)}" if misprints else ""
    return f"{counted}; the judge accepts every gold as correct{known}"


def _device(config: SageConfig) -> str:
    from sage_cli.training.hardware import (
        device,
        precision_arguments,
        require_kernels,
        require_optimizer,
    )

    require_optimizer(config.rl.optimizer, "rl.optimizer")
    if config.sft.enabled:
        require_optimizer(config.sft.optimizer, "sft.optimizer")
    computed = "bfloat16" if precision_arguments(config.model.compute_dtype)["bf16"] else "float32"
    return f"{device()}; computes in {computed} with {require_kernels(config.model)}"


def _rollouts(start: InitialPolicy) -> str:
    config = start.config
    backend, processes = config.rollout.backend, config.rl.processes
    if config.rollout.may_use_vllm:  # the others are always here
        from sage_cli.training.rollouts import resolve_engine

        backend = resolve_engine(config.rollout, processes).backend
    if config.rl.accelerate is not None:
        from sage_cli.training.launch import accelerate_configuration

        accelerate_configuration(config.rl.accelerate)
    if backend == "builtin" and config.rl.online:
        start.require_sampled(config.rollout.max_tokens, "rollout.backend=transformers")
    counted = "1 process" if processes == 1 else f"{processes} processes"
    return f"sampled with the backend {backend}, in {counted}"


def _sampling(start: InitialPolicy) -> str:
    from sage_cli.sampling.backends import chosen_backend

    config = start.config
    backend = chosen_backend(config.sampling)
    if backend == "builtin":
        start.require_sampled(config.sampling.max_tokens, "sampling.backend=vllm or server")
    if backend == "vllm":
        from sage_cli.sampling.vllm_sampler import require_vllm

        require_vllm()
    return f"evaluations sample with the backend {backend}"


def _completions(start: InitialPolicy, rl: RlChecks) -> str:
    """Return what was found of a few completions of the initial policy, and show one.

    Raises ConfigurationError where a training run would be stopped.
    """
    from sage_cli.training.answer_probe import probe_answers

    policy = start.with_files
    if policy is None or (start.is_trained_here and not start.policy.exists):
        return "none yet: the initial policy is first trained by SFT (`sage sft`)"
    answers, findings = probe_answers(start.config, policy, rl.problems)
    shown = answers.shown_in_words()
    for finding in findings:
        if finding.stops:
            raise ConfigurationError(f"{finding.cause}\n    {shown}", finding.remedy)
    warnings = [f"; {finding.cause}: {finding.remedy}" for finding in findings]
    return "\n    ".join([answers.in_words() + "".join(warnings), *shown.split("\n")])


def _lengths(start: InitialPolicy, tokenizer: Any, rl: RlChecks) -> str:
    from sage_cli.models.loading import context_of

    config, problems, policy = rl.config, rl.problems, start.with_files
    positions = getattr(config.model, "max_positions", None)  # without an end: None
    if policy is not None:
        positions = context_of(policy.outline.config)
    return described_lengths(config, problems, tokenizer, positions)


def described_lengths(
    config: SageConfig, problems: Sequence[Problem], tokenizer: Any, positions: int | None
) -> str:
    """Describe the tokens of prompts and of the shortest correct completions.

    Raises ConfigurationError, with the setting that is needed, where they don't fit. A judge of
    one's own may have golds that are not answers, so that they aren't counted.
    """
    from sage_cli.problems.template import PromptTemplate
    from sage_cli.training.rollouts import context_length

    template = PromptTemplate.from_section(config.prompt, tokenizer)
    most = config.rollout.max_tokens
    prompt = max(_counts(tokenizer, [template.render(problem.question) for problem in problems]))
    context_length(config.rollout, [prompt], positions)  # refuses what doesn't fit
    lengths = f"prompts have at most {prompt:,} tokens and rollouts at most {most:,}"
    context = "" if positions is None else f"; the model's context has {positions:,} tokens"
    if config.grading.judge is not None:
        return lengths + context
    bare = config.grading.extract == "text"
    answers = [min(problem.golds, key=len) for problem in problems]
    needed = _counts(tokenizer, answers if bare else list(map(template.final, answers)))
    longer = sum(count > most for count in needed)
    if longer:
        raise ConfigurationError(
            f"{longer:,} of {len(problems):,} problems cannot be answered within "
            f"rollout.max_tokens ({most:,}): the longest answer alone has "
            f"{max(needed):,} tokens",
            f"use at least --set rollout.max_tokens={max(needed)}; reasoning needs more",
        )
    return f"{lengths}; the longest answer alone has {max(needed):,}{context}"


def _counts(tokenizer: Any, texts: list[str]) -> list[int]:
    return list(map(len, tokenizer(texts, add_special_tokens=False)["input_ids"]))
