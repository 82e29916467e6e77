"""The right texts of generated problems, as a policy's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.problems.generated.generator import Generated, Generator
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import find, is_file_name
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.plugins import named
from sage_cli.settings.sections.data import DataSection

if TYPE_CHECKING:
    from sage_cli.sampling.chances import Ids, Pair


@dataclass(frozen=True)
class Listed:
    """The ways of a generator, its guesses among them, and each problem's workings by way."""

    generator: str
    version: int
    ways: tuple[str, ...]
    guesses: frozenset[str]
    workings: Mapping[str, Mapping[str, str]]

    def pairs(
        self, problems: Sequence[Problem], template: PromptTemplate, tokenizer: Any, *, ended: bool
    ) -> dict[tuple[str, str], Pair]:
        """Return (problem id, way) -> tokens of the prompt and of the text written correctly.

        Of the splits that a tokenizer of pieces allows it is the usual one. With `ended` the
        end-of-sequence token belongs to the text, as where sampling doesn't stop at the answer.
        """

        def ids(text: str) -> Ids:
            return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

        end: Ids = (tokenizer.eos_token_id,) if ended else ()
        found = {}
        for problem in problems:
            prompt = ids(template.render(problem.question))
            for way, working in self.workings[problem.id].items():
                text = template.complete(working, problem.gold)
                found[problem.id, way] = prompt, ids(text) + end
        return found


def generator_with_texts(benchmark: str) -> type[Generator]:
    """Return the benchmark's generator. Raises DataError if it lists no right texts."""
    entry = None if is_file_name(benchmark) else find(benchmark)
    if isinstance(entry, Generated) and entry.generator.lists_right_texts():
        return entry.generator
    raise DataError(
        f"nothing says which texts are right on {benchmark}, so they have no exact chances",
        "name generated problems whose generator has `right_texts`, as arithmetic, or measure it "
        "by samples with `sage passk`",
    )


def listed_texts(benchmark: str, problems: Sequence[Problem], data: DataSection) -> Listed:
    """Return what the benchmark's generator lists. Raises DataError if it lists nothing."""
    kind = generator_with_texts(benchmark)
    with named("generator", kind):
        generator = kind.of(data)
        workings = {problem.id: dict(generator.right_texts(problem)) for problem in problems}
    ways = tuple(dict.fromkeys(way for by_way in workings.values() for way in by_way))
    return Listed(kind.name, kind.version, ways, kind.guesses & {*ways}, workings)
