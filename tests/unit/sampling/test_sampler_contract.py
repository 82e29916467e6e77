"""The default backend keeps the contract that samplers of one's own inherit."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.sampling.sampler import Sampler
from sage_cli.sampling.sampler_contract import SamplerContract


class TestTransformers(SamplerContract):
    @pytest.fixture(autouse=True)
    def _given(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer

    def make(self) -> Sampler:
        return TransformersSampler(self.model, self.tokenizer, self.parameters, batch_rows=5)
