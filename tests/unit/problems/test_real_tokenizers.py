"""First and last tokens of prompts and completions under eight published tokenizers.

`.ci/run` fetches their files; without them these tests are skipped by name.
"""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken

from sage_cli.grading import Grader
from sage_cli.models.tokenizer import keep_tags, load_tokenizer
from sage_cli.models.tokenizer_facts import tokenizer_facts
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.sampling.stopping import Ending, Stopping
from sage_cli.settings.prompt import PromptSection
from sage_cli.training.sft import IGNORED, Example, tokenized

FOLDER = Path(__file__).resolve().parents[3] / ".tokenizers"
BOS = {
    "qwen2_5": None,
    "qwen3": None,
    "llama2": "<s>",
    "llama3": None,  # its first release, which began no text with its token
    "llama3_1": "<|begin_of_text|>",
    "gemma3": "<bos>",
    "deepseek_v3": "<\uff5cbegin\u2581of\u2581sentence\uff5c>",  # by tokenizer_config.json alone
    "gptoss": None,
}
QUESTION = "Zo\u00eb has $12$ boxes. Find $x \\geq 0$."
FORMATS = ("paper", "plain", "chat")


@pytest.fixture(scope="module", params=BOS)
def name(request):
    if not (FOLDER / request.param / "tokenizer.json").is_file():
        pytest.skip(f"the tokenizer {request.param} isn't in {FOLDER}")
    return request.param


@pytest.fixture(scope="module")
def tokenizer(name):
    return load_tokenizer(FOLDER / name)


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def templates(tokenizer):
    """A template of each format that the tokenizer can serve."""
    formats = FORMATS if tokenizer.chat_template else FORMATS[:2]
    return [PromptTemplate.from_section(PromptSection(format=f), tokenizer) for f in formats]


def test_prompts_begin_with_the_tokens_that_the_tokenizer_begins_every_text_with(name, tokenizer):
    for template in templates(tokenizer):
        prompt = template.render(QUESTION)
        ids = ids_of(tokenizer, prompt)
        in_chat = template.section.format == "chat"
        expected = tokenizer.bos_token if BOS[name] or (in_chat and tokenizer.bos_token) else None
        assert ids.count(tokenizer.bos_token_id) == (expected is not None)
        assert QUESTION in tokenizer.decode(ids)
        if not in_chat:
            assert template.bos == (BOS[name] or "")
            bare = prompt.removeprefix(template.bos)
            assert ids == tokenizer(bare)["input_ids"]


def test_files_tell_the_hash_that_the_tokenizer_has(name, tokenizer):
    facts = tokenizer_facts(FOLDER / name)
    for template in templates(tokenizer):
        assert PromptTemplate.from_section(template.section, facts).hash == template.hash
        without = PromptTemplate(template.section, template.eos, tokenizer).hash
        assert (without != template.hash) == bool(template.bos)


def test_a_saved_tokenizer_begins_texts_as_before(name, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    for template in templates(tokenizer):
        of_saved = PromptTemplate.from_section(template.section, again)
        assert of_saved.render(QUESTION) == template.render(QUESTION)
        assert PromptTemplate.from_section(template.section, tokenizer_facts(tmp_path)).hash == (
            of_saved.hash
        )


def test_demonstrations_hold_both_ends_once_and_the_loss_the_last_one(tokenizer):
    for template in templates(tokenizer):
        prompt, completion = template.render(QUESTION), template.complete("1+1", "2")
        rows = tokenized([Example(prompt, completion)], tokenizer, 4096)
        (ids,), (labels,) = rows["input_ids"], rows["labels"]
        before = ids_of(tokenizer, prompt)
        assert ids[: len(before)] == before
        assert labels[: len(before)] == [IGNORED] * len(before)
        assert labels[len(before) :] == ids[len(before) :]
        assert ids[len(before) :].count(tokenizer.eos_token_id) == 1
        assert ids[-1] == tokenizer.eos_token_id
        assert tokenizer.bos_token_id is None or tokenizer.bos_token_id not in ids[1:]


CONVERSATION = [
    {"role": "system", "content": "Place it between <SOLUTION> and </SOLUTION>."},
    {"role": "user", "content": QUESTION},
]
DATED = "{{ bos_token }}{{ strftime_now('%d %b %Y') }}: {{ messages[-1]['content'] }}"


def test_files_render_a_chat_as_the_tokenizer_does(name, tokenizer):
    facts = tokenizer_facts(FOLDER / name)
    for template in filter(None, (tokenizer.chat_template, DATED)):
        now = {"strftime_now": date(2024, 7, 26).strftime}
        given = {"tokenize": False, "add_generation_prompt": True, **now}
        expected = tokenizer.apply_chat_template(CONVERSATION, chat_template=template, **given)
        rendered = replace(facts, chat_template=template).apply_chat_template(CONVERSATION, **given)
        assert rendered == expected


def test_a_date_is_pinned_for_the_tokenizer_too(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", DATED)
    template = PromptTemplate.from_section(PromptSection(format="chat"), tokenizer)
    assert template.render("q").endswith("26 Jul 2024: q")


def test_a_completion_ends_at_each_end_and_at_the_tag_that_several_tokens_spell(tokenizer):
    ends = sorted({tokenizer.eos_token_id, len(tokenizer) - 1})
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 100, "</SOLUTION>", "")
    stopping = Stopping(tokenizer, ends, len(tokenizer), parameters)
    before = ids_of(tokenizer, "It is 4")
    for end in ends:
        assert stopping.may_end(np.array([end]), 5).all()
        (ending,) = stopping.endings([[*before, end]])
        assert ending.reason == "stop"
    # tags are ordinary pieces, and stay in the text
    said = "<think>In <SOLUTION> and </SOLUTION></think><SOLUTION>4</SOLUTION>"
    ids = ids_of(tokenizer, f"{said}\nand on")
    (ending,) = stopping.endings([ids])
    assert ending == Ending(tokenizer.decode(ids_of(tokenizer, said)), "stop")
    kept, cut = stopping.cut(ids, "length")
    assert cut == ending
    assert stopping.may_end(np.array(kept[-1:]), 5).all()
    assert stopping.endings([kept[:-1]]) == [None]


def test_tags_that_are_special_tokens_stay_in_the_text(name):
    tokenizer, section = load_tokenizer(FOLDER / name), PromptSection()
    tokenizer.add_tokens([AddedToken(tag, special=True) for tag in section.tags])
    text = PromptTemplate.from_section(section, tokenizer).complete("1+1", "2")
    ids = [*ids_of(tokenizer, text), tokenizer.eos_token_id]
    assert "SOLUTION" not in tokenizer.decode(ids, skip_special_tokens=True)
    keep_tags(tokenizer, section)
    assert ids_of(tokenizer, text) == ids[:-1]
    (decoded,) = tokenizer.batch_decode([ids], skip_special_tokens=True)
    assert decoded.replace(" ", "") == text  # SentencePiece puts spaces after such tokens
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 100, section.answer_close)
    stopping = Stopping(tokenizer, [tokenizer.eos_token_id], len(tokenizer), parameters)
    assert stopping.may_end(np.array(ids[-2:-1]), 5).all()
    assert stopping.endings([ids[:-1]]) == [Ending(decoded, "stop")]
    assert Grader().grade("2", decoded).status == "right"
