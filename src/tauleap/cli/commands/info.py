"""The options of ``tauleap info``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tauleap.cli.options import DeviceName, Json, RunFolder, check_run
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Info:
    """Print the data, process, network, size, device, training steps and bits/dim of a model."""

    GROUPS: ClassVar = {"resource": ("device",), "output": ("json",)}
    EXAMPLES: ClassVar = ("tauleap info toy", "tauleap info runs/adult --json")

    run_folder: RunFolder
    device: DeviceName = "auto"
    json: Json = False

    def run(self) -> None:
        """Load the model and print its description."""
        check_run(self.run_folder)

        with importing():
            from tauleap.cli.run.info import run

        run(self)
