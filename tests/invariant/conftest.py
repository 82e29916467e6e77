"""What whole-run tests share: the toy policy, and processes of its trainings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from toy_policy import base, bench, configure, tokenizer

__all__ = ["base", "bench", "configure", "tokenizer"]
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="session")
def start() -> Iterator[Any]:
    """Start a process that carries out orders, with one thread: sums depend on how many there are.

    Processes are forked from one that has loaded the libraries; each can be killed on its own.
    """
    context = get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        path = [str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        patch.setenv("OMP_NUM_THREADS", "1")
        context.set_forkserver_preload(["toy_run"])

        def begin(*orders: dict[str, Any]) -> BaseProcess:
            from toy_run import main

            process = context.Process(target=main, args=orders)
            process.start()
            return process

        yield begin
