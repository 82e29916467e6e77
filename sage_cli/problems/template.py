"""The text around a question and an answer: one template for SFT, RL and evaluation."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Protocol

from sage_cli.errors import ConfigurationError
from sage_cli.settings.prompt import QUESTION, PromptSection
from sage_cli.solution_text import CLOSE, OPEN

BOXED = r"\boxed{"
TODAY = date(2024, 7, 26)
"""The date that chat templates print which ask for today's: a prompt is the same on every day."""


class TemplateTokenizer(Protocol):
    """The part of a tokenizer that a template needs; those of Transformers have it."""

    @property
    def eos_token(self) -> str | None:
        """The text that ends a sequence."""
        ...

    @property
    def chat_template(self) -> Any:
        """The Jinja text of a conversation, or several by name."""
        ...


@dataclass(frozen=True)
class PromptTemplate:
    """Question -> prompt text, and worked answer -> completion text.

    The rendered text is complete: it is tokenised with `add_special_tokens=False`, or a
    tokenizer that begins every text with a token of its own would add it a second time. Such a
    token is `bos` under `paper` and `plain`; a chat template writes it itself.
    """

    section: PromptSection
    eos: str = ""
    tokenizer: TemplateTokenizer | None = None
    bos: str = ""

    @classmethod
    def from_section(
        cls, section: PromptSection, tokenizer: TemplateTokenizer | None = None
    ) -> PromptTemplate:
        """Return the template of `section` for a tokenizer.

        Raises ConfigurationError where the format needs what the tokenizer doesn't have.
        """
        if section.format == "chat" and getattr(tokenizer, "chat_template", None) is None:
            name = getattr(tokenizer, "name_or_path", "") or "the model"
            raise ConfigurationError(
                f"prompt.format is 'chat', and the tokenizer of {name} has no chat template",
                "use prompt.format=paper or plain, or a model whose tokenizer has one",
            )
        eos = getattr(tokenizer, "eos_token", None)
        if section.format == "paper" and section.system is not None and not eos:
            raise ConfigurationError(
                "prompt.format is 'paper', which ends the system prompt with the end-of-sequence "
                "token, and the tokenizer has none",
                "use prompt.format=plain, or a tokenizer with an end-of-sequence token",
            )
        bos = "" if section.format == "chat" else _first_token(tokenizer)
        return cls(section, eos or "", tokenizer, bos)

    def render(self, question: str) -> str:
        """Return the prompt; under `paper` it opens the reasoning tag (Appendix E.4)."""
        section, user = self.section, self.user_turn(question)
        if section.format == "plain":
            return self.bos + user
        if section.format == "paper":
            system = "" if section.system is None else section.system + self.eos
            return self.bos + system + user + section.reasoning_open
        return self._chat(chat_messages(section, user), add_generation_prompt=True)

    def _chat(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError

        tokenizer: Any = self.tokenizer  # from_section refuses `chat` without one
        try:
            return str(
                tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    **({"strftime_now": TODAY.strftime} if self._is_dated else {}),
                    **self.section.chat_template_kwargs,
                )
            )
        except TemplateError as error:
            raise ConfigurationError(
                f"the chat template of {tokenizer.name_or_path} refuses the prompt: {error}",
                "one that knows no system prompt takes --set prompt.system=off",
            ) from error

    @property
    def opens_turn(self) -> bool:
        """Whether a prompt ends inside the assistant's turn, if its format has turns."""
        if self.section.format != "chat":
            return True
        messages = chat_messages(self.section, QUESTION)
        without = self._chat(messages, add_generation_prompt=False)
        answered = [*messages, {"role": "assistant", "content": "{answer}"}]
        whole = self._chat(answered, add_generation_prompt=False)
        # a template that ignores the argument may open the turn every time
        begins = without.startswith(whole.partition("{answer}")[0].rstrip())
        return begins or self.render(QUESTION) != without

    def user_turn(self, question: str) -> str:
        """Return the user's message for `question`."""
        return self.section.user.replace(QUESTION, question)

    def complete(self, working: str | None, answer: str) -> str:
        """Return the demonstration after the prompt; the trainer adds end-of-sequence.

        Without a working it is the final answer alone, after the tag that `paper` has opened.
        """
        section = self.section
        opened = "" if section.format == "paper" else section.reasoning_open
        if working is None:
            return ("" if opened else section.reasoning_close) + self.final(answer)
        return opened + working + section.reasoning_close + self.final(answer)

    def final(self, answer: str) -> str:
        """Return the final answer as it stands in a completion: in its tags, or in a box."""
        section = self.section
        if section.answer == "boxed":
            return BOXED + answer + "}"
        return section.answer_open + answer + section.answer_close

    @property
    def stop(self) -> str | None:
        """The text that ends generation: the closing answer tag; None when the answer is boxed."""
        return self.section.answer_close if self.section.answer == "tags" else None

    @cached_property
    def opened(self) -> str | None:
        """The thought in which a completion begins: `<think>` where the prompt ends with it.

        Empty where the completion may open one itself; None where none is expected.
        """
        section = self.section
        in_chat = section.format == "chat"
        named = self._chat_text if in_chat else section.reasoning_open
        if not (OPEN in named or CLOSE in named):
            return None
        prompt = self.render(QUESTION).rstrip()
        if prompt.endswith(CLOSE):
            return None
        return OPEN if prompt.endswith(OPEN) else ""

    @property
    def _chat_text(self) -> str:
        """The Jinja text of the chat template; empty without one, as where a server has its own."""
        return str(getattr(self.tokenizer, "chat_template", None) or "")

    @property
    def _is_dated(self) -> bool:
        return "strftime_now" in self._chat_text

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that change with whatever changes the text."""
        prompt: Any
        section = self.section
        if section.format == "chat":
            # without a tokenizer it is a server's own
            prompt = [getattr(self.tokenizer, "chat_template", None), section.system]
            if self._is_dated:
                prompt.append(TODAY.isoformat())
            if section.user != QUESTION or section.chat_template_kwargs:
                prompt += [section.user, section.chat_template_kwargs]
        else:
            prompt = self.render(QUESTION)
        text = json.dumps([prompt, self.complete("{working}", "{answer}"), self.stop])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _first_token(tokenizer: Any) -> str:
    """Return the token with which a tokenizer begins every text; empty if it has none."""
    bos: str | None = getattr(tokenizer, "bos_token", None)
    begins = getattr(tokenizer, "begins_with_bos", None)
    if bos and begins is None:
        begins = tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
    return bos if bos and begins else ""


def chat_messages(section: PromptSection, user: str) -> list[dict[str, str]]:
    """Return the messages for a chat template: the system prompt, if any, and `user`."""
    messages = [{"role": "user", "content": user}]
    if section.system is not None:
        messages.insert(0, {"role": "system", "content": section.system})
    return messages
