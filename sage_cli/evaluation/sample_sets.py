"""The sample sets of a policy, named by weights, prompt and sampling before they exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli.config.specs import EvaluationSpec, RlSpec
from sage_cli.models.policies.compatibility import refuse_other_template
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.sections.model import PromptSection, sampled_dtype
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet


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
    def of_evaluation(cls, policy: Policy, spec: EvaluationSpec, root: Path) -> PolicySamples:
        """The samples that an evaluation counts.

        Raises ConfigurationError for a run that was trained under another prompt, unless that is
        allowed.
        """
        sampling = spec.sampling
        stop = PromptTemplate(spec.prompt).stop if sampling.stop_at_answer else None
        parameters = SamplingParameters.from_section(sampling, stop=stop)
        samples = cls(policy, spec.prompt, parameters, spec.dtype, root, sampling.served)
        allowed = spec.evaluation.allow_template_mismatch
        refuse_other_template(policy, samples.template, allowed=allowed, use="this evaluation")
        return samples

    @classmethod
    def of_rollouts(cls, policy: Policy, spec: RlSpec, root: Path) -> PolicySamples:
        """The samples that a training takes beforehand, as it would sample rollouts."""
        stop = PromptTemplate(spec.prompt).stop
        parameters = SamplingParameters.from_section(spec.rollout, stop=stop)
        return cls(policy, spec.prompt, parameters, sampled_dtype(spec.model), root)

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

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of one evaluation seed."""
        policy = self.policy
        sampling = {
            **asdict(self.parameters),
            "dtype": policy.dtype(self.dtype),
            # the ends that the model's own files name are part of its fingerprint
            "eos": None if self.in_chat else policy.tokenizer_facts.eos_token,
            **self.served,
        }
        identity = SampleIdentity(policy.fingerprint, self.template.hash, sampling, seed)
        return SampleSet(self.root, identity, read_only=read_only)
