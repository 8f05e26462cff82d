"""The training loop: steps, and between them logs, validation, samples and checkpoints."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import NoReturn

import torch
from lightning_fabric import Fabric
from rich.console import Console

from tauleap import _device
from tauleap._files import safe_read
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.printable import printable
from tauleap._seeds import derive_seed
from tauleap._version import __version__
from tauleap.training.checkpoint import Checkpoint, Checkpoints
from tauleap.training.engine import Engine
from tauleap.training.folder import run_folder
from tauleap.training.logs import Logs
from tauleap.training.meter import Meter, NonFiniteError
from tauleap.training.progress import Display, Pace, Stopwatch
from tauleap.training.ranks import from_first, gathered, largest, mean, on_first
from tauleap.training.recipe import Recipe, differences, resolved
from tauleap.training.run import Run
from tauleap.training.state import REMEDY
from tauleap.training.stop import Stop
from tauleap.training.watch import draw_samples, held_out_bits

RECIPE = "recipe.json"
_CHECK_EVERY = 16


@dataclass(frozen=True)
class Result:
    """Hold the result of training; ``tauleap.load(result.checkpoint)`` returns the model.

    Args:
        step: The number of training steps made, over all resumed parts.
        checkpoint: The folder of the last checkpoint.
        stopped: Why training ended: "finished", "minutes", "SIGINT", "SIGTERM" or "SIGHUP".
        first: Whether this process is the first rank, which should print and write.

    >>> result = Result(step=2, checkpoint=Path("runs", "digits"), stopped="minutes", first=True)
    >>> f"{result.stopped} after {result.step} steps"
    'minutes after 2 steps'
    """

    step: int
    checkpoint: Path
    stopped: str
    first: bool


@_device.cpu_by_default
def train(recipe: Recipe, run: Run, *, console: Console | None = None, fabric: Fabric | None = None) -> Result:
    """Train until the recipe's number of steps, resuming from the newest checkpoint in the run's folder.

    A run that was killed at any moment and is resumed gives the same weights, bit for bit on the same machine. Ctrl-C,
    SIGTERM and SIGHUP end it with a checkpoint.

    >>> import dataclasses, io, tempfile
    >>> from tauleap import recipes
    >>> recipe = recipes.digits()
    >>> settings = dataclasses.replace(recipe.settings, steps=2, validate_every=None, sample_every=None)
    >>> recipe = dataclasses.replace(recipe, settings=settings, data=lambda: (recipes.digits().data()[0], None))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train(recipe, Run(folder, tensorboard=False), console=Console(file=io.StringIO())).step
    2

    Args:
        recipe: What to train.
        run: The folder, the devices and the time limit.
        console: Where progress is shown. Default: None, the terminal.
        fabric: The processes, if ``run.launch`` has started them already. Default: None, they are started.

    Returns:
        The last step, its checkpoint, and why training ended.

    Raises:
        ValueError: The folder holds a run of another recipe or other files, or the devices do not exist.
        BlockingIOError: Another process trains in the folder.
        NonFiniteError: The loss or a weight became infinite or NaN.
    """
    fabric = run.launch(recipe.settings.precision) if fabric is None else fabric
    with ExitStack() as stack:
        stack.enter_context(_device.fork_default_rng(fabric.device))
        stop = stack.enter_context(Stop())
        stack.enter_context(explaining_full_disk(run.folder))
        loop = _Loop(fabric, recipe, run, stop)
        # Errors in the model or its settings are raised before anything is written.
        on_first(fabric, lambda: stack.enter_context(run_folder(run.folder)))
        loop.resume(console or Console())
        return loop.train()


class _Loop:
    def __init__(self, fabric: Fabric, recipe: Recipe, run: Run, stop: Stop) -> None:
        self.fabric, self.recipe, self.settings, self.run, self.stop = fabric, recipe, recipe.settings, run, stop
        self.deadline = math.inf if run.minutes is None else time.monotonic() + 60 * run.minutes
        self.checkpoints = Checkpoints(run.folder, run.keep)
        self.meter = Meter()
        # Reading a loss makes an accelerator wait, and agreeing on a stop makes ranks wait for each other.
        self.check_every = 1 if _device.is_host(fabric.device) else _CHECK_EVERY

        _device.seed_defaults(fabric.device, derive_seed(self.settings.seed, "weights"))
        model = recipe.model()
        data, self.held_out = recipe.data()
        self.resolved = resolved(recipe, model, data, self.held_out)
        self.engine = Engine(fabric, recipe, model, data, accumulate=run.accumulate, compile=run.compile)

    def resume(self, console: Console) -> None:
        """Load the state of the newest checkpoint, if there is one, and open the logs.

        Args:
            console: Where progress is shown.
        """
        fabric, run, data = self.fabric, self.run, self.engine.data
        quiet = not fabric.is_global_zero
        found = from_first(fabric, lambda: self._find(console))
        self.step, self.saved = 0, found
        if found is not None:
            self.step = found.step
            stored = self.engine.restore(found)
            with safe_read.explaining(found.folder, REMEDY):
                pending = stored["pending"]
                if all(len(values) == fabric.world_size for values in pending.values()):
                    self.meter.restore({name: values[fabric.global_rank] for name, values in pending.items()})
        self.watch = Stopwatch()
        self.pace = Pace(self.watch, self.step)
        self.display = Display(console, self.watch, self.step, self.settings.steps, quiet=quiet)
        self.logs = None if quiet else Logs(run.folder, self.step, tensorboard=run.tensorboard, say=self.display.say)
        weights = sum(p.numel() for p in self.engine.model.reverse.parameters())
        self.display.say(
            f"{self.recipe.name}: {weights:,} weights, {len(data):,} rows of shape {data.shape}; step {self.step} of "
            f"{self.settings.steps}, {fabric.world_size} x {fabric.device.type}, into {run.folder}"
        )

    def train(self) -> Result:
        stopped = None
        with self.display, self.checkpoints.explaining_full_disk():
            checkpoint = self._save()  # before the first step too, to detect a full disk early
            while stopped is None and self.step < self.settings.steps:
                self.meter.add(self.engine.step(self.step))
                self.step += 1
                if self._due(self.check_every) or self._due(self.settings.log_every):
                    stopped = self._check_stop()
                self._report()
                if stopped is not None or self._due(self.settings.checkpoint_every):
                    checkpoint = self._save()
            self.display.end(self.step)
        if self.logs is not None:
            self.logs.close()
        return Result(self.step, checkpoint.folder, stopped or "finished", self.fabric.is_global_zero)

    def _check_stop(self) -> str | None:
        """Return the reason to stop after this step, or None; raise NonFiniteError if a loss is not finite."""
        ago = self.meter.first_bad(1 if self.check_every == 1 else len(self.meter))
        signal, late, bad = largest(
            self.fabric, [self.stop.signal or 0, time.monotonic() > self.deadline, -1 if ago is None else ago]
        )
        if bad >= 0:
            values = {name: mean(self.fabric, value).item() for name, value in self.meter.at(bad).items()}
            terms = ", ".join(f"{name} {value:g}" for name, value in values.items())
            self._fail(f"the loss of step {self.step - bad} is not finite: {terms}; write a smaller lr (--lr)")
        if self.step == self.settings.steps:
            return None
        return Signals(signal).name if signal else "minutes" if late else None

    def _fail(self, message: str) -> None:
        def fail() -> NoReturn:
            raise NonFiniteError(f"{message}; {self.checkpoints.last_good()}")

        on_first(self.fabric, fail)

    def _report(self) -> None:
        step, settings = self.step, self.settings
        if self.display.due():
            self.display.show(step, self.meter.at(0)["loss"].item())
        if self._due(settings.log_every):
            values = {name: mean(self.fabric, value).item() for name, value in self.meter.means().items()}
            values |= {"lr": self.engine.optimizer.param_groups[0]["lr"], "steps_per_second": self.pace.at(step)}
            self.meter.clear()
            self._log(lambda logs: logs.write("train", step, values))
        if self.held_out is not None and self._due(settings.validate_every):
            with self.watch.paused(), self.engine.averaged():
                estimate = held_out_bits(self.engine, self.held_out)
            self.display.validated(estimate.value, estimate.stderr)
            self.display.say(f"step {step}: {estimate.value:.4f} ± {estimate.stderr:.4f} bits/dim on {estimate.n} rows")
            found = {"bits_per_dim": estimate.value, "stderr": estimate.stderr, "rows": estimate.n}
            self._log(lambda logs: logs.write("validation", step, found))
        picture = None if settings.sample_every is None else self.recipe.picture
        if picture is not None and self._due(settings.sample_every):
            with self.watch.paused(), self.engine.averaged():
                samples = draw_samples(self.engine, step)
            self._log(lambda logs: logs.picture(step, picture(samples)))

    def _log(self, write: Callable[[Logs], object]) -> None:
        on_first(self.fabric, lambda: None if self.logs is None else write(self.logs))

    def _due(self, every: int | None) -> bool:
        return self.step == self.settings.steps or (every is not None and self.step % every == 0)

    def _save(self) -> Checkpoint:
        if self.saved is not None and self.saved.step == self.step:
            saved = self.saved  # the process that wrote it may have been killed before it published it
            return from_first(self.fabric, lambda: self.checkpoints.publish(saved))
        with self.watch.paused():
            if not self.engine.weights_are_finite():
                self._fail(f"a weight is not finite after step {self.step}, but its loss is: write a smaller lr (--lr)")
            files = self.engine.files(self.step, {"pending": gathered(self.fabric, self.meter.state())})
            files[RECIPE] = json.dumps({"recipe": self.resolved, "versions": _versions()}, indent=2).encode() + b"\n"
            checkpoint = self.saved = from_first(self.fabric, lambda: self.checkpoints.write(self.step, files))
        return checkpoint

    def _find(self, console: Console) -> Checkpoint | None:
        """Return the checkpoint to resume from, None if there is none; raise ValueError if its recipe differs."""

        def say(text: str) -> None:
            console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

        found = self.checkpoints.newest(say)
        if found is None:
            return None
        before = safe_read.parse_json(found.read(RECIPE), str(found.folder / RECIPE))
        if not isinstance(before, dict) or not isinstance(before.get("recipe"), dict) or "versions" not in before:
            raise safe_read.UnreadableError(
                found.folder / RECIPE, "is damaged: the entries 'recipe' and 'versions' are missing", REMEDY
            )
        changed = differences(before["recipe"], self.resolved)
        if changed:
            raise ValueError(
                f"{self.run.folder} holds a run of another recipe: {'; '.join(changed)}. "
                "Write the name of a new folder, or the same options to resume"
            )
        if before["versions"] != _versions():
            say(f"this run was started with {before['versions']}: results may differ in rounding from here on")
        return found


def _versions() -> dict[str, str]:
    return {"tauleap": __version__, "torch": torch.__version__, "python": platform.python_version()}
