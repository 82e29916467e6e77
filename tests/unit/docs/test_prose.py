"""The check of the prose: what a sentence is, what is none, and what it says of a page."""

import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PROSE = runpy.run_path(str(REPOSITORY / "docs" / "prose.py"))
LONG = " ".join(["word"] * 41) + "."  # one word more than a sentence may have


def of(text):
    return PROSE["sentences"](text)


def check(monkeypatch, folder, *texts):
    """Return the exit code of the check for pages with these texts."""
    pages = [folder / f"{number}.md" for number in range(len(texts))]
    for page, text in zip(pages, texts, strict=True):
        page.write_text(text)
    names = PROSE["main"].__globals__
    monkeypatch.setitem(names, "pages", lambda: pages)
    monkeypatch.setitem(names, "DOCS", folder / "docs")
    monkeypatch.setattr("sys.argv", ["prose.py"])
    return PROSE["main"]()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A run ends. It is\nstored! Why? `sage` says.", 4),
        ("It is 2. 5 of 8.", 1),  # a number begins no sentence
        ('It is "x". "y" is not.', 2),
        ("One thing\n\nanother thing", 2),
        ("Three:\n\n- one\n- two,\n  continued\n1. three", 4),
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text, expected):
    assert len(of(text)) == expected


def test_lines_are_joined_and_a_link_counts_by_its_words():
    assert of("A run\nis   stored.") == ["A run is stored."]
    assert of("See [the study](results/study.md).") == ["See the study."]


@pytest.mark.parametrize(
    "text",
    [
        "```\nsage rl\n```",
        "$$\nq = 1\n$$",
        "| a | b |\n|---|---|",
        "    q = 1 + rho H",
        "## A heading",
    ],
)
def test_code_formulas_tables_and_headings_do_not_count(text):
    assert of(text) == []
    assert of(f"Before.\n\n{text}\n\nAfter.") == ["Before.", "After."]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LONG, 0),  # one long sentence a page is allowed
        (f"{LONG} W{LONG[1:]}", 1),
        (f"{LONG[5:]} W{LONG[6:]}", 0),  # two of 40 words
        ("It is refused. It is refused.", 0),
        ("It is refused. It is refused. It goes on.", 1),
        ("The drawing is fine. Draws are not. Drawn ones are not. So that is three.", 1),
    ],
)
def test_a_page_above_a_limit_fails(monkeypatch, tmp_path, text, code):
    assert check(monkeypatch, tmp_path, "Short.", text) == code


def test_the_page_above_a_limit_is_printed(monkeypatch, tmp_path, capsys):
    check(monkeypatch, tmp_path, "Short.", f"{LONG} W{LONG[1:]}")
    assert capsys.readouterr().out == "1.md: 2 sentences above 40 words, 0 phrases\n"


def test_pages_made_from_code_are_left_out():
    pages = PROSE["pages"]()
    assert REPOSITORY / "README.md" in pages
    assert REPOSITORY / "docs" / "theory.md" in pages
    assert not [page for page in pages if page.parent.name == "reference"]
