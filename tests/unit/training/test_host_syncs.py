"""Where our part of a training step waits for a GPU, counted on a CPU by what would wait."""

import traceback
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sage_cli.training.trainer import SageTrainer

LIBRARIES = ("/sage_cli/", "/trl/", "/transformers/", "/accelerate/", "/peft/")
READS = ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__")
FROM_PYTHON = ("tensor", "arange", "randperm")
STEPS, MICRO_BATCHES = 2, 4


class HostSyncs(TorchDispatchMode):
    """Counts, by file and line of `sage_cli`, what has to know values of the device on the host.

    On the host is what is made of Python's values without a device, what `cpu` has fetched, and
    what is computed of these alone.
    """

    def __init__(self):
        super().__init__()
        self.by_place = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, output = str(func), func(*args, **(kwargs or {}))
        tensors = list(filter(torch.is_tensor, tree_leaves((args, kwargs))))
        if tensors and all(map(on_host, tensors)):
            for leaf in filter(torch.is_tensor, tree_leaves(output)):
                leaf.on_host = True
        elif name.startswith(("aten.nonzero", "aten.masked_select", "aten._unique")) or (
            name.startswith("aten.index.") and any(t.dtype is torch.bool for t in tensors[1:])
        ):
            self.note(name)
        return output

    def note(self, what):
        """Count a wait of the innermost library that asked, if that is ours."""
        for frame in reversed(traceback.extract_stack()):
            if any(library in frame.filename for library in LIBRARIES):
                if "/sage_cli/" in frame.filename:
                    file = frame.filename.rpartition("/")[2]
                    self.by_place[f"{file}:{frame.lineno} {what}"] += 1
                return


def on_host(tensor):
    return getattr(tensor, "on_host", False)


@pytest.fixture
def syncs(monkeypatch):
    counted = HostSyncs()

    def changed(owner, name, change):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **kwargs: change(plain, *args, **kwargs))

    def read(plain, self, *args):
        if not on_host(self):
            counted.note(plain.__name__)
        return plain(self, *args)

    def fetch(plain, self):
        copy = read(plain, self).view_as(self)
        copy.on_host = True
        return copy

    def send(plain, self, *args, **kwargs):
        sent = plain(self, *args, **kwargs)
        if on_host(self) and ("device" in kwargs or not isinstance(args[0], torch.dtype)):
            sent = sent.view_as(self)
            sent.on_host = False
        return sent

    def make(plain, *args, **kwargs):
        made = plain(*args, **kwargs)
        made.on_host = kwargs.get("device") is None
        return made

    def train(plain, *args, **kwargs):
        for name in READS:
            changed(torch.Tensor, name, read)
        for name in FROM_PYTHON:
            changed(torch, name, make)
        changed(torch.Tensor, "cpu", fetch)
        changed(torch.Tensor, "to", send)
        with counted:
            return plain(*args, **kwargs)

    changed(SageTrainer, "train", train)  # models are loaded before
    return counted


@pytest.mark.parametrize("guide", ["none", "branch", "token", "random", "shuffled"])
def test_a_step_waits_for_the_device_ten_times_whatever_its_micro_batches(
    bench, configure, syncs, guide
):
    rl = {"steps": STEPS, "micro_batch": 16 // MICRO_BATCHES}
    bench.run(configure(rl=rl, guide={"name": guide}))
    assert 0 < sum(syncs.by_place.values()) <= 10 * STEPS, syncs.by_place
