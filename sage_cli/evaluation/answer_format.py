"""Whether a tokenizer can write an answer that the judge then finds."""

from __future__ import annotations

from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import grader_of
from sage_cli.problems.template import PromptTemplate
from sage_cli.solution_text import CLOSE


def check_answer_format(config: SageConfig, tokenizer: Any) -> str:
    """Grade a correct answer after writing and reading it as tokens, and describe that.

    Raises ConfigurationError if it is not graded as correct, or if the prompt opens no turn for it.
    """
    from sage_cli.models.tokenizer import keep_tags  # loads the libraries of training

    section = config.prompt
    template = PromptTemplate.from_section(section, tokenizer)
    written, opened = template.complete("3 + 4", "7"), template.opened or ""
    if section.format == "chat":
        written = (CLOSE if opened else "") + template.final("7")
    keep_tags(tokenizer, section)
    ids = tokenizer([written], add_special_tokens=False)["input_ids"]
    text = tokenizer.batch_decode(ids, skip_special_tokens=True)[0]
    with grader_of("math", None, config.grading, section) as grader:
        status = grader.grade("7", opened + text).status
    if status != "right":
        raise ConfigurationError(
            f"a correct answer, {written!r}, is read as {text!r} and graded {status}",
            "set the prompt's tags to texts that the tokenizer can write (prompt.answer_open, "
            "prompt.answer_close, prompt.reasoning_close)",
        )
    if not template.opens_turn:
        raise ConfigurationError(
            "the chat template ignores add_generation_prompt, so that the model would "
            "have to write the beginning of its own turn",
            "fix the template, or use --set prompt.format=plain",
        )
    return f"a correct answer ({len(ids[0])} tokens) is extracted and graded correct"
