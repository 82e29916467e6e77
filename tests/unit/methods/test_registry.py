"""Methods by name: plug-ins that are none, claim a name, or give nonsense are named."""

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
import sage_examples.method
import torch

from sage_cli.config.explain import meant_settings
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.methods.formulas import AdvantageInputs, checked
from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings.section import built_in
from sage_cli.training.rewards import check_plugins
from sage_cli.training.trainer import blaming

REWARDS_PN = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def inputs(read=lambda: (torch.zeros(9, 2), torch.ones(9, 2))):
    return AdvantageInputs(REWARDS_PN - 0.1, REWARDS_PN, torch.ones(9, 2), 4, 10, read)


class Scaled(PolicyGradient):
    """One of another package."""

    algo: Literal["scaled"] = "scaled"
    scale: float = 1.0
    """Factor."""

    def advantages(self, inputs):
        return self.scale * inputs.right_PN.flatten()


class Named(PolicyGradient):
    algo: Literal["other"] = "other"


class Failing(PolicyGradient):
    algo: Literal["failing"] = "failing"

    def advantages(self, inputs):
        return inputs.rewards_PN.flatten() @ inputs.mask_BT.T


def function(inputs):
    return inputs.rewards_PN.flatten()


@pytest.fixture
def register(monkeypatch):
    def put(**things):
        points = [
            EntryPoint(name.replace("_", "-"), f"{__name__}:{name}", "sage_cli.methods")
            for name in things
        ]

        def found(group, **_):
            return [point for point in points if point.group == group]

        monkeypatch.setattr("sage_cli.settings.own_code.entry_points", found)
        monkeypatch.setattr(EntryPoint, "load", lambda self: things[self.attr])

    return put


def test_a_registered_method_has_its_settings(register):
    register(scaled=Scaled)
    rl = load(flags={"rl": {"algo": "scaled"}}, sets=["rl.scale=2", "rl.steps=3"]).config.rl
    assert isinstance(rl, Scaled)
    assert rl.advantages(inputs()).tolist() == [2, 0, 0, 2, 2, 0, 0, 0, 0]
    with pytest.raises(
        ConfigurationError,
        match=r"rl.scale has an effect only with the scaled method: remove it, or add",
    ):
        load(sets=["rl.scale=2"])
    assert meant_settings("rl.scale")["rl.scale"][0].member == "scaled"


@pytest.mark.parametrize(
    ("name", "thing", "said"),
    [
        ("scaled", function, "'scaled' .*which has no settings class"),
        ("scaled", 3, "'scaled' .*is 3, which has no settings class"),
        ("scaled", Named, "does not say its own name.*"),
        ("scaled", PolicyGradient, "does not say its own name"),
        ("grpo", Scaled, "'grpo' .*claims the name of the method in sage_cli.methods.grpo"),
    ],
)
def test_what_is_no_method_is_refused_by_name(register, name, thing, said):
    register(**{name: thing})
    with pytest.raises(ConfigurationError, match=said):
        load(flags={"rl": {"algo": name}})
    with pytest.raises(ConfigurationError, match=said):
        [Method.named(one) for one in Method.names()]


def test_a_stored_method_that_is_not_installed_is_not_trained():
    stored = load().config.model_dump(mode="json")
    stored["rl"] |= {"algo": "theirs", "strength": 3}
    config = load(stored=stored).config
    with pytest.raises(ConfigurationError, match="no installed package registers the method 'the"):
        check_plugins(config)


def test_one_name_of_two_packages_is_refused(monkeypatch):
    points = [EntryPoint("scaled", f"{p}:Scaled", "sage_cli.methods") for p in ("one", "two")]
    monkeypatch.setattr("sage_cli.settings.own_code.entry_points", lambda **_: points)
    with pytest.raises(ConfigurationError, match="'scaled' is registered twice, by one:Scaled and"):
        load(flags={"rl": {"algo": "scaled"}})


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (REWARDS_PN, r"gives \(3, 3\) for a batch of 9 completions, 2 tokens long"),
        ([0.0] * 9, "gives a list for a batch"),
        (
            torch.tensor([0.0, torch.nan, 0.0] * 3),
            "returns NaN or infinity in 3 of 9 places in step 4",
        ),
        (torch.tensor([0.0, torch.inf, 0.0] * 3), "returns NaN or infinity in 3 of 9"),
    ],
)
def test_what_it_gives_is_checked(found, complaint):
    with pytest.raises(TrainingError, match=f"method 'mine' {complaint}"):
        checked(found, "method 'mine'", inputs(), by_row=True)


def test_what_raises_inside_is_named_with_its_line(register):
    register(failing=Failing)
    line = Failing.advantages.__code__.co_firstlineno + 1
    said = rf"'failing' \(.*:failing\) fails: RuntimeError: .* \(test_registry.py, line {line}\)$"
    method = Failing()
    with pytest.raises(ConfigurationError, match=said), blaming(method):
        method.advantages(inputs())


def test_signals_are_read_once_and_only_where_they_are_asked_for():
    read = []

    def signals():
        read.append(1)
        return torch.zeros(9, 2), torch.ones(9, 2)

    given = inputs(signals)
    PolicyGradient().advantages(given)
    assert read == []
    assert (given.logps_BT.sum(), given.entropy_BT.sum(), len(read)) == (0, 18, 1)


MINE = Path(sage_examples.method.__file__)


SEEN = """
import json, sys
from typer.testing import CliRunner
from sage_cli.cli.app import app
EXPLAINED = "How fast the weight falls with the share of correct completions; 0 is GRPO."
def sage(*words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)
shown = sage("config", "show", "--algo", "unsolved", "--json", "--origin")
assert shown["config"]["rl"]["gamma"] == 1.0, shown
assert shown["origins"]["rl.gamma"] == "method unsolved"
assert sage("config", "algos", "--json")["unsolved"]["gamma"] == 1.0
(meaning,) = sage("config", "explain", "rl.gamma", "--json")["settings"]
assert (meaning["member"], meaning["meaning"]) == ("unsolved", EXPLAINED)
sys.path.insert(0, "docs")
import generate
reference = "\\n".join(generate._settings())
assert "unsolved" in reference and "| `rl.gamma` (unsolved) |" in reference
"""
PACKAGE = Path(__file__).parents[3]


def test_only_methods_of_the_package_are_built_in():
    assert all(issubclass(one, Method) for one in built_in(Method).values())
    assert Method.named("dapo") is built_in(Method)["dapo"]
    assert not {"grpo", "pacs", "guided-dpo"} - set(built_in(Method))


@pytest.mark.parametrize("place", ["in the package", "behind an entry point"])
def test_one_file_makes_a_method(tmp_path, place):
    folder = PACKAGE
    if place == "in the package":
        folder = tmp_path
        for name in ("sage_cli", "docs", "configs"):
            shutil.copytree(
                PACKAGE / name,
                tmp_path / name,
                ignore=shutil.ignore_patterns("__pycache__", "results", "*.png", "*.svg"),
            )
        shutil.copy(MINE, tmp_path / "sage_cli/methods/unsolved.py")
    else:
        shutil.copy(MINE, tmp_path / "mine.py")
        info = tmp_path / "mine-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[sage_cli.methods]\nunsolved = mine:Unsolved\n")
    code = f"import sys; sys.path[:0] = {[str(folder), str(tmp_path)]!r}\n{SEEN}"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
