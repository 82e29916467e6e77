"""From a run to its completions under a guide: what is stored is shown, what lacks is drawn."""

import math
import shutil

import pytest
import torch
from random_model import save_scratch

from sage_cli.analysis.tokens import last_step, token_report
from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.policy import Policy
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Silent
from sage_cli.settings.model import LoraSection
from sage_cli.store.completion import Completion, token_ids
from sage_cli.store.run import Runs

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
SETTINGS = [*SIZE, "evaluation.limit=3", "sampling.max_tokens=12", "rl.steps=40"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder of random weights whose entropies lie all over the place."""
    config = load(sets=SIZE).config
    folder = tmp_path_factory.mktemp("base")
    save_scratch(config.model, config.prompt.tags, [], folder)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(30)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def made(base, tmp_path):
    """A finished RL run, its configuration and the policy."""
    root = tmp_path / "runs"
    config = load(sets=[*SETTINGS, f"run.root={root}", "guide.name=branch"]).config
    runs = Runs(root)
    parent, run = runs.at("sft", "base", "1" * 8), runs.at("rl", "branch", "2" * 8)
    with parent.recording(config.model_dump(mode="json"), kind="sft"):
        shutil.copytree(base, parent.model)
    template = PromptTemplate.from_section(config.prompt, load_tokenizer(base)).hash
    settings = config.model_dump(mode="json")
    with run.recording(settings, kind="rl", parent=parent.id, template=template):
        shutil.copytree(base, run.model)
        for step in range(1, 26):
            run.metrics.append({"step": step})
    return config, Policy(str(run.model), run)


def store(policy, config, problems, texts, reason="stop"):
    """Sample 0 of each problem, as a sampler would have left it; and a sample 1 to overlook."""
    samples = PolicySamples.from_config(policy, config, config.run.root).at(0)
    with samples.writing({}) as writer:
        writer.claim([problem.id for problem in problems], 2)
        for problem, text in zip(problems, texts, strict=True):
            count = len(policy.tokenizer(text)["input_ids"])
            writer.add(Completion(problem.id, 1, 0, "another", 7, "stop"))
            writer.add(Completion(problem.id, 0, 0, text, count, reason))
    return samples


def asked(config):
    """The problems whose completions are shown."""
    return load_benchmarks(config.evaluation, config.data)[0].problems


def texts_of(problems):
    """A right completion, a wrong one, and one without an answer."""
    right = f"<start_working_out>a<end_working_out><SOLUTION>{problems[0].gold}</SOLUTION>"
    return [right, "<SOLUTION>1</SOLUTION>", "cut off"]


def test_stored_completions_are_graded_and_examined(made, monkeypatch, told):
    config, policy = made
    problems = asked(config)
    assert len(problems) == 3
    texts = texts_of(problems)
    store(policy, config, problems, texts, reason="length")
    monkeypatch.setattr(drawing, "build_sampler", lambda *_: pytest.fail("a sampler was built"))
    view = token_report(config, "rl-branch", told, ("a note",))
    assert told.done == ["reading arithmetic", "grading 3 completions"]
    assert [one.problem_id for one in view.completions] == [problem.id for problem in problems]
    assert [one.status for one in view.completions] == ["right", "wrong", "unparseable"]
    assert [one.extracted for one in view.completions] == [problems[0].gold, "1", None]
    assert ["".join(one.tokens) for one in view.completions] == texts
    assert not any(one.retokenized for one in view.completions)
    assert (view.policy, view.step, view.notes) == (policy.label, 24, ("a note",))
    assert (view.q_min, view.q_max, view.tau) == (0.6, 1.4, 0.465)
    # the first token of the first completion, from the model itself
    tokenizer, model = policy.tokenizer, policy.model()
    prompt = tokenizer(problems[0].question, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits_V = model(prompt).logits[0, -1]
    entropy = torch.distributions.Categorical(logits=logits_V).entropy().item()
    seen = view.completions[0].values
    assert seen.entropy_T[0] == pytest.approx(entropy, abs=1e-5)
    q = min(1.4, 1 + 0.775 * max(0.0, entropy - 0.465))
    assert seen.q_T[0] == pytest.approx(q, abs=1e-5)
    logps_V = logits_V.log_softmax(dim=-1)
    token = tokenizer.convert_tokens_to_ids("<start_working_out>")
    assert seen.surprisal_T[0] == pytest.approx(-logps_V[token].item(), abs=1e-5)
    assert 0 < view.summary["shaped"] <= 1
    assert load(sets=SIZE).config.guide.describe() == "none (q in [0.6, 1.4])"


def test_what_lacks_is_drawn_and_kept(made):
    config, policy = made
    problems = asked(config)
    samples = store(policy, config, problems[:1], ["<SOLUTION>1</SOLUTION>"])
    view = token_report(config, str(policy.run.folder), Silent())
    assert "".join(view.completions[0].tokens) == "<SOLUTION>1</SOLUTION>"
    held = {row.problem_id: row for row in samples.completions(None, 1)}
    assert list(held) == [problem.id for problem in problems]
    for problem, one in zip(problems[1:], view.completions[1:], strict=True):
        assert "".join(one.tokens).removesuffix("<|end|>") == held[problem.id].text
        assert len(one.tokens) == held[problem.id].tokens
    assert token_report(config, "rl-branch", Silent()) == view


def test_the_temperature_is_that_of_training(made):
    config, policy = made
    problems = asked(config)
    store(policy, config, problems, ["1234"] * 3)
    plain = token_report(config, "rl-branch", Silent())
    hot = token_report(changed(config, {"rollout.temperature": 1e6}), "rl-branch", Silent())
    vocabulary = policy.model().config.vocab_size
    for one in hot.completions:
        uniform_T = [math.log(vocabulary)] * len(one.tokens)
        assert one.values.entropy_T == pytest.approx(uniform_T, abs=1e-3)
    assert plain.completions[0].values.entropy_T[0] < math.log(vocabulary) - 0.1


def test_a_guide_of_the_reference_reads_the_parents_signals(made, base, tmp_path):
    config, policy = made
    shutil.rmtree(policy.run.model)
    adapted = attach_lora(load_model(base), LoraSection(rank=2))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.fill_(1.0)
    adapted.save_pretrained(policy.run.model)
    load_tokenizer(base).save_pretrained(policy.run.model)
    policy.run.note(files=None)  # as if it had been trained so
    problems = asked(config)
    store(policy, config, problems, ["12*3"] * 3)
    store(Policy(str(base)), config, problems, ["12*3"] * 3)
    reading = changed(config, {"guide.signal": "reference"})
    by_policy, by_reference = (
        token_report(one, "rl-branch", Silent()) for one in (config, reading)
    )
    of_parent = token_report(config, "sft-base", Silent())
    for one, other, parent in zip(
        by_reference.completions, by_policy.completions, of_parent.completions, strict=True
    ):
        assert one.values.q_T == pytest.approx(parent.values.q_T, abs=1e-6)
        assert one.values.entropy_T == other.values.entropy_T
        assert one.values.q_T != other.values.q_T
    with pytest.raises(ConfigurationError, match="was trained without a reference") as refusal:
        token_report(reading, str(base), Silent())
    assert "guide.signal=policy" in refusal.value.next_step
    other = changed(config, {"prompt.answer_close": "</END>"})
    with pytest.raises(ConfigurationError, match="was trained with prompt template"):
        token_report(other, "rl-branch", Silent())


def test_the_last_step_at_which_q_was_computed(made):
    config, policy = made
    # 25 steps are recorded, numbered 0 to 24 while they ran
    assert last_step(policy, config) == 24
    assert last_step(Policy(policy.path, policy.run, checkpoint=10), config) == 9
    # batches of 4 passes begin at steps 0, 4, ..., 24 and 0, 4, 8
    passes = changed(config, {"rl.iterations": 4})
    assert last_step(policy, passes) == 24
    assert last_step(Policy(policy.path, policy.run, checkpoint=10), passes) == 8
    # a base was not trained by RL: the end of the schedule of 40 steps
    base = Runs(config.run.root).find("sft-base")
    assert last_step(Policy(str(base.model), base, checkpoint=10), config) == 39
    assert last_step(Policy("elsewhere"), config) == 39


def test_a_guide_that_knows_grades_gets_the_reference_tilted_by_them(base, made):
    config, policy = made
    config = changed(config, {"guide": {"name": "rapo", "phi_right": 0.8, "phi_wrong": 0.5}})
    problems = asked(config)
    texts = texts_of(problems)
    store(policy, config, problems, texts)
    report = token_report(config, "rl-branch", Silent())
    phis = [0.8 if one.status == "right" else 0.5 for one in report.completions]
    assert sorted(set(phis)) == [0.5, 0.8]
    tokenizer, model = load_tokenizer(base), load_model(base).double()
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    for problem, text, one, phi in zip(problems, texts, report.completions, phis, strict=True):
        prompt = tokenizer(template.render(problem.question), add_special_tokens=False)["input_ids"]
        ids = token_ids(tokenizer, Completion(problem.id, 0, 0, text, 1, "stop"), template.stop)
        with torch.no_grad():
            logits_TV = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        logps_TV = (logits_TV / config.rollout.temperature).log_softmax(dim=1)
        chosen_T = logps_TV[torch.arange(len(ids)), ids]
        # log q = (phi - 1) l - log sum P^phi
        log_q_T = (phi - 1) * chosen_T - (phi * logps_TV).logsumexp(dim=1)
        assert one.values.q_T == pytest.approx(log_q_T.exp().clamp(1e-3, 100).tolist(), rel=1e-4)
