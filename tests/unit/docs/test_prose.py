"""The check of the prose: what a sentence is, what is none, and what it says of a page."""

import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PROSE = runpy.run_path(str(REPOSITORY / "docs" / "prose.py"))
PHRASES = "1.md: 0 sentences above 40 words, 3 phrases\n"
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
    ("text", "count"),
    [
        ("A run ends. It is\nstored! Why? `sage` says.", 4),
        ("It is 2. 5 of 8.", 1),  # a number begins no sentence
        ('It is "x". "y" is not.', 2),
        ("One thing\n\nanother thing", 2),
        ("Three:\n\n- one\n- two,\n  continued\n1. three", 4),
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text, count):
    assert len(of(text)) == count


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


def test_lines_of_a_sentence_are_joined_and_links_count_by_their_words():
    assert of("See [the\nstudy](results/study.md)   here.") == ["See the study here."]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (LONG, ""),  # one long sentence a page is allowed
        (f"{LONG} W{LONG[1:]}", "1.md: 2 sentences above 40 words, 0 phrases\n"),
        (f"{LONG[5:]} W{LONG[6:]}", ""),  # two of 40 words
        ("It is refused. It is refused.", ""),
        ("It is refused. It is refused. It goes on.", PHRASES),
        ("The drawing is fine. Draws are not. Drawn ones are not. So that is three.", PHRASES),
    ],
)
def test_a_page_above_a_limit_fails(monkeypatch, tmp_path, capsys, text, printed):
    assert check(monkeypatch, tmp_path, "Short.", text) == bool(printed)
    assert capsys.readouterr().out == printed


def test_pages_made_from_code_are_left_out():
    pages = PROSE["pages"]()
    assert REPOSITORY / "README.md" in pages
    assert REPOSITORY / "docs" / "theory.md" in pages
    assert not [page for page in pages if page.parent.name == "reference"]
