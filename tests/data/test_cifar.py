"""CIFAR-10 from its binary version: every byte in its place, nothing written, nothing trusted; and its download."""

import gzip
import hashlib
import io
import os
import pickle
import random
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import Dataset, cifar, cifar10, open_data
from tauleap.data.download import cache_folder
from tauleap.data.images import ImageForm

FOLDER = "cifar-10-batches-bin"
NAMES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
RECORDS = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of three pictures."""
    monkeypatch.setattr(cifar, "_RECORDS", RECORDS)


def batch(seed: int) -> tuple[np.ndarray, list[int], bytes]:
    """Pictures, labels, and the file of them."""
    pixels = np.random.default_rng(seed).integers(0, 256, (RECORDS, 3, 32, 32)).astype(np.uint8)
    labels = [(seed + i) % 10 for i in range(RECORDS)]
    return pixels, labels, b"".join(bytes([n]) + row.tobytes() for n, row in zip(labels, pixels, strict=True))


BATCHES = {name: batch(seed) for seed, name in enumerate(NAMES)}
FILES = {f"{FOLDER}/{name}": content for name, (_, _, content) in BATCHES.items()}


def folder_of(place: Path) -> Path:
    (place / FOLDER).mkdir(parents=True)
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    return place / FOLDER


def archive_of(
    files: dict[str, bytes], *others: tarfile.TarInfo, packed: bool = True, format: int = tarfile.PAX_FORMAT
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if packed else "w", format=format) as archive:
        for entry in others:
            archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 1.5  # half a second is for PAX headers only
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def other(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def is_ours(parts: tuple[Dataset, Dataset]) -> None:
    for data, names in zip(parts, (NAMES[:5], NAMES[5:]), strict=True):
        assert (data.shape, data.num_states, data.x.dtype) == ((3, 32, 32), 256, torch.uint8)
        assert np.array_equal(data.x.numpy(), np.concatenate([BATCHES[name][0] for name in names]))
        assert data.condition is not None
        assert data.condition.dtype == torch.int64
        assert data.condition.tolist() == [label for name in names for label in BATCHES[name][1]]


def test_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    is_ours(cifar10(folder))
    is_ours(cifar10(str(tmp_path)))  # the folder that it was unpacked in


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archive(packed: bool, order: int, format: int, tmp_path: Path) -> None:
    """In any order, with the other files that it has; and nothing is written beside it."""
    long = f"{FOLDER}/{'long/' * 30}name"
    files = dict([*FILES.items(), (f"{FOLDER}/readme.html", b"hello"), (long, b"x")][::order])
    content = archive_of(files, other(FOLDER, tarfile.DIRTYPE), packed=packed, format=format)
    path = put(tmp_path / "c.tar.gz", content)
    is_ours(cifar10(path))
    assert [file.name for file in tmp_path.iterdir()] == ["c.tar.gz"]


def test_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 and 10,000 pictures, 30,730,000 bytes a file."""
    monkeypatch.undo()
    for name in NAMES:
        with (tmp_path / name).open("wb") as file:
            file.truncate(10_000 * 3073)  # zeros that take no place
    with (tmp_path / NAMES[1]).open("r+b") as file:
        file.seek(3073)
        file.write(b"\x09\x07")
    train, test = cifar10(tmp_path)
    assert (len(train), len(test)) == (50_000, 10_000)
    assert train.condition is not None
    assert train.condition.nonzero().tolist() == [[10_001]]
    assert train.x.nonzero().tolist() == [[10_001, 0, 0, 0]]
    with (tmp_path / NAMES[1]).open("r+b") as file:
        file.truncate(10_000 * 3073 - 1)
    with pytest.raises(ValueError, match=r"data_batch_2\.bin must have 30,730,000 bytes, 10,000 .*got 30,729,999"):
        cifar10(tmp_path)


def test_paths_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAULEAP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"does not exist: write download=True, or give the path"):
        cifar10()
    with pytest.raises(ValueError, match=r"nothing does not exist: write download=True, or give the path"):
        cifar10(tmp_path / "nothing")
    with pytest.raises(ValueError, match="the path, or download=True, and not both"):
        cifar10(tmp_path, download=True)
    with pytest.raises(ValueError, match=r"has no data_batch_1\.bin: give cifar-10-binary\.tar\.gz, or the folder"):
        cifar10(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    whole = BATCHES[NAMES[3]][2]
    for content in (whole[:-1], whole + b"x", whole[:3073]):
        put(folder / NAMES[3], content)
        with pytest.raises(ValueError, match=rf"data_batch_4\.bin must have 9,219 bytes, .*got {len(content):,}"):
            cifar10(folder)
        path = put(tmp_path / "c.tar.gz", archive_of(FILES | {f"{FOLDER}/{NAMES[3]}": content}))
        with pytest.raises(ValueError, match=rf"c\.tar\.gz: data_batch_4\.bin must .*got {len(content):,}"):
            cifar10(path)
    put(folder / NAMES[3], whole[:3073] + b"\x0a" + whole[3074:])
    with pytest.raises(ValueError, match=r"data_batch_4\.bin has the label 10 at picture 1: labels are 0\.\.9"):
        cifar10(folder)
    (folder / NAMES[3]).unlink()
    with pytest.raises(ValueError, match=r"has no data_batch_4\.bin"):
        cifar10(folder)


def test_archives_that_are_something_else(tmp_path: Path) -> None:
    name = f"{FOLDER}/{NAMES[0]}"
    rest = {key: value for key, value in FILES.items() if key != name}
    path = tmp_path / "c.tar.gz"
    for entry in (other(name, tarfile.SYMTYPE, "/etc/passwd"), other(name, tarfile.LNKTYPE, f"{FOLDER}/{NAMES[1]}")):
        entry.size = 0
        put(path, archive_of(rest, entry))
        with pytest.raises(ValueError, match=r"data_batch_1\.bin must have 9,219 bytes"):
            cifar10(path)
    disguised = other(name, tarfile.FIFOTYPE)
    disguised.size = RECORDS * 3073
    put(path, archive_of(rest, disguised))
    with pytest.raises(ValueError, match=r"c\.tar\.gz"):
        cifar10(path)
    for wrong in (f"../{FOLDER}/{NAMES[0]}", f"/{FOLDER}/{NAMES[0]}", NAMES[0], f"{FOLDER}/sub/{NAMES[0]}"):
        put(path, archive_of(rest | {wrong: FILES[name]}))
        with pytest.raises(ValueError, match=r"has no data_batch_1\.bin"):
            cifar10(path)
    once, again = (
        archive_of(files, packed=False, format=tarfile.USTAR_FORMAT) for files in (FILES, {name: FILES[name]})
    )
    put(path, once.rstrip(b"\0").ljust(6 * 10_240, b"\0") + again)  # a header and 19 blocks for each
    with pytest.raises(ValueError, match=r"holds data_batch_1\.bin twice"):
        cifar10(path)
    for content in (b"nothing", b"\x1f\x8bnothing", bytes(10_000)):
        put(path, content)
        with pytest.raises(ValueError, match=r"c\.tar\.gz (is damaged|has no data_batch_1)"):
            cifar10(path)


class _Runs:
    """A pickle of it would run code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran",)


def test_pickles_are_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    harmful = pickle.dumps(_Runs())
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    put(folder / "data_batch_1", harmful)
    path = put(tmp_path / "cifar-10-python.tar.gz", archive_of({"cifar-10-batches-py/data_batch_1": harmful}))
    for given in (folder, path):
        for read in (cifar10, open_data):
            with pytest.raises(
                ValueError, match=r"pickles and can run code: get .* cifar-10-binary\.tar\.gz, from https"
            ):
                read(given)
    assert not (tmp_path / "ran").exists()


def test_damaged_archives(tmp_path: Path) -> None:
    """Whatever the bytes are: our pictures, or a ValueError that names the file."""
    path, rng = tmp_path / "c.tar.gz", random.Random(0)
    plain, packed = (archive_of(FILES, packed=packed, format=tarfile.GNU_FORMAT) for packed in (False, True))
    for number in range(400):
        content = bytearray(packed if number % 2 else plain)
        for _ in range(rng.randint(1, 3)):
            # Headers of a plain archive are where most goes wrong.
            at = rng.randrange(len(content)) if number % 2 else 10_240 * rng.randrange(6) + rng.randrange(512)
            content[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
        if rng.random() < 0.2:
            del content[rng.randrange(len(content)) :]
        path.write_bytes(content or b"x")
        try:
            parts = cifar10(path)
        except ValueError as error:
            assert "c.tar.gz" in str(error)  # noqa: PT017 (an error is one of two right outcomes)
        else:
            assert [len(part) for part in parts] == [15, 3]
            if number % 2:
                is_ours(parts)
    head = plain[:512]
    for size in (b"\x80" + b"\x7f" * 11, b"\xff" * 12, b"777777777777", b"-1234567\0   ", b"\0" * 12, b"0x10\0       "):
        forged = head[:124] + size + head[136:148] + b" " * 8 + head[156:]
        forged = forged[:148] + b"%06o\0 " % sum(forged) + forged[156:]
        path.write_bytes(forged + plain[512:])
        with pytest.raises(ValueError, match=r"c\.tar\.gz"):
            cifar10(path)
    for cut in range(1, len(packed), 997):
        path.write_bytes(packed[:cut])
        with pytest.raises(ValueError, match=r"c\.tar\.gz"):
            cifar10(path)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_bomb_is_not_unpacked(kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, a header or a name that is said to have 4 GB: reading ends at the bound."""
    monkeypatch.setattr(cifar, "_MOST_UNPACKED", 2**20)
    entry = other("a", kind)
    entry.size = 2**32
    path = put(tmp_path / "c.tar.gz", gzip.compress(entry.tobuf() + bytes(2**24), compresslevel=1))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 1,048,576 bytes"):
        cifar10(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def test_npz(tmp_path: Path) -> None:
    """A part of the set as arrays, with channels last as most have it."""
    pixels, labels, _ = BATCHES[NAMES[0]]
    last = pixels.transpose(0, 2, 3, 1)
    path = tmp_path / "c.npz"
    np.savez(path, x_train=last, x_test=last[:1], y_train=np.array(labels), y_test=np.array(labels[:1]))
    train, test = cifar10(path)
    assert np.array_equal(train.x.numpy(), pixels)
    assert (len(test), test.num_states) == (1, 256)
    assert train.condition is not None
    assert train.condition.tolist() == labels
    np.savez(path, x_train=last[..., 0], x_test=last[..., 0])
    with pytest.raises(ValueError, match=r"shape \(1, 32, 32\), those of CIFAR-10 have \(3, 32, 32\)"):
        cifar10(path)


def test_opened_as_data_of_ones_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    path = put(tmp_path / "cifar-10-binary.tar.gz", archive_of(FILES))
    wanted = np.concatenate([BATCHES[name][0] for name in NAMES[:5]])
    for given in (folder, path):
        opened = open_data(given)
        assert opened.form == ImageForm(3, 32, 32)
        assert opened.dataset.condition is None
        assert np.array_equal(opened.dataset.x.numpy(), wanted)
        assert "15 pictures, 32 x 32" in opened.report[0]
        assert opened.report[-1] == "left out: labels, and 3 pictures to test with"
    form = open_data(folder).form
    assert np.array_equal(form.read(folder / NAMES[5]).x.numpy(), BATCHES[NAMES[5]][0])
    with pytest.raises(ValueError, match=r"test_batch\.bin must have 9,219 bytes"):
        form.read(put(tmp_path / NAMES[5], b"short"))


class Server:
    """A web server on this machine that gives ``content``, or only the first ``cut`` bytes of it; it counts."""

    def __init__(self) -> None:
        self.content, self.cut, self.asked = b"", None, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                if not self.path.endswith("cifar-10-binary.tar.gz"):
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(outer.content)))
                self.end_headers()
                self.wfile.write(outer.content[: outer.cut])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/cifar-10-binary.tar.gz"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    server = Server()
    server.content = archive_of(FILES)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("TAULEAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar, "_URL", server.url)
    monkeypatch.setattr(cifar, "_MD5", hashlib.md5(server.content).hexdigest())
    yield server
    server.stop()


def test_it_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "cifar-10-binary.tar.gz"
    is_ours(cifar10(download=True))
    assert kept.read_bytes() == server.content
    is_ours(cifar10(download=True))
    is_ours(cifar10())
    assert server.asked == 1
    assert [file.name for file in kept.parent.iterdir()] == [kept.name]
    # What is kept and damaged is downloaded anew.
    put(kept, server.content[:-1])
    is_ours(cifar10(download=True))
    assert server.asked == 2


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.content = archive_of(FILES | {f"{FOLDER}/readme.html": b"another"})
    found = hashlib.md5(server.content).hexdigest()
    with pytest.raises(ValueError, match=rf"not the file that is known: .* MD5 {found}, not .* Nothing was kept"):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(ValueError, match="write download=True"):
        cifar10()


def test_a_transfer_that_breaks_off_leaves_what_was_there(server: Server, tmp_path: Path) -> None:
    server.cut = 1000
    message = rf"could not be downloaded: it ended after 1,000 of {len(server.content):,} bytes\. Try again"
    with pytest.raises(OSError, match=message):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []
    server.cut = None
    is_ours(cifar10(download=True))


def test_an_answer_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_MOST_PACKED", 500)
    with pytest.raises(ValueError, match="gives more than 500 bytes"):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []


def test_nobody_answers(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_URL", server.url.replace("cifar-10-binary", "cifar-10-lost"))
    with pytest.raises(OSError, match=r"could not be downloaded: HTTP Error 404.*give its path"):
        cifar10(download=True)
    monkeypatch.setattr(cifar, "_URL", "http://127.0.0.1:1/cifar-10-binary.tar.gz")
    with pytest.raises(OSError, match=r"could not be downloaded: .*Connection refused"):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"TAULEAP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tauleap"),
        ({"HOME": "/c"}, "/c/.cache/tauleap"),
    ],
)
def test_where_it_is_kept(settings: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAULEAP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(wanted)
