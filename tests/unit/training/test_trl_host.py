"""What is touched of TRL: all is listed, a changed signature refuses, a changed body warns."""

import ast
import inspect
import textwrap
import warnings
from dataclasses import fields
from pathlib import Path

import pytest
import trl
from transformers import Trainer
from trl import DPOTrainer, GRPOConfig, GRPOTrainer, SFTTrainer
from trl.trainer import utils

import sage_cli
from sage_cli.errors import TrainingError
from sage_cli.training import trl_host
from sage_cli.training.guided_retries import PreferenceTrainer
from sage_cli.training.sft import _Trainer as SftTrainer
from sage_cli.training.trainer import SageTrainer

HOSTS = (GRPOTrainer, DPOTrainer, SFTTrainer)
OURS = {SageTrainer: GRPOTrainer, PreferenceTrainer: DPOTrainer, SftTrainer: SFTTrainer}
PACKAGE = Path(sage_cli.__file__).parent
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
    for room in ("training", "methods")
    for file in sorted((PACKAGE / room).glob("*.py"))
}
LISTED = set(trl_host.OVERRIDDEN_OR_USED) | {
    f"GRPOTrainer.{name}" for name in (*trl_host.ATTRIBUTES, *trl_host.OF_ENGINE, *trl_host.OF_LOOP)
}
ARGUMENTS = {field.name for field in fields(GRPOConfig)} | {
    name for name in dir(GRPOConfig) if not name.startswith("__")
}
MADE_BY = {"LLM": "_init_vllm"}
"""The function of TRL's that calls a class in whose place ours put another."""


def of_trainer(host):
    """Names that a trainer of TRL's has: those of its classes, and what their methods set."""
    names = set(dir(host)) - set(dir(object))
    for base in host.__mro__:
        if issubclass(base, Trainer):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            names |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            }
    return names


def listed_as(host, name):
    """Where the list has a name of a trainer: GRPOTrainer's, unless another has its own."""
    shared = getattr(host, name, None) is getattr(GRPOTrainer, name, None)
    return f"{'GRPOTrainer' if shared else host.__name__}.{name}"


def overridden():
    """Yield what our trainers define in the place of TRL's, as the list says it."""
    for ours, host in OURS.items():
        theirs = of_trainer(host) | {"__init__"}
        for base in ours.__mro__:
            if base.__module__.startswith("sage_cli"):
                names = set(vars(base)) | set(vars(base).get("__annotations__", ()))
                for name in names & theirs:
                    if name == "__init__" or not name.startswith("__"):
                        yield listed_as(host, name), base.__name__


def used():
    """Yield what our code reads, calls or sets of a trainer, its arguments, engine and modules."""
    theirs = {name: listed_as(host, name) for host in HOSTS for name in of_trainer(host)}
    theirs |= {name: listed_as(GRPOTrainer, name) for name in of_trainer(GRPOTrainer)}
    trainers = {"trainer", "_trainer", "super()", "super(GuidedGRPOTrainer, self)"}
    for file, tree in TREES.items():
        if file == "training/trl_host.py":  # the list itself
            continue
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        own = {
            id(node)
            for one in classes
            if "Trainer" in one.name or one.name == "SealedCheckpoints"
            for node in ast.walk(one)
        }
        for node in ast.walk(tree):
            place = f"{file}:{getattr(node, 'lineno', '')}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trl."):
                for alias in node.names:
                    if not alias.name.startswith("vllm_generation"):  # a module: see below
                        yield f"{node.module.removeprefix('trl.')}.{alias.name}", place
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("s.__dict__"):
                yield f"GRPOTrainer.args.{node.slice.value}", place  # a cached property
            if not isinstance(node, ast.Attribute):
                continue
            of = ast.unparse(node.value)
            last = of.removeprefix("self.").rpartition(".")[2]
            is_trainer = of in trainers or last in trainers or (of == "self" and id(node) in own)
            if is_trainer and node.attr in theirs:
                yield theirs[node.attr], place
            elif last in ("args", "arguments") and node.attr in ARGUMENTS:
                yield f"GRPOTrainer.args.{node.attr}", place
            elif last in ("generation", "vllm_generation"):
                engine = f"VLLMGeneration.{MADE_BY.get(node.attr, node.attr)}"
                known = engine in trl_host.OVERRIDDEN_OR_USED
                yield engine if known else f"GRPOTrainer.vllm_generation.{node.attr}", place


def test_all_that_ours_override_or_use_is_in_the_list():
    touched = [*overridden(), *used()]
    assert len({name for name, _ in touched}) > 60
    assert {name: place for name, place in touched if name not in LISTED} == {}


def test_nothing_is_in_the_list_that_ours_let_alone():
    touched = {name for name, _ in (*overridden(), *used())}
    imported_there = {name for name in LISTED if name.partition(".")[0] in ("models", "trainer")}
    assert LISTED - touched - imported_there == set()


def test_the_release_that_is_installed_is_the_one_that_was_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trl_host.check_release()
    assert trl.__version__ == trl_host.READ


def test_bodies_of_trl_are_known_and_those_of_transformers_left_free():
    for name, function in trl_host.overridden_or_used().items():
        of_trl = inspect.unwrap(function).__module__.startswith("trl.")
        assert (trl_host.OVERRIDDEN_OR_USED[name][1] is not None) == of_trl, name


@pytest.mark.parametrize(
    "name", [name for name in trl_host.OVERRIDDEN_OR_USED if name.startswith("GRPOTrainer.")]
)
def test_a_method_that_takes_something_else_is_refused(monkeypatch, name):
    monkeypatch.setattr(GRPOTrainer, name.rpartition(".")[2], lambda other: None)
    with pytest.raises(TrainingError, match=rf"has changed {name} \(other; expected self"):
        trl_host.check_release()


def test_a_function_that_is_gone_is_refused(monkeypatch):
    """As in releases before 1.15: said before anything is imported from there."""
    monkeypatch.delattr(utils, "add_fused_lm_head")
    with pytest.raises(TrainingError, match=r"has changed .*add_fused_lm_head \(gone; expected"):
        trl_host.check_release()


def test_a_body_that_changed_warns(monkeypatch):
    def log(self, logs, start_time=None):
        """Another body with the same parameters."""

    monkeypatch.setattr(GRPOTrainer, "log", log)
    with pytest.warns(UserWarning, match=r"computes GRPOTrainer\.log otherwise than TRL"):
        trl_host.check_release()
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trl_host.check_release()


def test_a_trainer_without_what_is_read_of_it_is_refused():
    class Lacking:
        """A trainer of which everything is there but two attributes."""

        def __getattr__(self, name):
            if name in ("eos_token_ids", "device"):
                raise AttributeError(name)
            return self

    with pytest.raises(TrainingError, match=r"has no eos_token_ids, args\.device$"):
        trl_host.require_attributes(Lacking())
