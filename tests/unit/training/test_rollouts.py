"""Rollouts through vLLM: refused where they can't be drawn, as long as needed, seeded, paired."""

import json
import logging
import os
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from endpoint import Endpoint, serving
from peft import LoraConfig, get_peft_model
from random_model import of_architecture
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from sage_cli.errors import ConfigurationError, SamplingError, TrainingError
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.policy import Policy
from sage_cli.settings.model import LoraSection
from sage_cli.settings.passwords import VARIABLE
from sage_cli.settings.rollout import SERVER_URL, RolloutSection
from sage_cli.training import rollouts
from sage_cli.training.rollouts import (
    adapted_layers,
    as_launched,
    ask_for_each_row,
    context_length,
    engine_as_asked,
    engine_seed,
    is_colocated,
    merge_beside,
    require_heads,
    require_rollouts,
    resolve_engine,
)


def rollout(backend="vllm", **vllm):
    return RolloutSection.model_validate({"backend": backend, "max_tokens": 100, "vllm": vllm})


@pytest.fixture
def gpu_with_vllm(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(rollouts, "find_spec", lambda _: object())


@pytest.mark.parametrize(
    ("gpu", "vllm", "launcher", "asked", "settled"),
    [
        (False, True, None, "auto", "builtin"),
        (False, True, None, "transformers", "transformers"),
        (False, True, None, "vllm", "'vllm' needs a GPU"),
        (False, True, "FSDP", "auto", "transformers"),
        (False, True, "DEEPSPEED", "auto", "transformers"),
        (False, True, "FSDP", "builtin", "'builtin' needs all weights"),
        (False, True, "DEEPSPEED", "builtin", "'builtin' needs all weights"),
        (True, False, None, "auto", "transformers"),
        (True, False, None, "vllm", "isn't installed"),
        (True, True, None, "auto", "vllm"),
    ],
)
def test_the_engine_is_what_the_machine_can_run_or_is_refused(
    monkeypatch, gpu, vllm, launcher, asked, settled
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(rollouts, "find_spec", lambda _: object() if vllm else None)
    if launcher:
        monkeypatch.setenv(f"ACCELERATE_USE_{launcher}", "true")
    if " " not in settled:
        assert resolve_engine(rollout(asked), 2) == rollout(settled)
        return
    with pytest.raises(ConfigurationError, match=settled) as caught:
        resolve_engine(rollout(asked), 2)
    assert not launcher or "rollout.backend=transformers" in str(caught.value.next_step)


def test_an_engine_is_in_the_trainings_processes_unless_it_is_a_servers(gpu_with_vllm, monkeypatch):
    assert is_colocated(rollout())
    assert is_colocated(rollout("auto"))
    assert not is_colocated(rollout("transformers"))
    assert not is_colocated(rollout("auto", mode="server", server_url="http://there:1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not is_colocated(rollout("auto"))


def test_heads_are_dealt_out_evenly():
    """Qwen2.5-Math-7B has 28: in 4 parts 7 each, in 8 parts 3.5."""
    require_heads(rollout(tensor_parallel=4), 28)
    require_heads(rollout("transformers", tensor_parallel=8), 28)
    require_heads(rollout(tensor_parallel=8), None)
    with pytest.raises(ConfigurationError, match="8 doesn't divide the model's 28") as caught:
        require_heads(rollout(tensor_parallel=8), 28)
    assert caught.value.next_step == ("use one of 1, 2, 4, 7: --set rollout.vllm.tensor_parallel=7")


def test_the_context_holds_the_longest_prompt_and_a_completion():
    assert context_length(rollout(), [3, 20, 7], 4096) == 120
    assert context_length(rollout(), [3, 20, 7], None) == 120
    assert context_length(rollout(max_model_len=150), [20], 4096) == 150
    assert context_length(rollout(max_model_len=5000), [20], 4096) == 4096
    with pytest.raises(ConfigurationError, match="max_model_len of 110") as caught:
        context_length(rollout(max_model_len=110), [20, 5], 4096)
    assert caught.value.next_step == "use --set rollout.max_tokens=90"  # 110 - 20
    with pytest.raises(ConfigurationError, match="the model's context of 64"):
        context_length(rollout(), [70], 64)


@pytest.mark.usefixtures("gpu_with_vllm")
def test_auto_refuses_tempered_and_truncated_rollouts_where_it_is_vllm(monkeypatch):
    said = {"backend": "auto", "max_tokens": 100, "temperature": 0.8, "min_p": 0.01}
    with pytest.raises(ConfigurationError, match=r"at temperature 1, and temperature is 0\.8"):
        resolve_engine(RolloutSection.model_validate(said), 1)
    uncorrected = said | {"vllm": {"importance_correction": "none"}}
    assert resolve_engine(RolloutSection.model_validate(uncorrected), 1).backend == "vllm"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_engine(RolloutSection.model_validate(said), 1).backend == "builtin"


@pytest.mark.usefixtures("gpu_with_vllm")
def test_an_engine_needs_as_many_processes_as_it_has_parts():
    with pytest.raises(ConfigurationError, match="4 doesn't divide the training's 6") as caught:
        resolve_engine(rollout(tensor_parallel=4), 6)
    assert "--processes 8" in str(caught.value.next_step)  # 6 / 4 = 1.5: two engines of 4
    resolve_engine(rollout(tensor_parallel=4), 8)
    server = {"mode": "server", "server_url": "http://there:1"}
    resolve_engine(rollout(tensor_parallel=4, **server), 6)  # the server has its own


@pytest.mark.parametrize("backend", ["transformers", "builtin"])
def test_a_context_that_is_too_short_is_refused_by_every_backend(bench, configure, backend):
    positions = load_model(bench.base).config.max_position_embeddings
    fits = configure(rollout={"backend": backend, "max_tokens": positions - 20})
    bench.trainer(fits)
    with pytest.raises(ConfigurationError, match=f"the model's context of {positions}"):
        bench.trainer(configure(rollout={"backend": backend, "max_tokens": positions - 1}))


def test_the_engine_is_seeded_by_seed_rank_and_step(monkeypatch):
    built = []
    monkeypatch.setattr(vllm_generation, "LLM", lambda **k: built.append(k), raising=False)
    plain = vllm_generation.LLM
    for seed, rank, step in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 50)):
        with engine_as_asked(seed, step, "raw_logprobs"):
            vllm_generation.LLM(model="m", seed=rank, logprobs_mode="processed_logprobs")
    assert vllm_generation.LLM is plain
    assert [engine["model"] for engine in built] == ["m"] * 4
    assert {engine["logprobs_mode"] for engine in built} == {"raw_logprobs"}
    assert len({engine["seed"] for engine in built}) == 4
    assert built[0]["seed"] == engine_seed(1, 0, 0) < 2**31


def test_without_vllm_seeding_is_nothing_and_trls_advice_on_servers_is_not_passed_on(
    monkeypatch, caplog
):
    """TRL wants `processed` log-probabilities of every server, also where `raw` were asked for."""
    monkeypatch.delattr(vllm_generation, "LLM", raising=False)
    logger = logging.getLogger("trl.trainer.grpo_trainer")
    with engine_as_asked(1, 0, "raw_logprobs"):
        assert not hasattr(vllm_generation, "LLM")
        logger.warning("The vLLM server runs with `--logprobs-mode raw_logprobs`")
        logger.warning("something else")
    logger.warning("afterwards --logprobs-mode")
    assert caplog.messages == ["something else", "afterwards --logprobs-mode"]


def test_a_process_does_not_take_itself_for_launched_because_of_its_engine(monkeypatch):
    for name in ("LOCAL_RANK", "VLLM_ENABLE_V1_MULTIPROCESSING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    changes = {"LOCAL_RANK": "0", "WORLD_SIZE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    with as_launched():
        os.environ |= {**changes, "HOME_OF_OTHERS": "kept"}
    assert {name: os.environ.get(name) for name in changes} == {
        "LOCAL_RANK": None,
        "WORLD_SIZE": "2",
        "VLLM_ENABLE_V1_MULTIPROCESSING": None,
    }
    assert os.environ.pop("HOME_OF_OTHERS") == "kept"


class Echo:
    """What TRL's client is to it, with completions that are their prompts."""

    def generate(self, prompts, n, **_):
        completions = [ids for ids in prompts for _ in range(n)]
        return {"prompt_ids": prompts, "completion_ids": completions, "logprobs": None}


def served(rows, monkeypatch, *, row_by_row):
    """Whose completions TRL's own code gives to each process's rows, in groups of 4."""
    told = []

    def broadcast(objects, from_process):
        told[:] = told or objects
        objects[:] = told

    def gathered(own):
        return [None if own[0] is None else [row] for process in rows for row in process]

    monkeypatch.setattr(vllm_generation, "gather_object", gathered)
    monkeypatch.setattr(vllm_generation, "broadcast_object_list", broadcast)
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda _: None)
    found = []
    for rank, mine in enumerate(rows):
        made = VLLMGeneration(None, Accelerator(cpu=True), None, mode="server")
        made.accelerator = SimpleNamespace(process_index=rank, is_main_process=rank == 0)
        made.vllm_client = Echo()
        if row_by_row:
            ask_for_each_row(made)
        drawn = made.generate(prompts=[[row] for row in mine], images=None, num_generations=4)
        found.append([prompt for (prompt,) in drawn[1]])
    return found


# Groups 0, 1, 2 of 4 lie over 4 processes as 000 | 011 | 112 | 222. Groups 0 and 2 are replaced by
# prompts 7 and 8, and processes with fewer rows than 3 draw 7 besides: in all 777 777 877 888,
# of which TRL takes the first, fifth and ninth: 7, 7 and 7.
REPLACED = [[7, 7, 7], [7, 7, 7], [8, 7, 7], [8, 8, 8]]
# 5 more rollouts of prompt 7 and 3 of prompt 8: the first and the fifth are both 7.
SECOND_STAGE = [[7, 7, 7, 7, 7, 8, 8, 8]]


@pytest.mark.parametrize("rows", [REPLACED, SECOND_STAGE])
def test_a_servers_completions_are_those_of_their_rows(rows, monkeypatch):
    assert served(rows, monkeypatch, row_by_row=True) == rows
    alone = served(rows, monkeypatch, row_by_row=False)
    assert alone == [[7] * len(process) for process in rows]  # what it is there for


def test_syncs_leave_the_base_as_it_was_to_the_bit(base, monkeypatch):
    """TRL's own merging, of which the name of each weight is kept, moves it."""
    engines = {}
    for beside in (True, False):
        model = coarse(base)
        before, made = frozen(model), generation(model, monkeypatch)
        if beside:
            merge_beside(made)
        for step in range(40):
            move(model, step)
            made.sync_weights()
        after, engines[beside] = frozen(model), made.llm.weights
        assert before.keys() == after.keys()
        assert all(torch.equal(after[name], before[name]) for name in before) is beside
        if beside:
            adapted_ones = adapted_layers(model)
    ours, theirs = engines[True], engines[False]
    for name, layer in adapted_ones.items():  # W + 2 B A: alpha 16 of rank 8
        b, a = layer.lora_B["default"].weight, layer.lora_A["default"].weight
        expected = (layer.base_layer.weight.float() + 2 * b @ a).bfloat16()
        assert torch.equal(ours[name], expected), name
        assert not torch.equal(ours[name], layer.base_layer.weight), name
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in set(ours) - set(adapted_ones))


class Engine:
    """What vLLM is to TRL's weight sync: it is told weights by name, and keeps the last."""

    def __init__(self):
        self.weights = {}
        model = SimpleNamespace(load_weights=lambda pairs: self.weights.update(dict(pairs)))
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

    def reset_prefix_cache(self): ...


def generation(model, monkeypatch):
    """TRL's own, around an engine that isn't vLLM."""

    def with_engine(self):
        self.llm = Engine()

    monkeypatch.setattr(VLLMGeneration, "_init_vllm", with_engine)
    return VLLMGeneration(model, Accelerator(cpu=True), None)


def coarse(base):
    """The toy policy in bfloat16, with an adapter in float32 as TRL trains it."""
    model = attach_lora(load_model(base, dtype="bfloat16"), LoraSection(), seed=1)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.float()
    return model


def frozen(model):
    return {n: p.detach().clone() for n, p in model.named_parameters() if "lora_" not in n}


def move(model, step):
    """Another adapter at every step."""
    generator = torch.Generator().manual_seed(step)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(std=0.1, generator=generator)


def test_a_policy_without_an_adapter_is_handed_over_as_trl_does_it(base, monkeypatch):
    model = load_model(base)
    made = generation(model, monkeypatch)
    merge_beside(made)
    made.sync_weights()
    assert made.llm.weights.keys() == dict(model.named_parameters()).keys()


def test_a_release_of_trl_that_merges_elsewhere_is_refused(base, monkeypatch):
    made = generation(coarse(base), monkeypatch)
    handed_over = list(made._iter_named_params())
    made._iter_named_params = lambda: iter(handed_over)  # without asking the model to merge
    merge_beside(made)
    with pytest.raises(TrainingError, match="release of TRL"):
        made.sync_weights()


QV = ["q_proj", "v_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def adapted(name, folder, tokenizer, **settings):
    """A policy with an adapter that says something, and TRL's copy of it for the reference."""
    of_architecture(name, tokenizer).save_pretrained(folder)
    tokens = settings.pop("tokens", 0)
    model = load_model(folder)
    if tokens:
        model.resize_token_embeddings(len(tokenizer) + tokens)
    model = get_peft_model(model, LoraConfig(r=2, **settings))
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.add_adapter("ref", model.peft_config["default"])
    return model


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qwen2", {"target_modules": [*QV, "embed_tokens"]}),
        ("qwen2", {"target_modules": QV, "modules_to_save": ["embed_tokens", "lm_head"]}),
        ("qwen2-tied", {"target_modules": QV}),
        ("qwen3-moe", {"target_modules": QV, "target_parameters": EXPERTS}),
        ("phi3", {"target_modules": ["qkv_proj", "down_proj"]}),
        ("gpt2", {"target_modules": ["c_attn"]}),
        ("gemma3-images", {"target_modules": r".*language_model.*q_proj"}),
    ],
)
def test_an_engine_is_given_what_the_policy_is(name, settings, tmp_path, tokenizer, monkeypatch):
    model = adapted(name, tmp_path, tokenizer, **settings)
    made = generation(model, monkeypatch)
    merge_beside(made)
    made.sync_weights()
    ids = torch.arange(12).view(1, -1)
    with torch.no_grad():
        expected = model.eval()(input_ids=ids).logits
        engine = load_model(tmp_path)
        before = engine.eval()(input_ids=ids).logits
        assert made.llm.weights.keys() == dict(engine.named_parameters()).keys()
        engine.load_state_dict(made.llm.weights, strict=False)
        torch.testing.assert_close(engine(input_ids=ids).logits, expected, atol=1e-4, rtol=1e-4)
    assert (expected - before).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("qwen2-tied", {"target_modules": ["embed_tokens"]}, "share their weights"),
        ("qwen2-tied", {"target_modules": ["lm_head"]}, "share their weights"),
        ("qwen2-tied", {"target_modules": QV, "modules_to_save": ["lm_head"]}, "share their"),
        ("qwen2", {"target_modules": QV, "trainable_token_indices": [3]}, "embed_tokens"),
        ("qwen2", {"target_modules": QV, "tokens": 4}, "another vocabulary"),
        ("qwen2", {"target_modules": ["q_proj"], "use_dora": True}, r"plain LoRA.*q_proj"),
    ],
)
def test_what_an_engine_cannot_be_given_is_refused(
    name, settings, why, tmp_path, tokenizer, monkeypatch
):
    model = adapted(name, tmp_path, tokenizer, **settings)
    with pytest.raises(TrainingError, match=why) as refusal:
        merge_beside(generation(model, monkeypatch))
    assert "sage export" in str(refusal.value.next_step)


def test_a_weight_that_is_not_handed_over_is_missed(tmp_path, tokenizer, monkeypatch):
    model = adapted("qwen2", tmp_path, tokenizer, target_modules=QV)
    made = generation(model, monkeypatch)
    theirs = made._iter_named_params
    made._iter_named_params = lambda: (p for p in theirs() if "layers.1.self_attn.q" not in p[0])
    merge_beside(made)
    with pytest.raises(TrainingError, match=r"layers\.1\.self_attn\.q_proj\.weight"):
        made.sync_weights()


@pytest.fixture
def start(tmp_path, gpu_with_vllm):
    """A model of 6 heads, on a machine with a GPU and vLLM."""
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 6}))
    return Policy(str(tmp_path))


def by_vllm(min_p=0.01, temperature=1.0, **settings):
    said = {"backend": "vllm", "min_p": min_p, "temperature": temperature, "vllm": settings}
    return RolloutSection.model_validate(said)


def test_heads_that_cannot_be_dealt_out(start, tmp_path):
    require_rollouts(by_vllm(tensor_parallel=2), start, 4)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    said = {"base_model_name_or_path": start.path}
    (adapter / "adapter_config.json").write_text(json.dumps(said))
    for policy in (start, Policy(str(adapter))):  # an adapter has its base's heads
        with pytest.raises(ConfigurationError, match="4 doesn't divide the model's 6"):
            require_rollouts(by_vllm(tensor_parallel=4), policy, 4)


def test_a_server_that_serves_another_model_is_refused(start):
    endpoint = Endpoint(models=[{"id": "other", "root": "models/other"}])
    with serving(endpoint):
        server = {"mode": "server", "server_url": endpoint.address}
        with pytest.raises(SamplingError, match=r"serves other, but .* is expected") as caught:
            require_rollouts(by_vllm(**server), start, 1)
        assert "--set rollout.vllm.server_model=other" in str(caught.value.next_step)
        require_rollouts(by_vllm(**server, server_model="other"), start, 1)
        endpoint.models = [{"id": "policy", "root": start.path}]
        require_rollouts(by_vllm(**server), start, 1)
    with pytest.raises(SamplingError, match=r"127\.0\.0\.1:\d+ didn't answer"):
        require_rollouts(by_vllm(**server), start, 1)


def test_a_server_whose_probabilities_are_of_another_distribution_is_refused(start):
    endpoint = Endpoint(models=[{"id": "policy", "root": start.path}])
    with serving(endpoint):
        server = {"mode": "server", "server_url": f"{endpoint.address}/v1"}
        require_rollouts(by_vllm(**server), start, 1)  # it doesn't tell, which TRL refuses
        endpoint.logprobs_mode = "processed_logprobs"
        with pytest.raises(SamplingError, match="needs raw_logprobs") as caught:
            require_rollouts(by_vllm(**server), start, 1)
        assert "--logprobs-mode raw_logprobs" in str(caught.value.next_step)
        require_rollouts(by_vllm(min_p=0, **server), start, 1)
        require_rollouts(by_vllm(**server, importance_correction="none"), start, 1)
        endpoint.logprobs_mode = "raw_logprobs"
        require_rollouts(by_vllm(**server), start, 1)
        require_rollouts(by_vllm(min_p=0, **server), start, 1)  # the same at temperature 1
        with pytest.raises(SamplingError, match="needs processed_logprobs"):
            require_rollouts(by_vllm(min_p=0, temperature=0.8, **server), start, 1)


def test_a_server_that_nobody_typed_and_one_with_a_password_are_refused(start, monkeypatch):
    """A stored configuration doesn't say where weights are handed over."""
    stored = RolloutSection.model_validate(
        {"backend": "vllm", "vllm": {"mode": "server"}}, context={SERVER_URL}
    )
    with pytest.raises(ConfigurationError, match="needs the server's address"):
        require_rollouts(stored, start, 1)
    monkeypatch.setenv(VARIABLE, '{"http://ann@h:1": "s3cret"}')
    guarded = by_vllm(mode="server", server_url="http://ann@h:1")
    with pytest.raises(ConfigurationError, match="was given with a password"):
        require_rollouts(guarded, start, 1)
