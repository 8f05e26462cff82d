"""Mutate model folders and runs, and count the outcomes of loading, describing, sampling and resuming them.

    python diagnostics/fuzz_models.py [--cases 3000] [--seconds S] [--seed 0] [--only NUMBER] [--failures FILE]

A case damages a saved model, a checkpoint, a run or half-finished samples: bytes of a file, a node of its JSON, the
header of the weights, the contents of ``state.pt``, or the kind of a file. In most cases all checksums are
corrected, as an attacker would do. Then ``tauleap.load``, ``tauleap info`` and ``tauleap sample``
read it, or ``tauleap train`` or ``tauleap sample`` resumes it. Each must succeed, or fail with a one-line error,
within 20 seconds and 2 GB.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from _fuzz import ACCEPTED, Case, attempt, command, in_a_process, main, worst
from _mutations import mutate_bytes, mutate_json, replace_name
from _tables import table_models

import tauleap as tl
from tauleap import denoise, network, noise
from tauleap._files import manifest
from tauleap.cli.run.train import write_samples
from tauleap.data.array.format import ArrayFormat
from tauleap.data.image.format import ImageFormat
from tauleap.data.memory import Kind
from tauleap.data.music.format import MusicFormat
from tauleap.data.table.columns import CategoryEncoder, Column, TableEncoder
from tauleap.data.table.format import TableFormat
from tauleap.data.text import TextFormat
from tauleap.model import Model
from tauleap.pretrained.runs import write_report
from tauleap.storage.save import with_checksum

TABLE, PARTS = "table.csv", "parts"
_OPTIONS = ["--seed", "0", "--device", "cpu"]


def make_models(folder: Path) -> None:
    """Save a small model with each process, network and format, and train a run for a few steps."""
    torch.manual_seed(0)
    for name, model in (_models() | table_models()).items():
        model.save(folder / name, compact=name == "text")
    rows = "".join(f"{a},{b},{'xyz'[(a + b) % 3]}\n" for a in range(4) for b in range(5))
    (folder / TABLE).write_text("a,b,c\n" + rows)
    with contextlib.redirect_stdout(io.StringIO()):
        model = tl.fit(tl.data.open_data(folder / TABLE), steps=3, out=folder / "run", device="cpu", progress=False)
    assert model.form is not None
    write_samples(folder / "run", model.form, model.sample(4, steps=2, seed=0, states=True))
    # The first of two shards leaves a folder with a request and half of its parts.
    code, words = command(_sample(folder / "array", folder / PARTS, "1/2"))
    if code != ACCEPTED:
        raise RuntimeError(words)
    # The seconds of training differ from run to run, and with them what a seed would mutate.
    write_report(folder / "run", (folder / "run" / "latest").resolve(), model.about | {"seconds": 1.0})


def _sample(model: Path, out: Path, shard: str) -> list[str]:
    options = ["-n", "4", "--batch-size", "2", "--steps", "2", "--seed", "0", "--shard", shard]
    return ["sample", str(model), *options, "--out", str(out)]


def _category(name: str, *categories: str) -> Column:
    return Column(name, CategoryEncoder(categories))


def _models() -> dict[str, Model]:
    curve = noise.Exponential(5.0, 5.0)
    small = {"width": 8, "hidden": 8, "depth": 1, "time_size": 8, "time_hidden": 8, "time_width": 8}
    picture = {"width": 4, "multipliers": (1, 1), "depth": 1, "attention_levels": ()}
    rates = torch.ones(4, 4) - 4 * torch.eye(4)
    return {
        "array": Model(
            noise.Gaussian(8, curve, 4.0, 1.0),
            denoise.NetworkDenoiser(network.ResidualMLP(8, (3,), **small)),
            shape=(3,),
            form=ArrayFormat((3,), 5, 8, None, True, "int16"),
            about={"data": ["points"], "step": 3, "bits_per_dim": {"value": 1.5, "stderr": 0.1, "n": 4}},
        ),
        "table": Model(
            noise.Absorbing(4, noise.LogLinear(), sizes=torch.tensor([2, 3])),
            denoise.NetworkDenoiser(network.ResidualMLP(4, (2,), one_hot=True, **small)),
            shape=(2,),
            form=TableFormat(TableEncoder((_category("a", "x", "y"), _category("b", "1", "2", "3")))),
            kind=Kind("frame"),
        ),
        "text": Model(
            noise.Absorbing(4, noise.Cosine()),
            denoise.NetworkDenoiser(network.SequenceTransformer(4, (6,), width=8, depth=1, heads=2)),
            shape=(6,),
            form=TextFormat(6, "abc"),
            kind=Kind("texts"),
        ),
        "images": Model(
            noise.Gaussian(256, noise.Exponential(3.0, 100.0), 512.0, 6.0),
            denoise.TruncatedLogistic(
                network.TimeExperts([network.UNet(256, 1, **picture), network.UNet(256, 1, **picture)], at=[0.5]), 256
            ),
            shape=(1, 4, 4),
            form=ImageFormat(1, 4, 4),
        ),
        "music": Model(
            noise.RankOne(torch.full((129,), 1 / 129), noise.Constant(1.0)),
            denoise.NetworkDenoiser(network.SequenceTransformer(129, (16,), width=8, depth=1, heads=2)),
            shape=(16,),
            form=MusicFormat(16),
        ),
        "dense": Model(
            noise.Dense(rates, noise.Constant(2.0)),
            denoise.NetworkDenoiser(network.ResidualMLP(4, (2,), **small)),
            shape=(2,),
        ),
        "walk": Model(
            noise.BirthDeath(6, noise.Constant(3.0)),
            denoise.NetworkDenoiser(network.ResidualMLP(6, (2,), **small)),
            shape=(2,),
        ),
    }


def prepare(scratch: Path) -> Case:
    """Write the valid models, and return the function of one case."""
    good = scratch / "good"
    good.mkdir()

    def make() -> None:
        make_models(good)
        for name in ("run", "images"):
            use(good / name, scratch)
            shutil.rmtree(scratch / "samples")

    in_a_process(make, scratch / "modules")
    names = [path.name for path in sorted(good.iterdir()) if path.is_dir()]

    def case(rng: random.Random, folder: Path) -> tuple[str, str, str]:
        name = rng.choice((*names, "run", "run"))
        copy = folder / name
        shutil.copytree(good / name, copy, symlinks=True)
        what = damage(rng, copy, good)
        if name == PARTS:
            return f"{name}, {what}", *command(_sample(good / "array", copy, "2/2"))
        if name == "run" and rng.random() < 0.5:
            return f"resume, {what}", *resume(copy, good / TABLE)
        return f"{name}, {what}", *use(copy, folder)

    return case


def use(model: Path, folder: Path) -> tuple[str, str]:
    """Load the model, describe it and sample from it."""
    loaded = attempt(lambda: tl.load(model), folder.name)
    options = ["-n", "1", "--steps", "2", "--out", str(folder / "samples"), "--seed", "0"]
    info = command(["info", str(model)])
    return worst(loaded, info, command(["sample", str(model), *options]) if loaded[0] == ACCEPTED else loaded)


def resume(run: Path, data: Path) -> tuple[str, str]:
    """Train for two more steps."""
    return command(["train", str(data), "--steps", "5", "--minutes", "0.03", "--out", str(run), *_OPTIONS])


def damage(rng: random.Random, folder: Path, good: Path) -> str:
    """Mutate one file of the folder, and in most cases correct its checksums."""
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".safetensors", ".pt", ".npy")]
    names = [path for path in names if "tensorboard" not in path.parts and not path.is_symlink()]
    path = rng.choice(names)
    if rng.random() < 0.12:
        target = rng.choice([*names, *([folder / "latest"] if folder.name == "run" else [])])
        return f"{target.name} becomes {replace_name(rng, target, good / 'array' / path.name)}"
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.75:
        changed, what = mutate_json(rng, content), "a node"
    elif path.suffix == ".safetensors" and rng.random() < 0.6:
        changed, what = _mutate_header(rng, content), "the header"
    elif path.suffix == ".pt" and rng.random() < 0.6:
        changed, what = _mutate_state(rng, content), "a value"
    else:
        changed, what = mutate_bytes(rng, content, (good / "text" / "config.json").read_bytes()), "the bytes"
    path.write_bytes(changed)
    sealed = rng.random() < 0.75
    if sealed:
        seal(path.parent, path.name)
    return f"{what} of {path.name}{', sealed' if sealed else ''}"


def seal(folder: Path, changed: str) -> None:
    """Correct the checksums of a folder, as far as its files can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        config = json.loads((folder / "config.json").read_bytes())
        if changed == "model.safetensors":
            config["weights_sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    if (folder / "manifest.json").is_file() and changed != "manifest.json":
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
        (folder / "manifest.json").write_bytes(manifest.to_bytes(files))
    elif changed == "manifest.json":
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            listed = json.loads((folder / "manifest.json").read_bytes())
            listed["sha256"] = manifest._digest(listed["format"], listed["files"])
            (folder / "manifest.json").write_text(json.dumps(listed))


def _mutate_header(rng: random.Random, content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = mutate_json(rng, content[8 : 8 + length])
    if rng.random() < 0.1:
        return rng.choice((2**40, 2**64 - 1, 0, length + 1)).to_bytes(8, "little") + content[8:]
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _mutate_state(rng: random.Random, content: bytes) -> bytes:
    """Replace or remove one value of a training state."""
    state: Any = torch.load(io.BytesIO(content), weights_only=True)
    places: list[tuple[Any, Any]] = []
    waiting = [state]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        places += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    node, key = rng.choice(places)
    values = (
        *(None, 0, -1, 2**63, 1e308, float("nan"), "x", b"x", [], {}, [[]], True, {"a": 1}),
        *(torch.zeros(0), torch.zeros(1).expand(10**6, 10**6), torch.ones(3, dtype=torch.uint8), torch.tensor(1)),
        *(torch.full((2, 2), float("nan")), torch.zeros(1).to_sparse(), torch.zeros(2, dtype=torch.complex64)),
        *({}, {"cpu": torch.zeros(1, 5056, dtype=torch.uint8)}),
    )
    if rng.random() < 0.2:
        del node[key]
    else:
        node[key] = rng.choice(values)
    if rng.random() < 0.1:
        state = rng.choice(values)
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


if __name__ == "__main__":
    main("Mutate model folders and count how reading them ends.", prepare, "fuzz_models")
