"""Run many hostile cases, each in a separate process, and count their outcomes.

A case runs in a fork of a process that has imported torch, so it takes milliseconds. Its address space is limited, and
a watchdog kills it if it hangs, so one bad case does not stop the whole run. A case is determined by the seed and its
number: ``--only NUMBER`` runs it again, also under a debugger.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from tauleap.data.table.columns import TableError

ACCEPTED, REFUSED = "accepted", "refused with one sentence"
UNCLEAR, TRACEBACK, HANG, MEMORY = "unclear message", "traceback or crash", "hang", "too much memory"
GOOD, BAD = (ACCEPTED, REFUSED), (UNCLEAR, TRACEBACK, HANG, MEMORY)
_MOST_SECONDS = 20.0
_MOST_BYTES = 2 * 2**30
_HEADROOM = 3 * 2**30
"""Address space that a case may add: more than the limit on resident memory, so that the limit is what is measured."""
_LONGEST_MESSAGE = 1500
_NO_MEMORY = ("allocate memory", "out of memory", "not enough memory")

Case = Callable[[random.Random, Path], "tuple[str, str, str]"]
"""Takes random numbers and an empty folder; returns what was mutated, how it ended, and the message."""


@dataclass(frozen=True)
class Ending:
    """The outcome of one case."""

    case: int
    what: str
    kind: str
    message: str
    seconds: float
    megabytes: int


def attempt(call: Callable[[], object], name: str, printed: Callable[[str], str] = str) -> tuple[str, str]:
    """Call a function and classify its exception.

    A clear message contains ``name`` and has one line, or one line per problem of a table.

    ``printed`` is what the command line does to a message before it prints it.
    """
    try:
        call()
    except (ValueError, TypeError, OSError) as error:
        message = str(error)
        # An error about a table has one line per problem.
        lines = [printed(line) for line in (message.split("\n") if isinstance(error, TableError) else [message])]
        clear = all(map(_is_clear, lines)) and name in message
        return (REFUSED if clear else UNCLEAR), f"{type(error).__name__}: {printed(message)}"
    except BaseException as error:
        kind = MEMORY if isinstance(error, MemoryError) or any(w in str(error) for w in _NO_MEMORY) else TRACEBACK
        return kind, traceback.format_exc()[-4000:]
    return ACCEPTED, ""


def command(arguments: list[str]) -> tuple[str, str]:
    """Run a command line and classify its exit code and everything that it prints."""
    from tauleap.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as leaving:
            code = leaving.code
        except BaseException as error:
            kind = MEMORY if isinstance(error, MemoryError) or any(w in str(error) for w in _NO_MEMORY) else TRACEBACK
            return kind, traceback.format_exc()[-4000:]
    printed, errors = out.getvalue(), err.getvalue()
    last = (errors.strip().splitlines() or [""])[-1]
    if any(words in errors for words in _NO_MEMORY):
        return MEMORY, errors[-1000:]
    if _has_controls(printed.replace("\n", "")) or _has_controls(errors.replace("\n", "")):
        return UNCLEAR, f"control characters are printed: {(printed + errors)[-1000:]!r}"
    if code == 0:
        return ACCEPTED, printed[-200:]
    clear = code in (1, 2) and last.startswith("tauleap: error: ") and _is_clear(last)
    return (REFUSED if clear else UNCLEAR), f"exit code {code}: {errors[-1000:]}"


def worst(*endings: tuple[str, str]) -> tuple[str, str]:
    """Return the decisive outcome of several calls: the first bad one, or the last."""
    return next((ending for ending in endings if ending[0] in BAD), endings[-1])


def _is_clear(message: str) -> bool:
    return (
        0 < len(message) <= _LONGEST_MESSAGE
        and not _has_controls(message)
        and "weights_only" not in message
        and "Traceback" not in message
    )


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)


class Running:
    """One case in a separate process."""

    def __init__(self, number: int, case: Case, seed: int, scratch: Path) -> None:
        self.number, self.began = number, time.monotonic()
        self.folder = scratch / f"case-{number}"
        self.result = scratch / f"case-{number}.json"
        self.stack = scratch / f"case-{number}.stack"
        self.folder.mkdir()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_child(number, case, seed, self.folder, self.result, self.stack)

    def poll(self) -> Ending | None:
        """Return the outcome, or None while it runs."""
        waited = self._seconds_without_a_core()
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        seconds, hung = time.monotonic() - self.began, False
        if pid == 0:
            if seconds - waited < _MOST_SECONDS:
                return None
            os.kill(self.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            hung = True
        what, kind, message = "", TRACEBACK, f"the process ended with status {status}"
        if hung:
            kind, message = HANG, self.stack.read_text() if self.stack.exists() else ""
        elif self.result.exists():
            what, kind, message = json.loads(self.result.read_text())
        elif usage.ru_maxrss * 1024 > _MOST_BYTES and kind in GOOD:
            kind = MEMORY
        shutil.rmtree(self.folder, ignore_errors=True)
        self.result.unlink(missing_ok=True)
        self.stack.unlink(missing_ok=True)
        return Ending(self.number, what, kind, message, round(seconds, 2), usage.ru_maxrss // 1024)

    def _seconds_without_a_core(self) -> float:
        """Return the time for which the case waited for a busy CPU, which does not count as a hang."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0


def _be_the_child(number: int, case: Case, seed: int, folder: Path, result: Path, stack: Path) -> None:
    try:
        # Where a case hangs is known shortly before it is killed.
        faulthandler.dump_traceback_later(0.9 * _MOST_SECONDS, repeat=True, file=stack.open("w"))
        limit = _address_space() + _HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        result.write_text(json.dumps(case(random.Random(f"{seed} {number}"), folder)))
    except BaseException:
        result.write_text(json.dumps(["the case itself", TRACEBACK, traceback.format_exc()]))
    finally:
        os._exit(0)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def in_a_process(make: Callable[[], object], modules: Path | None = None) -> None:
    """Call a function in a fork, so that its threads do not exist when cases are forked.

    The modules that it imported are imported here too, by way of the file ``modules``, so that no case has to: those of
    a training step take a second.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            make()
            if modules is not None:
                modules.write_text("\n".join(sys.modules))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the files to mutate could not be made")
    if modules is not None:
        for name in modules.read_text().splitlines():
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def main(description: str, prepare: Callable[[Path], Case], name: str) -> None:
    """Parse the options, run the cases, print the counts, and exit with 1 if any case ended badly."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=None, help="start no case after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="cases that run at once")
    parser.add_argument("--only", type=int, default=None, help="run this case alone and print its message")
    parser.add_argument("--failures", type=Path, default=None, help="write the cases that end badly to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as temporary:
        scratch = Path(temporary)
        case = prepare(scratch)
        numbers = range(options.cases) if options.only is None else [options.only]
        endings = _run(numbers, case, options.seed, scratch, options.jobs, options.seconds)
    counts, slowest = Counter(ending.kind for ending in endings), max(endings, key=lambda ending: ending.seconds)
    largest = max(endings, key=lambda ending: ending.megabytes)
    bad = sorted((ending for ending in endings if ending.kind in BAD), key=lambda ending: ending.case)
    for ending in endings if options.only is not None else bad[:20]:
        words = ending.message if options.only is not None else ending.message.strip()[-300:]
        print(f"case {ending.case} ({ending.what}), {ending.kind}: {words}", flush=True)
    print(f"{name}: {len(endings)} cases, seed {options.seed}, {time.monotonic() - began:.0f} s")
    for kind in (*GOOD, *BAD):
        print(f"  {kind}: {counts[kind]}")
    print(
        f"  slowest: {slowest.seconds} s (case {slowest.case}); largest: {largest.megabytes} MB (case {largest.case})"
    )
    if options.failures is not None:
        options.failures.write_text(json.dumps([asdict(ending) for ending in bad], indent=1) + "\n")
    sys.exit(1 if bad else 0)


def _run(
    numbers: range | list[int], case: Case, seed: int, scratch: Path, jobs: int, seconds: float | None
) -> list[Ending]:
    endings: list[Ending] = []
    running: list[Running] = []
    left, began = iter(numbers), time.monotonic()
    more = True
    while more or running:
        late = seconds is not None and time.monotonic() - began > seconds
        if more and len(running) < jobs and not late:
            number = next(left, None)
            if number is None:
                more = False
            else:
                running.append(Running(number, case, seed, scratch))
                continue
        elif late:
            more = False
        ended = [(one, one.poll()) for one in running]
        running = [one for one, ending in ended if ending is None]
        endings += [ending for _, ending in ended if ending is not None]
        if len(running) == len(ended):
            time.sleep(0.002)
    return endings
