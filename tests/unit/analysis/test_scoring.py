"""Scores of stored samples by their own policy, and a token's own text."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_model import save_scratch

from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.scoring import Forward, ModelScorer
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.loading import load_model
from sage_cli.models.policy import Policy
from sage_cli.models.signals import batch_signals
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.store import annotations
from sage_cli.store.completion import Completion, token_ids
from sage_cli.store.run import Runs


class Pieces:
    """A tokenizer of given pieces; decoding drops what SentencePiece drops."""

    def __init__(self, *pieces):
        self.pieces, self.decoded = pieces, 0

    def convert_ids_to_tokens(self, token):
        return self.pieces[token]

    def decode(self, ids):
        self.decoded += 1
        (token,) = ids
        text = self.pieces[token].replace("Ġ", " ")
        return text.replace("▁", "")


def texts(tokenizer, *ids):
    forward = Forward(None, 1.0, Silent())
    forward.__dict__["tokenizer"] = tokenizer
    return [forward.text(id_) for id_ in ids]


def test_a_words_space_stays_with_its_first_token():
    sentence_piece = Pieces("▁the", "re", "▁")
    assert texts(sentence_piece, 0, 1, 0, 2) == [" the", "re", " the", " "]
    assert sentence_piece.decoded == 3
    assert texts(Pieces("Ġthe", "re"), 0, 1) == [" the", "re"]


SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
SETTINGS = [*SIZE, "evaluation.limit=2", "evaluation.samples=2", "evaluation.k=1,2"]
TEXTS = ("1+1=2", "so 12", "34", "")
TEMPERATURE = 0.7


@pytest.fixture
def subject(tmp_path):
    """A run of SFT with graded samples."""
    root = tmp_path / "runs"
    config = load(sets=[*SETTINGS, f"run.root={root}"]).config
    run = Runs(root).at("sft", "base", "1" * 8)
    with run.recording(config.model_dump(mode="json"), kind="sft"):
        save_scratch(config.model, config.prompt.tags, [], run.model)
    template = PromptTemplate.from_section(config.prompt, load_tokenizer(run.model)).hash
    run.note(template=template)
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    own = PolicySamples.from_config(Policy.of_run(run), config, root)
    ids = [problem.id for problem in benchmark.problems]
    for place, id_ in enumerate(ids):  # a part for each problem
        with own.at(0).writing({}) as writer:
            writer.claim([id_], 2)
            for index, text in enumerate(TEXTS[2 * place : 2 * place + 2]):
                writer.add(Completion(id_, index, 0, text, 5, "length"))
    for store in Answers.from_samples(own, benchmark, config).grades:
        for row in own.at(0).completions():
            store.add([(row, "right" if row.index else "wrong", None)])
        store.flush()
    return own, config, benchmark


def scored(scorer, answers, writer):
    """Return the scores by text."""
    found = scorer.score(answers, writer).scores
    return {
        row.text: values
        for store in found
        for row, *values in store.stream(answers.problems, answers.n)
    }


def expected(own, benchmark):
    """Mean surprisal, mean entropy and length by text, one pass for each completion."""
    model, tokenizer = load_model(Path(own.policy.path)), own.policy.tokenizer
    template = PromptTemplate.from_section(own.prompt, tokenizer)
    questions = {problem.id: problem.question for problem in benchmark.problems}
    found = {}
    for row in own.at(0).completions():
        prompt = tokenizer(template.render(questions[row.problem_id]), add_special_tokens=False)
        ids = token_ids(tokenizer, row, template.stop)
        logps_T, entropy_T = batch_signals(model, [(prompt["input_ids"], ids)], TEMPERATURE)[0]
        means = [-logps_T.mean().item(), entropy_T.mean().item()] if ids else [np.nan, np.nan]
        found[row.text] = [*means, len(ids)]
    return found


def same(found, known):
    assert found.keys() == known.keys()
    return all(found[text] == pytest.approx(known[text], abs=1e-5, nan_ok=True) for text in known)


def stored(scorer, answers, writer):
    """How many of the four completions have a score."""
    stores = scorer._stores(writer)
    return sum(store.count(answers.problems, answers.n) for store in stores)


def test_completions_are_scored_once(subject, monkeypatch):
    own, config, benchmark = subject
    scorer, answers = (
        ModelScorer(own, TEMPERATURE, config, Silent()),
        Answers.from_samples(own, benchmark, config),
    )
    assert stored(scorer, answers, own) == 0
    first = scored(scorer, answers, own)
    assert same(first, expected(own, benchmark))

    def loaded(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(PolicySamples, "model", loaded)
    again = ModelScorer(own, TEMPERATURE, config, Silent())
    assert stored(again, answers, own) == 4
    assert same(scored(again, Answers.from_samples(own, benchmark, config), own), first)
    assert stored(ModelScorer(own, 1.0, config, Silent()), answers, own) == 0


def test_an_interrupted_scoring_is_resumed(subject, monkeypatch):
    own, config, benchmark = subject
    scorer = ModelScorer(own, TEMPERATURE, config, Silent())
    answers = Answers.from_samples(own, benchmark, config)
    monkeypatch.setattr(annotations, "READ_AT_ONCE", 1)
    read, count = scorer._forward.scores, 0

    def interrupted(*arguments):
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return read(*arguments)

    monkeypatch.setattr(scorer._forward, "scores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scorer.score(answers, own)
    assert stored(scorer, answers, own) == 2
    monkeypatch.undo()
    rest = ModelScorer(own, TEMPERATURE, config, Silent())
    assert same(
        scored(rest, Answers.from_samples(own, benchmark, config), own), expected(own, benchmark)
    )


def test_a_model_with_another_tokenizer_is_refused(subject, tmp_path):
    own, config, benchmark = subject
    config = load(sets=[*SIZE, "prompt.answer_open=<ANSWER>"]).config
    save_scratch(config.model, config.prompt.tags, [], tmp_path / "words")
    other = replace(own, policy=Policy(str(tmp_path / "words")))
    scorer = ModelScorer(other, TEMPERATURE, config, Silent())
    with pytest.raises(ConfigurationError, match="have different tokenizers"):
        scorer.score(Answers.from_samples(own, benchmark, config), own)
