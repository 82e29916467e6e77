"""The text around questions and answers, character by character."""

import pytest

from sage_cli.config.model import PAPER_SYSTEM_PROMPT, PromptSection
from sage_cli.errors import ConfigurationError
from sage_cli.problems.template import PromptTemplate


class Tokenizer:
    """A chat tokenizer small enough to read."""

    eos_token = "<eos>"
    chat_template = "[role] content"

    def apply_chat_template(self, conversation, *, tokenize, add_generation_prompt):
        assert not tokenize
        text = "".join(f"[{turn['role']}]{turn['content']}" for turn in conversation)
        return text + "[assistant]" * add_generation_prompt


def test_paper_prompt_is_system_eos_question_opening_tag():
    template = PromptTemplate.from_section(PromptSection(), eos="<eos>")
    assert template.render("1+1=?") == PAPER_SYSTEM_PROMPT + "<eos>1+1=?<start_working_out>"
    assert template.complete("w", "2") == "w<end_working_out><SOLUTION>2</SOLUTION>"
    assert template.stop == "</SOLUTION>"


def test_paper_without_system_prompt_needs_no_eos():
    template = PromptTemplate.from_section(PromptSection(system=None))
    assert template.render("1+1=?") == "1+1=?<start_working_out>"


def test_plain_prompt_is_the_question_and_the_completion_opens_the_tag():
    template = PromptTemplate.from_section(PromptSection(format="plain"))
    assert template.render("1+1=?") == "1+1=?"
    expected = "<start_working_out>w<end_working_out><SOLUTION>2</SOLUTION>"
    assert template.complete("w", "2") == expected


def test_chat_prompt_is_the_tokenizers_own():
    template = PromptTemplate.from_section(PromptSection(format="chat", system="S"), Tokenizer())
    assert template.render("1+1=?") == "[system]S[user]1+1=?[assistant]"
    bare = PromptTemplate.from_section(PromptSection(format="chat", system=None), Tokenizer())
    assert bare.render("1+1=?") == "[user]1+1=?[assistant]"


def test_boxed_answers_have_no_closing_tag_to_stop_at():
    template = PromptTemplate.from_section(PromptSection(format="plain", answer="boxed"))
    assert template.complete("w", "2") == r"<start_working_out>w<end_working_out>\boxed{2}"
    assert template.stop is None


def test_eos_is_the_tokenizers_unless_given():
    section = PromptSection(system="S")
    assert PromptTemplate.from_section(section, Tokenizer()).render("q").startswith("S<eos>q")
    assert PromptTemplate.from_section(section, Tokenizer(), eos="|").render("q").startswith("S|q")


@pytest.mark.parametrize("section", [PromptSection(), PromptSection(format="chat")])
def test_a_format_that_the_tokenizer_cannot_serve_is_refused(section):
    with pytest.raises(ConfigurationError, match=section.format):
        PromptTemplate.from_section(section)


def test_hash_changes_with_the_text_and_only_with_it():
    def hash_of(eos="<eos>", **changes):
        return PromptTemplate.from_section(PromptSection(**changes), eos=eos).hash

    # Pinned: a checkpoint made today is recognised tomorrow.
    assert hash_of() == hash_of(format="paper") == "279acf6257a8"
    others = [
        hash_of(system="other"), hash_of(format="plain"), hash_of(reasoning_open="<think>"),
        hash_of(reasoning_close="</think>"), hash_of(answer_open="<A>"),
        hash_of(answer_close="</A>"), hash_of(answer="boxed"), hash_of(eos="|"),
    ]  # fmt: skip
    assert len({hash_of(), *others}) == 9
    plain = {hash_of(format="plain"), hash_of(format="plain", system="unused", eos="unused")}
    assert len(plain) == 1


def test_chat_hash_follows_the_chat_template():
    section = PromptSection(format="chat")
    other = Tokenizer()
    other.chat_template = "changed"
    first = PromptTemplate.from_section(section, Tokenizer())
    assert first.hash != PromptTemplate.from_section(section, other).hash
