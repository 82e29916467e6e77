"""`rollout`: the engine's settings, what they refuse, and what they were called before."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.models.facts import rl_facts
from sage_cli.settings.rollout import RolloutSection

SERVER = ("rollout.vllm.mode=server", "rollout.vllm.server_url=http://gpu7:8000")


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["memory_share=1.5"], "rollout.vllm.memory_share is 1.5: input should be less than 1"),
        (["mode=server"], "rollout.vllm: mode 'server' needs the server's address"),
        (["mode=colocated"], r"rollout.vllm.mode is 'colocated'.* \(did you mean colocate\?\)"),
        (["tensor_paralel=2"], r"no 'tensor_paralel' \(did you mean tensor_parallel\?\)"),
        (["max_model_len=48"], "rollout: vllm.max_model_len 48 has to hold prompt and completion"),
        (["importance_correction=token"], "it can be token_truncate, token_mask"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_read(sets, said):
    with pytest.raises(ConfigurationError, match=said):
        load(sets=[f"rollout.vllm.{one}" for one in sets])


def test_vllm_decides_nothing_where_transformers_draw():
    plain = RolloutSection(backend="transformers")
    other = RolloutSection(backend="transformers", vllm={"importance_cap": 9})
    assert plain.determinants() == other.determinants()
    by_vllm = [
        RolloutSection(backend="vllm", vllm=vllm).determinants()
        for vllm in ({}, {"importance_cap": 9}, {"tensor_parallel": 2}, {"memory_share": 0.5})
    ]
    assert by_vllm[0] not in by_vllm[1:3]
    assert by_vllm[3] == by_vllm[0]  # how much memory it has changes no result


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([], "vLLM colocated, importance correction token_truncate by raw log-prob"),
        (["rollout.backend=vllm", *SERVER], "vLLM in http://gpu7:8000, importance"),
        (["rollout.vllm.tensor_parallel=2"], "vLLM colocated over 2 GPUs each"),
        (["rollout.backend=transformers"], "new tokens, transformers"),
    ],
)
def test_a_dry_run_names_the_engine(sets, said):
    config = load(["qwen2.5-math-7b"], sets=sets).config
    assert said in rl_facts(config)["rollout"]


@pytest.mark.parametrize("leaves_out", ["min_p=0.01", "top_p=0.9", "top_k=20"])
@pytest.mark.parametrize("backend", ["auto", "vllm"])
@pytest.mark.parametrize("mode", ["sequence_truncate", "sequence_mask"])
def test_ratios_of_completions_are_refused_under_truncation(leaves_out, backend, mode):
    sets = [f"rollout.vllm.importance_correction={mode}", f"rollout.backend={backend}"]
    load(sets=[*sets, "rollout.min_p=0"])
    with pytest.raises(ConfigurationError, match=f"'{mode}' multiplies .*=token_truncate"):
        load(sets=[*sets, "rollout.min_p=0", f"rollout.{leaves_out}"])
    load(sets=[*sets[:1], "rollout.backend=transformers", f"rollout.{leaves_out}"])


def test_tempered_and_truncated_rollouts_of_vllm_are_refused_or_not_corrected():
    sets = ["rollout.backend=vllm", "rollout.temperature=0.8", "rollout.min_p=0.01"]
    with pytest.raises(
        ConfigurationError, match=r"temperature is 0\.8 .*importance_correction=none"
    ):
        load(sets=sets)
    load(sets=[*sets, "rollout.vllm.importance_correction=none"])
    load(sets=[*sets[:2], "rollout.min_p=0"])
    load(sets=["rollout.backend=auto", *sets[1:]])  # a CPU's sampler has no ratio


@pytest.mark.parametrize(
    ("temperature", "min_p", "mode"),
    [
        (1.0, 0.01, "raw_logprobs"),
        (1.0, 0.0, "processed_logprobs"),  # the same at temperature 1, and right at any other
        (0.8, 0.0, "processed_logprobs"),
    ],
)
def test_the_log_probabilities_that_are_asked_for(temperature, min_p, mode):
    said = RolloutSection(backend="vllm", temperature=temperature, min_p=min_p)
    assert said.logprobs_mode == mode
