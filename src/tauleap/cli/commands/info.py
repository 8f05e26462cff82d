"""The options of ``tauleap info``."""

from __future__ import annotations

from dataclasses import dataclass

from tauleap.cli.options import DeviceName, RunFolder, check_run
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Info:
    """Say what a run or a model is: its data, process, network, size, device, steps and bits/dim."""

    run_folder: RunFolder
    device: DeviceName = "auto"
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Load the model and print what it is."""
        check_run(self.run_folder)

        with importing():
            from tauleap.cli.run.info import run

        run(self)
