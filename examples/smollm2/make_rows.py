"""Write word problems with their workings for SmolLM2-135M: make_rows.py FOLDER.

`train.jsonl` is ASDiv alone, the rows whose formula gives the gold. SVAMP is held out whole:
`test.jsonl` has 400 problems and `dev.jsonl` the others, no story in both. Rows come from
`$SAGE_DATA/train/`, where it has them, or from the Hub.
"""

import ast
import json
import operator
import os
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

HUB = {
    "asdiv": ("EleutherAI/asdiv", "8f95807222d87b4c688c3c22a6ba2801e1fa03e2"),
    "svamp": ("ChilleD/SVAMP", "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef"),
}
TESTED, RUN = 400, 8
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def published(name: str) -> list[dict[str, Any]]:
    """Return the rows of a data set as its authors published them."""
    file = Path(os.environ.get("SAGE_DATA", "")) / "train" / f"{name}.jsonl"
    if file.is_file():
        return [json.loads(line) for line in file.read_text().splitlines()]
    from datasets import load_dataset

    repository, revision = HUB[name]
    parts = load_dataset(repository, revision=revision)
    return [dict(row) for part in parts.values() for row in part]


def value(formula: str) -> Fraction | None:
    """Return the value of arithmetic; None for anything else, as an unknown or a comparison."""

    def of(node: ast.AST) -> Fraction:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return Fraction(str(node.value))
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return Fraction(OPERATIONS[type(node.op)](of(node.left), of(node.right)))
        raise ValueError

    try:
        return of(ast.parse(formula.strip(), mode="eval").body)
    except (ValueError, SyntaxError, ZeroDivisionError):
        return None


def right_working(question: str, completion: str, gold: str) -> bool:
    """Return True if the completion's formula has the gold's value; a number alone is none.

    As a second judge: `sage passk RUN --second-judge examples/smollm2/make_rows.py:right_working`.
    The formula is the text before `<end_working_out>`, without its last equals sign and what
    follows.
    """
    working = completion.partition("<end_working_out>")[0].rpartition("<start_working_out>")[2]
    formula = (working.rpartition("=")[0] if "=" in working else working).replace(",", "")
    operates = bool(re.search(r"\d\s*[-+*/]", formula))
    return operates and value(formula) == value(gold.replace(",", ""))


def question(body: str, asked: str) -> str:
    """Return the story and what is asked, with a full stop between them."""
    body = body.strip()
    return f"{body}{'' if body.endswith(('.', '?', '!')) else '.'} {asked.strip()}"


def written(number: Fraction) -> str:
    """Return a whole number or an exact decimal without trailing zeros."""
    return str(number.numerator) if number.denominator == 1 else str(float(number))


def asdiv() -> Iterator[dict[str, str]]:
    """Yield the rows whose formula gives the gold, exactly."""
    for row in published("asdiv"):
        formula, _, result = row["formula"].partition("=")
        gold = value(re.split(r"[ (]", row["answer"].strip())[0])
        if gold is not None and gold == value(formula) == value(result):
            asked = question(row["body"], row["question"])
            yield {"question": asked, "working": row["formula"], "gold": written(gold)}


def svamp() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the story of each row, and the row."""
    for row in published("svamp"):
        gold = value(str(row["Answer"]))
        if gold is not None:
            asked, working = question(row["Body"], row["Question"]), row["Equation"].strip("() ")
            yield (
                row["Body"].strip(),
                {
                    "question": asked,
                    "working": re.sub(r"\.0(?!\d)", "", working),
                    "gold": written(gold),
                },
            )


def runs(rows: list[dict[str, str]]) -> list[set[tuple[str, ...]]]:
    """Return the runs of eight words of each question, numbers masked."""
    texts = [re.sub(r"\d[\d.,]*", "#", row["question"].lower()).split() for row in rows]
    return [{tuple(text[i : i + RUN]) for i in range(len(text) - RUN + 1)} for text in texts]


def main(folder: Path) -> None:
    """Write the three files, and print their sizes and what test and training share."""
    train = list(asdiv())
    stories: dict[str, list[dict[str, str]]] = {}
    for story, row in svamp():
        stories.setdefault(story, []).append(row)
    test: list[dict[str, str]] = []
    dev: list[dict[str, str]] = []
    for story in sorted(stories, key=lambda text: sha256(text.encode()).digest()):
        part = test if len(test) + len(stories[story]) <= TESTED else dev
        part += stories[story]
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", train), ("dev", dev), ("test", test)):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    seen = set().union(*runs(train))
    shared = sum(bool(own & seen) for own in runs(test))
    print(f"{len(train)} to train, {len(dev)} to validate, {len(test)} to test in {folder}")
    print(f"{shared} of {len(test)} test questions share a run of {RUN} words with training")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
