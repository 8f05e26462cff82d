"""The pieces of a run, each on its own."""

import io
import os
import signal
import threading
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.optim.swa_utils import AveragedModel

from tauleap import _device
from tauleap._draw import PartOfBatch, stratified, uniforms
from tauleap._files.owned import locked
from tauleap.training.ema import Ema
from tauleap.training.logs import Logs
from tauleap.training.meter import Meter
from tauleap.training.order import Order
from tauleap.training.progress import Display, Pace, Stopwatch
from tauleap.training.stop import Stop

CPU = torch.device("cpu")


def test_the_global_seed_is_that_of_torch() -> None:
    with torch.random.fork_rng(devices=[]):
        _device.seed_defaults(CPU, 5)
        ours = torch.rand(3)
        torch.manual_seed(5)
        assert torch.equal(ours, torch.rand(3))


def test_every_epoch_has_every_row_in_an_order_of_its_own() -> None:
    order = Order(10, seed=3)
    epochs = [order.take(10 * epoch, 10) for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(10))
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 3
    # Over the end of an epoch, and of several, from anywhere, in any order of calls.
    whole = torch.cat(epochs)
    for start, count in [(25, 5), (7, 6), (3, 25), (0, 30), (9, 1)]:
        assert torch.equal(order.take(start, count), whole[start : start + count])
        assert torch.equal(Order(10, seed=3).take(start, count), whole[start : start + count])
    assert not torch.equal(Order(10, seed=4).take(0, 30), whole)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_batch_draw_what_the_batch_draws(parts: int) -> None:
    def draws(number: int, generator: torch.Generator) -> list[torch.Tensor]:
        generator.manual_seed(11)
        return [
            uniforms((number, 2), CPU, generator),
            stratified(number, CPU, generator),
            uniforms((number * 5,), CPU, generator),  # sites, in the order of the batch
            uniforms((number,), CPU, generator),
        ]

    whole = draws(4 * parts, torch.Generator())
    pieces = [draws(4, PartOfBatch(part, parts)) for part in range(parts)]
    for expected, found in zip(whole, zip(*pieces, strict=True), strict=True):
        assert torch.equal(torch.cat(found), expected)


def test_one_number_for_all_parts() -> None:
    drawn = [uniforms((), CPU, PartOfBatch(part, 2).manual_seed(0)) for part in range(2)]
    assert torch.equal(*drawn)
    assert torch.equal(drawn[0], uniforms((), CPU, torch.Generator().manual_seed(0)))


def test_the_average_is_that_of_swa_utils() -> None:
    network = nn.Linear(3, 2)
    ema = Ema(network.parameters(), 0.5)

    def ramp(average: torch.Tensor, weight: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        decay = min(0.5, (1 + n.item()) / (10 + n.item()))
        return torch.lerp(average, weight, 1 - decay)

    reference = AveragedModel(network, avg_fn=ramp)
    reference.update_parameters(network)  # the first takes the weights as they are
    for n in range(1, 30):
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn_like(weight))
        ema.update(n)
        reference.update_parameters(network)
    for average, expected in zip(ema.averages, reference.module.parameters(), strict=True):
        torch.testing.assert_close(average, expected)


def test_swapping_there_and_back_changes_no_bit() -> None:
    network = nn.Linear(3, 2)
    ema = Ema(network.parameters(), 0.9)
    before = [w.detach().clone() for w in network.parameters()]
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.7)
    trained = [w.detach().clone() for w in network.parameters()]
    with ema.swapped():
        assert all(torch.equal(a, b) for a, b in zip(network.parameters(), before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), trained, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(ema.averages, before, strict=True))


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_outside_its_range(decay: float) -> None:
    with pytest.raises(ValueError, match="decay"):
        Ema(nn.Linear(1, 1).parameters(), decay)


def test_a_lock_is_refused_and_released(tmp_path: Path) -> None:
    refused = pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()} on")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_the_first_signal_is_noted_and_the_second_is_not_held_back() -> None:
    with Stop() as stop:
        assert stop.signal is None
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_hangups_after_the_first_signal_do_not_interrupt_the_checkpoint() -> None:
    before = signal.getsignal(signal.SIGHUP)
    for first in (signal.SIGHUP, signal.SIGINT):
        with Stop() as stop:
            os.kill(os.getpid(), first)
            os.kill(os.getpid(), signal.SIGHUP)  # a terminal and its shell send one each
            assert stop.signal == first
        assert signal.getsignal(signal.SIGHUP) is before


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.signal is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_gone_does_not_end_a_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    for terminal in (True, False):
        display = Display(Console(file=Gone(), force_terminal=terminal), Stopwatch(), 0, 10)
        with display:
            display.say("a line")
            display.show(5, 0.5)
            display.end(10)
        assert not display.due()


def test_a_thread_cannot_set_handlers_and_does_not_fail() -> None:
    seen = []

    def listen() -> None:
        with Stop() as stop:
            seen.append(stop.signal)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [None]


def test_the_meter_finds_the_first_bad_loss() -> None:
    meter = Meter()
    assert meter.first_bad(5) is None
    for value in [1.0, 2.0, float("inf"), float("nan"), 5.0]:
        meter.add({"loss": torch.tensor(value), "path": torch.tensor(2 * value)})
    assert len(meter) == 5
    assert meter.first_bad(1) is None
    assert meter.first_bad(2) == 1
    assert meter.first_bad(5) == 2
    assert meter.at(2)["path"].item() == float("inf")
    again = Meter()
    again.restore({name: values[:2] for name, values in meter.state().items()})
    assert {name: value.item() for name, value in again.means().items()} == {"loss": 1.5, "path": 3.0}


def test_logs_forget_what_will_come_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 0, tensorboard=False)
    for step in (10, 20, 30):
        logs.write("train", step, {"loss": step / 10, "lr": 0.1})
    with (tmp_path / "train.csv").open("a") as file:
        file.write("40,4")  # killed while writing
    Logs(tmp_path, 20, tensorboard=False).write("train", 30, {"loss": 3.5, "lr": 0.1})
    assert (tmp_path / "train.csv").read_text() == "step,loss,lr\n10,1.0,0.1\n20,2.0,0.1\n30,3.5,0.1\n"
    (tmp_path / "train.csv").write_text("step,lo")  # killed while writing the first line
    Logs(tmp_path, 0, tensorboard=False).write("train", 10, {"loss": 1.0})
    assert (tmp_path / "train.csv").read_text() == "step,loss\n10,1.0\n"


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = Logs(tmp_path, 0)
    logs.write("train", 10, {"loss": 1.5})
    logs.picture(10, torch.zeros(4, 4, dtype=torch.uint8).numpy())
    logs.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(10, 1.5)]
    assert events.Tags()["images"] == ["samples"]
    assert (tmp_path / "samples" / "step-00000010.png").stat().st_size > 0


def test_the_stopwatch_does_not_count_pauses() -> None:
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    pace = Pace(watch, 0)
    now[0] += 2
    with watch.paused():
        now[0] += 100
    assert watch.seconds == 2
    assert pace.at(10) == 5
    now[0] += 1
    assert pace.at(12) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_the_display(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160)
    with Display(console, Stopwatch(), 10, 100) as display:
        display.validated(1.5, 0.25)
        display.show(50, 3.25)
        display.say("[not markup]")
        display.end(100)
    text = out.getvalue()
    assert "loss 3.25" in text
    assert "1.500 ± 0.250 bits/dim" in text
    assert "steps/s" in text
    assert "left" in text
    assert "[not markup]" in text
    assert ("\x1b" in text) == terminal
    assert ("100%" in text) == terminal


def test_a_quiet_display_says_nothing() -> None:
    out = io.StringIO()
    with Display(Console(file=out, force_terminal=True), Stopwatch(), 0, 10, quiet=True) as display:
        display.say("a")
        assert not display.due()
    assert out.getvalue() == ""
