"""Functions of one's own: named, checked without being run, hashed, loaded."""

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


def test_a_colon_tells_code_from_names_and_modules():
    assert [names_code(name) for name in ("a.py:f", "a.b:f", "math", 3, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(ConfigurationError, match="there is no Python file textwrap"):
        OwnFunction.parse("textwrap:dedent").require()
    with pytest.raises(ConfigurationError, match="there is no Python file ~nobody"):
        OwnFunction.parse("~nobody-of-that-name/x.py:f").require()


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


@pytest.mark.parametrize(
    ("text", "name", "says", "next_step"),
    [
        (None, "share", "there is no Python file", "FILE.py:FUNCTION"),
        (
            SOURCE,
            "shar",
            "defines no 'shar'",
            "it defines sqrt, neighbour, half, share, inner, fallback, only_here, double, triple",
        ),
        ("def f(:", "f", "mine.py, line 1", "fix the file"),
        (
            "a = 1\nb = 1 / 0\nf = 3",
            "f",
            "ZeroDivisionError: division by zero (mine.py, line 2)",
            "fix the file",
        ),
        ("f = 3", "f", "is of type int, not a function", "give a function"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, name, says, next_step):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        OwnFunction.parse(f"{tmp_path / 'mine.py'}:{name}").load()
    assert says in refused.value.cause
    assert next_step in refused.value.next_step
