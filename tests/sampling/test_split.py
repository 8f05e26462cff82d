"""A request that is split over processes, or taken up again after one has died, gives what one call gives.

The other process runs this file: ``python test_split.py FOLDER BLOCKS_TO_LIVE BLOCK...``.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Constant, Gaussian
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Samples, TauLeaping, sample, uniform_grid

NUMBER, SIZE, BLOCKS = 22, 5, 5  # the last block is smaller
DIED = 9


def make(blocks: list[int] | None = None) -> Samples:
    process, law = Gaussian(3, Constant(2.0), sigma_0=1.2, sigma_r=1.0), torch.arange(1.0, 10.0).reshape(3, 3) / 45
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
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


def test_two_processes_of_which_one_dies(tmp_path: Path) -> None:
    """Each makes every other block; the other one dies after one of its three, and this one takes them up."""
    arguments = [str(tmp_path), "1", *map(str, range(0, BLOCKS, 2))]
    other = subprocess.run(
        [sys.executable, __file__, *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=600
    )
    assert other.returncode == DIED
    assert [path.stem for path in tmp_path.glob("*.pt")] == ["0"]
    live(tmp_path, BLOCKS, list(range(1, BLOCKS, 2)))
    live(tmp_path, BLOCKS, list(range(0, BLOCKS, 2)))
    parts = [torch.load(tmp_path / f"{block}.pt", weights_only=True) for block in range(BLOCKS)]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 2]
    assert torch.equal(torch.cat(parts), make().x0)


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]), [int(block) for block in sys.argv[3:]])
