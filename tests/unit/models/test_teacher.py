"""A teacher by its name: which model it is, whether its tokens are the policy's, its memory."""

import json
import shutil

import pytest
from huggingface_hub import constants
from random_model import random_model

from sage_cli.config.consent import typed_again
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.memory import training_state
from sage_cli.models.memory_estimates import how_trained, teacher_bytes
from sage_cli.models.planned import planned_base, rl_run
from sage_cli.models.policy import Policy
from sage_cli.models.reference import check_teacher, reference_policy, shared_vocabulary, teacher_of
from sage_cli.models.shape import shape_of
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.store.run import Runs

TAGS = ["<SOLUTION>", "</SOLUTION>"]


def saved(folder, *, tags=TAGS, beyond=0, seed=0):
    """A random model with its tokenizer, and so many entries more than tokens."""
    tokenizer = character_tokenizer(tags)
    sizes = {"hidden_size": 16, "intermediate_size": 32}
    model = random_model(tokenizer, seed=seed, vocab_size=len(tokenizer) + beyond, **sizes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("teacher"), seed=1)


def config(reference, *sets, stored=None):
    sets = [f"anchor.reference={reference}", "rl.rewards=[]", *sets] if reference else sets
    return load(sets=sets, stored=stored).config


def planned(settings, root):
    runs = Runs(root)
    return rl_run(settings, planned_base(settings, runs), runs, 1).id


def test_a_run_has_the_teachers_content_in_its_hash_and_not_its_place(teacher, tmp_path):
    here = planned(config(teacher), tmp_path)
    assert here.startswith("rl-grpo-distilled-")
    shutil.copytree(teacher, tmp_path / "moved")
    assert planned(config(tmp_path / "moved"), tmp_path) == here
    saved(tmp_path / "moved", seed=2)
    assert planned(config(tmp_path / "moved"), tmp_path) != here
    guided = planned(config(teacher, "guide.name=branch"), tmp_path)
    assert guided.startswith("rl-grpo-branch-")


def test_it_is_the_reference(teacher):
    settings = config(teacher)
    assert reference_policy(Policy("anything"), settings).path == str(teacher)
    assert teacher_of(config(None)) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inital", "'inital', which is neither initial nor pre-sft nor a model"),
        ("", "at least 1"),
    ],
)
def test_what_names_no_model_is_refused(tmp_path, name, said):
    with pytest.raises(ConfigurationError, match=said):
        teacher_of(load(sets=[f"run.root={tmp_path}", f"anchor.reference='{name}'"]).config)


def test_incomplete_weights_are_refused(teacher, tmp_path):
    folder = shutil.copytree(teacher, tmp_path / "torn")
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match="safetensors"):
        teacher_of(config(folder))


def test_the_same_tokens_fit_whatever_the_output_is_padded_to(teacher, tmp_path):
    policy = Policy(str(saved(tmp_path / "policy")))
    tokens = len(character_tokenizer(TAGS))
    assert shared_vocabulary(policy, Policy(str(teacher))) is None
    for ours, theirs in ((0, 5), (5, 0), (5, 5), (3, 7)):
        policy = Policy(str(saved(tmp_path / f"policy{ours}", beyond=ours)))
        other = Policy(str(saved(tmp_path / f"teacher{theirs}", beyond=theirs)))
        check_teacher(other, policy)
        assert shared_vocabulary(policy, other) == tokens


def test_another_added_token_or_another_id_is_another_vocabulary(teacher, tmp_path):
    policy = Policy(str(teacher))
    added = Policy(str(saved(tmp_path / "added", tags=[*TAGS, "<extra>"])))
    with pytest.raises(ConfigurationError, match=r"1 tokens differ .*'<extra>'"):
        check_teacher(added, policy)
    # as many tokens, two of which have each other's ids
    swapped = Policy(str(saved(tmp_path / "swapped", tags=TAGS[::-1])))
    with pytest.raises(ConfigurationError, match="2 tokens differ"):
        check_teacher(swapped, policy)


def test_fewer_entries_than_tokens_are_refused(teacher, tmp_path):
    small = saved(tmp_path / "small")
    described = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**described, "vocab_size": 90}))
    with pytest.raises(ConfigurationError, match="has 90 entries in its output"):
        check_teacher(Policy(str(small)), Policy(str(teacher)))


def test_its_weights_are_planned_beside_those_of_the_policy(teacher):
    settings = config(teacher)
    # 16 hidden, 32 feed-forward, 2 layers of 4 heads and 4 key-value heads, 101 entries and an
    # embedding of its own: a layer has 4 x 16 x 16 in attention, 3 biases of 16 (none of the
    # output), 3 x 16 x 32 in the MLP and 2 norms of 16
    layer = 4 * 16 * 16 + 3 * 16 + 3 * 16 * 32 + 2 * 16
    tokens = len(character_tokenizer(TAGS))
    weights = 2 * layer + 16 + 2 * tokens * 16
    assert teacher_bytes(settings, on_gpu=True) == 2 * weights
    assert teacher_bytes(settings, on_gpu=False) == 4 * weights
    shape = shape_of(settings.model)
    state = training_state(shape, how_trained(settings, shape, on_gpu=False))
    assert state["reference"] == 4 * weights
    assert teacher_bytes(config(None)) == 0


@pytest.fixture
def hub(teacher, tmp_path, monkeypatch):
    """A cache of the Hub with one model; every question to the Hub itself fails the test."""
    place = tmp_path / "hub/models--org--teacher"
    (place / "refs").mkdir(parents=True)
    (place / "refs/main").write_text("1" * 40)
    shutil.copytree(teacher, place / "snapshots" / ("1" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return place


def test_a_stored_configuration_has_no_teacher_fetched(hub):
    stored = config("org/absent").model_dump(mode="json")
    again = load(stored=stored).config
    with pytest.raises(ConfigurationError, match="a stored configuration can't have it fetched"):
        teacher_of(again)
    # typed, the Hub may be asked, which is off here
    typed = load(stored=stored, sets=["anchor.reference=org/absent"]).config
    with pytest.raises(DataError, match="could not be read from the Hub"):
        _ = teacher_of(typed).files
    # one that is here is taken
    here = load(stored=config("org/teacher").model_dump(mode="json")).config
    assert teacher_of(here).path == "org/teacher"
    shutil.rmtree(hub / "snapshots")
    with pytest.raises(ConfigurationError, match="isn't on this machine"):
        teacher_of(here)


def test_so_has_an_adapter_whose_base_is_elsewhere(hub, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "org/absent"}')
    stored = config(adapter).model_dump(mode="json")
    with pytest.raises(ConfigurationError, match="the teacher org/absent, which isn't on this"):
        teacher_of(load(stored=stored).config)


def test_commands_that_are_started_are_told_the_teacher_again(hub):
    settings = config("org/teacher")
    assert typed_again(settings)[:2] == ("--set", 'anchor.reference="org/teacher"')
    again = load(stored=settings.model_dump(mode="json"), sets=["anchor.reference=org/teacher"])
    assert teacher_of(again.config).path == "org/teacher"
    assert typed_again(load().config) == ()
