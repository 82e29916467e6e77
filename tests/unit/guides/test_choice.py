"""From settings to a guide: built in, in a file that is added, behind an entry point."""

import shutil
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
import sage_examples.guide
import torch
from pydantic import ValidationError, field_validator

import sage_cli.guides
from sage_cli.config.explain import explain, meant_settings
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig, settings
from sage_cli.errors import ConfigurationError
from sage_cli.guides import BranchGuide, Guide, NoGuide, RandomGuide, TokenGuide
from sage_cli.settings.own_code import AS_STORED
from sage_cli.settings.section import built_in


def guide(**values):
    return SageConfig.model_validate({"guide": values}).guide


def test_each_name_gives_its_guide_with_its_settings():
    assert guide() == NoGuide()
    branch = {"tau": 0.4, "rho": 0.7, "q_max": 2.0, "signal": "reference"}
    assert guide(name="branch", **branch) == BranchGuide(**branch)
    noisy = {"cycles": 4, "decay": 0.5, "seed": 5, "schedule_clock": "loss_call"}
    random = {"epsilon": (0.3, 0.1), "sigma": (0.2, 0.0), **noisy}
    assert guide(name="random", **random) == RandomGuide(**random)
    token = {"alpha": (0.2, 0.1), "norm": "rank", "signal": "reference", **noisy}
    assert guide(name="token", **token) == TokenGuide(**token)
    assert {one.__name__ for one in Guide.members()} >= {
        "NoGuide",
        "BranchGuide",
        "RandomGuide",
        "RapoGuide",
        "ShuffledGuide",
        "TokenGuide",
    }


class Constant(Guide):
    """q = value everywhere."""

    name: Literal["mine"] = "mine"
    value: float = 1.1
    """What q is."""

    @field_validator("value")
    @classmethod
    def _there_is(cls, value: float) -> float:
        if value < 0:
            raise OSError("no such value")
        return value

    def q(self, signals, step):
        return torch.full_like(signals.logps_BT, self.value)


class Greedy(Constant):
    needs = frozenset({"logits_BTV"})


class Listing(Constant):
    needs = ["token_ids_BT"]  # noqa: RUF012


class Late(Constant):
    schedule_clock: Literal["epoch"] = "epoch"


class Unchecked(Constant):
    def log_q(self, signals, step):
        return signals.logps_BT[0]


class Unfinished(Guide):
    name: Literal["mine"] = "mine"


class Nameless(Constant):
    name: str = "mine"


class Other(Constant):
    name: Literal["other"] = "other"


Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch):
    """Register objects of a package by their names; guides that were found are forgotten."""

    def register(**objects):
        points = [EntryPoint(k, f"package:{k}", "sage_cli.guides") for k in objects]
        monkeypatch.setattr("sage_cli.settings.own_code.entry_points", lambda **_: points)
        monkeypatch.setattr(EntryPoint, "load", lambda self: objects[self.name])
        forget()

    yield register
    monkeypatch.undo()
    forget()


def forget():
    built_in.cache_clear()


def test_a_plug_in_has_typed_settings_like_a_built_in_guide(register):
    register(mine=Constant)
    assert guide(name="mine", value=1.2, q_max=1.3) == Constant(value=1.2, q_max=1.3)
    loaded = load(flags={"guide": {"name": "mine"}}, sets=["guide.value=1.3"])
    assert loaded.config.guide == Constant(value=1.3)
    with pytest.raises(ConfigurationError, match=r"guide has no 'valeu'.*did you mean value"):
        load(flags={"guide": {"name": "mine"}}, sets=["guide.valeu=1.3"])
    with pytest.raises(
        ConfigurationError,
        match=r"guide\.value has an effect only with the mine guide: remove it, or add --guide mi",
    ):
        load(sets=["guide.value=1.3"])


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (dict, "is not a subclass of sage_cli.guides.guide.Guide"),
        (Constant(), "is not a subclass of sage_cli.guides.guide.Guide"),
        (Unfinished, "has no q"),
        (Greedy, "needs logits_BTV, which no training has"),
        (Listing, r"needs \['token_ids_BT'\], which is not a set"),
        (Late, "has a setting schedule_clock with other choices"),
        (Unchecked, "has a log_q of its own"),
        (Nameless, "does not have the name under which it is registered"),
        (Other, "does not have the name under which it is registered"),
    ],
)
def test_a_plug_in_that_is_no_guide_is_named(register, kind, complaint):
    register(mine=kind)
    with pytest.raises(ConfigurationError, match=rf"^guide 'mine' \(package:mine\) {complaint}"):
        load(flags={"guide": {"name": "mine"}})
    # one that isn't chosen is no reason to fail
    assert load(flags={"guide": {"name": "branch"}}).config.guide.name == "branch"
    assert "guide.tau" in settings()


def test_what_a_plug_ins_own_checks_raise_names_it(register):
    register(mine=Constant)
    with pytest.raises(ConfigurationError, match=r"guide Constant \(.*fails: OSError: no such val"):
        load(flags={"guide": {"name": "mine"}}, sets=["guide.value=-1"])


def test_two_guides_that_claim_one_name_are_refused(register, tmp_path, monkeypatch):
    register(branch=Constant)
    with pytest.raises(
        ConfigurationError, match=r"'branch' .* claims the name of the guide in sage_cli\.gu"
    ):
        load(flags={"guide": {"name": "branch"}})
    assert guide(name="token").name == "token"
    assert "guide.tau" in settings()
    source = Path(sage_cli.guides.branch.__file__)
    shutil.copy(source, tmp_path / "branch_again.py")
    monkeypatch.setattr(sage_cli.guides, "__path__", [*sage_cli.guides.__path__, str(tmp_path)])
    forget()
    with pytest.raises(
        ConfigurationError, match=r"'branch' is claimed by .*branch and by .*_again"
    ):
        built_in(Guide)


def test_a_plug_in_whose_package_is_gone_or_broken_is_named(register):
    def gone(self):
        raise ModuleNotFoundError("no module")

    register(mine=Constant)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(EntryPoint, "load", gone)
        with pytest.raises(ConfigurationError, match=r"package:mine\) can't be imported"):
            load(flags={"guide": {"name": "mine"}})
    register()
    with pytest.raises(ConfigurationError, match=r"guide\.name is 'mine'; it can be branch, none"):
        load(flags={"guide": {"name": "mine"}})


def test_a_finished_runs_guide_may_be_looked_at_without_its_package_not_used(register):
    stored = {"guide": {"name": "mine", "value": 2.0}}
    with pytest.raises(ValidationError) as error:
        SageConfig.model_validate(stored)
    assert any("guide.name is 'mine'" in sentence for sentence in explain(error.value))
    read = SageConfig.model_validate(stored, context=AS_STORED).guide
    assert read.model_dump() == {"name": "mine", "value": 2.0, "q_min": 0.6, "q_max": 1.4}
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no installed package registers the guide 'm"):
            read.for_training(80)
        register()
    # its settings name the same run whether the package is there or not
    absent = read.determinants()
    register(mine=Constant)
    assert SageConfig.model_validate(stored, context=AS_STORED).guide.determinants() == absent


EXAMPLE = Path(sage_examples.guide.__file__)


@pytest.fixture(params=["in the package", "behind an entry point"])
def opening(request, register, tmp_path, monkeypatch):
    """The example's guide, made known by its one file alone."""
    if request.param == "behind an entry point":
        register(opening=sage_examples.guide.Opening)
        return sage_examples.guide.Opening
    register()
    shutil.copy(EXAMPLE, tmp_path / "opening.py")
    monkeypatch.setattr(sage_cli.guides, "__path__", [*sage_cli.guides.__path__, str(tmp_path)])
    forget()
    return built_in(Guide)["opening"]


def test_one_file_makes_a_guide(opening):
    """Chosen by name, explained, in the reference; `tests/contract` has it under the contract."""
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    loaded = load(flags={"guide": {"name": "opening"}}, sets=["guide.strength=0.4"])
    assert loaded.config.guide == opening(strength=0.4)
    assert loaded.config.model_dump(mode="json")["guide"]["tokens"] == 4
    (meaning,) = meant_settings("guide.strength")["guide.strength"]
    assert (meaning.member, meaning.type, meaning.meaning) == (
        "opening",
        "number, at least 0",
        "By how much q is above 1 there.",
    )
