"""The shipped example of a sampler keeps the contract."""

import pytest
from sage_examples.sampler import OneByOne

from sage_cli.sampling.sampler import SamplerSetup
from sage_cli.settings.sampling import SamplingSection
from sage_cli.testing import SamplerContract


class TestOneByOne(SamplerContract):
    @pytest.fixture(autouse=True)
    def _saved(self, model, tokenizer, tmp_path):
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        self.setup = SamplerSetup(tmp_path, self.parameters, SamplingSection(), dtype="float32")

    def make(self):
        return OneByOne(self.setup)
