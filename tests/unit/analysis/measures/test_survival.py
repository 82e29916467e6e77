"""Probability that is left to the initial policy's right texts, by hand."""

from dataclasses import replace
from math import log

import pytest
from stored import Sample, answered, inputs

from sage_cli.analysis.support import support

# text -> probability under the base, grpo of seed 1 and of seed 2
LEFT = {
    "S:1*2=2": (0.4, 0.9, 0.9),
    "S:3*4=12": (0.2, 0.05, 0.0001),
    "R:2+1=3": (0.1, 0.001, 0.001),
    "wrong": (0.3, 0.3, 0.3),
}


def read_by(root, policy, column, problems):
    """Return the base's samples as a policy reads them: five tokens a text."""
    samples = {
        id_: [
            Sample(
                text,
                "wrong" if text == "wrong" else "right",
                surprisal=-log(LEFT[text][column]) / 5,
            )
            for text in of
        ]
        for id_, of in problems.items()
    }
    return answered(root / policy, "base", samples)


def test_survival_by_hand(tmp_path):
    problems = {
        "a": ["S:1*2=2", "S:1*2=2", "R:2+1=3", "wrong"],
        "b": ["S:3*4=12", "S:3*4=12", "S:3*4=12", "wrong"],
        "never": ["wrong"] * 4,
    }
    labels = ("base", "grpo, seed 1", "grpo, seed 2")
    readings = [read_by(tmp_path, name, i, problems) for i, name in enumerate(labels)]
    policies = [replace(readings[0], policy=name) for name in labels]
    given = replace(inputs(*policies), readings={"arithmetic": tuple(readings)})
    document = support(given)
    found = {(row["policy"], row["fall"]): row["share"] for row in document.data["survival"]}
    first, control = "grpo, seed 1 less base", "grpo, seed 2 less grpo, seed 1"
    assert {pair for pair, _ in found} == {first, "grpo, seed 2 less base", control}

    def shares(pair, by):
        return [found[pair, f"{by}: −{fall} nats"] for fall in (2, 5, 10)]

    # a: log(.901 / .5) rises; b: log(.05 / .2) = -1.4 and log(.0001 / .2) = -7.6
    assert shares(first, "problem") == [0, 0, 0]
    assert shares("grpo, seed 2 less base", "problem") == [0.5, 0.5, 0]
    # workings of a: #*#=# rises, #+#=# falls by log 100 = 4.6; b has one, -1.4
    assert shares(first, "working") == pytest.approx([0.25, 0, 0])
    # seed 2 less seed 1 of b: log(.0001 / .05) = -6.2; nothing falls in a
    assert shares(control, "problem") == [0.5, 0.5, 0]
    assert any("by chance" in note for t in document.tables for note in t.notes)
    assert support(inputs(*policies)).data["survival"] == []
