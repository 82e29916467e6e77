"""The contract of samplers, as a test class to inherit.

    class TestMySampler(SamplerContract):
        def make(self) -> Sampler:
            return MySampler(self.parameters)

needs only pytest, or any runner that calls `test_*` methods. If loading takes long, `make` may load
once and return new samplers on the same engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product

from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplingParameters
from sage_cli.store.completion import Completion

Key = tuple[int, str, int]
"""Evaluation's seed, problem and index."""


class SamplerContract(ABC):
    """Each sample comes once, depends on (seed, problem, index) alone, and ends where it should."""

    parameters = SamplingParameters(0.9, 0.95, 20, 0.02, 16, "</SOLUTION>")
    """The parameters of the sampler under test."""
    prompts = ("1+1=", "12*34=?", "23*7=", "5+8=?")
    deterministic_share = 1.0
    """Share of texts that must be equal when sampled again; below 1 for engines whose sums depend
    on the batch."""

    @abstractmethod
    def make(self) -> Sampler:
        """Return a new sampler with `parameters`."""

    def test_each_sample_comes_once_under_its_own_seed(self) -> None:
        """Requests of two seeds for the same problems, mixed in one call."""
        sampled = self._sampled(self._requests(range(5), seeds=(0, 3)))
        names = [f"p{number}" for number in range(len(self.prompts))]
        assert sorted(sampled) == sorted(product((0, 3), names, range(5)))
        texts = {(seed, *key): row.text for (seed, *key), row in sampled.items()}
        pairs = [(text, texts[3, *key]) for (seed, *key), text in texts.items() if seed == 0]
        assert any(first != second for first, second in pairs)

    def test_no_requests_give_no_samples(self) -> None:
        """No requests, and requests without indices."""
        assert self._sampled([]) == {}
        assert self._sampled([SampleRequest("p0", self.prompts[0], ())]) == {}

    def test_completions_end_as_they_say(self) -> None:
        """By `stop` or `length`, within the limit; the stop text only at the end."""
        for row in self._sampled(self._requests(range(8))).values():
            stop, limit = self.parameters.stop, self.parameters.max_tokens
            assert row.finish_reason in ("stop", "length")
            assert 0 < row.tokens <= limit
            assert row.finish_reason == "stop" or row.tokens == limit
            if stop is not None and stop in row.text:
                assert row.finish_reason == "stop"
                assert row.text.index(stop) + len(stop) == len(row.text)
            assert row.token_ids is None or len(row.token_ids) == row.tokens

    def test_the_same_seed_gives_the_same_text(self) -> None:
        """By two samplers."""
        requests = self._requests(range(6), seeds=(7,))
        self._same(self._sampled(requests), self._sampled(requests))

    def test_a_sample_does_not_depend_on_other_requests(self) -> None:
        """Alone, in another order, and among samples of another seed."""
        everything = self._sampled(self._requests(range(6), seeds=(0, 3)))
        some = self._sampled(self._requests((5, 2), seeds=(3,))[::-1])
        self._same(some, {key: everything[key] for key in some})

    def test_closing_twice_is_fine(self) -> None:
        """By hand and at the end of a block."""
        with self.make() as sampler:
            assert all(isinstance(value, str) for value in sampler.provenance.values())
            sampler.close()
        sampler.close()

    def _requests(self, indices: Sequence[int], seeds: Sequence[int] = (0,)) -> list[SampleRequest]:
        return [
            SampleRequest(f"p{number}", prompt, tuple(indices), seed)
            for seed in seeds
            for number, prompt in enumerate(self.prompts)
        ]

    def _sampled(self, requests: Sequence[SampleRequest]) -> dict[Key, Completion]:
        with self.make() as sampler:
            rows = list(sampler.sample(requests))
        sampled = {(row.seed, row.problem_id, row.index): row for row in rows}
        assert len(sampled) == len(rows), "a sample came twice"
        return sampled

    def _same(self, first: dict[Key, Completion], second: dict[Key, Completion]) -> None:
        assert first.keys() == second.keys()
        equal = sum(row.text == second[key].text for key, row in first.items())
        assert equal >= self.deterministic_share * len(first)
