"""The text around questions and answers, character by character."""

import pytest
from jinja2 import TemplateError

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import grader_of
from sage_cli.models.tokenizer_facts import TokenizerFacts
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.prompt import PAPER_SYSTEM_PROMPT, PromptSection


class Tokenizer:
    """A chat tokenizer small enough to read."""

    eos_token = "<eos>"
    chat_template = "[role] content"
    name_or_path = "somebody/chat"

    def apply_chat_template(
        self, conversation, *, tokenize, add_generation_prompt, enable_thinking=True
    ):
        assert not tokenize
        if conversation[0] == {"role": "system", "content": "unknown"}:
            raise TemplateError("System role not supported")
        text = "".join(f"[{turn['role']}]{turn['content']}" for turn in conversation)
        thought = "" if enable_thinking else "<think></think>"
        return text + "[assistant]" * add_generation_prompt + thought


USER = "Problem: {question}\nAnswer."


@pytest.mark.parametrize(
    ("section", "rendered"),
    [
        ({}, PAPER_SYSTEM_PROMPT + "<eos>1+1=?<start_working_out>"),
        ({"system": None}, "1+1=?<start_working_out>"),
        ({"format": "plain"}, "1+1=?"),
        ({"format": "chat", "system": "S"}, "[system]S[user]1+1=?[assistant]"),
        ({"format": "chat", "system": None}, "[user]1+1=?[assistant]"),
        # the user's turn stands around the question in every format
        ({"system": "S", "user": USER}, "S<eos>Problem: 1+1=?\nAnswer.<start_working_out>"),
        ({"format": "plain", "user": USER}, "Problem: 1+1=?\nAnswer."),
        (
            {"format": "chat", "system": None, "user": USER},
            "[user]Problem: 1+1=?\nAnswer.[assistant]",
        ),
    ],
)
def test_a_prompt_is(section, rendered):
    template = PromptTemplate.from_section(PromptSection(**section), Tokenizer())
    assert template.render("1+1=?") == rendered
    assert template.render("{1}") == rendered.replace("1+1=?", "{1}")


@pytest.mark.parametrize(
    ("section", "working", "completion"),
    [
        # the prompt of `paper` has opened the reasoning
        ({}, "w", "w<end_working_out><SOLUTION>2</SOLUTION>"),
        ({"format": "plain"}, "w", "<start_working_out>w<end_working_out><SOLUTION>2</SOLUTION>"),
        (
            {"format": "plain", "answer": "boxed"},
            "w",
            r"<start_working_out>w<end_working_out>\boxed{2}",
        ),
        # without a working the answer stands alone
        ({}, None, "<end_working_out><SOLUTION>2</SOLUTION>"),
        ({"format": "plain"}, None, "<SOLUTION>2</SOLUTION>"),
        ({"format": "plain"}, "", "<start_working_out><end_working_out><SOLUTION>2</SOLUTION>"),
    ],
)
def test_a_completion_is(section, working, completion):
    template = PromptTemplate(PromptSection(**section))
    assert template.complete(working, "2") == completion
    assert template.stop == (None if "answer" in section else "</SOLUTION>")


@pytest.mark.parametrize("section", [PromptSection(), PromptSection(format="chat")])
def test_a_format_that_the_tokenizer_cannot_serve_is_refused(section):
    with pytest.raises(ConfigurationError, match=section.format):
        PromptTemplate.from_section(section)


def test_hash_changes_with_the_text_and_only_with_it():
    def hash_of(eos="<eos>", **changes):
        return PromptTemplate(PromptSection(**changes), eos).hash

    # Pinned: a checkpoint made today is recognised tomorrow.
    assert hash_of() == hash_of(format="paper") == "279acf6257a8"
    others = [
        hash_of(system="other"),
        hash_of(format="plain"),
        hash_of(reasoning_open="<think>"),
        hash_of(reasoning_close="</think>"),
        hash_of(answer_open="<A>"),
        hash_of(answer_close="</A>"),
        hash_of(answer="boxed"),
        hash_of(eos="|"),
    ]
    assert len({hash_of(), *others}) == 9
    plain = {hash_of(format="plain"), hash_of(format="plain", system="unused", eos="unused")}
    assert len(plain) == 1


def test_what_a_chat_template_is_and_is_given_is_part_of_the_hash():
    section = PromptSection(format="chat")
    other = Tokenizer()
    other.chat_template = "changed"
    first = PromptTemplate.from_section(section, Tokenizer())
    assert first.hash != PromptTemplate.from_section(section, other).hash

    def made(**changes):
        return PromptTemplate.from_section(PromptSection(format="chat", **changes), Tokenizer())

    silent = made(system=None, chat_template_kwargs={"enable_thinking": False})
    assert silent.render("1+1=?") == "[user]1+1=?[assistant]<think></think>"
    # Pinned: hashes of prompts without such arguments are as before there were any.
    assert made().hash == "a69b9d3ee895"
    assert (
        len(
            {
                made().hash,
                made(system=None).hash,
                silent.hash,
                made(user="Q: {question}").hash,
                made(chat_template_kwargs={"enable_thinking": True}).hash,
            }
        )
        == 5
    )


@pytest.mark.parametrize("off", ["off", "null", "false"])
def test_a_system_prompt_that_is_off(off):
    section = load(sets=["prompt.format=chat", f"prompt.system={off}"]).config.prompt
    assert section.system is None
    assert PromptTemplate.from_section(section, Tokenizer()).render("q") == "[user]q[assistant]"


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"user": "What?"}, r"must contain \{question\}"),
        ({"format": "plain", "chat_template_kwargs": {"a": 1}}, "format 'plain' reads none"),
        ({"format": "chat", "chat_template_kwargs": {"tokenize": True}}, "cannot contain tokenize"),
    ],
)
def test_what_no_prompt_has_is_refused(section, complaint):
    with pytest.raises(ValueError, match=complaint):
        PromptSection(**section)


def test_chat_templates_that_are_absent_refuse_or_are_a_servers():
    bare = Tokenizer()
    bare.chat_template = None
    with pytest.raises(ConfigurationError, match="somebody/chat has no chat template"):
        PromptTemplate.from_section(PromptSection(format="chat"), bare)
    section = PromptSection(format="chat", system="unknown")
    with pytest.raises(ConfigurationError, match=r"somebody/chat refuses .*not supported") as no:
        PromptTemplate.from_section(section, Tokenizer()).render("q")
    assert "prompt.system=off" in no.value.next_step
    assert PromptTemplate(PromptSection(format="chat")).opened is None


# what the generation prompts of published thinking models end with
R1 = "{{ messages[-1].content }}<A>{% if add_generation_prompt %}<think>\n{% endif %}"
QWEN3 = (
    "{{ messages[-1].content }}<A>{% if add_generation_prompt and enable_thinking is defined and "
    "not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)
DEEPSEEK_3_1 = "{{ messages[-1].content }}<A>{{ '<think>' if thinking else '</think>' }}"
FIRST_R1 = "{{ messages[-1].content.split('</think>')[-1] }}<A>"
"""It opened no thought itself."""


@pytest.mark.parametrize(
    ("template", "given", "opened"),
    [
        (R1, {}, "<think>"),
        (FIRST_R1, {}, ""),
        (QWEN3, {}, ""),
        (QWEN3, {"enable_thinking": True}, ""),
        (QWEN3, {"enable_thinking": False}, None),
        (DEEPSEEK_3_1, {"thinking": True}, "<think>"),
        (DEEPSEEK_3_1, {}, None),
        ("{{ messages[-1].content }}<A>", {}, None),
        ({"default": R1, "tool_use": ""}, {}, "<think>"),
        ("{% generation %}{{ messages[-1].content }}{% endgeneration %}<think>", {}, "<think>"),
    ],
)
def test_the_thought_that_a_chat_prompt_opens_is_known_from_its_files(template, given, opened):
    facts = TokenizerFacts("<eos>", template)
    section = PromptSection(format="chat", chat_template_kwargs=given)
    assert PromptTemplate.from_section(section, facts).opened == opened


@pytest.mark.parametrize(
    ("format_", "tag", "opened"),
    [
        ("paper", "<think>", "<think>"),
        ("plain", "<think>", ""),
        ("paper", "<start_working_out>", None),
        ("plain", "<start_working_out>", None),
    ],
)
def test_a_reasoning_tag_may_be_that_of_a_thought(format_, tag, opened):
    section = PromptSection(format=format_, reasoning_open=tag)
    assert PromptTemplate.from_section(section, Tokenizer()).opened == opened


def test_the_preset_of_r1_ends_no_thought_at_the_tag_that_its_system_prompt_names():
    config = load(["r1-distill-qwen-7b"]).config
    template = PromptTemplate.from_section(config.prompt, TokenizerFacts("<eos>", R1))
    parameters = SamplingParameters.from_section(config.sampling, template)
    assert (parameters.opened, parameters.stop) == ("<think>", "</SOLUTION>")
    assert parameters.engine_stop is None
    assert not config.rollout.stop_at_answer
    with grader_of("math", None, config.grading, config.prompt) as grader:
        thought = f"{template.opened}I place it in <SOLUTION>7</SOLUTION>."
        assert grader.grade("7", thought).status == "wrong"
        for answer, status in (
            (r"\boxed{8}", "right"),
            ("<SOLUTION>8</SOLUTION>", "right"),
            (r"\boxed{7}", "wrong"),
        ):
            assert grader.grade("8", f"{thought}</think>{answer}").status == status


TURNS = "{% for turn in messages %}[{{ turn.role }}]{{ turn.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "opens"),
    [
        (TURNS, False),
        (TURNS + "{% if add_generation_prompt %}[assistant]{% endif %}", True),
        (TURNS + "[assistant]", True),  # every time, as Llama 3's first one
        (TURNS + "{% if add_generation_prompt %}[assistant]<think>{% endif %}", True),
    ],
)
def test_a_chat_template_that_opens_no_turn_for_the_answer_is_noticed(template, opens):
    facts = TokenizerFacts("<eos>", template)
    assert PromptTemplate(PromptSection(format="chat"), "", facts).opens_turn is opens
    assert PromptTemplate(PromptSection(format="plain"), "", facts).opens_turn


DATED = "Today is {{ strftime_now('%d %b %Y') }}. {{ messages[-1].content }}"


def test_a_chat_template_that_asks_for_todays_date_gets_the_same_one_on_every_day():
    facts = TokenizerFacts("<eos>", DATED)
    template = PromptTemplate.from_section(PromptSection(format="chat"), facts)
    assert template.render("1+1=?") == "Today is 26 Jul 2024. 1+1=?"
    undated = TokenizerFacts("<eos>", DATED.replace("strftime_now", "another"))
    assert len({template.hash, PromptTemplate(template.section, "", undated).hash}) == 2
