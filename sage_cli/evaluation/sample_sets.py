"""Where a policy's samples are, drawn or not: told by weights, prompt and sampling."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from sage_cli.config.model import PromptSection
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.policies.compatibility import refuse_other_template
from sage_cli.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.store.samples import SampleIdentity, SampleSet


@dataclass(frozen=True)
class PolicySamples:
    """A policy under a prompt and sampling parameters: its sample sets, one for each seed.

    `dtype` is the configured type of the weights; "auto" is the stored one.
    """

    policy: Policy
    prompt: PromptSection
    parameters: SamplingParameters
    dtype: str
    root: Path

    @classmethod
    def of_evaluation(cls, policy: Policy, recipe: EvaluationRecipe, root: Path) -> PolicySamples:
        """The samples that an evaluation counts.

        Raises ConfigurationError for a run that was trained under another prompt, unless that is
        allowed.
        """
        stop = PromptTemplate(recipe.prompt, "").stop
        parameters = SamplingParameters.from_section(recipe.sampling, stop=stop)
        samples = cls(policy, recipe.prompt, parameters, recipe.dtype, root)
        allowed = recipe.evaluation.allow_template_mismatch
        refuse_other_template(policy, samples.template, allowed=allowed, use="this evaluation")
        return samples

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt's template as far as it is known without loading the tokenizer."""
        return PromptTemplate.from_section(self.prompt, self.policy.tokenizer_facts)

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of one evaluation seed."""
        sampling = {**asdict(self.parameters), "dtype": self.policy.dtype(self.dtype)}
        identity = SampleIdentity(self.policy.fingerprint, self.template.hash, sampling, seed)
        return SampleSet(self.root, identity, read_only=read_only)
