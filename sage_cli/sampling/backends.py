"""The backend that a configuration means, made into a sampler."""

from __future__ import annotations

from sage_cli.models.verification import verify_weights
from sage_cli.sampling.sampler import Sampler, SamplerSetup
from sage_cli.settings.own_code import in_words, load_plugin
from sage_cli.settings.sampling import SAMPLER_GROUP, SamplingSection


def build_sampler(setup: SamplerSetup) -> Sampler:
    """Return the sampler of `setup`, with its model loaded unless servers sample.

    Raises DataError without a model or tokenizer, SamplingError if the backend cannot run here or a
    server serves another model, ConfigurationError if a registered factory makes no sampler. That
    the model isn't what was recorded of it is found by `require_verified`, which is called before
    the first completion is stored.
    """
    backend = chosen_backend(setup.section)
    if backend == "server":
        from sage_cli.sampling.server import ServerSampler

        return ServerSampler(setup)
    # hashing the weights takes as long as loading them: it runs beside, and the first completion
    # waits for it
    with verify_weights(setup.model, setup.revision, later=True):
        return _local_sampler(backend, setup)


def _local_sampler(backend: str, setup: SamplerSetup) -> Sampler:
    match backend:
        case "vllm":
            from sage_cli.sampling.vllm_sampler import VllmSampler

            return VllmSampler(setup)
        case "builtin":
            return _transformers(setup)
        case name:
            return _plugin(name, setup)


def chosen_backend(section: SamplingSection) -> str:
    """Return the backend; `auto` is servers if any are named, vLLM on a GPU, else `builtin`."""
    if section.backend != "auto":
        return section.backend
    if section.asks_servers:
        return "server"
    from sage_cli.sampling.vllm_sampler import vllm_obstacle

    return "vllm" if _has_gpu() and vllm_obstacle() is None else "builtin"


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _transformers(setup: SamplerSetup) -> Sampler:
    from sage_cli.models.loading import load_model
    from sage_cli.sampling.decoder import TransformersSampler

    tokenizer = setup.tokenizer()
    model = load_model(
        setup.model,
        dtype=setup.dtype,
        revision=setup.revision,
        trust_remote_code=setup.trust_remote_code,
    )
    model = model.to("cuda" if _has_gpu() else "cpu").eval()
    return TransformersSampler(model, tokenizer, setup.parameters, setup.section.batch_rows)


def _plugin(name: str, setup: SamplerSetup) -> Sampler:
    plugin = load_plugin(SAMPLER_GROUP, name)
    with plugin.blamed(
        f"can't be made with the options {in_words(setup.options)}",
        f"see {plugin.target}; --set sampling.options.NAME=VALUE sets one",
    ):
        made = plugin.object(setup)
    if not isinstance(made, Sampler):
        raise plugin.refused(
            f"makes a {type(made).__name__} and not a sage_cli.sampling.sampler.Sampler",
            "register what makes an object with provenance, sample, close, __enter__ and __exit__",
        )
    return made
