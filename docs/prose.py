"""Check the English of README, docs, help, settings and messages against our rules.

    python docs/prose.py           the faults, a line each; exit code 1 if there is one
    python docs/prose.py --all     the words, connectives and long sentences of each page, too

Code and formulas are not read, tables are. Pages made from code are read through their source.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LONGEST = 40
"""Words of a sentence that is shown by `--all`; nothing is steered by it."""
SHORTEST_LEAD = 15
"""Words of a page's first paragraph, in which it says what it answers."""
CONNECTIVES = re.compile(
    r"\b(because|so that|therefore|however|although|while|whereas|for example|such as|instead"
    r"|otherwise|first|then|finally)\b",
    re.IGNORECASE,
)
FAULTS = {
    "', as' for 'for example'": r", as (?=[`{\"]|--|https?:|[A-Z]{2,}[/@=])",
    "'is no' for 'is not a'": (
        r"(?<![Tt]here )\b(is|are) no "
        r"(?!(longer|more|less|shorter|fewer|different|better|worse|matter|need)\b)[a-z]"
    ),
    "'less' as minus": r"\bless (its|that of|initial|anchor|GRPO|the initial|A|B)\b",
    "a verb of ours": (
        r"\b(stands? (beside|there|before|below|above|for itself)|lays? beside|mend)\b"
    ),
    "a word of ours": (
        r"\b(own control|plain anchors?|supervised warm-up|likeliest|best in hindsight"
        r"|line of sensitivity|trainings)\b"
    ),
    "'right' for 'correct'": (
        r"\b(is|are|was|were|be) right\b(?! (of|for|to|side))"
        r"|\bright (answers?|completions?|samples?|workings?|rollouts?)\b"
    ),
    "a number without its 0": r"(?<![\w.,\d\]])[−+±-]?\.\d+\b",
    "a space before %": r"\d %",
    "'a training' for a run": (
        r"\b[Aa] training(?! (run|step|seed|set|problem|script|log|record|loop|process|row|curve"
        r"|section|signal|file|command|machine|batch|data|reward|prompt|sample|example))\b"
    ),
    "a plural of one": (
        r"(?<!or )(?<!, )\b1 (problems|samples|completions|rows|runs|seeds|steps|tests)\b"
    ),
    "a hyphen as minus": r"(?<![\w`.])-\d*\.\d",
    "'a step' for 'per step'": (
        r"\d (\w+ )?(completions?|rollouts?|samples?|tokens?|prompts?|problems?|seconds?|s|rows?) "
        r"an? (step|prompt|problem|second|token|completion|command|batch|seed|run|call|policy)\b"
    ),
    "a private word": (
        r"\b(is paid|are paid|paid for|goes by|carry out|carried out|told apart|commonest|anew"
        r"|other than there|no accident)\b"
    ),
}
"""What is wrong -> a pattern of it."""
COMPILED = {name: re.compile(pattern) for name, pattern in FAULTS.items()}
NOT_PROSE = re.compile(
    r"```.*?```|\$\$.*?\$\$|`[^`\n]*`|\$[^$\n`]*[\\_^{][^$\n`]*\$|^(?: {4,}|#)[^\n]*$|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
FRAGMENT = re.compile(r"(Of|At|By|As|From|What|How|Where|Only|If|When|Its|Theirs)\b|\S+'s\.$|\d")
"""How a text begins, or all of it, that explains a setting without naming what the setting is."""
VERBS = re.compile(
    r"\b(accepts|accounts|adds|applies|are|asks|becomes|belongs|can|cannot|chooses|closes|"
    r"decide|decides|do|does|ends|exist|explains|falls|follows|get|gets|gives|grow|grows|"
    r"has|have|ignores|is|keeps|launches|learns|leaves|lists|makes|maps|may|mean|means|"
    r"multiplies|must|needs|opens|puts|read|reads|registers|replaces|rises|saves|says|selects|"
    r"sends|stops|takes|trains|use|uses|was|were|writes)\b"
)
"""Finite verbs, one of which the text of a setting has. Words that are nouns, too, such as
`samples` and `weights`, are left out, so that a text without a verb does not pass by them."""
SHORTEST_TEXT = 4
"""Words of a text in the package that is read as a sentence or heading; others are names."""
QUOTED = re.compile(r'"([^"\\]*)"')
"""A text in JavaScript."""
STORED = frozenset({"tokens of right completions"})
"""Names of stored results, which stay; people read another name in their place."""


def pages() -> list[Path]:
    """Return the pages that are written by hand."""
    made = "<!-- Made by"
    found = [path for path in sorted(DOCS.rglob("*.md")) if not path.read_text().startswith(made)]
    others = (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "AGENTS.md",
        "SECURITY.md",
        "examples/README.md",
    )
    templates = sorted((ROOT / "templates").rglob("*.md"))
    return [*(ROOT / name for name in others), *templates, *found]


def faults(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in a text without code, and the words around it."""
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # a sentence goes over lines
    for name, pattern in COMPILED.items():
        for found in pattern.finditer(text):
            around = text[max(0, found.start() - 30) : found.end() + 30]
            yield name, " ".join(around.split())


def without_code(text: str) -> str:
    """Return a page's text with code and formulas blanked, and links by their words."""

    def blank(found: re.Match[str]) -> str:
        is_word = found[0].startswith("`") and not found[0].startswith("```")
        return "`x`" if is_word else "\n\n"

    text = NOT_PROSE.sub(blank, text)
    return LINK.sub(lambda found: found[1], text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a page without its tables; an item of a list ends one."""
    text = re.sub(r"^\s*\|.*$", "\n", without_code(text), flags=re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    parts = (re.split(r'(?<=[.!?])\s+(?=[A-Z`*("])', one) for one in paragraphs)
    return [" ".join(one.split()) for part in parts for one in part if one.strip()]


def has_lead(text: str) -> bool:
    """Return True if a page begins with a paragraph that can say what the page answers."""
    blocks = [block for block in text.split("\n\n") if not block.startswith(("#", "<!--"))]
    lead = LINK.sub(lambda found: found[1], blocks[0]) if blocks else ""
    return not lead.startswith(("```", "|", "- ", "1. ")) and len(lead.split()) >= SHORTEST_LEAD


def is_fragment(text: str) -> bool:
    """Return True if the text of a setting or option does not say what that is."""
    return bool(FRAGMENT.match(text)) or not text.endswith((".", ")", "]"))


def has_verb(text: str) -> bool:
    """Return True if a text has one of `VERBS` outside of code."""
    return bool(VERBS.search(re.sub(r"`[^`]*`", "", text)))


def titles_of_suites() -> Iterator[tuple[str, str]]:
    """Yield the files of suites with the title that each has."""
    for folder in ("configs", "templates", "examples"):
        for file in sorted((ROOT / folder).rglob("*.yaml")):
            for title in re.findall(
                r"^title: (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE
            ):
                yield str(file.relative_to(ROOT)), title


def texts_of_settings() -> Iterator[tuple[str, str]]:
    """Yield each setting with its text."""
    from sage_cli.config.explain import meanings_of
    from sage_cli.config.schema import settings

    for key, setting in settings().items():
        for meaning in meanings_of(setting):
            yield key, meaning.meaning


def texts_of_options() -> Iterator[tuple[str, str]]:
    """Yield each option and argument of the commands with its help."""
    from sage_cli.cli.app import command_named
    from sage_cli.cli.listing import COMMANDS

    def below(typed: str, command: object) -> Iterator[tuple[str, str]]:
        for option in getattr(command, "params", []):
            if option.name != "help":
                yield f"{typed} {option.name}", getattr(option, "help", None) or ""
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(f"{typed} {name}", inner)

    for name in COMMANDS:
        yield from below(f"sage {name}", command_named(name))


def texts_of_package() -> Iterator[tuple[str, str]]:
    """Yield where a text of at least `SHORTEST_TEXT` words is in the package, and the text.

    These are messages, notes, headings and labels. Docstrings are not among them.
    """
    for file in sorted((ROOT / "sage_cli").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        skipped = set(_parts_that_nobody_reads(tree))
        for node in ast.walk(tree):
            text = "" if id(node) in skipped else _text(node)
            if len(text.split()) >= SHORTEST_TEXT and text not in STORED:
                yield f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text
    for file in sorted((ROOT / "sage_cli" / "view" / "page").rglob("*.js")):
        if "vendor" in file.parts:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for text in QUOTED.findall(line):
                if len(text.split()) >= SHORTEST_TEXT:
                    yield f"{file.relative_to(ROOT)}:{number}", text


def _parts_that_nobody_reads(tree: ast.Module) -> Iterator[int]:
    """Yield the ids of docstrings, and of the parts of f-strings, which are read as one text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield id(node.value)
        if isinstance(node, ast.JoinedStr):
            yield from map(id, node.values)


def _text(node: ast.AST) -> str:
    """Return the text of a constant; what is put into an f-string is `x`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (v.value if isinstance(v, ast.Constant) else "`x`" for v in node.values)
        return "".join(map(str, parts))
    return ""


def all_faults() -> Iterator[str]:
    """Yield every fault in a line, with where it is."""
    for page in pages():
        name, text = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
        if not has_lead(text):
            yield f"{name}: no first paragraph that says what the page answers"
        for fault, around in faults(without_code(text)):
            yield f"{name}: {fault}: {around}"
    for key, text in (*texts_of_settings(), *texts_of_options()):
        if is_fragment(text):
            yield f"{key}: a fragment: {text}"
        for name, around in faults(without_code(text)):
            yield f"{key}: {name}: {around}"
    for where, text in (*texts_of_package(), *titles_of_suites()):
        for name, around in faults(text):
            yield f"{where}: {name}: {around}"


def main() -> int:
    """Print the faults, or with `--all` the counts of each page; return 1 if there is a fault."""
    if "--all" in sys.argv[1:]:
        for page in pages():
            every = sentences(page.read_text(encoding="utf-8"))
            words = sum(len(one.split()) for one in every)
            joined = sum(len(CONNECTIVES.findall(one)) for one in every)
            long = sum(len(one.split()) > LONGEST for one in every)
            print(
                f"{page.relative_to(ROOT)}: {words} words, {1000 * joined / max(1, words):.1f} "
                f"connectives in 1,000, {long} sentences above {LONGEST} words"
            )
    found = list(dict.fromkeys(all_faults()))
    print(*found, sep="\n", end="\n" * bool(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
