"""Lives to kill, and one thread: the networks here are too small to share."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

SCRIPT = Path(__file__).with_name("lives.py")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def lives() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lives", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recipe(lives: ModuleType) -> Callable:
    return lives.recipe


class Nursery:
    """Talks to a process of lives.py."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, out: Path, **order) -> list[int]:
        assert self.process.stdin is not None
        print(json.dumps({"out": str(out), **order}), file=self.process.stdin, flush=True)
        return json.loads(self.answer())

    def statuses(self) -> list[int]:
        return json.loads(self.answer())

    def live(self, out: Path, **order) -> list[int]:
        self.start(out, **order)
        return self.statuses()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(60) == 0
    assert made.process.stdout is not None
    made.process.stdout.close()
