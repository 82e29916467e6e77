"""The sample sets of a policy, named by weights, prompt and sampling before they exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.policy import Policy, check_same_template
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.model import sampled_dtype
from sage_cli.settings.prompt import PromptSection
from sage_cli.store.run import IMPORTED
from sage_cli.store.sample_set import SampleIdentity, SampleSet


@dataclass(frozen=True)
class PolicySamples:
    """A policy under a prompt and sampling parameters: its sample sets, one for each seed.

    `dtype` is the configured type of the weights; "auto" is the stored one. `served` is what a
    server decides of the samples (`SamplingSection.served`).
    """

    policy: Policy
    prompt: PromptSection
    parameters: SamplingParameters
    dtype: str
    root: Path
    served: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_config(cls, policy: Policy, config: SageConfig, root: Path) -> PolicySamples:
        """The samples that an evaluation counts.

        Raises ConfigurationError for a run that was trained under another prompt, unless that is
        allowed.
        """
        sampling = config.sampling
        if policy.imported:
            return ImportedSamples._under(policy, config, root, sampling, {})
        if config.grading.judge == IMPORTED_JUDGE:
            raise ConfigurationError(
                f"{policy.label} has no verdicts of another program (grading.judge=imported)",
                "grade both with one judge: --set grading.judge=math",
            )
        samples = cls._under(
            policy, config, root, sampling, sampling.served, stops=sampling.stop_at_answer
        )
        allowed = config.evaluation.allow_template_mismatch
        check_same_template(policy, samples.template, allowed=allowed, use="this evaluation")
        return samples

    @classmethod
    def for_rollouts(cls, policy: Policy, config: SageConfig, root: Path) -> PolicySamples:
        """The samples that a training takes beforehand, as it would sample rollouts."""
        return cls._under(policy, config, root, config.rollout, {}, stops=True)

    @classmethod
    def _under(
        cls,
        policy: Policy,
        config: SageConfig,
        root: Path,
        section: DecodingSection,
        served: Mapping[str, str],
        *,
        stops: bool = False,
    ) -> Self:
        """Return the samples under a section; with `stops` they end at the template's stop text."""
        parameters, dtype = SamplingParameters.from_section(section), sampled_dtype(config.model)
        samples = cls(policy, config.prompt, parameters, dtype, root, served)
        if not stops:
            return samples
        ended = SamplingParameters.from_section(section, samples.template)
        return replace(samples, parameters=ended)

    @property
    def in_chat(self) -> bool:
        """Return True if a server is sent messages and applies its own template to them."""
        return self.served.get("server_form") == "chat"

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt's template as far as it is known without loading the tokenizer."""
        if self.in_chat:
            return PromptTemplate(self.prompt)
        return PromptTemplate.from_section(self.prompt, self.policy.tokenizer_facts)

    def model(self, progress: Progress) -> Any:
        """Load the policy to read texts, in the type in which it is sampled from."""
        import torch

        progress.say(f"loading {self.policy.label}")
        model = self.policy.model(dtype=self.policy.dtype(self.dtype))
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def require_sampling(self, missing: int) -> None:
        """Raise StoreError if `missing` samples are not stored and can't be sampled."""

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of one evaluation seed."""
        policy = self.policy
        sampling = {
            **{key: value for key, value in asdict(self.parameters).items() if key != "opened"},
            # without it a completion was ended inside its thought
            **({"thought": "whole"} if self.parameters.engine_stop != self.parameters.stop else {}),
            "dtype": policy.dtype(self.dtype),
            # the ends that the model's own files name are part of its fingerprint
            "eos": None if self.in_chat else policy.tokenizer_facts.eos_token,
            **self.served,
        }
        identity = SampleIdentity(policy.fingerprint, self.template.hash, sampling, seed)
        return SampleSet(self.root, identity, read_only=read_only)


@dataclass(frozen=True)
class ImportedSamples(PolicySamples):
    """Samples that another program took: one set, whatever the settings of sampling are."""

    @cached_property
    def template(self) -> PromptTemplate:
        """A stand-in: the other program's prompt is part of the stored question or unknown."""
        return PromptTemplate(self.prompt)

    def require_sampling(self, missing: int) -> None:
        """Raise StoreError: there is no model to sample from."""
        label = self.policy.label
        raise StoreError(
            f"{label} was imported, and {missing:,} of the requested samples are not in it",
            f"take its own problems and samples (drop --benchmark, --n, --seeds; `sage runs show "
            f"{label}` says what there is), or name {label} first",
        )

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of the samples, whose one evaluation seed is 0."""
        return imported_set(self.root, self.policy.fingerprint, seed, read_only=read_only)


def imported_set(
    root: Path, fingerprint: str, seed: int = 0, *, read_only: bool = False
) -> SampleSet:
    """The sample set of imported samples, which are named by their content alone."""
    return SampleSet(root, SampleIdentity(fingerprint, IMPORTED, {}, seed), read_only=read_only)
