"""What a run's first completions say, judged by hand-made facts and by models that are wrong."""

import copy
import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
import transformers
from random_model import of_architecture
from toy_policy import timeless, weights

from sage_cli.errors import DivergedError
from sage_cli.grading import Grade
from sage_cli.json_value import json_value
from sage_cli.models.loading import attach_lora
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.store.json_files import json_text
from sage_cli.store.preflights import KnownPreflight
from sage_cli.store.run import Run
from sage_cli.training.finding import Finding
from sage_cli.training.first_answers import FirstAnswers, Format, JudgedCompletion, judge_answers
from sage_cli.training.first_passes import (
    CHECKED_TOKENS,
    LogpDifference,
    Surprise,
    checked_rows,
    judge_engine,
    judge_passes,
    judge_surprise,
    plain_pass,
)
from sage_cli.training.preflight import Preflight
from sage_cli.training.rl import build_trainer, preflight_of, train_rl
from sage_cli.trials.executors.executor import End, Fate
from sage_cli.trials.failures import Kind, failure

TAGS = ("<SOLUTION>", "</SOLUTION>")


def answers(completions=64, read=64, correct=20, cut_off=0, groups=8, equal=1):
    shown = JudgedCompletion("x" * 2100, "4", None, "unparseable", cut_off=False, tokens=2100)
    return FirstAnswers(completions, read, correct, cut_off, 30.0, 48, groups, equal, shown)


def form(prompt="paper", *, sft=False):
    return Format(prompt, *TAGS, sft, 48)


@pytest.mark.parametrize(
    ("facts", "of_form", "stops", "cause", "remedy"),
    [
        # none of 64: of a policy that is readable in one case of ten, one run in 850
        ({"read": 0, "correct": 0}, form(), True, "none of the first 64", "teach it by SFT"),
        ({"read": 0, "correct": 0}, form("chat"), True, "none of the first 64", "prompt.system"),
        ({"read": 0, "correct": 0}, form(sft=True), True, "none of the first", "prompt.format"),
        ({"read": 0, "cut_off": 60}, form(), True, "60 were cut off at 48", "max_tokens=96"),
        ({"cut_off": 64}, form(), True, "all of the first 64 completions were cut", "=96"),
        # too few to stop a run by
        ({"completions": 63, "read": 0}, form(), False, "only 0 of 63", "teach it by SFT"),
        ({"read": 31}, form(), False, "only 31 of 64", "SFT"),
        ({"cut_off": 33}, form(), False, "33 of 64 completions were cut off", "max_tokens=96"),
        ({"equal": 8}, form(), False, "8 of 8 groups have equal rewards", "rollouts_per_prompt"),
    ],
)
def test_answers_are_judged_with_a_cause_and_a_line_to_type(facts, of_form, stops, cause, remedy):
    (finding,) = judge_answers(answers(**facts), of_form, may_stop=True)
    assert finding.stops == stops
    assert cause in finding.cause
    assert remedy in finding.remedy


@pytest.mark.parametrize("facts", [{}, {"read": 32}, {"cut_off": 32}, {"equal": 7}])
def test_usual_answers_are_no_finding(facts):
    assert judge_answers(answers(**facts), form(), may_stop=True) == []


def test_rewards_that_read_no_grade_are_never_stopped():
    facts = answers(read=0, correct=0, cut_off=64)
    (finding,) = judge_answers(facts, form(), may_stop=False)
    assert not finding.stops
    said, trainer = [], SimpleNamespace(accelerator=SimpleNamespace(is_main_process=True))
    preflight = Preflight(
        form=form(), parameters=None, may_stop=False, say=said.append, note=lambda **_: None
    )
    with pytest.warns(UserWarning, match="none of the first 64"):
        preflight._conclude(trainer, [finding], ["a line"])
    assert said == ["a line"]
    stopping = Finding(True, "it is so", "type that")
    with (
        pytest.warns(UserWarning, match="none of the first 64"),
        pytest.raises(DivergedError, match="it is so"),
    ):
        preflight._conclude(trainer, [finding, stopping], [])


def test_a_long_completion_is_shown_as_far_as_it_is_read():
    _, words = answers().in_words()
    assert words.count("x") == 2000 + 1  # the x of "example"
    assert "and 100 more characters" in words
    assert "no answer was found; gold: 4" in words


def test_differences_are_counted_on_the_tokens_of_the_mask():
    a_BT = torch.tensor([[0.0, -1.0, -2.0], [-1.0, -1.0, -9.0]])
    b_BT = torch.tensor([[0.5, -1.0, -2.0], [-1.0, -1.25, 7.0]])
    mask_BT = torch.tensor([[1, 1, 1], [1, 1, 0]])
    found = LogpDifference.between(a_BT, b_BT, mask_BT)
    # .5, 0, 0, 0, .25: mean .15; two of five are above 1e-4; the 99 % quantile is at
    # place .99 * 4 = 3.96 of the sorted ones, between .25 and .5
    assert found.tokens == 5
    assert found.mean == pytest.approx(0.15)
    assert (found.largest, found.share_above) == (0.5, 0.4)
    assert found.high == pytest.approx(0.25 + 0.96 * 0.25)


def test_no_tokens_and_nan_are_differences_too():
    none = torch.zeros(1, 2)
    assert LogpDifference.between(none, none, none).tokens == 0
    broken = LogpDifference.between(torch.full((1, 2), math.nan), none, none + 1)
    assert broken.share_above == 1
    assert judge_passes(broken, LogpDifference.between(none, none, none + 1), None, routes=False)


def padded_rows(tokenizer):
    """Prompts of different lengths, padded before, and completions, padded behind."""
    torch.manual_seed(0)
    prompts, ends = (3, 9, 5), (7, 4, 6)
    return {
        "prompt_ids": torch.randint(5, len(tokenizer), (3, 9)),
        "completion_ids": torch.randint(5, len(tokenizer), (3, 7)),
        "prompt_mask": torch.tensor([[0] * (9 - n) + [1] * n for n in prompts]),
        "completion_mask": torch.tensor([[1] * n + [0] * (7 - n) for n in ends]),
    }


@torch.no_grad()
def trained_logps(model, batch, temperature):
    """A trainer's pass: the whole batch at once, padded before, without positions."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, 8:-1] / temperature
    chosen = batch["completion_ids"][..., None]
    return logits.log_softmax(-1).gather(2, chosen)[..., 0]


@torch.no_grad()
@pytest.mark.parametrize(("family", "wrong"), [("qwen2", False), ("llama", False), ("gpt2", True)])
def test_padding_that_moves_positions_is_found(tokenizer, family, wrong):
    """GPT-2 counts its positions from the beginning of the row, padding included."""
    model, batch = of_architecture(family, tokenizer), padded_rows(tokenizer)
    parameters = SamplingParameters(0.8, 1.0, 0, 0.0, 8, None)
    plain_BT, _ = plain_pass(model, batch, parameters)
    mask_BT = batch["completion_mask"]
    padded_BT, _ = plain_pass(model, batch, parameters, padded=True)
    behind = LogpDifference.between(plain_BT, padded_BT, mask_BT)
    assert behind.largest < 2e-5  # behind a row nothing moves
    trained_BT = trained_logps(model, batch, 0.8)
    found = LogpDifference.between(trained_BT, plain_BT, mask_BT)
    assert found.tokens == 7 + 4 + 6
    same = LogpDifference.between(plain_BT, plain_BT, mask_BT)
    findings = judge_passes(found, same, None, routes=False)
    assert bool(findings) == wrong
    if wrong:
        assert findings[0].stops
        assert f"{found.largest:.3g} at most, over 17 tokens" in findings[0].cause


def difference(mean=0.0, high=0.0, largest=0.0, share_above=0.0):
    return LogpDifference(200, mean, high, largest, share_above)


SMALL, LARGE = difference(), difference(0.5, 2.0, 3.0, 1.0)
FEW = difference(1e-5, 1e-5, 0.3, 0.009)
COARSE = difference(0.01, 0.05, 0.2, 0.9)


@pytest.mark.parametrize(
    ("trained", "again", "yardstick", "routes", "words"),
    [
        (SMALL, SMALL, None, False, None),
        (LARGE, SMALL, None, False, "differ from those of the model's own logits by 0.5 nats"),
        (SMALL, LARGE, None, False, "two equal passes over the same 200 tokens differ by 0.5"),
        # a router may send two tokens of 200 elsewhere, a dense model none
        (FEW, SMALL, None, True, None),
        (FEW, SMALL, None, False, "0.3 at most"),
        # in bfloat16 three times what padding does: .03 on average, .15 at 99 %
        (difference(0.029, 0.149, 1.0, 1.0), COARSE, COARSE, False, None),
        (difference(0.031, 0.149, 1.0, 1.0), COARSE, COARSE, False, "0.031 nats on average"),
        (difference(0.029, 0.151, 1.0, 1.0), COARSE, COARSE, False, "0.029 nats on average"),
        (COARSE, LARGE, COARSE, False, "two equal passes"),
        # passes that agree to the bit give no bound of 0
        (difference(0.01, 0.011, 0.1, 1.0), SMALL, SMALL, False, None),
    ],
)
def test_passes_are_judged_by_a_bound_or_by_what_padding_does(
    trained, again, yardstick, routes, words
):
    findings = judge_passes(trained, again, yardstick, routes=routes)
    assert bool(findings) == (words is not None)
    if words:
        assert words in findings[0].cause
        assert findings[0].stops


@pytest.mark.parametrize(("drawn_at", "fine"), [(1.0, True), (1.3, False), (0.8, False)])
@pytest.mark.parametrize("min_p", [0.0, 0.05])
def test_samples_of_another_temperature_are_found_by_their_surprisal(drawn_at, fine, min_p):
    torch.manual_seed(1)
    logits_TV = 2 * torch.randn(2000, 30)
    p_TV = (logits_TV / drawn_at).softmax(-1)
    # what min_p cuts of the distribution at temperature 1 is never drawn at it
    if min_p:
        p_TV = torch.where(p_TV < min_p * p_TV.amax(-1, keepdim=True), 0, p_TV)
    chosen_T = torch.multinomial(p_TV, 1)[:, 0]
    parameters = SamplingParameters(1.0, 1.0, 0, min_p, 8, None)
    surprise = Surprise()
    surprise.add(logits_TV, chosen_T, parameters)
    assert bool(judge_surprise(surprise)) != fine
    if fine:
        assert abs(surprise.sigmas) < 4
        assert surprise.impossible == 0


def test_surprisal_by_hand():
    # p = 1/4, 3/4 for both tokens: surprisals 1.3863 and .2877, entropy .5623, and the variance
    # 1/4 * 1.3863^2 + 3/4 * .2877^2 - .5623^2 = .2263; two draws of the first are
    # 2 * (1.3863 - .5623) / sqrt(2 * .2263) = 2.449 standard errors off, whatever the numbers
    logits_TV = torch.tensor([[0.25, 0.75]]).log().repeat(2, 1)
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 8, None)
    surprise = Surprise()
    for logits_1V in logits_TV:
        surprise.add(logits_1V[None], torch.tensor([0]), parameters)
    assert surprise.sigmas == pytest.approx(6**0.5, rel=1e-5)
    assert surprise.tokens == 2
    cut = SamplingParameters(1.0, 1.0, 0, 0.5, 8, None)  # the first token is below half of .75
    surprise.add(logits_TV, torch.tensor([0, 1]), cut)
    assert surprise.impossible == 1


@pytest.mark.parametrize(
    ("now", "before", "stops", "words"),
    [
        (0.04, None, None, None),
        (0.06, None, False, "differ from the trainer's by 0.06 nats"),
        (0.6, None, True, "differ from the trainer's by 0.6 nats"),
        (math.nan, None, True, "nan nats"),
        (0.01, 0.004, True, "samples from the policy as it started"),
        (0.01, 0.006, None, None),
    ],
)
def test_an_engines_log_probabilities(now, before, stops, words):
    earlier = None if before is None else difference(before)
    findings = judge_engine(difference(now), earlier)
    assert [finding.stops for finding in findings] == ([] if stops is None else [stops])
    assert all(words in finding.cause for finding in findings)


def test_checked_rows_are_pairs_of_distant_prompts():
    prompts = [number // 4 for number in range(32)]  # eight prompts of four rows
    mask_BT = torch.ones(32, 40)
    # 80 tokens a pair; prompts by halving steps: 0, 4, 2 have 240, and 0, 4 only 160
    assert checked_rows(mask_BT, prompts).tolist() == [0, 1, 8, 9, 16, 17]
    assert CHECKED_TOKENS == 200
    assert checked_rows(torch.ones(32, 300), prompts).tolist() == [0, 1, 16, 17]  # two at least
    assert checked_rows(mask_BT[:, :1], prompts).tolist() == sorted(
        [*range(0, 32, 4), *range(1, 32, 4)]
    )
    assert checked_rows(mask_BT[:1], prompts[:1]).tolist() == [0]


class Heard:
    """A preflight's words and facts."""

    def __init__(self):
        self.said, self.facts = [], {}

    def preflight(self, config, tokenizer, *, by_sft=False):
        template = PromptTemplate.from_section(config.prompt, tokenizer)
        run = SimpleNamespace(note=lambda *, preflight: self.facts.update(preflight))
        return preflight_of(config, template, run, self.said.append, by_sft=by_sft)


def unreadable(golds, completions):
    return [Grade("unparseable", None) for _ in completions]


@pytest.mark.parametrize(
    "sections",
    [
        {"guide": {"name": "branch", "tau": 0.5}},
        {"rl": {"algo": "dapo"}},
        {"rollout": {"backend": "transformers"}},
        {"model": {"kind": "pretrained", "tuning": "lora"}},
    ],
    ids=["branch", "dapo", "generate", "lora"],
)
def test_a_run_that_was_looked_at_is_the_same_to_the_bit(bench, configure, sections):
    config, heard = configure(**sections), Heard()
    policy = {}
    if "model" in sections:
        policy = {"model": attach_lora(bench.policy(), config.model.lora), "reference": None}
    plain = bench.run(config, "plain", **copy.deepcopy(policy))
    looked = []
    preflight = heard.preflight(config, bench.tokenizer)
    run = Run(bench.folder / "looked")
    train_rl(config, bench.inputs(**copy.deepcopy(policy)), run, looked.append, preflight)
    assert timeless(looked) == timeless(plain)
    assert weights(run.model) == weights(bench.folder / "plain/model")
    assert heard.facts["answers"]["completions"] == 16
    assert heard.facts["passes/training"]["tokens"] > 30
    assert not any(finding["stops"] for finding in heard.facts["findings"])
    assert heard.said[0].startswith("first 16 completions: 16 with a readable answer, ")


def test_an_unreadable_policy_is_sampled_on_and_stopped_before_an_update(bench, configure):
    """Sixteen completions are too few to stop a run by, so 48 more are judged."""
    config, heard = configure(), Heard()
    trainer = build_trainer(
        config,
        bench.inputs(grader=unreadable),
        Run(bench.folder),
        lambda _: None,
        heard.preflight(config, bench.tokenizer),
    )
    with pytest.raises(
        DivergedError, match="none of the first 64 completions has a readable"
    ) as stopped:
        trainer.train()
    assert trainer.state.global_step == 0
    assert "by SFT" in stopped.value.next_step or "max_tokens" in stopped.value.next_step
    assert heard.facts["findings"][0]["stops"]


def test_a_stopped_run_keeps_what_was_found_and_is_not_tried_again(bench, configure):
    config, run = configure(), Run(bench.folder / "run")
    template = PromptTemplate.from_section(config.prompt, bench.tokenizer)
    preflight = preflight_of(config, template, run, lambda _: None, by_sft=True)
    inputs = bench.inputs(grader=unreadable)
    with pytest.raises(DivergedError), run.recording({}, kind="rl") as recorded:
        train_rl(config, inputs, recorded, lambda _: None, preflight)
    # an error before any work leaves no folder, but this one is worth looking at
    assert run.read_manifest()["preflight"]["answers"]["read"] == 0
    ended = failure(End(Fate.EXITED, 2), run.read_manifest(), bench.folder / "no.log")
    assert ended.kind is Kind.DIVERGED


def test_rewards_that_read_no_grade_go_on_with_the_facts(bench, configure):
    config, heard = configure(rl={"rewards": [{"name": "brevity"}], "steps": 1}), Heard()
    preflight = heard.preflight(config, bench.tokenizer)
    inputs = bench.inputs(grader=unreadable)
    with pytest.warns(UserWarning, match="none of the first 64 completions"):
        train_rl(config, inputs, Run(bench.folder / "run"), lambda _: None, preflight)
    assert [finding["stops"] for finding in heard.facts["findings"]] == [False]


def test_it_is_off_where_the_setting_says_so(bench, configure):
    assert Heard().preflight(configure(rl={"preflight": False}), bench.tokenizer) is None


@pytest.mark.parametrize(
    ("family", "noise", "words"),
    [
        # a head with a layer of its own before the output embeddings, which a fused head leaves out
        ("modernbert-decoder", {}, "differ from those of the model's own logits by"),
        # noise that no number of a module is named for, so that nobody switches it off
        ("mixtral", {"router_jitter_noise": 0.4}, "two equal passes over the same"),
    ],
)
def test_a_model_that_a_trainer_computes_otherwise_is_stopped(
    bench, configure, family, noise, words
):
    settings = {
        "modernbert-decoder": (transformers.ModernBertDecoderConfig, {}),
        "mixtral": (transformers.MixtralConfig, {"num_local_experts": 4, "num_key_value_heads": 2}),
    }[family]
    bench.tokenizer = copy.deepcopy(bench.tokenizer)
    bench.tokenizer.bos_token = bench.tokenizer.eos_token  # this family's configuration needs one
    ends = {"bos_token_id": 1, "eos_token_id": bench.tokenizer.eos_token_id}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, **noise}
    architecture, further = settings
    model = transformers.AutoModelForCausalLM.from_config(
        architecture(
            vocab_size=len(bench.tokenizer),
            num_attention_heads=2,
            pad_token_id=bench.tokenizer.pad_token_id,
            **{**ends, **sizes, **further},
        )
    )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.5)
    if noise:
        model.base_model.layers[0].register_forward_hook(
            lambda _module, _inputs, states: states + 0.3 * torch.randn_like(states)
        )
    config, heard = configure(anchor={"kl": "none"}, rollout={"backend": "transformers"}), Heard()
    preflight = heard.preflight(config, bench.tokenizer)
    run = Run(bench.folder / "run")
    with pytest.raises(DivergedError, match=words):
        train_rl(config, bench.inputs(model=model), run, lambda _: None, preflight)
    assert not run.metrics.read()


SUBJECT = {"policy": "f00d", "temperature": 1.0}


def known(folder, run, **changed):
    return KnownPreflight(folder, {**SUBJECT, **changed}, run)


def counted(preflight):
    """A preflight that counts what it looks at before the first update, and after it."""
    looks = Counter()
    for name in ("_judged", "_further", "look_at_passes", "_of_sampler"):
        whole = getattr(preflight, name)

        def look(*arguments, _name=name, _whole=whole):
            looks[_name] += 1
            return _whole(*arguments)

        setattr(preflight, name, look)
    return looks


def test_a_second_run_of_the_same_conditions_repeats_what_the_first_found(bench, configure):
    """Only the first update is looked at again: whether it reaches the sampler is each run's own.

    Nothing is read and the rewards don't ask for it, so that the first run goes on with a warning.
    """
    config = configure(rl={"rewards": [{"name": "brevity"}], "steps": 2})
    heard, looks = {}, {}
    for name in ("first", "second", "otherwise"):
        heard[name], changed = Heard(), {"temperature": 0.7} if name == "otherwise" else {}
        preflight = heard[name].preflight(config, bench.tokenizer)
        preflight.known = known(bench.folder, name, **changed)
        looks[name] = counted(preflight)
        run = Run(bench.folder / name)
        with pytest.warns(UserWarning, match="none of the first 64 completions"):
            train_rl(config, bench.inputs(grader=unreadable), run, lambda _: None, preflight)
    whole = {"_judged": 2, "_further": 1, "look_at_passes": 1, "_of_sampler": 2}
    assert looks["first"] == looks["otherwise"] == whole
    assert looks["second"] == {"_of_sampler": 1}
    assert heard["second"].said == [
        f"policy, prompt and sampling were checked by first: {heard['first'].said[0]}"
    ]
    assert heard["second"].facts["checked_by"] == "first"
    for fact in ("answers", "passes/training", "passes/evaluation"):
        assert heard["second"].facts[fact] == json_value(
            json_text(heard["first"].facts[fact]).encode()
        )
    # the findings that were repeated, and those of the first update
    assert heard["second"].facts["findings"] == heard["first"].facts["findings"]
    assert weights(bench.folder / "second/model") == weights(bench.folder / "first/model")


def test_a_run_that_was_stopped_keeps_nothing_for_others(bench, configure):
    config, heard = configure(), Heard()
    preflight = heard.preflight(config, bench.tokenizer)
    preflight.known = known(bench.folder, "stopped")
    inputs = bench.inputs(grader=unreadable)
    with pytest.raises(DivergedError):
        train_rl(config, inputs, Run(bench.folder / "run"), lambda _: None, preflight)
    assert known(bench.folder, "other").read() is None


def test_what_is_kept_is_found_by_other_runs_alone_and_hurts_nobody(tmp_path):
    found = {"said": ["x"], "findings": []}
    known(tmp_path, "a").write(found)
    assert known(tmp_path, "b").read() == {**found, "checked_by": "a"}
    assert known(tmp_path, "a").read() is None  # the same run, trained afresh
    assert known(tmp_path, "b", policy="cafe").read() is None
    (file,) = (tmp_path / "preflight").iterdir()
    file.write_text(file.read_text().replace('"x"', '"y"'))
    assert known(tmp_path, "b").read() is None  # edited
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("no folder")
    known(tmp_path, "a").write(found)
    assert known(tmp_path, "b").read() is None


@pytest.mark.parametrize("added", [0.0, 0.003])
def test_what_bfloat16_hides_is_found_in_float32(bench, configure, added):
    """The yardstick of bfloat16 is at least 3 / 256 = .0117 nats on average.

    A model that makes its logits .3 % larger behind the head, which the fused head doesn't know, is
    below it, and above the 1e-4 of float32.
    """
    model, before = bench.policy(), bench.policy().state_dict()

    def add(_model, _inputs, output):
        if getattr(output, "logits", None) is not None:  # a fused head has none
            output.logits = output.logits * (1 + added)

    model.register_forward_hook(add)
    config = configure(
        anchor={"kl": "none"},
        rollout={"backend": "transformers"},
        model={"kind": "pretrained", "compute_dtype": "bfloat16"},
        rl={"steps": 1},
    )
    heard = Heard()
    trainer = build_trainer(
        config,
        bench.inputs(model=model),
        Run(bench.folder),
        lambda _: None,
        heard.preflight(config, bench.tokenizer),
    )
    if added:
        with pytest.raises(DivergedError, match="differ from those of the model's own logits"):
            trainer.train()
        (finding,) = [f for f in heard.facts["findings"] if f["stops"]]
        assert "in float32" in finding["cause"]
        assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    else:
        trainer.train()
        assert heard.said[-1].startswith("in float32 they are ")
    assert heard.facts["passes/training"]["mean"] < 3 / 256
    for mode in ("training", "evaluation"):
        found = heard.facts[f"passes/{mode}/float32"]
        assert (found["share_above"] > 0) == bool(added)
        assert found["tokens"] == heard.facts["passes/training"]["tokens"]
