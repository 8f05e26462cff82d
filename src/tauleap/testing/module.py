"""The contract of a process as a torch module: precision, copies, saving, modes."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.noise import ForwardProcess
from tauleap.testing.kernel import OfProcess

Answer = Callable[[ForwardProcess, Tensor, torch.dtype | None], Tensor]

ANSWERS: dict[str, Answer] = {
    "kernel_from": lambda process, x, dtype: process.kernel_from(x, 0.3, 0.1, dtype=dtype),
    "kernel_into": lambda process, x, dtype: process.kernel_into(x, 0.3, dtype=dtype),
    "rates_from": lambda process, x, dtype: process.rates_from(x, 0.3, dtype=dtype),
    "rates_into": lambda process, x, dtype: process.rates_into(x, 0.3, dtype=dtype),
    "exit_rate": lambda process, x, dtype: process.exit_rate(x, 0.3, dtype=dtype),
    "kernels": lambda process, x, dtype: process.kernel_from(x, _times(len(x)), dtype=dtype),
    "rates": lambda process, x, dtype: process.rates_into(x, _times(len(x)), dtype=dtype),
}


class ModuleContract(OfProcess):
    """Test that a process moves, casts and saves as any module, without a loss of accuracy."""

    def test_narrow_answers_are_the_wide_ones_rounded(self) -> None:
        process = self.make()
        x = self.states(process)
        for name, answer in ANSWERS.items():
            wide = answer(process, x, torch.float64)
            assert wide.dtype == torch.float64, name
            assert torch.equal(answer(process, x, None), wide), name
            for dtype, precision in ((torch.float32, 4e-7), (torch.bfloat16, 2e-2)):
                narrow = answer(process, x, dtype)
                assert narrow.dtype == dtype, name
                assert_close(narrow.double(), wide, rtol=precision, atol=torch.finfo(dtype).tiny, msg=name)

    def test_propagate_follows_its_argument(self) -> None:
        process = self.make()
        w = torch.rand(3, *self.shape, process.num_states, generator=torch.Generator().manual_seed(0))
        for t in (0.3, _times(3)):
            narrow = process.propagate(w, t)
            assert narrow.dtype == torch.float32
            assert_close(narrow.double(), process.propagate(w.double(), t), rtol=2e-6, atol=1e-37)

    def test_casting_the_module_costs_no_digits(self) -> None:
        process = self.make()
        before = self._answers(process)
        for cast in (process.half, process.bfloat16, process.float, lambda: process.to(torch.float32)):
            cast()
            assert all(b.dtype == torch.float64 for b in process.buffers() if b.is_floating_point())
            self._assert_same(self._answers(process), before)

    def test_state_dict_round_trip(self) -> None:
        process, other = self.make(), self.make()
        expected = self._answers(process)
        for buffer in other.state_dict().values():
            buffer.zero_()
        file = io.BytesIO()
        torch.save(process.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        self._assert_same(self._answers(other), expected)

    def test_copies_are_whole_and_their_own(self) -> None:
        process = self.make()
        expected = self._answers(process)
        copied = copy.deepcopy(process)
        self._assert_same(self._answers(copied), expected)
        for buffer in copied.buffers():
            buffer.zero_()
        self._assert_same(self._answers(process), expected)

    def test_gradients_after_inference_mode(self) -> None:
        """Check that kernels computed in inference mode can be used in training."""
        process = self.make()
        w = torch.ones(1, *self.shape, process.num_states, dtype=torch.float64, requires_grad=True)
        with torch.inference_mode():
            expected = process.propagate(torch.ones_like(w), 0.3)
        propagated = process.propagate(w, 0.3)
        assert_close(propagated.detach(), expected.clone(), rtol=0.0, atol=0.0)
        propagated.sum().backward()
        assert_close(w.grad, torch.ones_like(w), rtol=1e-13, atol=0.0)

    def test_an_empty_batch_is_a_batch(self) -> None:
        process = self.make()
        x = torch.zeros(0, *self.shape, dtype=torch.int64)
        for t in (0.3, torch.zeros(0)):
            assert process.noise(x, t).shape == x.shape
            assert process.kernel_into(x, t).shape == (*x.shape, process.num_states)
            assert process.rates_into(x, t).shape == (*x.shape, process.num_states)

    def _answers(self, process: ForwardProcess) -> dict[str, Tensor]:
        x = self.states(process)
        found = {name: answer(process, x, torch.float64) for name, answer in ANSWERS.items()}
        return {**found, "prior": process.prior().clone(), "stationary": process.stationary().clone()}

    def _assert_same(self, actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
        for name, value in expected.items():
            assert_close(actual[name], value, rtol=0.0, atol=0.0, msg=lambda text, name=name: f"{name}: {text}")


def _times(batch: int) -> Tensor:
    return torch.linspace(0.01, 1.0, batch, dtype=torch.float64)
