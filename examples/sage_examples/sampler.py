"""A sampler: transformers' own `generate`, one completion at a time. Slow, and short."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from transformers import AutoModelForCausalLM

from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, sample_seed
from sage_cli.store.completion import Completion


class OneByOne(Sampler):
    """What is drawn depends on a sample's own seed alone."""

    def __init__(self, setup: SamplerSetup) -> None:
        p, self._tokenizer = setup.parameters, setup.tokenizer()
        self._model = AutoModelForCausalLM.from_pretrained(setup.model, dtype=setup.dtype).eval()
        self._stop = p.stop
        chosen = {"temperature": p.temperature, "top_p": p.top_p, "top_k": p.top_k}
        self._how = {"do_sample": p.temperature > 0, "max_new_tokens": p.max_tokens, **chosen}
        self._how |= {"min_p": p.min_p, "stop_strings": p.stop, "tokenizer": self._tokenizer}

    @property
    def provenance(self) -> Mapping[str, str]:
        """Stored beside the samples."""
        return {"engine": "transformers generate", "torch": torch.__version__}

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Each requested sample once."""
        for of in requests:
            prompt = self._tokenizer(of.prompt, add_special_tokens=False, return_tensors="pt")
            for index in of.indices:
                torch.manual_seed(sample_seed(of.seed, of.problem_id, index))
                drawn = self._model.generate(**prompt, **self._how)[0, prompt.input_ids.shape[1] :]
                text = self._tokenizer.decode(drawn, skip_special_tokens=True)
                ended = drawn[-1] == self._tokenizer.eos_token_id or (self._stop or "\0") in text
                reason, ids = "stop" if ended else "length", tuple(drawn.tolist())
                yield Completion(of.problem_id, index, of.seed, text, len(ids), reason, ids)

    def close(self) -> None:
        """Nothing is held but memory."""
