"""CIFAR-10 from its binary version: all bytes, no files written, untrusted archives rejected; and its download."""

import gzip
import hashlib
import io
import os
import pickle
import random
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import Dataset, cifar10, open_data
from tauleap.data.download import cache_folder
from tauleap.data.image import cifar
from tauleap.data.image.format import ImageFormat

FOLDER = "cifar-10-batches-bin"
NAMES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
RECORDS = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the files to three images each."""
    monkeypatch.setattr(cifar, "_RECORDS", RECORDS)


def batch(seed: int) -> tuple[np.ndarray, list[int], bytes]:
    """Return images, labels, and the bytes of their file."""
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


def published(monkeypatch: pytest.MonkeyPatch, path: Path, content: bytes) -> Path:
    """Write a file, and make its checksum the expected one."""
    monkeypatch.setattr(cifar, "_SHA256", hashlib.sha256(content).hexdigest())
    return put(path, content)


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
def test_archive(packed: bool, order: int, format: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files may have any order, other files are ignored, and nothing is unpacked to disk."""
    long = f"{FOLDER}/{'long/' * 30}name"
    files = dict([*FILES.items(), (f"{FOLDER}/readme.html", b"hello"), (long, b"x")][::order])
    content = archive_of(files, other(FOLDER, tarfile.DIRTYPE), packed=packed, format=format)
    path = published(monkeypatch, tmp_path / "c.tar.gz", content)
    is_ours(cifar10(path))
    assert [file.name for file in tmp_path.iterdir()] == ["c.tar.gz"]


def test_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the published size: 30,730,000 bytes each, 50,000 training images and 10,000 test images."""
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
    with pytest.raises(
        ValueError, match=r"data_batch_2\.bin is damaged: it must have 30,730,000 bytes, 10,000 .*got 30,729,999"
    ):
        cifar10(tmp_path)


def test_wrong_paths_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAULEAP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"does not exist: write download=True, or give the path"):
        cifar10()
    with pytest.raises(ValueError, match=r"nothing does not exist: write download=True, or give the path"):
        cifar10(tmp_path / "nothing")
    with pytest.raises(ValueError, match="download=True: write only one of them"):
        cifar10(tmp_path, download=True)
    with pytest.raises(ValueError, match=r"has no data_batch_1\.bin: give cifar-10-binary\.tar\.gz, or its folder"):
        cifar10(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_truncated_files_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path)
    whole = BATCHES[NAMES[3]][2]
    for content in (whole[:-1], whole + b"x", whole[:3073]):
        put(folder / NAMES[3], content)
        with pytest.raises(
            ValueError, match=rf"data_batch_4\.bin is damaged: it must have 9,219 bytes, .*got {len(content):,}"
        ):
            cifar10(folder)
        path = published(monkeypatch, tmp_path / "c.tar.gz", archive_of(FILES | {f"{FOLDER}/{NAMES[3]}": content}))
        with pytest.raises(ValueError, match=rf"c\.tar\.gz: data_batch_4\.bin is damaged: .*got {len(content):,}"):
            cifar10(path)
    put(folder / NAMES[3], whole[:3073] + b"\x0a" + whole[3074:])
    with pytest.raises(ValueError, match=r"data_batch_4\.bin has the label 10 for image 1: labels must be 0\.\.9"):
        cifar10(folder)
    (folder / NAMES[3]).unlink()
    with pytest.raises(ValueError, match=r"has no data_batch_4\.bin"):
        cifar10(folder)


def test_other_archives_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{FOLDER}/{NAMES[0]}"
    rest = {key: value for key, value in FILES.items() if key != name}
    path = tmp_path / "c.tar.gz"
    for entry in (other(name, tarfile.SYMTYPE, "/etc/passwd"), other(name, tarfile.LNKTYPE, f"{FOLDER}/{NAMES[1]}")):
        entry.size = 0
        published(monkeypatch, path, archive_of(rest, entry))
        with pytest.raises(ValueError, match=r"data_batch_1\.bin is damaged: it must have 9,219 bytes"):
            cifar10(path)
    disguised = other(name, tarfile.FIFOTYPE)
    disguised.size = RECORDS * 3073
    published(monkeypatch, path, archive_of(rest, disguised))
    with pytest.raises(ValueError, match=r"c\.tar\.gz"):
        cifar10(path)
    for wrong in (f"../{FOLDER}/{NAMES[0]}", f"/{FOLDER}/{NAMES[0]}", NAMES[0], f"{FOLDER}/sub/{NAMES[0]}"):
        published(monkeypatch, path, archive_of(rest | {wrong: FILES[name]}))
        with pytest.raises(ValueError, match=r"has no data_batch_1\.bin"):
            cifar10(path)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for each, content in (*FILES.items(), (name, FILES[name])):
            entry = tarfile.TarInfo(each)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    published(monkeypatch, path, out.getvalue())
    with pytest.raises(ValueError, match=r"contains data_batch_1\.bin twice"):
        cifar10(path)
    for content in (b"nothing", b"\x1f\x8bnothing", bytes(10_000)):
        published(monkeypatch, path, content)
        with pytest.raises(ValueError, match=r"c\.tar\.gz (is damaged|has no data_batch_1)"):
            cifar10(path)


class _Runs:
    """Run code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran",)


def test_pickles_raise_and_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    harmful = pickle.dumps(_Runs())
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    put(folder / "data_batch_1", harmful)
    path = put(tmp_path / "cifar-10-python.tar.gz", archive_of({"cifar-10-batches-py/data_batch_1": harmful}))
    for given in (folder, path):
        for read in (cifar10, open_data):
            with pytest.raises(
                ValueError, match=r"pickles can run code: download .* cifar-10-binary\.tar\.gz, from https"
            ):
                read(given)
    assert not (tmp_path / "ran").exists()


def test_archives_with_another_checksum_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rng = tmp_path / "c.tar.gz", random.Random(0)
    packed = archive_of(FILES)
    is_ours(cifar10(published(monkeypatch, path, packed)))

    def opened(*arguments: object) -> None:
        raise AssertionError("opened before its checksum was verified")

    monkeypatch.setattr(tarfile, "open", opened)
    bomb = gzip.compress(bytes(2**24), compresslevel=1)
    changed = bytearray(packed)
    changed[rng.randrange(len(packed))] ^= 1
    for content in (bytes(changed), packed[:-1], packed + b"x", b"nothing", bomb):
        put(path, content)
        found = hashlib.sha256(content).hexdigest()
        message = rf"c\.tar\.gz is damaged, or is not cifar-10-binary\.tar\.gz .*{found}.* give the folder {FOLDER}"
        for read in (cifar10, open_data):
            with pytest.raises(ValueError, match=message):
                read(path)


def test_npz(tmp_path: Path) -> None:
    """Part of the dataset as arrays, with the channels last."""
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
    with pytest.raises(ValueError, match=r"shape \(1, 32, 32\), but those of CIFAR-10 have \(3, 32, 32\)"):
        cifar10(path)


def test_open_data_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path)
    path = published(monkeypatch, tmp_path / "cifar-10-binary.tar.gz", archive_of(FILES))
    expected = np.concatenate([BATCHES[name][0] for name in NAMES[:5]])
    for given in (folder, path):
        opened = open_data(given)
        assert opened.form == ImageFormat(3, 32, 32)
        assert opened.dataset.condition is None
        assert np.array_equal(opened.dataset.x.numpy(), expected)
        assert "15 images, 32 x 32" in opened.report[0]
        assert opened.report[-1] == "left out: labels, and 3 test images"
    form = open_data(folder).form
    assert np.array_equal(form.read(folder / NAMES[5]).x.numpy(), BATCHES[NAMES[5]][0])
    with pytest.raises(ValueError, match=r"test_batch\.bin is damaged: it must have 9,219 bytes"):
        form.read(put(tmp_path / NAMES[5], b"short"))


class Server:
    """A local web server that returns ``content``, or its first ``cut`` bytes, and counts requests."""

    def __init__(self) -> None:
        self.content, self.cut, self.num_requests = b"", None, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.num_requests += 1
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
    monkeypatch.setattr(cifar, "_SHA256", hashlib.sha256(server.content).hexdigest())
    yield server
    server.stop()


def test_archive_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    cached = tmp_path / "cache" / "cifar-10-binary.tar.gz"
    is_ours(cifar10(download=True))
    assert cached.read_bytes() == server.content
    is_ours(cifar10(download=True))
    is_ours(cifar10())
    assert server.num_requests == 1
    assert [file.name for file in cached.parent.iterdir()] == [cached.name]
    # A damaged file in the cache is downloaded again.
    put(cached, server.content[:-1])
    is_ours(cifar10(download=True))
    assert server.num_requests == 2


def test_wrong_checksum_deletes_the_download(server: Server, tmp_path: Path) -> None:
    server.content = archive_of(FILES | {f"{FOLDER}/readme.html": b"another"})
    found = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(
        ValueError, match=rf"another file than expected: .* SHA-256 {found}, not .* The download was deleted"
    ):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(ValueError, match="write download=True"):
        cifar10()


def test_interrupted_download_keeps_the_cached_file(server: Server, tmp_path: Path) -> None:
    server.cut = 1000
    message = rf"could not be downloaded: .*got only 1000 out of {len(server.content)} bytes.*Try again"
    with pytest.raises(OSError, match=message):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []
    server.cut = None
    is_ours(cifar10(download=True))


def test_too_long_response_raises(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_MAX_PACKED_BYTES", 500)
    with pytest.raises(ValueError, match="returned more than 500 bytes"):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []


def test_unreachable_server_raises(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_URL", server.url.replace("cifar-10-binary", "cifar-10-lost"))
    with pytest.raises(OSError, match=r"could not be downloaded: HTTP Error 404.*give its path"):
        cifar10(download=True)
    monkeypatch.setattr(cifar, "_URL", "http://127.0.0.1:1/cifar-10-binary.tar.gz")
    with pytest.raises(OSError, match=r"could not be downloaded: .*Connection refused"):
        cifar10(download=True)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"TAULEAP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tauleap"),
        ({"HOME": "/c"}, "/c/.cache/tauleap"),
    ],
)
def test_cache_folder(settings: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAULEAP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
