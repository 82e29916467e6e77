"""What tells one sample set from another."""

import json

import pytest

from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy

CHAT = ("prompt.format=chat", "sampling.servers=[http://a]")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"dtype": "bfloat16"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "generation_config.json").write_text('{"eos_token_id": 1, "top_k": 5}')
    tokenizer(folder)
    return folder


def tokenizer(folder, **changes):
    settings = {"eos_token": "<|end|>", "chat_template": "{{ messages }}", **changes}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


ALLOWED = ("model.allow_lost_updates=true",)  # nothing is trained here


def samples(folder, *sets):
    loaded = load(["tiny"], sets=["model.dtype=float32", *ALLOWED, *sets])
    recipe = EvaluationSpec.of(loaded.config)
    return PolicySamples.of_evaluation(Policy(str(folder)), recipe, folder.parent)


def key(folder, *sets):
    return samples(folder, *sets).at(0).identity.key


@pytest.mark.parametrize(
    "setting",
    [
        "sampling.top_k=3", "sampling.stop_at_answer=false", "model.dtype=bfloat16",
        "prompt.user='Q: {question}'", "sampling.max_tokens=9",
    ],
)  # fmt: skip
def test_what_decides_the_distribution_names_another_set(folder, setting):
    assert key(folder, setting) != key(folder)


@pytest.mark.parametrize(
    "setting",
    [
        "sampling.servers=[http://a]", "sampling.server_attempts=3", "sampling.timeout_s=9",
        "sampling.server_patience_s=9", "sampling.server_model=x",  # nobody is asked
    ],
)  # fmt: skip
def test_how_samples_are_computed_does_not(folder, setting):
    assert key(folder, setting) == key(folder)


def test_ends_of_sequence_are_part_of_it_and_other_generation_settings_are_not(folder):
    before = key(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 1, "top_k": 50}')
    assert key(folder) == before
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    more = key(folder)
    tokenizer(folder, eos_token="<|im_end|>")
    assert len({before, more, key(folder)}) == 3


def test_a_model_served_under_a_name_of_its_own_has_sets_of_its_own(folder):
    asked = "sampling.servers=[http://a]"
    named = samples(folder, asked, "sampling.server_model=theirs").at(0).identity
    assert named.sampling["server_model"] == "theirs"
    other = key(folder, asked, "sampling.server_model=another")
    assert len({named.key, other, key(folder, asked)}) == 3


def test_a_servers_own_template_is_another_prompt(folder):
    here = samples(folder, *CHAT)
    there = samples(folder, *CHAT, "sampling.server_form=chat")
    assert here.template.hash != there.template.hash
    assert there.at(0).identity.sampling["server_form"] == "chat"
    assert there.in_chat
    assert not here.in_chat
    # the model's own tokenizer isn't read for it
    tokenizer(folder, chat_template=None, eos_token="another")
    assert samples(folder, *CHAT, "sampling.server_form=chat").at(0).identity == (
        there.at(0).identity
    )
    with pytest.raises(ConfigurationError, match=r"sends messages, and prompt\.format is 'plain'"):
        samples(folder, "sampling.server_form=chat")


def test_a_folder_without_a_chat_template_is_named(folder):
    tokenizer(folder, chat_template=None)
    with pytest.raises(ConfigurationError, match=f"{folder} has no chat template"):
        samples(folder, "prompt.format=chat")
