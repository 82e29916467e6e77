"""The default backend keeps the contract that samplers of one's own inherit."""

import pytest

from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.testing import SamplerContract


class TestTransformers(SamplerContract):
    @pytest.fixture(autouse=True)
    def _given(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    def make(self):
        return TransformersSampler(self.model, self.tokenizer, self.parameters, batch_rows=5)
