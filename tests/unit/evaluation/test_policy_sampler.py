"""Filling a sample set: only what is missing is drawn."""

from itertools import islice

import pytest
from scripted import Scripted

from sage_cli.errors import ConfigurationError, SamplingError
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.sampling.sampler import sample_seed
from sage_cli.store.completion import Completion
from sage_cli.store.sample_set import SampleIdentity, SampleSet

PROMPTS = {"a": "1+1=?", "b": "2+2=?"}


class Answering(Scripted):
    """A sampler that answers with the index and may break after some completions."""

    def __init__(self, breaks_after=None):
        super().__init__()
        self.breaks_after = breaks_after

    def text(self, request, index):
        return f"{request.prompt}{index}"

    def sample(self, requests):
        yield from islice(super().sample(requests), self.breaks_after)
        if self.breaks_after is not None:
            raise SamplingError("the engine broke")


@pytest.fixture
def samples(tmp_path):
    return SampleSet(tmp_path, SampleIdentity("m", "t", {}, 5))


def test_more_samples_later_draw_only_the_rest(samples):
    assert fill(samples, PROMPTS, 64, Answering()) == 128
    sampler = Answering()
    assert fill(samples, PROMPTS, 256, sampler) == 2 * 192
    assert [request.indices for request in sampler.asked] == [tuple(range(64, 256))] * 2
    assert fill(samples, PROMPTS, 256, Answering()) == 0
    keys = [(row.problem_id, row.index) for row in samples.completions()]
    assert sorted(keys) == [(problem, i) for problem in "ab" for i in range(256)]


def test_what_a_broken_sampler_gave_is_kept(samples):
    with pytest.raises(SamplingError):
        fill(samples, PROMPTS, 4, Answering(breaks_after=5))
    assert len(list(samples.completions())) == 5
    assert fill(samples, PROMPTS, 4, Answering()) == 3


def test_the_samples_of_a_damaged_part_are_drawn_again_and_the_part_named(samples, caplog):
    fill(samples, PROMPTS, 4, Answering())
    (part,) = samples.folder.glob("part-*")
    part.write_bytes(part.read_bytes() + b"\0")
    assert fill(samples, PROMPTS, 4, Answering()) == 8
    assert part.name in caplog.text


def test_a_sampler_that_leaves_samples_out_is_an_error_and_no_endless_loop(samples):
    class Leaky(Answering):
        def sample(self, requests):
            yield from (row for row in super().sample(requests) if row.index != 2)

    with pytest.raises(SamplingError, match="left out 2 of the requested samples"):
        fill(samples, PROMPTS, 4, Leaky())
    assert fill(samples, PROMPTS, 4, Answering()) == 2


def test_sample_seeds_differ_by_seed_problem_and_index_alone():
    keys = [(seed, problem, i) for seed in (0, 1) for problem in "ab" for i in range(500)]
    seeds = {key: sample_seed(*key) for key in keys}
    assert len(set(seeds.values())) == len(keys)
    assert all(0 <= seed < 2**53 for seed in seeds.values())
    # The first 8 bytes of blake2b("0\0a\0" "0"), little-endian, without the 11 low bits; stored
    # samples depend on it.
    assert sample_seed(0, "a", 0) == 8111767207604360


class Foreign(Answering):
    """Gives three completions, then what it was made with, or raises it."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def sample(self, requests):
        yield from islice(super().sample(requests), 3)
        if isinstance(self.last, Exception):
            raise self.last
        yield self.last


@pytest.mark.parametrize(
    ("last", "complaint"),
    [
        (KeyError("x"), r"KeyError: 'x' \(test_policy_sampler.py, line \d+\)$"),
        ("text", "TypeError: sample\\(\\) gives text, and not a Completion"),
        (Completion("a", 3, 0, "", 1, "eos"), "ended by stop or length$"),
    ],
)
def test_a_sampler_that_fails_is_named_and_what_it_drew_is_kept(samples, last, complaint):
    said = rf"sampler Foreign \(.*test_policy_sampler\) fails: .*{complaint}"
    with pytest.raises(ConfigurationError, match=said):
        fill(samples, PROMPTS, 5, Foreign(last))
    assert samples.inventory().missing("a", 5) == (3, 4)


def test_provenance_that_fails_is_named(samples, monkeypatch):
    monkeypatch.setattr(Foreign, "provenance", property(lambda self: 1 / 0))
    with pytest.raises(ConfigurationError, match=r"sampler Foreign .*: ZeroDivisionError"):
        fill(samples, PROMPTS, 5, Foreign("nothing"))
    assert not samples.folder.exists()
