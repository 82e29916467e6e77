"""Spaces as they are typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.line import line_of, parse_line
from sage_cli.sweep.resolved import resolved
from sage_cli.sweep.space import Parameter, Range, Space, Values, cell_key

CONFIG = load(flags={"guide": {"name": "branch"}}).config


def typed(text):
    return resolved(parse_line(text), CONFIG)


def test_ranges_values_and_conditions():
    space = typed(
        "tau=0.2:0.8, lr=1e-5:1e-3:log, steps=10:40:int, algo=grpo|dapo, "
        "dynamic_sampling=true|False, epsilon_high=0.2|.28 if algo=dapo and dynamic_sampling=true"
    )
    conditions = {"rl.algo": ("dapo",), "rl.dynamic_sampling": (True,)}
    assert space.parameters == (
        Parameter("tau", "guide.tau", Range(0.2, 0.8)),
        Parameter("lr", "rl.learning_rate", Range(1e-5, 1e-3, log=True)),
        Parameter("steps", "rl.steps", Range(10, 40, integer=True)),
        Parameter("algo", "rl.algo", Values(("grpo", "dapo"))),
        Parameter("dynamic_sampling", "rl.dynamic_sampling", Values((True, False))),
        Parameter("epsilon_high", "rl.epsilon_high", Values((0.2, 0.28)), conditions),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tau=", "'tau=' is no parameter of a space"),
        ("tau=1:2,0.3", "'0.3' is no parameter of a space"),
        ("tau=0.2:0.8:lgo", "'lgo' is neither (did you mean log?)"),
        ("tau=0.8:0.2", "tau: a range goes from a lower to a higher number, and 0.8:0.2 doesn't"),
        ("tau=0:1:log", "tau: a logarithmic range starts above 0, not at 0"),
        ("tau=0.2:x", "tau range is 'x': input should be a valid number"),
        ("tau=0.2|0.20", "tau: values holds at least one value, and none of them twice"),
        ("tau=1|2,tau=3|4", "names tau twice"),
        ("tau=1|2 if algo", "'tau=1|2 if algo' is no parameter"),
    ],
)
def test_what_is_no_space(text, said):
    with pytest.raises(ConfigurationError) as caught:
        parse_line(text)
    assert said in caught.value.cause


numbers = st.floats(1e-6, 1e6, allow_nan=False) | st.integers(1, 10**6)
words = st.sampled_from(["grpo", "a-b", "org/model", "x.y", True, False])
domains = st.builds(
    lambda ends, log: Range(min(ends), max(ends), log),
    st.tuples(numbers, numbers).filter(lambda ends: ends[0] != ends[1]),
    st.booleans(),
) | st.builds(
    lambda values: Values(tuple(values)),
    st.lists(numbers | words, min_size=1, unique_by=lambda value: cell_key({"": value})),
)


@given(st.lists(domains, min_size=1, max_size=4))
def test_what_is_written_reads_as_the_same_space(some):
    keys = ("rl.learning_rate", "anchor.beta", "guide.tau", "rl.algo")
    space = Space(
        tuple(
            Parameter(key.rpartition(".")[2], key, domain)
            for key, domain in zip(keys, some, strict=False)
        )
    )
    again = typed(line_of(space))
    assert line_of(again) == line_of(space)
    assert again == space
