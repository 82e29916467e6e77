"""Spaces as they are typed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.read import parse_line, read_space
from sage_cli.sweep.space import Range, Values, cell_key, from_plain
from sage_cli.sweep.written import WrittenSpace

CONFIG = load(flags={"guide": {"name": "branch"}}).config


def typed(text):
    """The parameters that a text means, their values not held against the schema."""
    return WrittenSpace.model_validate(parse_line(text), context=CONFIG)


def test_ranges_values_and_conditions():
    space = typed(
        "tau=0.2:0.8, lr=1e-5:1e-3:log, steps=10:40:int, algo=grpo|dapo, "
        "dynamic_sampling=true|False, epsilon_high=0.2|.28 if algo=dapo and dynamic_sampling=true"
    )
    conditions = {"rl.algo": ("dapo",), "rl.dynamic_sampling": (True,)}
    assert list(space.parameters.items()) == [
        ("tau", Range(key="guide.tau", range=(0.2, 0.8))),
        ("lr", Range(key="rl.learning_rate", range=(1e-5, 1e-3), log=True)),
        ("steps", Range(key="rl.steps", range=(10, 40), integer=True)),
        ("algo", Values(key="rl.algo", values=("grpo", "dapo"))),
        ("dynamic_sampling", Values(key="rl.dynamic_sampling", values=(True, False))),
        ("epsilon_high", Values(key="rl.epsilon_high", values=(0.2, 0.28), when=conditions)),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tau=", "'tau=' is no parameter of a space"),
        ("tau=1:2,0.3", "'0.3' is no parameter of a space"),
        ("tau=0.2:0.8:lgo", "'lgo' is neither (did you mean log?)"),
        ("tau=0.8:0.2", "tau: a range goes from a lower to a higher number, and 0.8:0.2 doesn't"),
        ("tau=0:1:log", "tau: a logarithmic range starts above 0, not at 0"),
        ("steps=0.5:3", "steps: a range of whole numbers begins and ends with one, not as 0.5:3"),
        ("tau=0.2:x", "tau range is 'x': input should be a valid number"),
        ("tau=0.2|0.20", "tau has the value 0.2 2 times"),
        ("tau=1|1.0", "tau has the value 1.0 2 times"),
        ("tau=1|2,tau=3|4", "names tau twice"),
        ("tau=1|2 if algo", "'tau=1|2 if algo' is no parameter"),
        ("=", "'=' is no parameter"),
        (",=1", "'=1' is no parameter"),
    ],
)
def test_what_is_no_space(text, said):
    with pytest.raises(ConfigurationError) as caught:
        read_space(text, CONFIG)
    assert said in caught.value.cause


KEYS = ("rl.learning_rate", "anchor.beta", "guide.tau", "rl.algo")
numbers = st.floats(1e-6, 1e6, allow_nan=False) | st.integers(1, 10**6)
words = st.sampled_from(["grpo", "a-b", "org/model", "x.y", True, False])
values = st.lists(numbers | words, min_size=1, unique_by=lambda value: cell_key({"": value}))
ranges = st.tuples(
    st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=2, unique=True).map(sorted)
    | st.lists(st.integers(1, 10**6), min_size=2, max_size=2, unique=True).map(sorted),
    st.booleans(),
    st.booleans(),
).map(lambda drawn: (*drawn[:2], drawn[2] and isinstance(drawn[0][0], int)))


@given(st.lists(values | ranges, min_size=1, max_size=4))
def test_what_is_written_reads_as_the_same_space(drawn):
    parts, wanted = [], []
    for key, domain in zip(KEYS, drawn, strict=False):
        if isinstance(domain, list):
            parts.append(f"{key}={'|'.join(map(str, domain))}")
            wanted.append({"key": key, "values": domain})
        else:
            (low, high), log, integer = domain
            parts.append(f"{key}={low}:{high}{':log' * log}{':int' * integer}")
            wanted.append({"key": key, "range": [low, high], "log": log, "integer": integer})
    space = typed(",".join(parts))
    names = [key.rpartition(".")[2] for key in KEYS]
    plain = space.plain()
    assert plain == [{"name": name, **one} for name, one in zip(names, wanted, strict=False)]
    assert from_plain(json.loads(json.dumps(plain))).parameters == space.parameters
    kinds = [[type(value) for value in one.get("values", ())] for one in plain]
    assert kinds == [[type(value) for value in one.get("values", ())] for one in wanted]
