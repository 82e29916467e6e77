"""Generators of other packages: measured, trained on and learned from by name, or refused."""

import pytest
from plugged_in import plug_in
from pydantic import Field, ValidationError

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.generator import Generator
from sage_cli.problems.generator_contract import GeneratorContract
from sage_cli.problems.load import (
    demonstrations_identity,
    load_demonstrations,
    load_problems,
    load_training_problems,
    problems_identity,
)
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.registry import entries, find
from sage_cli.settings.section import Section
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.training import SftSection

GROUP = "sage_cli.generators"


class SumsSection(Section):
    largest: int = Field(9, ge=2)


class Sums(Generator):
    name, title, settings, splits = "sums", "Sums", SumsSection, ("test", "training")
    section: SumsSection

    def problems(self, split):
        numbers = range(split == "training", self.section.largest, 2)
        return [self.problem(split, f"{a}+1=?", str(a + 1), size=a) for a in numbers]

    def demonstrations(self, count, batch_size):
        return [Demonstration(f"{2 * i + 1}+1=?", "", str(2 * i + 2)) for i in range(count)]


class TestSums(GeneratorContract):
    def make(self):
        return Sums(SumsSection())

    def changed(self):
        return Sums(SumsSection(largest=20))


def test_a_plugin_is_measured_and_trained_on_by_name(monkeypatch):
    plug_in(monkeypatch, GROUP, sums=Sums)
    source = {"name": "sums"}
    data = DataSection(generators={"sums": {"largest": 6}}, sft=source, rl=source)
    assert [(p.question, p.gold) for p in load_problems("sums", data)] == [
        ("0+1=?", "1"), ("2+1=?", "3"), ("4+1=?", "5"),
    ]  # fmt: skip
    assert [p.gold for p in load_training_problems(data)] == ["2", "4", "6"]
    assert {p.benchmark for p in load_training_problems(data)} == {"sums-train"}
    sft = SftSection(steps=2, batch_size=3)
    assert [d.answer for d in load_demonstrations(data, sft)] == ["2", "4", "6", "8", "10", "12"]
    assert len(load_problems("sums", DataSection())) == 5
    assert problems_identity("sums", data) != problems_identity("sums", DataSection())
    settings = demonstrations_identity(data, sft)["demonstrations"]["settings"]
    assert settings == {"largest": 6}
    assert (find("sums-train").training, find("sums").judge) == (True, "math")
    assert [name for name in entries() if name.startswith("sums")] == ["sums", "sums-train"]
    with pytest.raises(DataError, match="did you mean 'sums-train'"):
        load_problems("sums-trian", data)


def test_a_new_version_of_a_plugin_is_another_identity(monkeypatch):
    plug_in(monkeypatch, GROUP, sums=Sums)
    before = problems_identity("sums", DataSection())
    monkeypatch.setattr(Sums, "version", 2)
    assert problems_identity("sums", DataSection()) != before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"larges": 6}, "data.generators.sums.larges is no setting; did you mean largest?"),
        ({"largest": 1}, "data.generators.sums.largest: Input should be greater than or equal"),
        ({"largest": "many"}, "data.generators.sums.largest: Input should be a valid integer"),
    ],
)
def test_wrong_settings_are_refused_by_name(monkeypatch, options, complaint):
    plug_in(monkeypatch, GROUP, sums=Sums)
    data = DataSection(generators={"sums": options})
    for attempt in (load_problems, problems_identity):
        with pytest.raises(ConfigurationError) as caught:
            attempt("sums", data)
        assert complaint in caught.value.cause
        assert caught.value.next_step == "its settings are largest"


class Unnamed(Generator):
    def problems(self, split):
        return []


class Untitled(Unnamed):
    name = "mine"


class Abstract(Generator):
    name, title = "mine", "Mine"


class OddSplits(Sums):
    name, splits = "mine", ("test", "tests")


class LooseSettings(Sums):
    name, settings = "mine", dict


class Listless(Sums):
    name = "mine"

    @classmethod
    def entries(cls):
        return 1 / 0


class Homonym(Sums):
    name = "arithmetic"


@pytest.mark.parametrize(
    ("name", "registered", "complaint"),
    [
        ("mine", dict, "is a type and not a class of generators"),
        ("mine", Sums(SumsSection()), "is a Sums and not a class of generators"),
        ("mine", Sums, "calls itself 'sums'"),
        ("mine", Unnamed, "calls itself None"),
        ("mine", Untitled, "has no title"),
        ("mine", Abstract, "lacks problems"),
        ("mine", OddSplits, "has the splits ('test', 'tests'): they can be test, validation"),
        ("mine", LooseSettings, "has settings that are no sage_cli.settings.section.Section"),
        ("arithmetic", Homonym, "takes the name 'arithmetic', which another data set has"),
        ("mine", ImportError("no such file"), "can't be imported: ImportError: no such file"),
        ("mine", Listless, "fails: ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_generator_is_refused_by_name(monkeypatch, name, registered, complaint):
    plug_in(monkeypatch, GROUP, **{name: registered})
    with pytest.raises(ConfigurationError) as caught:
        entries()
    who = f"generator '{name}' (package:{name.title()})"
    assert caught.value.cause.startswith(f"{who} {complaint}")
    assert caught.value.next_step


class Failing(Sums):
    """Each of its methods fails."""

    name, splits = "mine", ("test", "training")

    def problems(self, split):
        return [5] if split == "test" else self.nothing

    def demonstrations(self, count, batch_size):
        raise OSError("no numbers left")

    def identity(self):
        return {}["version"]


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (
            lambda data: load_problems("mine", data),
            "TypeError: problems() gives what",
        ),
        (load_training_problems, "AttributeError: 'Failing' object has no attribute 'nothing'"),
        (lambda data: load_demonstrations(data, SftSection(steps=1)), "OSError: no numbers left"),
        (lambda data: problems_identity("mine", data), "KeyError: 'version'"),
        (lambda data: demonstrations_identity(data, SftSection(steps=1)), "KeyError: 'version'"),
    ],
)
def test_a_generator_that_fails_is_named_with_the_line(monkeypatch, ask, complaint):
    plug_in(monkeypatch, GROUP, mine=Failing)
    with pytest.raises(ConfigurationError) as caught:
        ask(DataSection(sft={"name": "mine"}, rl={"name": "mine"}))
    who = f"generator Failing ({Failing.__module__}) fails: "
    assert caught.value.cause.startswith(who + complaint)
    assert ("(test_plugins.py, line " in caught.value.cause) == ("TypeError" not in complaint)


def test_settings_are_typed_by_name_and_those_of_nobody_are_refused(monkeypatch):
    plug_in(monkeypatch, GROUP, sums=Sums)
    sets = ["data.generators.sums.largest=5", "data.sft.name=sums"]
    assert load(sets=sets).config.data.generators == {"sums": {"largest": 5}}
    with pytest.raises(ConfigurationError, match="did you mean sums") as caught:
        load(sets=["data.generators.sum.largest=5"])
    assert "no installed package registers a generator 'sum'" in caught.value.cause
    with pytest.raises(ValidationError, match=r"its settings are data\.knights_knaves"):
        DataSection(generators={"knights-knaves": {}})


def test_a_plugin_that_is_broken_is_not_met_where_nobody_asks_for_it(monkeypatch):
    plug_in(monkeypatch, GROUP, mine=ImportError("no such file"))
    assert len(load_problems("arithmetic", DataSection())) == 200
