"""The command that resumes this one."""

from __future__ import annotations

import os
import shlex
import sys


def resume_command() -> str:
    """Return the command line of this process; under torchrun with the flags that are known here."""
    typed = ["tauleap", *sys.argv[1:]]
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return shlex.join(typed)
    ranks, here = os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
    if ranks != here:
        return f"{shlex.join(typed)}, started by torchrun with the same flags on every machine"
    return shlex.join(["torchrun", "--nproc-per-node", here, sys.argv[0], *typed[1:]])
