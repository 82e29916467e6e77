"""Exact chances of a policy's right texts, stored as they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.exact.listed import Listed, listed_texts
from sage_cli.evaluation.exact.others import Others, others_of
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics.counts import FloatArray
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.settings.sections.data import DataSection
from sage_cli.store.samples.chances import ChanceStore, Key
from sage_cli.store.samples.completion import Completion, token_ids

if TYPE_CHECKING:
    from sage_cli.sampling.decoder.token_choice import Ids, Pair

PROBLEMS_AT_ONCE = 512
"""Problems whose chances are stored together: at most so many are lost by a kill."""


@dataclass(frozen=True, eq=False)
class Chances:
    """The probability of each problem's right texts, by temperature, problem and way: (T, P, W).

    A way that a problem doesn't have has probability 0.
    """

    problem_ids: tuple[str, ...]
    ways: tuple[str, ...]
    guesses: frozenset[str]
    temperatures: tuple[float, ...]
    p_TPW: FloatArray

    def at(self, temperature: float, *, guesses: bool = True) -> FloatArray:
        """Return each problem's chance of a right text, shape (P,), with or without guesses."""
        counted = [
            place for place, way in enumerate(self.ways) if guesses or way not in self.guesses
        ]
        p_PW = self.p_TPW[self.temperatures.index(temperature)]
        p_P: FloatArray = np.minimum(p_PW[:, counted].sum(axis=1), 1.0)
        return p_P

    def over(self, temperatures: Sequence[float]) -> Chances:
        """Return the chances at these temperatures alone."""
        places = [self.temperatures.index(one) for one in temperatures]
        return replace(self, temperatures=tuple(temperatures), p_TPW=self.p_TPW[places])

    def of_way(self, temperature: float, way: str) -> FloatArray:
        """Return each problem's chance of a way's right text, shape (P,)."""
        p_P: FloatArray = self.p_TPW[self.temperatures.index(temperature)][:, self.ways.index(way)]
        return p_P


@dataclass(frozen=True, eq=False)
class ExactReader:
    """A policy under a prompt and decoding that reads a benchmark's right texts."""

    own: PolicySamples
    benchmark: Benchmark
    data: DataSection
    temperatures: tuple[float, ...]

    @cached_property
    def listed(self) -> Listed:
        """Return the right texts. Raises DataError if the benchmark's generator lists none."""
        return listed_texts(self.benchmark.name, self.benchmark.problems, self.data)

    def missing(self) -> tuple[int, int]:
        """Return how many texts have to be read, once for all temperatures, and how many are."""
        stored = self._store.read()
        wanted = self._wanted()
        lacking = {key[:2] for key in wanted if key not in stored}
        return len(lacking), len(wanted) // len(self.temperatures)

    def read(self, progress: Progress) -> Chances:
        """Return the chances; the model is loaded if one is missing, and what it reads stored."""
        stored, wanted = self._store.read(), self._wanted()
        lacking = list(dict.fromkeys(id_ for id_, *_ in (k for k in wanted if k not in stored)))
        if lacking:
            stored |= self._compute(lacking, stored, progress)
        texts = self.listed
        p_TPW = np.array(
            [
                [
                    [np.exp(stored.get((id_, way, temperature), -np.inf)) for way in texts.ways]
                    for id_ in self.benchmark.golds
                ]
                for temperature in self.temperatures
            ]
        )
        ids = tuple(self.benchmark.golds)
        return Chances(ids, texts.ways, texts.guesses, self.temperatures, p_TPW)

    def stored(self) -> Chances | None:
        """Return the chances if all are stored; no model is loaded."""
        texts, ids = self.listed, tuple(self.benchmark.golds)
        p_TPW = np.exp(self._store.logps(ids, texts.ways, self.temperatures))
        has_PW = np.array([[way in texts.workings[id_] for way in texts.ways] for id_ in ids])
        if np.isnan(p_TPW[:, has_PW]).any():
            return None
        p_TPW[:, ~has_PW] = 0.0
        return Chances(ids, texts.ways, texts.guesses, self.temperatures, p_TPW)

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Pair]:
        """Return (problem id, way) -> tokens of prompt and text; the tokenizer is loaded.

        Of the splits that a tokenizer of pieces allows it is the usual one. Where sampling doesn't
        stop at the answer, the end-of-sequence token belongs to the text.
        """
        tokenizer = self.own.policy.tokenizer()
        template = PromptTemplate.from_section(self.own.prompt, tokenizer)
        ends = self.own.parameters.stop is None
        return text_pairs(self.benchmark, self.listed, template, tokenizer, ends=ends)

    def others(self, samples: Iterable[tuple[Completion, bool]]) -> Others:
        """Return those of graded samples that are none of the texts; the tokenizer is loaded."""
        tokenizer, stop = self.own.policy.tokenizer(), self.own.parameters.stop
        listed = {key: ids for key, (_, ids) in self.pairs.items()}
        usual = partial(token_ids, tokenizer, stop=stop)
        return others_of(samples, listed, list(self.benchmark.golds), usual)

    def _compute(
        self, ids: Sequence[str], stored: Mapping[Key, float], progress: Progress
    ) -> dict[Key, float]:
        from sage_cli.sampling.decoder.token_choice import text_logps

        model = self.own.model(progress)
        label = f"{self.own.policy.label} reads right texts on {self.benchmark.name}"
        whole = len(self.benchmark.golds)
        progress.begin(label, whole, "problems", whole - len(ids))
        found: dict[Key, float] = {}
        for start in range(0, len(ids), PROBLEMS_AT_ONCE):
            chunk = ids[start : start + PROBLEMS_AT_ONCE]
            keys = [(id_, way) for id_ in chunk for way in self.listed.workings[id_]]
            wanted = product(keys, self.temperatures)
            lacking = sorted({t for key, t in wanted if (*key, t) not in stored})
            decodings = [replace(self.own.parameters, temperature=t) for t in lacking]
            logps_DR = text_logps(model, [self.pairs[key] for key in keys], decodings)
            rows = {
                (*key, decoding.temperature): float(logps_DR[d, r])
                for d, decoding in enumerate(decodings)
                for r, key in enumerate(keys)
            }
            self._store.add(rows)
            found |= rows
            progress.advance(len(chunk))
        progress.end()
        return found

    def _wanted(self) -> list[Key]:
        return [
            (id_, way, temperature)
            for temperature in self.temperatures
            for id_, by_way in self.listed.workings.items()
            for way in by_way
        ]

    @cached_property
    def _store(self) -> ChanceStore:
        policy, decoding = self.own.policy, asdict(self.own.parameters)
        del decoding["temperature"]
        author = {
            "model": policy.fingerprint,
            "template": self.own.template.hash,
            "dtype": policy.dtype(self.own.dtype),
            "decoding": decoding,
            "eos": policy.tokenizer_facts.eos_token,
            "generator": [self.listed.generator, self.listed.version],
        }
        return ChanceStore(self.own.root, author)


def text_pairs(
    benchmark: Benchmark, listed: Listed, template: PromptTemplate, tokenizer: Any, *, ends: bool
) -> dict[tuple[str, str], Pair]:
    """Return (problem id, way) -> tokens of prompt and right text, as completions are stored.

    With `ends` the end-of-sequence token belongs to each text.
    """

    def ids(text: str) -> Ids:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    end: Ids = (tokenizer.eos_token_id,) if ends else ()
    pairs: dict[tuple[str, str], Pair] = {}
    for one in benchmark.problems:
        prompt = ids(template.render(one.question))
        for way, working in listed.workings[one.id].items():
            pairs[one.id, way] = prompt, ids(template.complete(working, one.gold)) + end
    return pairs


def exact_reader(
    own: PolicySamples, benchmark: Benchmark, data: DataSection, temperatures: Sequence[float]
) -> ExactReader:
    """Return the reader of a policy's own samples' distribution.

    Raises ConfigurationError for a policy that a server prompts, whose tokens aren't known here.
    """
    if own.in_chat:
        raise ConfigurationError(
            f"{own.policy.label} is sampled by a server that applies its own template, so the "
            "prompt that its texts follow is unknown",
            "measure it without --set sampling.server_form=chat",
        )
    return ExactReader(own, benchmark, data, tuple(sorted(set(map(float, temperatures)))))
