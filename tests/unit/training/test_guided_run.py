"""`sage rl --algo guided-dpo` as a whole: real training of a toy policy, scripted completions."""

import json

import pytest
from toy_policy import base, tokenizer, weights

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.models.stages import plan_of
from sage_cli.progress import Silent
from sage_cli.store.completion import Completion
from sage_cli.training import base_trainer
from sage_cli.training.run import RlTraining

__all__ = ["base", "tokenizer"]
pytestmark = pytest.mark.slow


class KilledError(KeyboardInterrupt):
    """As Ctrl-C, which no code of ours takes for a fault of a plug-in."""


class Scripted:
    """Right without a hint where the first factor is even, with one in every other sample.

    Cut off where the first factor is 9. Dies after `most` completions, of all samplers together.
    """

    provenance = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self):
        self.prompts, self.drawn, self.most = [], 0, 1 << 30

    def sample(self, requests):
        for request in requests:
            self.prompts.append(request.prompt)
            question, hint = request.prompt.split("=?")
            a, b = map(int, question.split("*"))
            for index in request.indices:
                self.drawn += 1
                if self.drawn > self.most:
                    raise KilledError
                right = index % 2 == 0 if hint else a % 2 == 0
                answer = a * b if right else 100 + index
                yield Completion(
                    request.problem_id,
                    index,
                    request.seed,
                    f"<SOLUTION>{answer}</SOLUTION>",
                    4,
                    "length" if a == 9 else "stop",
                )

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def sampler(monkeypatch):
    made = Scripted()
    monkeypatch.setattr(drawing, "build_sampler", lambda _: made)
    return made


class Dying(Silent):
    """Shows a training, and dies at one of its steps."""

    def __init__(self, step):
        self.left = step

    def advance(self, _amount=1, **numbers):
        self.left -= "margin" in numbers
        if self.left == 0:
            raise KilledError


SIZES = ("model.hidden=16", "model.layers=2", "model.heads=2", "model.feed_forward=32")
"""Of an initial policy that is trained here."""


def config(folder, *sets, tuning="full"):
    return load(
        flags={"rl": {"algo": "guided-dpo"}},
        sets=[
            "tracking.wandb=off",
            f"run.root={folder}/runs",
            f"model.tuning={tuning}",
            "data.arithmetic.low=2",
            "data.arithmetic.high=9",
            "data.arithmetic.held_out=4",
            "data.arithmetic.validation=4",
            "rl.steps=5",
            "rl.prompts_per_step=6",
            "rl.rollouts_per_prompt=4",
            "rl.save_every=2",
            "grading.workers=1",
            *sets,
        ],
    ).config


def ends(run):
    return weights(run.model), run.metrics.read()


def train(settings, base=None, progress=None):
    init = str(base) if base else None
    return RlTraining.of(settings, init=init).execute(progress or Silent())


@pytest.fixture(scope="module")
def whole(base, tmp_path_factory):
    """Undisturbed trainings: (weights, records) by tuning, and what the sampler was asked."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for tuning in ("full", "lora"):
            sampler, folder = Scripted(), tmp_path_factory.mktemp(tuning)
            patch.setattr(drawing, "build_sampler", lambda _, sampler=sampler: sampler)
            run = train(config(folder, tuning=tuning), base)
            found[tuning] = run, sampler
    return found


def test_what_was_tried_failed_retried_and_paired_is_recorded(whole):
    run, sampler = whole["full"]
    records = run.metrics.read()
    first = records[0]
    tried = first["problems/tried"]
    hinted = [prompt for prompt in sampler.prompts if not prompt.endswith("=?")]
    odd = {prompt for prompt in sampler.prompts if int(prompt[0]) % 2 and prompt.endswith("=?")}
    assert tried == len(sampler.prompts) - len(hinted) == 30  # 5 steps of 6
    assert first["problems/failed"] == first["problems/retried"] == len(hinted) == len(odd)
    assert first["problems/rescued"] == len(odd)  # right ones that were cut off among them
    # of 4 samples 0 and 2 are right with the hint: one text, as the wrong ones are four
    assert first["pairs/found"] == len([prompt for prompt in odd if prompt[0] != "9"])
    assert first["sft/examples"] == round(0.2 * (tried - len(odd)))
    assert first["sft/loss"] > 0
    assert first["sampled/completions"] == 4 * (tried + len(odd))
    assert first["sampled/tokens"] == 16 * (tried + len(odd))
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5]
    assert first["loss"] == pytest.approx(0.693147, abs=1e-5)
    assert all("pairs/margin" in record for record in records)
    assert hinted[0].split("=?")[1].startswith("<start_working_out>S:")
    manifest = run.read_manifest()
    assert (manifest["status"], manifest["kind"]) == ("finished", "rl")
    warm_up = json.loads((run.folder / "warm-up/manifest.json").read_text())
    assert (warm_up["status"], warm_up["kind"]) == ("finished", "sft")


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_killed_in_retries_in_sft_and_in_dpo_it_ends_the_same_to_the_bit(
    base, tmp_path, sampler, whole, monkeypatch, tuning
):
    undisturbed, _ = whole[tuning]
    settings = config(tmp_path, tuning=tuning)
    tries = 4 * 30
    sampler.most = tries + 7
    with pytest.raises(KilledError):
        train(settings, base)
    sampler.most = 1 << 30

    def sealed_and_killed(checkpoint, lease, seal=base_trainer.seal):
        seal(checkpoint, lease)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(base_trainer, "seal", sealed_and_killed)
        with pytest.raises(KilledError):
            train(settings, base)
    with pytest.raises(KilledError):
        train(settings, base, Dying(4))
    run = train(settings, base)
    assert run.id == undisturbed.id
    assert ends(run) == ends(undisturbed)
    drawn_twice = sampler.drawn - undisturbed.metrics.read()[0]["sampled/completions"]
    assert 0 <= drawn_twice <= 8  # nothing but what was on its way when it was killed


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_from_a_trained_base_dpo_goes_on_from_the_warm_up_and_from_no_other(
    tmp_path, sampler, tuning
):
    settings = config(tmp_path, "sft.steps=2", "sft.save_every=2", *SIZES, tuning=tuning)
    with pytest.raises(KilledError):
        train(settings, progress=Dying(4))
    (file,) = tmp_path.glob("runs/*/warm-up/model/*.safetensors")
    left = file.read_bytes()
    file.write_bytes(left[:-1] + bytes([left[-1] ^ 1]))
    with pytest.raises(StoreError, match=r"warm-up/model/.* was changed after its run ended"):
        train(settings)
    file.write_bytes(left)
    run = train(settings)
    assert [record["step"] for record in run.metrics.read()] == [1, 2, 3, 4, 5]


def test_what_cannot_be_trained_so_is_refused_before_anything_is_drawn(
    base, tmp_path, sampler, monkeypatch
):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "1+1", "gold": 2}\n' * 2)
    with pytest.raises(DataError, match=r"mine.jsonl has no worked solutions"):
        train(config(tmp_path, f"data.rl.name={file}"), base)
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigurationError, match="one process, and a launcher started 2"):
        train(config(tmp_path), base)
    assert not sampler.prompts
    assert not (tmp_path / "runs").exists()


def test_a_plan_says_what_would_be_tried_and_trained(tmp_path):
    _, stage = plan_of(RlTraining.of(config(tmp_path, *SIZES)).stages)
    facts = stage.facts
    assert facts["tries"] == "at most 30 problems x 4 = 120 completions"
    assert "first 2 lines" in facts["retries"]
    assert facts["tokens at most"] == f"{2 * 120 * 48:,}"
    # 10 x tiny's 0.1 x 2e-4
    assert facts["SFT"] == "on 20% of the correct tries for 5 epochs, learning rate 0.0002"
    assert facts["steps"] == "5 of 6 pairs, 6 at once"
    assert facts["loss"] == "dpo, log-ratio x 0.1, against the initial policy"
