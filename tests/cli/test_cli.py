"""The command line: what it prints, what it returns, and how fast it answers."""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tauleap import cli
from tauleap._version import __version__
from tauleap.pretrained import builtin_models

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tauleap {__version__}\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["--help"])
    assert exit_info.value.code == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*cli.COMMANDS, "--version"])


@pytest.mark.parametrize("command", ["sample", "complete", "evaluate", "info"])
def test_help_names_the_models_that_there_are(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as exit_info:
        cli.main([command, "--help"])
    assert exit_info.value.code == 0
    assert f"or a shipped model: {', '.join(builtin_models())}." in capsys.readouterr().out


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tauleap", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"tauleap {__version__}\n"
    wrong = subprocess.run([sys.executable, "-m", "tauleap", "nonsense"], capture_output=True, timeout=60)
    assert wrong.returncode == 2


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_answers_at_once(option: str) -> None:
    def cpu_seconds() -> float:
        before = os.times()
        subprocess.run([SCRIPT, option], check=True, stdout=subprocess.DEVNULL, timeout=60)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # The best of three: the first run may have to compile the modules.
    assert min(cpu_seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--nonsense"],
        ["nonsense"],
        ["--version", "demo"],
        ["demo", "--nonsense", "1"],
        ["demo", "--see", "5"],
        ["demo", "--seed", "many"],
        ["demo", "extra"],
    ],
)
def test_unknown_arguments_are_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(arguments)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err


@dataclass(frozen=True)
class Failing:
    """Fails as the library does."""

    kind: str = "value"

    def run(self) -> None:
        errors = {"value": ValueError, "type": TypeError, "os": OSError, "bug": RuntimeError, "stop": KeyboardInterrupt}
        if self.kind == "memory":
            raise MemoryError
        if self.kind == "torch":
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate a lot")
        raise errors[self.kind]("what was given\nand what is wanted")


@pytest.fixture
def with_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "failing", Failing)
    monkeypatch.delenv("TAULEAP_TRACEBACK", raising=False)


@pytest.mark.usefixtures("with_failing")
@pytest.mark.parametrize("kind", ["value", "type", "os"])
def test_a_users_error_is_one_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["failing", "--kind", kind]) == 2
    captured = capsys.readouterr()
    assert captured.err == "tauleap: error: what was given and what is wanted\n"
    assert captured.out == ""


@pytest.mark.usefixtures("with_failing")
@pytest.mark.parametrize("kind", ["memory", "torch"])
def test_too_little_memory_is_a_failure(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["failing", "--kind", kind]) == 1
    assert capsys.readouterr().err.startswith("tauleap: error: not enough memory: write a smaller --batch-size")


@pytest.mark.usefixtures("with_failing")
def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError):
        cli.main(["failing", "--kind", "bug"])


@pytest.mark.usefixtures("with_failing")
def test_the_traceback_of_a_users_error_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAULEAP_TRACEBACK", "1")
    with pytest.raises(ValueError, match="what was given"):
        cli.main(["failing"])


@pytest.mark.usefixtures("with_failing")
def test_interrupted() -> None:
    assert cli.main(["failing", "--kind", "stop"]) == 130
