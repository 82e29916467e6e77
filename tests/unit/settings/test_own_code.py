"""Functions of one's own: named, checked without being run, hashed, loaded."""

import sys

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.settings.own_code import OwnFunction, names_code

SOURCE = """
from math import sqrt
import neighbour
half = lambda x: x / 2
def share(answer, gold):
    return neighbour.VALUE
if True:
    def inner(): ...
try:
    from nowhere import fallback
except ImportError:
    def fallback(): ...
    def only_here(): ...
double, (triple, *_) = (lambda x: 2 * x), (share, [hidden for hidden in ()])
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 0.5")
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "mine.py"


def test_a_colon_tells_code_from_a_registered_name():
    assert [names_code(name) for name in ("a.py:f", "a.b:f", "math", 3, None)] == [
        True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["share", "half", "sqrt", "inner", "only_here", "double", "triple"]
)
def test_whatever_the_top_level_binds_is_found(file, name):
    OwnFunction.parse(f"{file}:{name}").require()
    assert callable(OwnFunction.parse(f"{file}:{name}").load())


def test_a_file_is_loaded_with_its_neighbours_and_once(file):
    function = OwnFunction.parse(f"{file}:share")
    assert function.load()("1", "2") == 0.5
    assert function.load() is function.load()


def test_the_identity_is_the_content_and_not_the_place(file, tmp_path):
    here = OwnFunction.parse(f"{file}:share").identity
    (tmp_path / "sub").mkdir()
    copy = tmp_path / "sub/mine.py"
    copy.write_text(SOURCE)
    assert OwnFunction.parse(f"{copy}:share").identity == here
    copy.write_text(SOURCE + "\n")
    assert OwnFunction.parse(f"{copy}:share").identity != here
    assert here.startswith("mine.py:share sha256:")


def test_a_module_is_found_without_being_run():
    sys.modules.pop("this", None)
    this = OwnFunction.parse("this:d")  # prints a poem when it is imported
    this.require()
    assert "this" not in sys.modules
    assert OwnFunction.parse("math_verify:verify").load().__name__ == "verify"
    assert OwnFunction.parse("textwrap:dedent").identity.startswith("textwrap:dedent sha256:")


@pytest.mark.parametrize(
    ("text", "name", "says", "next_step"),
    [
        (None, "share", "there is no file", "correct the path"),
        (SOURCE, "shar", "defines no 'shar'",
         "it defines sqrt, neighbour, half, share, inner, fallback, only_here, double, triple"),
        ("def f(:", "f", "mine.py, line 1", "correct the file"),
        ("a = 1\nb = 1 / 0\nf = 3", "f", "ZeroDivisionError: division by zero (mine.py, line 2)",
         "correct the file"),
        ("f = 3", "f", "is a int and no function", "name a function"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path, text, name, says, next_step):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        OwnFunction.parse(f"{tmp_path / 'mine.py'}:{name}").load()
    assert says in refused.value.cause
    assert next_step in refused.value.next_step


@pytest.mark.parametrize("place", ["no.such", "own_package.such", "textwrap.such", ".such", ""])
def test_a_module_that_is_not_there(package, place):
    with pytest.raises(ConfigurationError, match=f"there is no Python module '{place}'"):
        OwnFunction.parse(f"{place}:f").require()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that can't be imported, with modules in folders with and without `__init__.py`."""
    for folder in ("inner", "bare"):
        (tmp_path / "own_package" / folder).mkdir(parents=True)
        (tmp_path / "own_package" / folder / "rewards.py").write_text("def f(): ...")
    (tmp_path / "own_package/__init__.py").write_text("raise RuntimeError('no licence')")
    (tmp_path / "own_package/inner/__init__.py").write_text("def f(): ...")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("place", ["own_package.inner", "own_package.inner.rewards",
                                   "own_package.bare.rewards"])  # fmt: skip
def test_no_package_around_a_module_is_run(package, place):
    function = OwnFunction.parse(f"{place}:f")
    function.require()
    assert function.identity.startswith(f"{place}:f sha256:")
    assert "own_package" not in sys.modules
    with pytest.raises(ConfigurationError, match="RuntimeError: no licence"):
        function.load()


def test_the_home_of_nobody():
    with pytest.raises(ConfigurationError, match=r"there is no file ~nobody-of-that-name/x\.py"):
        OwnFunction.parse("~nobody-of-that-name/x.py:f").require()
