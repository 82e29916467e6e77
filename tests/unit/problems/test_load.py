"""What problems and demonstrations depend on, told without making or reading any."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from huggingface_hub import constants

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.golds import whole
from sage_cli.problems.identity import demonstrations_identity, problems_identity, training_identity
from sage_cli.problems.load import load_problems
from sage_cli.problems.registry import data_set, shown_name
from sage_cli.problems.sources import source_identity
from sage_cli.settings.data import DataSection, FieldsSection
from sage_cli.settings.sft import SftSection

OLD, NEW = "0" * 39 + "1", "0" * 39 + "2"


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def section(**values):
    return DataSection.model_validate(values)


def demonstrations(data, **sft):
    return demonstrations_identity(data, SftSection(**sft))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("arithmetic", {"arithmetic": {"held_out": 61}}),
        ("arithmetic-dev", {"arithmetic": {"seed": 1}}),
        ("kk-generated", {"knights_knaves": {"seed": 1}}),
    ],
)
def test_problems_that_are_made_depend_on_their_settings(name, change):
    before = problems_identity(name, DataSection())
    assert before == problems_identity(name, DataSection())
    assert json.loads(json.dumps(before)) == before
    assert before != problems_identity(name, section(**change))
    assert before != problems_identity(name, DataSection(), limit=5)


@pytest.mark.parametrize(
    ("name", "settings", "shown"),
    [
        ("arithmetic", {}, "arithmetic"),
        ("arithmetic", {"arithmetic": {"held_out": 200, "validation": 7}}, "arithmetic"),
        ("arithmetic", {"arithmetic": {"familiar_share": 0.4}}, "arithmetic"),
        ("arithmetic", {"arithmetic": {"held_out": 60}}, "arithmetic:held_out=60"),
        ("arithmetic-dev", {"arithmetic": {"held_out": 60}}, "arithmetic-dev"),
        ("arithmetic-dev", {"arithmetic": {"validation": 6}}, "arithmetic-dev:validation=6"),
        ("arithmetic", {"arithmetic": {"low": 2, "high": 50}}, "arithmetic:low=2:high=50"),
        ("arithmetic:held_out=60", {"arithmetic": {"held_out": 9}}, "arithmetic:held_out=60"),
        ("arithmetic:held_out=200", {"arithmetic": {"held_out": 9}}, "arithmetic"),
        ("kk-generated", {}, "kk-generated"),
        (
            "kk-generated",
            {"knights_knaves": {"people": [2, 3], "per_size": 4}},
            "kk-generated:people=2+3:per_size=4",
        ),
        ("kk-generated:people=3", {}, "kk-generated:people=3"),
        ("kk-generated:seed=-1:per_size=4", {}, "kk-generated:per_size=4:seed=-1"),
        ("gsm8k", {}, "gsm8k"),
        ("mine.jsonl", {}, "mine.jsonl"),
    ],
)
def test_generated_problems_of_other_settings_have_another_name(name, settings, shown):
    """Two benchmarks of one name have the same problems, and a name can be typed again."""
    assert shown_name(name, section(**settings)) == shown
    if settings or shown != name:
        meant = load_problems(name, section(**settings))
        assert {p.id for p in load_problems(shown, DataSection())} == {p.id for p in meant}


def test_what_a_name_sets_is_what_is_trained_on_and_demonstrated():
    few = {"arithmetic": {"held_out": 60}}
    sources = [{"name": "arithmetic"}, {"name": "arithmetic:held_out=60"}]
    by_settings, by_name = (
        (
            training_identity(section(rl=source, **others)),
            demonstrations(section(sft=source, **others), steps=3),
        )
        for source, others in zip(sources, (few, {}), strict=True)
    )
    assert by_settings == by_name
    with pytest.raises(ConfigurationError, match="heldout is not a setting; did you mean held_out"):
        problems_identity("arithmetic:heldout=60", DataSection())
    with pytest.raises(DataError, match="unknown benchmark 'gsm8k:seed=3'"):
        problems_identity("gsm8k:seed=3", DataSection())


def test_splits_count_groups_are_their_members_and_training_reads_its_own():
    parts = [problems_identity(f"arithmetic{end}", DataSection()) for end in ("", "-dev", "-train")]
    assert len({json.dumps(part) for part in parts}) == 3
    by_name = [
        training_identity(section(rl={"name": f"arithmetic{end}"})) for end in ("", "-train")
    ]
    assert by_name[0] == by_name[1]
    assert by_name[0]["problems"][0][0]["split"] == "training"
    [years] = problems_identity("aime", DataSection())["problems"]
    assert [year["data_set"] for year in years] == ["aime24", "aime25"]


@pytest.mark.parametrize(
    "change", [{"limit": 7}, {"numeric_only": True}, {"name": "arithmetic-dev"}]
)
def test_training_problems_depend_on_how_their_source_is_filtered(change):
    rl = {"name": "arithmetic"}
    assert training_identity(section(rl=rl)) != training_identity(section(rl=rl | change))


def test_worked_problems_depend_on_their_settings_and_number():
    data = section(sft={"name": "arithmetic"})
    before = demonstrations(data, steps=7, batch_size=4)
    assert before == demonstrations(
        section(sft={"name": "arithmetic-train"}), steps=7, batch_size=4
    )
    assert before != demonstrations(data, steps=8, batch_size=4)
    phases = [{"share": 1, "mix": {"S": 1}}]
    other = section(sft={"name": "arithmetic"}, arithmetic={"phases": phases})
    assert before != demonstrations(other, steps=7, batch_size=4)
    limited = section(sft={"name": "arithmetic", "limit": 28})
    assert before == demonstrations(limited, steps=99, batch_size=4)
    with pytest.raises(ConfigurationError, match=r"neither sft\.steps nor data\.sft\.limit"):
        demonstrations(data)


def test_a_file_is_its_name_its_content_and_its_columns(tmp_path):
    def written(folder, text="question,gold\nq,1\n"):
        path = tmp_path / folder / "mine.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def identity(path, **fields):
        return problems_identity(path, DataSection(), FieldsSection(**fields))

    here = identity(written("here"))
    assert here == identity(written("there"))
    assert here != identity(written("here", "question,gold\nq,2\n"))
    assert here != identity(written("here"), gold="answer")
    with pytest.raises(DataError, match="there is no file"):
        identity(str(tmp_path / "absent.csv"))


def test_rows_to_learn_from_are_chosen_by_what_is_in_their_identity(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/openmathreasoning_mini_sample.jsonl").write_text("{}\n")
    source = {"name": "openmathreasoning-mini", "max_prompt_share": 0.5}

    def identity(max_length=100, **change):
        data = section(root=tmp_path, sft=source | change)
        return demonstrations(data, max_length=max_length)

    assert identity()["longest"] == ["question", 50]
    assert identity() != identity(measured="conversation")
    assert identity(max_length=100) != identity(max_length=80)
    assert identity(max_prompt_share=1) == identity(max_prompt_share=1, max_length=80)
    assert identity() != identity(limit=3)
    assert identity() != identity(numeric_only=True)


def test_of_the_hub_the_commit_counts_as_far_as_it_is_known(tmp_path):
    def commit(name):
        [[found]] = problems_identity(name, DataSection())["problems"]
        return found["commit"]

    assert commit("gsm8k") == "e53f048856ff4f594e959d75785d2c2d37b678ee"  # pinned
    assert commit("openmathreasoning-mini") is None
    snapshots = tmp_path / "hub/datasets--unsloth--OpenMathReasoning-mini/snapshots"
    (snapshots / OLD).mkdir(parents=True)
    assert commit("openmathreasoning-mini") == OLD
    (snapshots / NEW).mkdir()
    os.utime(snapshots / OLD, (1, 1))
    (snapshots / "main").mkdir()
    assert commit("openmathreasoning-mini") == NEW


@pytest.mark.parametrize(
    "change",
    [{"where": ("level", 5)}, {"working": "steps"}, {"part_of": "math"}, {"gold": (("a", whole),)}],
)
def test_how_a_data_set_is_declared_counts(change):
    declared = data_set("math500")
    changed = source_identity(replace(declared, **change), DataSection())
    assert changed != source_identity(declared, DataSection())
    assert json.loads(json.dumps(changed)) == changed


@pytest.mark.slow
def test_it_is_told_with_nothing_made_and_without_a_library_of_machine_learning():
    code = """
import sys
from sage_cli.settings.data import DataSection
from sage_cli.settings.sft import SftSection
from sage_cli.problems.identity import demonstrations_identity, training_identity
from sage_cli.problems.problem import Demonstration, Problem
Problem.__init__ = Demonstration.__init__ = None  # which can't be called
source = {"name": "arithmetic"}
data = DataSection(sft=source, rl=source)
demonstrations_identity(data, SftSection(steps=5500, batch_size=32))
training_identity(data)
heavy = {"torch", "transformers", "datasets", "trl", "peft", "pyarrow", "numpy"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
