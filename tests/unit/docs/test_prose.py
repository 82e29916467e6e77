"""The check of the English: what a fault is, what is none, and that there is none."""

import ast
import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PROSE = runpy.run_path(str(REPOSITORY / "docs" / "prose.py"))


def kinds(text):
    """The kinds of fault in a page with this text."""
    return [kind for kind, _ in PROSE["faults"](PROSE["without_code"](text))]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A run ends. It is\nstored! Why? `sage` says.", 4),
        ("It is 2. 5 of 8.", 1),  # a number begins no sentence
        ('It is "x". "y" is not.', 2),
        ("One thing\n\nanother thing", 2),
        ("Three:\n\n- one\n- two,\n  continued\n1. three", 4),
        ("Before.\n\n```\nsage rl\n```\n\nAfter.", 2),
        ("Before.\n\n| a | b |\n|---|---|\n\nAfter.", 2),
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text, count):
    assert len(PROSE["sentences"](text)) == count


def test_lines_of_a_sentence_are_joined_and_links_count_by_their_words():
    sentences = PROSE["sentences"]("See [the\nstudy](results/study.md)   here.")
    assert sentences == ["See the study here."]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Name a new folder, as `sage init x`.", "', as' for 'for example'"),
        ("This is no file.", "'is no' for 'is not a'"),
        ("pass@1 is that of A less that of B.", "'less' as minus"),
        ("It stands beside the table.", "a verb of ours"),
        ("Compare it with its own control.", "a word of ours"),
        ("The right answers are rare.", "'right' for 'correct'"),
        ("Half of them are right.", "'right' for 'correct'"),
        ("It rises by .037.", "a number without its 0"),
        ("It changes by −.118 [−.157, −.078].", "a number without its 0"),
        ("The 95 % interval.", "a space before %"),
        ("A training takes a minute.", "'a training' for a run"),
        ("This\nis no file.", "'is no' for 'is not a'"),  # over two lines
        ("There are 1 problems.", "a plural of one"),
        ("It changes by -0.118 [-0.157, -0.078].", "a hyphen as minus"),
        ("It takes 32 rollouts a step.", "'a step' for 'per step'"),
        ("What a completion is paid depends on it.", "a private word"),
        ("| k | p |\n|---|---|\n| 1 | .05 |", "a number without its 0"),  # tables are read
    ],
)
def test_a_fault_is_found_in_prose_and_in_tables(text, fault):
    assert set(kinds(text)) == {fault}


@pytest.mark.parametrize(
    "text",
    [
        "For example `sage init x`, so that it is written.",
        "There is no file. It is no longer needed.",
        "It has less than half, and unless that is so, more.",
        "On the right of the table, it is right to ask.",
        "It rises by 0.037 in version 1.2.3 of file.py, see .gitignore.",
        "The 95% interval of a training run, one training step and a training set.",
        "It follows a training\nstep.",
        "`x is no file, as .05 %`",
        "```\nthe right answers are .05 %\n```\nis fine.",
        "Then $q_1 = .5$ is a formula, and $$p_{i} = .5$$ too.",
        "1 problem, 11 problems and 21 samples, or 0 or 1 samples.",
        "The score is 0 or -1, from 1e-4 on, and 32 rollouts per step make a step.",
    ],
)
def test_what_is_right_is_not_a_fault(text):
    assert kinds(text) == []


@pytest.mark.parametrize("text", ["AdamW's.", "Of the random weights.", "At the end", "0 is off."])
def test_a_text_without_a_noun_is_a_fragment(text):
    assert PROSE["is_fragment"](text)


@pytest.mark.parametrize(
    "text",
    [
        "AdamW's weight decay.",
        "Number of samples.",
        "Seed of the noise.",
        "Number of steps between two samples, `is` and `has`.",  # code has no verb of the sentence
    ],
)
def test_a_text_without_a_finite_verb_is_found(text):
    assert not PROSE["has_verb"](text)


def test_every_settings_text_has_a_verb():
    texts = list(PROSE["texts_of_settings"]())
    assert len(texts) > 290
    assert [(key, text) for key, text in texts if not PROSE["has_verb"](text)] == []


@pytest.mark.parametrize(
    ("page", "has"),
    [
        ("# Sweeps\n\n" + 5 * "It searches settings. ", True),
        ("# Sweeps\n\nTo run one:\n\n```\nsage sweep\n```", False),
        ("# Sweeps\n\n```\nsage " + 20 * "word " + "\n```", False),
        ("# Sweeps\n\n| option | " + 20 * "word " + "|", False),
        ("# Sweeps", False),
    ],
)
def test_a_page_begins_with_what_it_answers(page, has):
    assert PROSE["has_lead"](page) is has


def test_every_setting_and_option_says_what_it_is():
    texts = [*PROSE["texts_of_settings"](), *PROSE["texts_of_options"]()]
    assert len(texts) > 600
    assert [(key, text) for key, text in texts if PROSE["is_fragment"](text)] == []


def test_pages_help_settings_and_messages_have_no_fault():
    assert list(PROSE["all_faults"]()) == []


def test_pages_made_from_code_are_left_out_and_texts_of_the_package_are_read():
    pages = PROSE["pages"]()
    assert REPOSITORY / "README.md" in pages
    assert REPOSITORY / "docs" / "theory.md" in pages
    of_reference = {page.name for page in pages if page.parent.name == "reference"}
    assert of_reference == {"records.md", "files.md"}  # which are written by hand
    texts = dict(PROSE["texts_of_package"]())
    assert len(texts) > 2000
    assert any(where.startswith("sage_cli/view/page/pages/") for where in texts)


def test_texts_of_the_package_are_messages_and_notes_without_docstrings_and_stored_names():
    module = ast.parse('"""It is no file at all."""\nnote = f"{n} of the right answers are here"\n')
    skipped = set(PROSE["_parts_that_nobody_reads"](module))
    texts = [PROSE["_text"](node) for node in ast.walk(module) if id(node) not in skipped]
    assert [text for text in texts if text] == ["`x` of the right answers are here"]
