"""A request that is split over processes, or taken up again after one has died, gives what one call gives."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tauleap.sampling import Samples, TauLeaping, sample, uniform_grid
from tauleap.testing.cases import correlated

NUMBER, SIZE, BLOCKS = 22, 5, 5  # the last block is smaller
WORKER = """
import os
import sys
from pathlib import Path

import torch

from tests_of_splitting import make

folder, died_after = Path(sys.argv[1]), int(sys.argv[2])
for done, block in enumerate(int(number) for number in sys.argv[3:]):
    if done == died_after:
        os._exit(9)
    path = folder / f"{block}.pt"
    if not path.exists():
        torch.save(make([block]).x0, path)
"""


def make(blocks: list[int] | None = None) -> Samples:
    reverse, _ = correlated("Gaussian", sites=2)
    return sample(
        reverse,
        TauLeaping("last"),
        (NUMBER, 2),
        grid=uniform_grid(6),
        final="sample",
        batch_size=SIZE,
        blocks=blocks,
        generator=torch.Generator().manual_seed(7),
    )


def start(folder: Path, blocks: range, died_after: int = -1) -> subprocess.Popen[bytes]:
    # Under a name of its own, because the tests are no package that a process could import from.
    (folder / "tests_of_splitting.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    arguments = [str(folder), str(died_after), *map(str, blocks)]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments], env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    )


def test_two_processes_of_which_one_dies(tmp_path: Path) -> None:
    """Each makes every other block; the first dies after one of its three, and is started again."""
    workers = [start(tmp_path, range(0, BLOCKS, 2), died_after=1), start(tmp_path, range(1, BLOCKS, 2))]
    assert [worker.wait(timeout=600) for worker in workers] == [9, 0]
    assert sorted(path.stem for path in tmp_path.glob("*.pt")) == ["0", "1", "3"]
    assert start(tmp_path, range(0, BLOCKS, 2)).wait(timeout=600) == 0
    parts = [torch.load(tmp_path / f"{block}.pt", weights_only=True) for block in range(BLOCKS)]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 2]
    assert torch.equal(torch.cat(parts), make().x0)
