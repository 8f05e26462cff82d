"""The folder of a demo, which the same command may overwrite."""

from __future__ import annotations

import re
from pathlib import Path

from tauleap._files import owned

MARKER = "tauleap-demo.json"
_OWN = re.compile(
    r"figure\.png|reverse\.gif|samples\.npz|metrics\.json"  # of `tauleap demo`, beside the folder model
    r"|rolls\.png|music-[0-9]{6}\.(?:mid|wav)"  # of `tauleap demo music`
)


def claim_demo_folder(folder: Path) -> None:
    """Mark ``folder`` as that of a demo, and remove unfinished files of a killed demo.

    Args:
        folder: The path: new, empty, or of a demo.

    Raises:
        NotADirectoryError: The path is a file.
        ValueError: The folder holds something else.
    """
    owned.claim_folder(folder, MARKER, '{"about": "files of `tauleap demo`; keep this file"}\n', "a demo")
    owned.remove_unfinished(folder, _OWN)
