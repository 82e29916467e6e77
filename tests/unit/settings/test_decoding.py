"""What rollouts and samples share."""

import pytest
from pydantic import ValidationError

from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.rollout import RolloutSection
from sage_cli.settings.sampling import SamplingSection


def test_decoding_is_shared_with_each_sections_own_defaults():
    shared = set(DecodingSection.model_fields)
    assert shared == {"temperature", "top_p", "top_k", "min_p", "max_tokens"}
    rollout, sampling = RolloutSection(), SamplingSection(temperature=0)
    assert (rollout.temperature, SamplingSection().temperature) == (1.0, 0.3)
    assert rollout.model_dump(include=shared - {"temperature"}) == sampling.model_dump(
        include=shared - {"temperature"}
    )
    with pytest.raises(ValidationError, match="greater than 0"):
        RolloutSection(temperature=0)
