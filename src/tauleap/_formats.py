"""Which files can be read, by their names: known without importing torch, so that others are refused at once."""

from __future__ import annotations

import re
from pathlib import Path

ARRAYS = (".npy", ".npz")
TABLES = (".csv", ".tsv", ".parquet")
TEXTS = (".txt",)
IMAGES = (".png", ".jpg", ".jpeg")
MIDI = (".mid", ".midi")
ROLLS = (".npz",)
ARCHIVES = (".tar.gz", ".tgz", ".tar")
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = ("test_batch.bin",)
IDX_NAME = re.compile(r"[.-]idx\d-ubyte(\.gz)?$", re.IGNORECASE)
READABLE = (
    ".npy, .npz, .csv, .tsv, .parquet, .txt, a folder of MIDI files or piano rolls, a folder of PNG or JPEG pictures, "
    "an idx file (-idx3-ubyte, .gz) or CIFAR-10 (cifar-10-binary.tar.gz)"
)


def check_supported(path: Path, *, single: bool = False) -> None:
    """Raise ValueError unless ``path`` is a folder, or a file whose name is that of data that can be read.

    Args:
        path: a file or folder that exists.
        single: whether one picture or one MIDI file is enough, as for a model that is trained already. Default: false.
    """
    name, suffix = path.name.lower(), path.suffix.lower()
    if path.is_dir() or suffix in (*ARRAYS, *TABLES, *TEXTS):
        return
    if path.is_file() and (
        name.endswith(ARCHIVES) or path.name in (*CIFAR_TRAIN, *CIFAR_TEST) or IDX_NAME.search(name) is not None
    ):
        return
    if suffix in (*IMAGES, *MIDI):
        if single:
            return
        raise ValueError(f"{path} is one piece: give the folder that holds many such files")
    kinds = f"{READABLE}; or a PNG, JPEG or MIDI file" if single else READABLE
    raise ValueError(f"{path} has the ending {suffix or '(none)'!r}; what can be read is {kinds}")
