"""Unusual terminals, pipes, signals and words: no traceback, one line on stderr, and a meaningful exit code."""

import fcntl
import json
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import sysconfig
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tauleap import cli
from tauleap._version import __version__
from tauleap.cli.output import SteadyStream, encodable
from tauleap.cli.signals import Stopped, importing, raising_signals

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"
Runs = Callable[[str], tuple[Path, Path]]


def run(arguments: list[object], **options: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | dict(options.pop("env", {}))  # pyright: ignore[reportArgumentType, reportCallIssue]
    return subprocess.run(  # pyright: ignore[reportCallIssue]
        [str(SCRIPT), *map(str, arguments)],
        env=environment,
        timeout=100,
        text=True,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),  # pyright: ignore[reportArgumentType]
    )


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """``line`` in bash, with ``$T`` for the command, ``$1`` and so on for the arguments, and the codes of all pipes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "T": str(SCRIPT)}
    script = f'{line}; echo "codes: ${{PIPESTATUS[*]}}" >&2'
    words = ["bash", "-c", script, "bash", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, env=environment)


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a refusal; nothing is on the standard output."""
    capsys.readouterr()
    try:
        code = cli.main([*map(str, arguments)])
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.out == ""
    assert captured.err.startswith("tauleap: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "a command is missing: write one of {demo, demo-music, train, "),
        (["nonsense"], "Unrecognized options: nonsense; Available subcommands: demo, "),
        (["train"], "DATA is missing after `tauleap train`: File or folder, or one of the recipes"),
        (["train", ""], "train '' is an empty name"),
        (["train", " "], "train ' ' is an empty name"),
        (["sample", ""], "sample '' is an empty name"),
        (["sample", "toy", "--out", ""], "--out '' is an empty name"),
        (["sample", "toy", "--out="], "--out= is an empty name"),
        (["complete", "toy", ""], "toy '' is an empty name"),
        (["sample", "toy", "--steps", "1e3"], "--steps must be a whole number, got '1e3'"),
        (["sample", "toy", "--temperature", "warm"], "--temperature must be a number, got 'warm'"),
        (
            ["sample", "toy", "--see", "1"],
            "Unrecognized options: --see, 1; perhaps you meant --seed (see tauleap sample",
        ),
        (["sample", "toy", "-n0"], "--n must be >= 1, got 0"),
        (["sample", "toy", "-n=-3"], "--n must be >= 1, got -3"),
        (["sample", "toy", "-nothing"], "Unrecognized options: -nothing"),
        (["train", "toy", "--minutes", "nan"], "--minutes must be a finite number > 0, got nan"),
        (["train", "toy", "--steps", "x"], "--steps must be a whole number, got 'x'"),
        (["train", "toy", "--lr", "fast"], "--lr must be a number, got 'fast'"),
        (["sample", "toy", "--label"], "--label needs a value"),
        (["sample", "toy", "--format", "gif"], "--format must be one of npy, png, got 'gif'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[object], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in refused(arguments, capsys)


def test_a_blank_name_that_exists_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / " ").write_bytes(b"\0x")
    assert "has the ending '(none)'" in refused(["train", " "], capsys)


@pytest.mark.parametrize("spelling", [["-n3"], ["-n=3"], ["-n", "3"], ["--n=3"], ["--n", "3"]])
def test_spellings_of_n(spelling: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", "toy", *spelling, "--steps", "2", "--out", str(tmp_path / "s"), "--json"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 3


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_the_version_after_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--version"]) == 0
    assert capsys.readouterr().out == f"tauleap {__version__}\n"


@pytest.mark.parametrize("command", [[], ["train"], ["sample"]])
@pytest.mark.parametrize("columns", ["1", "5", "20"])
def test_help_in_a_narrow_terminal(columns: str, command: list[str]) -> None:
    def few_bytes() -> None:  # it took all memory
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    done = run([*command, "--help"], env={"COLUMNS": columns}, preexec_fn=few_bytes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: tauleap")
    assert done.stderr == ""


def test_early_refusals_do_not_import_torch(tmp_path: Path) -> None:
    """All in one process, since each start costs time."""
    for name in ("photo.heic", "file.xlsx", "one.png", "one.mid", "a file é.docx", "no_ending"):
        (tmp_path / name).write_bytes(b"\0x")  # no text, which may be a table
    cases = [
        ["train", "photo.heic"],
        ["train", "file.xlsx"],
        ["train", "one.png"],
        ["train", "one.mid"],
        ["train", "a file é.docx"],
        ["train", "no_ending"],
        ["train", "missing.csv"],
        ["train", "toy", "--length", "3"],
        ["sample", "nowhere"],
        ["sample", "photo.heic"],
        ["sample", "toy", "--steps", "0"],
        ["sample", "toy", "--seed", "-1"],
        ["sample", "toy", "--batch-size", "0"],
        ["sample", "toy", "--out", "photo.heic"],
        ["complete", "nowhere", "photo.heic"],
        ["complete", "toy", "missing.csv"],
        ["complete", "toy", "photo.heic", "--batch-size", "0"],
        ["evaluate", "nowhere", "photo.heic"],
        ["evaluate", "toy", "missing.csv"],
        ["info", "nowhere"],
    ]
    code = (
        "import sys\nfrom tauleap.cli import main\n"
        f"codes = [main(words) for words in {cases!r}]\n"
        "print(set(codes), [name for name in ('torch', 'numpy', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "{2} []\n", done.stderr
    assert done.stderr.count("tauleap: error: ") == done.stderr.count("\n") == len(cases)
    assert "photo.heic has the ending '.heic', which cannot be read; accepted are .npy" in done.stderr


def test_characters_that_an_encoding_lacks(tmp_path: Path) -> None:
    assert encodable("1 ± 2 │ é", "utf-8") == "1 ± 2 │ é"
    assert encodable("1 ± 2 │ é", "ascii") == "1 +- 2 | \\xe9"
    assert encodable("1 ± é", "latin-1") == "1 ± é"
    assert encodable("a \udcff name", "utf-8") == "a \\udcff name"
    table = tmp_path / "Größe ±.csv"
    table.write_text("Größe,ö\n" + "klein,ü\ngroß,ü\n" * 10, encoding="utf-8")
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = run(["train", table, "--out", tmp_path / "läuft", "--steps", "2"], env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "gro\\xdf,\\xfc" in done.stdout
    assert " +- " in done.stdout
    helped = run(["--help"], env=ascii_only)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.isascii()


def test_closed_streams() -> None:
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        for words, code in (("--version", 0), ("--help", 0), ("nonsense", 2)):
            done = shell(f"$T {words} {closed}")
            assert done.stderr.splitlines()[-1] == f"codes: {code}"
            assert "Traceback" not in done.stderr
            assert "Exception" not in done.stderr


def test_files_do_not_get_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    done = shell('$T sample toy -n 3 --steps 2 --out "$1" <&- >&- 2>&-', tmp_path / "s")
    assert done.stderr == "codes: 0\n"
    assert done.stdout == ""
    (file,) = tmp_path.glob("s/samples*")
    assert cli.main(["evaluate", "toy", str(file), "--samples", "1"]) == 0


def test_readers_that_leave() -> None:
    done = shell("$T --help | head -0")
    assert done.stderr in ("codes: 141 0\n", "codes: 0 0\n")  # 0: all of it was written before the reader left
    done = shell("exec 3> >(exit 0); wait $!; $T --help >&3")
    assert done.stderr == "codes: 141\n"
    done = shell("exec 3> >(exit 0); wait $!; $T info toy >&3")
    assert done.stderr == "codes: 141\n"
    done = shell("exec 3> >(exit 0); wait $!; $T nonsense 2>&3")
    assert done.stderr == "codes: 2\n"


def test_training_without_a_reader_writes_its_files(run_of: Runs, tmp_path: Path) -> None:
    _, data = run_of("table")
    done = shell('exec 3> >(exit 0); wait $!; $T train "$1" --out "$2" --steps 2 >&3', data, tmp_path / "run")
    assert done.stderr == "codes: 141\n"
    assert (tmp_path / "run" / "samples" / "samples.csv").is_file()


def test_a_full_standard_output() -> None:
    done = shell("$T --help > /dev/full")
    error = (
        "cannot write to the standard output: No space left on device: free some space and run the same command again"
    )
    assert done.stderr == f"tauleap: error: {error}\ncodes: 1\n"


def test_a_stream_that_fails_is_written_to_once(tmp_path: Path) -> None:
    class Gone:
        encoding, writes = "utf-8", 0

        def write(self, text: str) -> int:
            self.writes += 1
            raise OSError(5, "Input/output error")

        def flush(self) -> None:
            raise AssertionError("it has failed before")

        def fileno(self) -> int:
            raise OSError

    stream = Gone()
    steady = SteadyStream(stream)
    assert steady.write("one") == 3
    assert steady.write("two") == 3
    steady.flush()
    assert stream.writes == 1
    assert steady.error is not None
    assert steady.error.errno == 5


def test_nothing_but_text_in_a_file(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, data = run_of("table")
    for name, value in (("TERM", "xterm-256color"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("COLUMNS", "5")):
        monkeypatch.setenv(name, value)
        capsys.readouterr()
        assert cli.main(["train", str(data), "--out", str(tmp_path / f"{name} {value}"), "--steps", "2"]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert all(character.isprintable() or character == "\n" for character in said.out)
        assert "samples: " in said.out


def start(arguments: list[object], **options: object) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(  # pyright: ignore[reportCallIssue]
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,  # pyright: ignore[reportArgumentType]
    )


def loaded(process: subprocess.Popen[str], library: str) -> bool:
    try:
        return library in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_during_the_import_of_torch(number: signal.Signals) -> None:
    process = start(["info", "toy"])
    until = time.monotonic() + 60
    while not loaded(process, "libtorch") and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (128 + number, "", "")


def wait_for(process: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not ready() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)


def test_a_hangup_ends_completion_and_nothing_is_left(run_of: Runs, tmp_path: Path) -> None:
    run, data = run_of("table")
    out = tmp_path / "c"
    process = start(
        [
            "complete",
            run,
            data,
            "--observed",
            "0",
            "--steps",
            "50",
            "--variants",
            "2000",
            "--batch-size",
            "5",
            "--out",
            out,
        ]
    )
    wait_for(process, lambda: loaded(process, "libtorch"))
    time.sleep(3.0)
    process.send_signal(signal.SIGHUP)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 129, error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As SIGHUP is under nohup."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with raising_signals():
            with importing():
                os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(Stopped) as stopped:
                os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.value.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_terminal_that_closes_during_training(run_of: Runs, tmp_path: Path) -> None:
    """Training is in a terminal of five columns, which goes away: it leaves a checkpoint of where it was."""
    _, data = run_of("table")
    out = tmp_path / "run"
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(SCRIPT, [str(SCRIPT), "train", str(data), "--out", str(out), "--minutes", "20"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 5, 0, 0))
    said, until = b"", time.monotonic() + 100
    while not (out / "train.csv").exists() and time.monotonic() < until:
        if select.select([terminal], [], [], 0.05)[0]:
            said += os.read(terminal, 65536)
    os.close(terminal)
    status = None
    while status is None and time.monotonic() < until:
        done, found = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(found) if done else None
        time.sleep(0.05)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert status == 129, said
    report = json.loads((out / "report.json").read_bytes())
    assert report["about"]["stopped"] == "SIGHUP"
    assert int(report["checkpoint"].rpartition("-")[2]) > 0
    assert (out / report["checkpoint"]).is_dir()
