"""A process that kills itself before a file operation of a given number."""

from __future__ import annotations

import builtins
import importlib
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATHS = {"os.rename": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0, "os.symlink": 1, "os.truncate": 0, "os.link": 1}
"""Audit events that Python raises before these operations; the number is the position of the changed path."""
_FOLDERS = {"os.rename": 3, "os.remove": 1, "os.mkdir": 2, "os.rmdir": 1, "os.symlink": 2, "os.link": 3}
"""The position of the descriptor of the folder to which a path is relative, by event."""


@dataclass
class Counter:
    """Count the file operations of this process below ``root``, and kill it before number ``last``.

    An operation is to open a file for writing, to write, to write half of it, to flush, to truncate, to rename, to
    link, to make a folder, or to remove.
    """

    root: Path
    last: int | None
    done: int = 0

    def install(self) -> None:
        """Start to count, until the process ends."""
        sys.addaudithook(self._event)
        original_open, original_fsync = io.open, os.fsync

        def open_counted(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+") or not self._below(file):
                return original_open(file, mode, buffering, *rest, **options)
            options |= dict(zip(("encoding", "errors", "newline"), rest, strict=False))
            raw = _CountedFile(self, file, mode.replace("b", "").replace("t", ""))
            buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return buffer
            return io.TextIOWrapper(buffer, options.get("encoding"), options.get("errors"), options.get("newline"))

        def fsync_counted(file: Any) -> None:
            if self._below(os.readlink(f"/proc/self/fd/{file if isinstance(file, int) else file.fileno()}")):
                self.tick()
            original_fsync(file)

        builtins.open = io.open = open_counted
        os.fsync = fsync_counted

    def tick(self) -> None:
        """Count an operation before it happens, or kill the process."""
        if self.done == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.done += 1

    def _event(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self._below(path):
                self.tick()
        elif event in _PATHS:
            folder = given[_FOLDERS[event]] if event in _FOLDERS else -1
            base = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else os.getcwd()
            if self._below(os.path.join(base, os.fsdecode(given[_PATHS[event]]))):
                self.tick()

    def _below(self, path: Any) -> bool:
        return not isinstance(path, int) and Path(os.path.abspath(os.fsdecode(path))).is_relative_to(self.root)


class _CountedFile(io.FileIO):
    def __init__(self, counter: Counter, path: Any, mode: str) -> None:
        super().__init__(path, mode)
        self.counter = counter

    def write(self, data: Any) -> int:
        self.counter.tick()
        if self.counter.done == self.counter.last:
            content = bytes(data)
            super().write(content[: len(content) // 2])
        self.counter.tick()
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self.counter.tick()
        return super().truncate(size)


@dataclass(frozen=True)
class Life:
    """The end of a process: exit code, number of file operations if it was not killed, and output."""

    code: int
    operations: int
    printed: str


def live(work: Path, run: Callable[[], int], last: int | None = None) -> Life:
    """Run a function in the folder ``work`` in a forked process, which is killed before operation ``last``."""
    with tempfile.TemporaryDirectory() as beside:
        count, log = Path(beside, "count"), Path(beside, "log")
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                os.chdir(work)
                tempfile.tempdir = str(work / "tmp")
                descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
                os.dup2(descriptor, 1)
                os.dup2(descriptor, 2)
                counter = Counter(work, last)
                counter.install()
                code = run()
                count.write_text(str(counter.done))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Life(code, int(count.read_text()) if count.exists() else 0, log.read_text())


def preload(run: Callable[[], int], work: Path) -> None:
    """Import the modules that a function imports when it runs, so that forked processes already have them."""
    listed = work / "modules"

    def run_and_list() -> int:
        code = run()
        listed.write_text("\n".join(sys.modules))
        return code

    life = live(work, run_and_list)
    if life.code != 0:
        raise RuntimeError(life.printed)
    for name in listed.read_text().splitlines():
        if name not in sys.modules:
            with suppress(ImportError):
                importlib.import_module(name)
