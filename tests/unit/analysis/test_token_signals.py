"""Signals of tokens by a policy and its reference: read once, stored, resumed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.token_signals import TokenReaders
from sage_cli.commands.train.sft import tags
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.guides import BranchGuide, RapoGuide, TeacherGuide
from sage_cli.models.load import load_model, load_tokenizer
from sage_cli.models.policies.policy import Policy
from sage_cli.models.scratch import save_scratch
from sage_cli.models.signals import completion_signals
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples import annotations
from sage_cli.store.samples.completion import Completion, token_ids

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
SETTINGS = [*SIZE, "evaluation.limit=2", "evaluation.samples=2", "evaluation.k=1,2"]
TEXTS = ("1+1=2", "so 12", "34", "")
TEMPERATURE = 0.7


@pytest.fixture
def subject(tmp_path: Path) -> tuple[PolicySamples, EvaluationSpec, Any]:
    """A run of RL with graded samples, whose parent has other weights."""
    root = tmp_path / "runs"
    config = load(sets=[*SETTINGS, f"run.root={root}", "guide.name=branch"]).config
    stored, runs = config.model_dump(mode="json"), Runs(root)
    parent, run = runs.at("sft", "base", "1" * 8), runs.at("rl", "branch", "2" * 8)
    with parent.recording(stored, kind="sft"):
        save_scratch(config.model, tags(config.prompt), [], parent.model)
    template = PromptTemplate.from_section(config.prompt, load_tokenizer(parent.model)).hash
    with run.recording(stored, kind="rl", parent=parent.id, template=template):
        shutil.copytree(parent.model, run.model)
        grow(run.model, 20)
    policy, spec = Policy.of_run(run), EvaluationSpec.of(config)
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    own = PolicySamples.of_evaluation(policy, spec, root)
    ids = [problem.id for problem in benchmark.problems]
    for place, id_ in enumerate(ids):  # a part for each problem
        with own.at(0).writing({}) as writer:
            writer.claim([id_], 2)
            for index, text in enumerate(TEXTS[2 * place : 2 * place + 2]):
                writer.add(Completion(id_, index, 0, text, 5, "length"))
    for store in Answers.of(own, benchmark, spec).grades:
        for row in own.at(0).completions():
            store.add([(row, "right" if row.index else "wrong", None)])
        store.flush()
    return own, spec, benchmark


def grow(folder: Path, factor: float) -> None:
    """Change a stored model by the size of its embeddings."""
    model = load_model(folder)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(factor)
    model.save_pretrained(folder)


def expected(
    policy: Policy, found: PolicySamples, benchmark: Any, temperature: float
) -> np.ndarray:
    """Log-probabilities of all tokens in stored order, one pass for each completion."""
    model, tokenizer = load_model(Path(policy.path)), policy.tokenizer()
    template = PromptTemplate.from_section(found.prompt, tokenizer)
    questions = {problem.id: problem.question for problem in benchmark.problems}
    logps = [np.zeros(0)]
    for row in found.at(0).completions():
        prompt = tokenizer(template.render(questions[row.problem_id]), add_special_tokens=False)
        ids = token_ids(tokenizer, row, template.stop)
        if ids:
            read = completion_signals(model, prompt["input_ids"], ids, temperature)
            logps.append(read[0].numpy())
    return np.concatenate(logps)


def test_policy_and_reference_are_read_once(subject: Any, monkeypatch: pytest.MonkeyPatch):
    found, spec, benchmark = subject
    guides = (RapoGuide(phi_wrong=0.5), BranchGuide(signal="reference", tau=0.1, rho=0.1))
    readers = TokenReaders.of(found, spec, guides, TEMPERATURE, Silent())
    answers = Answers.of(found, benchmark, spec)
    assert [one.lacking(answers, found, tokens=True) for one in readers.all] == [(4, 4)] * 3
    table = readers.table(answers, guides)
    own = expected(found.policy, found, benchmark, TEMPERATURE)
    assert table.surprisal_T == pytest.approx(-own, abs=1e-5)
    parent = Policy(str(Runs(found.root).find("sft-base").model))
    plain = expected(parent, found, benchmark, TEMPERATURE)
    tilted = expected(parent, found, benchmark, TEMPERATURE / 0.5)
    log_q = np.clip(tilted - plain, np.log(1e-3), np.log(100))
    right_T = table.log_q_T["rapo"] == 0  # phi is 1 on right ones
    assert table.log_q_T["rapo"][~right_T] == pytest.approx(log_q[~right_T], abs=1e-5)
    assert 0 < right_T.sum() < len(right_T)
    assert np.any(table.log_q_T["branch"] != 0)

    def loaded(*_: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(PolicySamples, "model", loaded)
    again = TokenReaders.of(found, spec, guides, TEMPERATURE, Silent())
    assert [one.lacking(answers, found, tokens=True) for one in again.all] == [(0, 4)] * 3
    second = again.table(Answers.of(found, benchmark, spec), guides)
    assert np.array_equal(second.surprisal_T, table.surprisal_T)
    assert np.array_equal(second.log_q_T["rapo"], table.log_q_T["rapo"])


def test_a_teacher_reads_the_tokens_too(subject: Any, tmp_path: Path):
    found, spec, benchmark = subject
    parent = Policy(str(Runs(found.root).find("sft-base").model))
    teacher = Policy(str(shutil.copytree(parent.path, tmp_path / "teacher")))
    grow(Path(teacher.path), 40)
    guide = TeacherGuide(teacher=teacher.path, share=0.05, q_min=0.5, q_max=2)
    readers = TokenReaders.of(found, spec, (guide,), TEMPERATURE, Silent())
    assert len(readers.all) == 3  # the policy, its reference and the teacher
    table = readers.table(Answers.of(found, benchmark, spec), (guide,))
    known, plain = (expected(one, found, benchmark, TEMPERATURE) for one in (teacher, parent))
    # q = (pi_T / pi_ref)^share within its clamp
    log_q_T = np.clip(0.05 * (known - plain), np.log(0.5), np.log(2))
    assert table.log_q_T["teacher"] == pytest.approx(log_q_T, abs=1e-5)
    assert 0 < np.sum(np.abs(log_q_T) < np.log(2)) < len(log_q_T)


def test_an_interrupted_reading_is_resumed(subject: Any, monkeypatch: pytest.MonkeyPatch):
    found, spec, benchmark = subject
    readers = TokenReaders.of(found, spec, (), TEMPERATURE, Silent())
    answers = Answers.of(found, benchmark, spec)
    monkeypatch.setattr(annotations, "READ_AT_ONCE", 1)
    forward, count = readers.own._forward, 0
    read = forward.tokens

    def interrupted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return read(*arguments)

    monkeypatch.setattr(forward, "tokens", interrupted)
    with pytest.raises(KeyboardInterrupt):
        readers.table(answers, ())
    left, whole = readers.own.lacking(answers, found, tokens=True)
    assert (left, whole) == (2, 4)
    monkeypatch.undo()
    rest = TokenReaders.of(found, spec, (), TEMPERATURE, Silent())
    table = rest.table(Answers.of(found, benchmark, spec), ())
    whole_logps = expected(found.policy, found, benchmark, TEMPERATURE)
    assert table.surprisal_T == pytest.approx(-whole_logps, abs=1e-5)


def test_a_policy_without_a_reference_is_named(subject: Any):
    found, spec, _ = subject
    foreign = replace(found, policy=Policy(found.policy.path))
    with pytest.raises(ConfigurationError, match="was trained without a reference"):
        TokenReaders.of(foreign, spec, (RapoGuide(),), TEMPERATURE, Silent())
