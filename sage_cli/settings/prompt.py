"""`prompt`: the text around a question."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sage_cli.settings.section import Section

PAPER_SYSTEM_PROMPT = (
    "You are given a problem. Think about the problem and provide your working out. "
    "Place it between <start_working_out> and <end_working_out>. "
    "Then, provide your solution between <SOLUTION> and </SOLUTION>."
)
"""Appendix E.4 of the paper, used in SFT, RL and evaluation alike."""
QUESTION = "{question}"


class PromptSection(Section):
    """The text around a question and its answer. Every checkpoint records a hash of it.

    `format` chooses the layout: `paper` is the Unsloth template that the authors used (system
    prompt, end-of-sequence token, question, opening reasoning tag), `chat` is the tokenizer's
    own chat template, and `plain` is the question alone. `answer` says where the final answer
    is: between the answer tags, or in the last \\boxed{}.
    """

    format: Literal["paper", "chat", "plain"] = "paper"
    """Layout of the prompt. `paper` is the authors': system prompt, end-of-sequence token,
    question, opening reasoning tag. `chat` uses the tokenizer's chat template, and `plain` is
    the question alone."""
    system: str | None = PAPER_SYSTEM_PROMPT
    """Text of the system prompt; null or `off` means none."""
    user: str = QUESTION
    """Text of the user's turn, in which {question} is replaced by the problem's text."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further arguments that the tokenizer's chat template gets, for example {enable_thinking:
    false}."""
    reasoning_open: str = "<start_working_out>"
    """Tag that opens the reasoning."""
    reasoning_close: str = "<end_working_out>"
    """Tag that closes the reasoning."""
    answer: Literal["tags", "boxed"] = "tags"
    """Form of the final answer: `tags` puts it between the answer tags, `boxed` into the last
    \\boxed{}."""
    answer_open: str = Field("<SOLUTION>", min_length=1)
    """Tag that opens the answer."""
    answer_close: str = Field("</SOLUTION>", min_length=1)
    """Tag that closes the answer. Sampling can stop there."""

    @property
    def tags(self) -> tuple[str, str, str, str]:
        """The tags around working-out and answer."""
        return self.reasoning_open, self.reasoning_close, self.answer_open, self.answer_close

    @field_validator("system", mode="before")
    @classmethod
    def _off_is_none(cls, system: Any) -> Any:
        return None if system in (False, "off") else system  # False: YAML's own `off`

    @field_validator("user")
    @classmethod
    def _asks(cls, user: str) -> str:
        if QUESTION not in user:
            raise ValueError(f"must contain {QUESTION}, which is replaced by the problem's text")
        return user

    @model_validator(mode="after")
    def _chat_arguments_have_a_reader(self) -> PromptSection:
        if self.chat_template_kwargs and self.format != "chat":
            raise ValueError(
                f"chat_template_kwargs are for a chat template; format '{self.format}' reads none"
            )
        ours = {"tokenize", "add_generation_prompt"} & self.chat_template_kwargs.keys()
        if ours:
            raise ValueError(f"chat_template_kwargs cannot contain {', '.join(sorted(ours))}")
        return self
