"""Mutate data files of every supported format, and count the outcomes of reading them.

    python diagnostics/fuzz_files.py [--cases 3000] [--seconds S] [--seed 0] [--only NUMBER] [--failures FILE]

A case takes a valid file or folder (csv, tsv, data, a table without an ending, txt, smi, fasta, jsonl, npy, npz,
parquet, PNG, JPEG, MIDI, piano rolls, idx, idx.gz, MNIST's folder, CIFAR-10's archive and folder), damages it, and
reads it by ``open_data``, by the format of the valid file as ``tauleap evaluate`` and ``tauleap complete`` do, or by
``tauleap train``. It must be accepted, or raise a ValueError, TypeError or OSError whose message has the name of the
file and one line, or one line per problem of a table, within 20 seconds and 2 GB.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
import PIL.Image
from _fuzz import Case, attempt, command, in_a_process, main
from _mutations import mutate_bytes, mutate_json, replace_name

from tauleap._files.printable import printable
from tauleap.data import open_data
from tauleap.data.format import Format
from tauleap.data.image import cifar
from tauleap.data.music.midi import Note, write_midi

_OPTIONS = ["--steps", "1", "--minutes", "0.03", "--device", "cpu"]
_RECORDS = 6
"""Pictures in each file of CIFAR-10: the real 10,000 would take a second per case."""


def make_files(folder: Path) -> None:
    """Write a valid file or folder of every format."""
    draw = np.random.default_rng(0)
    cells = draw.integers(0, 3, (40, 3))
    rows = [[f"é{a}" if a < 2 else "", f'x "{b}"', str(c)] for a, b, c in cells.tolist()]
    for name, mark in (("table.csv", ","), ("table.tsv", "\t")):
        lines = [mark.join("abc"), *(mark.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    _make_mixed(folder, draw)
    (folder / "text.txt").write_text("To be, or not to be: that is the question — "[:44] * 20, encoding="utf-8")
    _make_sequences(folder, draw)
    np.save(folder / "array.npy", draw.integers(0, 5, (20, 6)))
    np.savez(folder / "arrays.npz", x=draw.integers(0, 9, (20, 2, 9)), missing=draw.random((20, 2, 9)) < 0.1)
    np.savez_compressed(folder / "packed.npz", x=draw.integers(0, 9, (20, 12)).astype(np.uint8))
    _make_parquet(folder / "table.parquet", rows)
    _make_pictures(folder, draw)
    _make_music(folder, draw)
    _make_idx(folder, draw)
    _make_cifar(folder, draw)


def _make_sequences(folder: Path, draw: np.random.Generator) -> None:
    """Write rows of symbols of different lengths in every kind of file."""
    lengths = draw.integers(1, 9, 30).tolist()
    names = ["".join(draw.choice(list("abcé"), length)) for length in lengths]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    molecules = ["".join(draw.choice(["C", "Cl", "[nH]", "%12"], length)) for length in lengths]
    (folder / "molecules.smi").write_text("".join(f"{text} no. {at}\n" for at, text in enumerate(molecules)))
    for ending, letters in (("fasta", "ACDEFGHIKLMNPQRSTVWXY"), ("fna", "ACGTN")):
        proteins = ["".join(draw.choice(list(letters), 9 * length)) for length in lengths]
        records = "".join(f">row {at}\n{text[:60]}\n{text[60:]}\n" for at, text in enumerate(proteins))
        (folder / f"residues.{ending}").write_text(records)
    (folder / "texts.jsonl").write_text("".join(f"{json.dumps(name)}\n" for name in names))
    tokens = [draw.integers(0, 50, length).tolist() for length in lengths]
    (folder / "tokens.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in tokens))


def _make_mixed(folder: Path, draw: np.random.Generator) -> None:
    """Write tables of all column types, in several formats."""
    names = ["no", "size", "day", "sold", "town", "note", "price", "moment", "born"]
    rows = [
        [
            str(number),
            "?" if number % 9 == 0 else f"{draw.normal(100, 30):.2f}",
            f"{1 + number % 28:02d}.03.2024",
            ("yes", "no")[number % 2],
            ("Köln", "Ulm", "")[number % 3],
            f"some words of free text about order {number}",
            f"${draw.normal(100, 30):.2f}",
            f"2024-01-{1 + number % 28:02d}T10:{number:02d}:00+02:00",
            f"{1 + number % 28} {('March', 'June')[number % 2]} {60 + number % 30}",
        ]
        for number in range(1, 41)
    ]
    comma = [[cell.replace(".", ",") if place == 1 else cell for place, cell in enumerate(row)] for row in rows]
    files = {
        "mixed.csv": (",", [names, *rows], "utf-8"),
        "semicolons.csv": (";", [names, *comma], "latin-1"),
        "mixed.data": (",", rows, "utf-8"),
        "mixed": ("\t", [names, *rows], "utf-16"),
    }
    for name, (mark, lines, encoding) in files.items():
        (folder / name).write_bytes("".join(mark.join(line) + "\n" for line in lines).encode(encoding))
    escaped = [
        [f'"say \\"{number % 3}\\", {town}"', str(number % 7)] for number, town in enumerate(["Ulm", "Bonn"] * 20)
    ]
    (folder / "escaped.csv").write_text("".join(",".join(row) + "\n" for row in [["a", "b"], *escaped]))
    single = "".join(f"'{town}, {number % 3}', {number % 7}\n" for number, town in enumerate(["Ulm", "Bonn"] * 20))
    (folder / "single.data").write_text(single)
    export = "".join(f"{number % 5},5;{town}\r\n" for number, town in enumerate(["Ulm", "Bonn"] * 20))
    (folder / "export.csv").write_bytes(f"sep=;\r\n# by hand\r\nSales;\r\nsize;town\r\n{export}".encode())


def _make_parquet(path: Path, rows: list[list[str]]) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = dict(zip("abc", map(list, zip(*rows, strict=True)), strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="snappy")


def _make_pictures(folder: Path, draw: np.random.Generator) -> None:
    for kind, modes in (("png", ("L", "RGB", "RGBA", "LA", "P")), ("jpeg", ("L", "RGB"))):
        (folder / f"{kind}s").mkdir()
        for number, mode in enumerate(modes):
            pixels = draw.integers(0, 256, (10, 12, {"L": 1, "P": 1, "LA": 2, "RGB": 3, "RGBA": 4}[mode]))
            image = PIL.Image.fromarray(pixels.astype(np.uint8).squeeze(), mode="L" if mode == "P" else mode)
            image.convert(mode).save(folder / f"{kind}s" / f"{number}.{kind}")


def _make_music(folder: Path, draw: np.random.Generator) -> None:
    (folder / "midis").mkdir()
    (folder / "rolls").mkdir()
    for number in range(3):
        pitches = draw.integers(50, 80, 130).tolist()
        notes = [Note(2 * at, 2 * at + 2, pitch) for at, pitch in enumerate(pitches)]
        (folder / "midis" / f"{number}.mid").write_bytes(write_midi(notes, 4, 120))
        by_pitch = [[t for t, p in enumerate(np.repeat(pitches, 2)) if p == pitch] for pitch in range(128)]
        arrays = {
            "data": np.full(260, 90, dtype=np.uint8),
            "indices": np.array(list(chain(*by_pitch)), dtype=np.int32),
            "indptr": np.cumsum([0, *map(len, by_pitch)]).astype(np.int32),
            "shape": np.array([260, 128]),
        }
        with zipfile.ZipFile(folder / "rolls" / f"{number}.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in {**{f"pianoroll_0_csc_{k}": v for k, v in arrays.items()}}.items():
                content = io.BytesIO()
                np.save(content, array)
                archive.writestr(f"{name}.npy", content.getvalue())
            info = {"0": {"program": 0, "is_drum": False, "name": "x"}, "resolution": 4, "name": "song"}
            archive.writestr("info.json", json.dumps(info))


def _make_idx(folder: Path, draw: np.random.Generator) -> None:
    def idx(array: np.ndarray) -> bytes:
        sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
        return bytes([0, 0, 8, array.ndim]) + sides + array.astype(np.uint8).tobytes()

    pictures, labels = idx(draw.integers(0, 256, (6, 28, 28))), idx(draw.integers(0, 10, 6))
    (folder / "train-images-idx3-ubyte").write_bytes(pictures)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(pictures))
    (folder / "mnist").mkdir()
    for part in ("train", "t10k"):
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pictures))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def _make_cifar(folder: Path, draw: np.random.Generator) -> None:
    # No archive: one whose checksum is not the published one is rejected before it is opened.
    (folder / cifar.FOLDER).mkdir()
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        records = draw.integers(0, 256, (_RECORDS, 3073))
        records[:, 0] %= 10
        (folder / cifar.FOLDER / name).write_bytes(records.astype(np.uint8).tobytes())


def prepare(scratch: Path) -> Case:
    """Write the valid files, and return the function of one case."""
    cifar._RECORDS = _RECORDS
    good = scratch / "good"
    good.mkdir()

    def make() -> None:
        make_files(good)
        command(["train", str(good / "table.parquet"), *_OPTIONS, "--out", str(scratch / "run")])
        for path in sorted(good.iterdir()):
            open_data(path)

    in_a_process(make, scratch / "modules")
    names = sorted(path.name for path in good.iterdir())

    def case(rng: random.Random, folder: Path) -> tuple[str, str, str]:
        name = rng.choice(names)
        source, copy = good / name, folder / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
        form = open_data(source).form if rng.random() < 0.35 else None
        what = damage(rng, copy, good)
        return f"{name}: {what}", *read(rng, copy, form, folder)

    return case


def damage(rng: random.Random, path: Path, good: Path) -> str:
    """Mutate one file of ``path``, or replace it by something that is not a regular file."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    file = rng.choice(files)
    others = sorted(other for other in good.rglob("*") if other.is_file())
    if rng.random() < 0.12:
        return f"{file.name} becomes {replace_name(rng, file, rng.choice(others))}"
    if rng.random() < 0.05:
        file.rename(file.with_name(f"\x1b[31m\x07{file.name}"))
        return "control characters in the name"
    content, other = file.read_bytes(), rng.choice(others).read_bytes()
    if content.startswith(b"PK") and rng.random() < 0.6:
        file.write_bytes(_mutated_entry(rng, content, other))
        return f"an entry of {file.name}"
    if content.startswith(b"\x1f\x8b") and rng.random() < 0.6:
        file.write_bytes(gzip.compress(mutate_bytes(rng, gzip.decompress(content), other), compresslevel=1))
        return f"the unpacked bytes of {file.name}"
    file.write_bytes(mutate_bytes(rng, content, other))
    return f"the bytes of {file.name}"


def _mutated_entry(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """Mutate one entry of a zip archive, and correct its checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(entries))
    change = mutate_json if name.endswith(".json") and rng.random() < 0.7 else None
    entries[name] = change(rng, entries[name]) if change is not None else mutate_bytes(rng, entries[name], other)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in entries.items():
            archive.writestr(rng.choice((key, key, key, f"\x1b[31m{key}")) if key == name else key, value)
    return out.getvalue()


def read(rng: random.Random, path: Path, form: Format | None, folder: Path) -> tuple[str, str]:
    """Read the damaged file in one of three ways."""
    if not path.exists() and not path.is_symlink():  # it got another name
        path = next((other for other in sorted(folder.iterdir())), path)
    if form is not None:
        read = form.read_with_report if rng.random() < 0.5 else form.read_incomplete
        return attempt(lambda: read(path), folder.name, printed=printable)
    if rng.random() < 0.06:
        return command(["train", str(path), *_OPTIONS, "--out", str(folder / "run")])
    return attempt(lambda: open_data(path), folder.name)


if __name__ == "__main__":
    main("Mutate data files and count how reading them ends.", prepare, "fuzz_files")
