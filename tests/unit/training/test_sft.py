"""Supervised warm-up: rows and labels by hand, then TRL's trainer on a policy of a few weights."""

import pytest
import torch

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.settings.sft import SftSection
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.training.sft import Example, tokenized, train_sft, trainer_arguments

EXAMPLES = [Example(f"{a}+{b}=", str(a + b)) for a in range(10) for b in range(10)]


class Letters:
    """A tokenizer whose ids are character codes; end of sequence is 0."""

    eos_token_id = 0

    def __call__(self, texts, **_):
        return {"input_ids": [[ord(letter) for letter in text] for text in texts]}


@pytest.fixture
def section():
    return SftSection(
        steps=8, batch_size=4, shuffle=True, learning_rate=1e-2, optimizer="adamw",
        gradient_checkpointing=False, warmup_steps=1, save_every=3, seed=5,
    )  # fmt: skip


def train(section, base, folder, stop_at=None):
    """Train in `folder`, interrupted after step `stop_at` as Ctrl-C would."""
    heard = []

    def on_step(record):
        heard.append(record["step"])
        if record["step"] == stop_at:
            raise KeyboardInterrupt

    train_sft(section, load_model(base), load_tokenizer(base), EXAMPLES, Run(folder), on_step)
    return heard


def test_labels_leave_the_prompt_out_unless_the_text_counts():
    rows = tokenized([Example("AB", "CD"), Example("A", "B", "text")], Letters(), 10)
    assert rows["input_ids"] == [[65, 66, 67, 68, 0], [65, 66, 0]]
    assert rows["labels"] == [[-100, -100, 67, 68, 0], [65, 66, 0]]


def test_a_demonstration_beyond_the_context_is_refused(section, base, tmp_path):
    model, tokenizer, run = load_model(base), load_tokenizer(base), Run(tmp_path)
    whole = [Example("1" * 60, "2" * 3)]  # 64 tokens with end of sequence, as many as positions
    train_sft(section.model_copy(update={"steps": 1}), model, tokenizer, whole, run, lambda _: None)
    with pytest.raises(ConfigurationError, match="65 tokens, and the model's context has 64"):
        train_sft(section, model, tokenizer, [Example("1" * 61, "222")], run, lambda _: None)


def test_rows_that_are_too_long_are_dropped_not_cut():
    examples = [Example("AB", "CD"), Example("A", "BCDE"), Example("AB", "C")]
    # with end of sequence 5, 6 and 4 tokens
    assert [len(ids) for ids in tokenized(examples, Letters(), 5)["input_ids"]] == [5, 4]
    with pytest.raises(
        DataError, match=r"none of the 3 demonstrations fits .*=3 tokens"
    ) as refusal:
        tokenized(examples, Letters(), 3)
    assert "the shortest has 4, the longest 6" in refusal.value.cause
    assert "--set sft.max_length=6" in refusal.value.next_step


def test_real_tokenizers_add_nothing_of_their_own(tokenizer):
    rows = tokenized([Example("7*8=", "<SOLUTION>56</SOLUTION>")], tokenizer, 64)
    text = tokenizer.decode(rows["input_ids"][0])
    assert text == "7*8=<SOLUTION>56</SOLUTION>" + tokenizer.eos_token
    assert rows["labels"][0][:4] == [-100] * 4
    assert rows["labels"][0][4:] == rows["input_ids"][0][4:]


def test_arguments_say_what_the_section_says(section, tmp_path):
    split = section.model_copy(update={"micro_batch": 2, "shuffle": False})
    arguments = trainer_arguments(split, tmp_path)
    assert arguments.per_device_train_batch_size == 2
    assert arguments.gradient_accumulation_steps == 2  # 4 = 2 x 2
    assert arguments.train_sampling_strategy == "sequential"
    assert (arguments.max_steps, arguments.warmup_steps) == (8, 1)
    by_ratio = section.model_copy(update={"steps": None, "warmup_steps": None, "warmup_ratio": 0.1})
    arguments = trainer_arguments(by_ratio, tmp_path)
    assert (arguments.max_steps, arguments.num_train_epochs) == (-1, 2)
    assert arguments.warmup_steps == 0.1
    assert (arguments.packing, arguments.max_length, arguments.report_to) == (False, None, [])


def test_a_training_learns_and_records_every_step(section, base, tmp_path):
    longer = section.model_copy(update={"steps": 30, "save_every": 100})
    assert train(longer, base, tmp_path) == list(range(1, 31))
    records = MetricsFile(tmp_path / "metrics.jsonl").read()
    assert [record["step"] for record in records] == list(range(1, 31))
    assert {record["of"] for record in records} == {30}
    first, last = (sum(r["loss"] for r in part) for part in (records[:5], records[-5:]))
    assert last < 0.7 * first
    assert records[0]["learning_rate"] == 0  # the first step of a warm-up of one
    assert load_tokenizer(tmp_path / "model").eos_token == load_tokenizer(base).eos_token


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(section, base, tmp_path):
    train(section, base, tmp_path / "straight")
    # checkpoints after steps 3 and 6: an interruption at 2 begins anew, one at 5 goes back to 3
    for stop_at in (2, 5):
        with pytest.raises(KeyboardInterrupt):
            train(section, base, tmp_path / "resumed", stop_at=stop_at)
    assert train(section, base, tmp_path / "resumed") == list(range(4, 9))
    (tmp_path / "resumed" / "model" / "model.safetensors").unlink()
    assert train(section, base, tmp_path / "resumed") == []  # its model alone was lacking
    straight, resumed = (
        MetricsFile(tmp_path / name / "metrics.jsonl").read() for name in ("straight", "resumed")
    )
    assert resumed == straight
    one, other = (
        load_model(tmp_path / name / "model").state_dict() for name in ("straight", "resumed")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_order_of_rows_is_kept_where_shuffling_is_off(section, base, tmp_path):
    """The phases of generated demonstrations are a curriculum: their order is the data's."""
    model, tokenizer, seen = load_model(base), load_tokenizer(base), []

    def watch(_module, _arguments, named):
        seen.extend(tokenizer.batch_decode(named["input_ids"][:, :4]))

    model.register_forward_pre_hook(watch, with_kwargs=True)
    ordered = section.model_copy(update={"shuffle": False, "steps": 3})
    train_sft(ordered, model, tokenizer, EXAMPLES, Run(tmp_path), lambda _: None)
    assert seen == [example.prompt for example in EXAMPLES[:12]]
