"""Files that may come from anybody: plain ones inside their folder, of bounded size, and strict JSON."""

import errno
import os
import pickle
from pathlib import Path

import pytest

from tauleap._files import safe_read
from tauleap._files.printable import one_line, printable


def test_a_plain_file_and_links_inside_its_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "a").write_bytes(b"abc")
    (tmp_path / "latest").symlink_to("step")
    assert safe_read.read_bytes(tmp_path / "step" / "a") == b"abc"
    assert safe_read.read_bytes(tmp_path / "latest" / "a", inside=tmp_path) == b"abc"
    assert safe_read.read_bytes(tmp_path / "step" / "a", most=3) == b"abc"


def test_a_linked_folder_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert safe_read.read_bytes(tmp_path / "link" / "a", inside=tmp_path / "link") == b"abc"


def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"abc")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").symlink_to("../secret")
    with pytest.raises(
        safe_read.UnreadableError, match=r"model/a is a link to .*/secret, outside .*/model: put a copy"
    ):
        safe_read.read_bytes(tmp_path / "model" / "a", inside=tmp_path / "model")
    assert safe_read.read_bytes(tmp_path / "model" / "a") == b"abc"


def test_only_the_blobs_of_the_hub_are_outside_a_snapshot(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--me--toy" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--me--toy" / "blobs").mkdir()
    (tmp_path / "models--me--toy" / "blobs" / "sum").write_bytes(b"abc")
    (snapshot / "a").symlink_to("../../blobs/sum")
    assert safe_read.read_bytes(snapshot / "a", inside=snapshot) == b"abc"
    (tmp_path / "models--me--toy" / "blobs").rename(tmp_path / "elsewhere")
    (tmp_path / "models--me--toy" / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(safe_read.UnreadableError, match="outside"):
        safe_read.read_bytes(snapshot / "a", inside=snapshot)


def test_what_is_not_a_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name, words in (("fifo", "is a FIFO"), ("zero", "is a device"), (".", "is a folder")):
        with pytest.raises(safe_read.UnreadableError, match=f"{words}, it must be a plain file"):
            safe_read.read_bytes(tmp_path / name)
    with pytest.raises(OSError, match="loop"):
        safe_read.read_bytes(tmp_path / "loop")
    with pytest.raises(FileNotFoundError, match="nothing"):
        safe_read.read_bytes(tmp_path / "nothing")


def test_sizes_are_checked_before_reading(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(safe_read.UnreadableError, match=r"has 1,099,511,627,776 bytes, it must have at most"):
        safe_read.read_json(tmp_path / "sparse")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 10**5, "nested more than 50 deep"),
        (b"[" * 60 + b"]" * 60, "nested more than 50 deep"),
        (b'{"a":' * 10**5, "nested more than 50 deep"),
        (b'{"a": {"b": 1, "b": 2}}', "the name 'b' occurs twice"),
        (b"NaN", "NaN is not valid in JSON"),
        (b"[-Infinity]", "-Infinity is not valid in JSON"),
        (b"1e999", "1e999 is not finite"),
        (b"18446744073709551616", "does not fit into 64 bits"),
        (b"1" * 5000, "5000 digits does not fit into 64 bits"),
        (b'"\xff"', "not JSON"),
        (b"", "not JSON"),
        (b'{"a', "not JSON"),
    ],
)
def test_json_that_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(safe_read.UnreadableError, match=words) as raised:
        safe_read.parse_json(text, "m/config.json")
    assert str(raised.value).startswith("m/config.json is damaged: ")
    assert str(raised.value).endswith(": get another copy of it")


def test_json_that_is_accepted() -> None:
    assert safe_read.parse_json(b"[" * 50 + b"]" * 50, "x") is not None
    assert safe_read.parse_json(b'{"a": [1, -2.5, 18446744073709551615, null, true, "\\ud83c\\udfb5"]}', "x") == {
        "a": [1, -2.5, 2**64 - 1, None, True, "🎵"]
    }


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("maximum"),
        pickle.UnpicklingError("a\nb"),
        KeyError("x"),
        RuntimeError("PytorchStreamReader\nfailed"),
        OverflowError("too large"),
        EOFError(),
        ValueError("two\n\nlines \x1b[31m"),
        TypeError("x must be a number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_exception_becomes_one_sentence(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="state") as raised, safe_read.explaining(tmp_path / "state.pt", "do this"):
        raise error
    assert raised.type is safe_read.UnreadableError
    assert raised.value.__cause__ is error
    assert str(raised.value).endswith(": do this")
    assert str(tmp_path / "state.pt") in str(raised.value)
    assert printable(str(raised.value)) == str(raised.value)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: you tried to allocate 8 bytes")])
def test_too_little_memory_is_an_error_of_the_machine(error: Exception) -> None:
    with (
        pytest.raises(OSError, match="not enough memory to read m") as raised,
        safe_read.explaining(Path("m"), "do this"),
    ):
        raise error
    assert raised.value.errno == errno.ENOMEM


def test_errors_of_the_system_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"), safe_read.explaining(tmp_path, "do this"):
        (tmp_path / "nothing").open()
    with (
        pytest.raises(OSError, match=r"m: Input/output error: do this") as raised,
        safe_read.explaining(Path("m"), "do this"),
    ):
        raise OSError(errno.EIO, "Input/output error")
    assert raised.value.errno == errno.EIO


def test_complete_errors_are_known_by_their_class() -> None:
    """Nested blocks add the file and the remedy once; words that occur in the message by chance do not matter."""
    with (
        pytest.raises(safe_read.UnreadableError, match=r"^h/a cannot be read: the checksum differs: do this$"),
        safe_read.explaining(Path("h"), "do that"),
        safe_read.explaining(Path("h/a"), "do this"),
    ):
        raise ValueError("the checksum differs")
    with (
        pytest.raises(OSError, match=r"h/a: Input/output error: do this$"),
        safe_read.explaining(Path("h"), "do that"),
        safe_read.explaining(Path("h/a"), "do this"),
    ):
        raise OSError(errno.EIO, "Input/output error")
    long = Path("/".join(["x" * 200] * 6))
    with (
        pytest.raises(ValueError, match=r"/x+ cannot be read: z+\.\.\.: do this$"),
        safe_read.explaining(long, "do this"),
    ):
        raise ValueError("z" * 3000)


def test_control_characters_are_escaped() -> None:
    assert printable("\x1b]0;x\x07\r\n\t\x9b\u202e\ud800\u2028é🎵") == (
        "\\x1b]0;x\\x07\\r\\n\\t\\x9b\\u202e\\ud800\\u2028é🎵"
    )
    assert printable("a\nb\tc\r", lines=True) == "a\nb\tc\\r"
    assert one_line("a" * 2000, most=10) == "aaaaaaa..."
