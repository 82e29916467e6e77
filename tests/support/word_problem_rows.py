"""Made-up rows in the columns of ASDiv and SVAMP."""

import json
from pathlib import Path

from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import WordProblemsSection


def made_up(folder: Path) -> DataSection:
    """30 families, some with a second row, and rows that can't be read, written below `folder`."""
    words = [a + b for a in "bcdfgh" for b in ("at", "en", "ig", "op", "um")]
    asdiv = [
        {"body": f"Ann sees {i + 2} {word}s and 9 more.", "question": f"How many {word}s?",
         "answer": f"{i + 11} ({word}s)", "formula": f"{i + 2}+9={i + 11}"}
        for i, word in enumerate(words[:20])
    ]  # fmt: skip
    twin = {"body": "Bob sees 40 bats and 5 more.", "question": "How many bats?",
            "answer": "45 (bats)", "formula": "40+5=45"}  # fmt: skip
    unread = [
        {"body": "b", "question": "q", "answer": "4 (kits)", "formula": "GCD(20,12)=4"},
        {"body": "b", "question": "q2", "answer": "2 (left)", "formula": "17/5=3 r2"},
        {"body": "b", "question": "q3", "answer": "5 (wrong)", "formula": "2+2=4"},
    ]
    svamp = [
        {"Body": f"Cem had {10 * i} {word}s and lost 4", "Question": "How many are left?",
         "Answer": 10.0 * i - 4, "Equation": f"( {10.0 * i} - 4.0 )"}
        for i, word in enumerate(words[20:], 1)
    ]  # fmt: skip
    (folder / "train").mkdir()
    for name, rows in (("asdiv", [*asdiv, twin, *unread]), ("svamp", svamp)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"train/{name}.jsonl").write_text(text)
    return DataSection(
        root=folder, word_problems=WordProblemsSection(held_out=8, validation=4, window=20)
    )
