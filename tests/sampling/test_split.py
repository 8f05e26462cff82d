"""A request that is split over processes, or taken up again after one has died, gives what one call gives.

The processes run this file: ``python test_split.py FOLDER BLOCKS_TO_LIVE BLOCK...``.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tauleap.sampling import Samples, TauLeaping, sample, uniform_grid
from tauleap.testing.cases import correlated

NUMBER, SIZE, BLOCKS = 22, 5, 5  # the last block is smaller
DIED = 9


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


def live(folder: Path, blocks_to_live: int, blocks: list[int]) -> None:
    """Makes the blocks that are not there yet, each into a file of its own; dies where it has made so many."""
    for made, block in enumerate(block for block in blocks if not (folder / f"{block}.pt").exists()):
        if made == blocks_to_live:
            os._exit(DIED)
        torch.save(make([block]).x0, folder / f"{block}.pt")


def start(folder: Path, blocks: range, blocks_to_live: int = BLOCKS) -> subprocess.Popen[bytes]:
    arguments = [str(folder), str(blocks_to_live), *map(str, blocks)]
    return subprocess.Popen([sys.executable, __file__, *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"})


def test_two_processes_of_which_one_dies(tmp_path: Path) -> None:
    """Each makes every other block; the first dies after one of its three, and is started again."""
    workers = [start(tmp_path, range(0, BLOCKS, 2), blocks_to_live=1), start(tmp_path, range(1, BLOCKS, 2))]
    assert [worker.wait(timeout=600) for worker in workers] == [DIED, 0]
    assert sorted(path.stem for path in tmp_path.glob("*.pt")) == ["0", "1", "3"]
    assert start(tmp_path, range(0, BLOCKS, 2)).wait(timeout=600) == 0
    parts = [torch.load(tmp_path / f"{block}.pt", weights_only=True) for block in range(BLOCKS)]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 2]
    assert torch.equal(torch.cat(parts), make().x0)


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]), [int(block) for block in sys.argv[3:]])
