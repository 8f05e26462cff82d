"""The loop: blocks, traces, the final step, information, progress."""

import math

import pytest
import torch

import tauleap as tl
from tauleap.denoise import Denoiser, ExactDenoiser, Posterior
from tauleap.noise import Absorbing, Constant, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    Samples,
    TauLeaping,
    Trapezoidal,
    WithCorrector,
    run_corrector,
    sample,
    uniform_grid,
)
from tauleap.testing.cases import correlated


@pytest.fixture
def reverse() -> ReverseProcess:
    return correlated("uniform", sites=2)[0]


def seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def test_is_public() -> None:
    assert tl.sample is sample
    assert tl.sampling.TauLeaping is TauLeaping


def test_the_same_generator_gives_the_same_samples(reverse: ReverseProcess) -> None:
    grid = uniform_grid(5)
    one, same, other = (
        sample(reverse, TauLeaping(), (50, 2), grid=grid, generator=seed(number)).x0 for number in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    running = seed(0)
    assert torch.equal(sample(reverse, TauLeaping(), (50, 2), grid=grid, generator=running).x0, one)
    assert not torch.equal(sample(reverse, TauLeaping(), (50, 2), grid=grid, generator=running).x0, one)


def test_without_a_generator_the_global_seed_decides(reverse: ReverseProcess) -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(5)
        found.append(sample(reverse, Ancestral(), (20, 2), grid=uniform_grid(4)).x0)
    assert torch.equal(*found)
    assert not torch.equal(found[0], sample(reverse, Ancestral(), (20, 2), grid=uniform_grid(4)).x0)


def test_blocks_can_be_made_apart_and_in_any_order(reverse: ReverseProcess) -> None:
    """10 samples in blocks of 4: what one call gives, two processes give, or a run that was taken up again."""
    start = torch.randint(3, (10, 2), generator=seed(3))
    mask = torch.rand(10, 2, generator=seed(4)) < 0.3
    arguments = {"grid": uniform_grid(6), "start": start, "batch_size": 4, "trace": [0.5], "final": "sample"}
    arguments["observed"] = Observed(mask, torch.randint(3, (10, 2), generator=seed(5)))
    whole = sample(reverse, TauLeaping(), (10, 2), generator=seed(), **arguments)
    assert whole.x0.shape == (10, 2)
    first = sample(reverse, TauLeaping(), (10, 2), generator=seed(), blocks=[0, 2], **arguments)
    second = sample(reverse, TauLeaping(), (10, 2), generator=seed(), blocks=[1], **arguments)
    assert torch.equal(torch.cat([first.x0[:4], second.x0, first.x0[4:]]), whole.x0)
    backwards = sample(reverse, TauLeaping(), (10, 2), generator=seed(), blocks=range(2, -1, -1), **arguments)
    assert torch.equal(torch.cat(list(reversed(backwards.x0.split([2, 4, 4])))), whole.x0)
    assert whole.trace is not None
    assert whole.trace.x.shape == whole.trace.predicted_x0.shape == (1, 10, 2)
    parts = [
        sample(reverse, TauLeaping(), (10, 2), generator=seed(), blocks=[block], **arguments) for block in range(3)
    ]
    joined = Samples.join(parts)
    assert torch.equal(joined.x0, whole.x0)
    assert joined.trace is not None
    assert torch.equal(joined.trace.x, whole.trace.x)
    assert joined.info.evaluations == pytest.approx(whole.info.evaluations)
    torch.testing.assert_close(joined.info.jumped, whole.info.jumped)


def test_blocks_draw_different_numbers(reverse: ReverseProcess) -> None:
    found = sample(reverse, TauLeaping(), (200, 2), grid=uniform_grid(6), batch_size=100, generator=seed()).x0
    assert not torch.equal(found[:100], found[100:])


def test_the_number_of_draws_from_the_generator_does_not_depend_on_the_request(reverse: ReverseProcess) -> None:
    small, large = seed(), seed()
    sample(reverse, TauLeaping(), (1, 2), grid=uniform_grid(1), generator=small)
    sample(reverse, TauLeaping(), (30, 2), grid=uniform_grid(5), batch_size=7, generator=large)
    assert torch.equal(small.get_state(), large.get_state())


def test_trace_keeps_the_nearest_times_and_the_guess(reverse: ReverseProcess) -> None:
    found = sample(
        reverse, Ancestral(), (8, 2), grid=uniform_grid(9, end=0.1), trace=[1.0, 0.52, 0.48, 0.1], generator=seed()
    )
    trace = found.trace
    assert trace is not None
    torch.testing.assert_close(trace.times, torch.tensor([1.0, 0.5, 0.1], dtype=torch.float64))
    assert trace.x.shape == trace.predicted_x0.shape == (3, 8, 2)
    for time, x, predicted in zip(trace.times, trace.x, trace.predicted_x0, strict=True):
        assert torch.equal(predicted, reverse.posterior(x, float(time)).mode)
    assert torch.equal(trace.predicted_x0[-1], found.x0), "final='mode' is the predicted at the last time"
    assert sample(reverse, Ancestral(), (8, 2), grid=uniform_grid(9), generator=seed()).trace is None


def test_the_final_step(reverse: ReverseProcess) -> None:
    grid = uniform_grid(4, end=0.6)
    none, mode, drawn = (
        sample(reverse, TauLeaping(), (4000, 2), grid=grid, final=final, generator=seed())  # pyright: ignore[reportArgumentType]
        for final in ("none", "mode", "sample")
    )
    assert torch.equal(mode.x0, reverse.posterior(none.x0, 0.6).mode)
    probs = reverse.posterior(none.x0, 0.6).probs
    expected = probs.mean(0)
    found = torch.nn.functional.one_hot(drawn.x0, 3).double().mean(0)
    assert (found - expected).abs().max() < 5 * 0.5 / math.sqrt(4000)
    # Two sites with few candidates: most rows of a step need no evaluation.
    assert 0 < none.info.evaluations < 4
    assert mode.info.evaluations == drawn.info.evaluations == pytest.approx(none.info.evaluations + 1)


@pytest.mark.parametrize(
    ("sampler", "evaluations"),
    [
        (TauLeaping(), 6),
        (Ancestral(), 6),
        (Trapezoidal(), 12),
        (WithCorrector(TauLeaping(), steps=2, start=0.5), 6 + 2 * 4),
        (WithCorrector(TauLeaping(), steps=3), 6 + 3 * 6),
    ],
)
@pytest.mark.parametrize("name", ["uniform", "birth/death"])
def test_evaluations_are_counted(name: str, sampler: tl.sampling.Sampler, evaluations: int) -> None:
    """Correctors run where the time that is reached lies below their start: 0.4, 0.3, 0.2 and 0.1 of 0.7, ..., 0.1."""
    reverse, law = correlated(name, sites=2)
    counting = _Counting(ExactDenoiser(law, reverse.process))
    grid = [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    found = sample(
        ReverseProcess(reverse.process, counting), sampler, (5, 2), grid=grid, final="none", generator=seed()
    )
    assert found.info.evaluations == pytest.approx(counting.rows / 5)
    if name == "uniform" and not isinstance(sampler, Trapezoidal):
        assert found.info.evaluations < evaluations  # rows without a candidate for a jump are left out
    else:
        assert found.info.evaluations == counting.passes == evaluations
    assert found.info.jumped.shape == found.info.rejected.shape == found.info.clamped.shape == (6,)
    assert found.info.seconds > 0


def test_a_masked_prior_and_its_observed_sites() -> None:
    """A start from the prior is all masks but for a few; a prefix that is given stays, and the rest is filled."""
    process = Absorbing(4, Constant(8.0))
    law = torch.rand(4, 4, 4, dtype=torch.float64, generator=seed())
    law[3], law[:, 3], law[:, :, 3] = 0.0, 0.0, 0.0
    reverse = ReverseProcess(process, ExactDenoiser(law / law.sum(), process))
    values = torch.tensor([[0, 1, 3], [2, 2, 3]])
    prefix = Observed(torch.tensor([True, True, False]), values)
    for sampler in (FirstHitting(), Ancestral(), TauLeaping()):
        found = sample(reverse, sampler, (2, 3), grid=[1.0, 0.5, 0.001], observed=prefix, generator=seed())
        assert torch.equal(found.x0[:, :2], values[:, :2])
        assert int(found.x0.max()) < 3


def test_the_condition_is_split_with_the_batch() -> None:
    process = Uniform(3, Constant(1.0))
    reverse, condition = ReverseProcess(process, _Told()), torch.arange(7) % 3
    for sampler in (Ancestral(), TauLeaping("last"), Trapezoidal(), tl.sampling.Uniformization()):
        found = sample(
            reverse, sampler, (7, 2), grid=uniform_grid(20), condition=condition, batch_size=3, generator=seed()
        )
        assert torch.equal(found.x0, condition[:, None].expand(7, 2))


def test_no_gradients_are_recorded(reverse: ReverseProcess) -> None:
    counting = _Counting(reverse.denoiser)
    with torch.enable_grad():
        sample(ReverseProcess(reverse.process, counting), Ancestral(), (3, 2), grid=uniform_grid(2), generator=seed())
        run_corrector(ReverseProcess(reverse.process, counting), torch.zeros(3, 2).long(), 0.5, steps=1, step=0.1)
    assert counting.passes == 4
    assert counting.passes_with_gradients == 0


def test_the_denoiser_is_evaluated_once_at_the_last_states(reverse: ReverseProcess) -> None:
    """The trace and the final step use one network evaluation."""
    counting = _Counting(reverse.denoiser)
    for final, passes in (("mode", 5), ("sample", 5), ("none", 5)):
        counting.passes = counting.rows = 0
        found = sample(
            ReverseProcess(reverse.process, counting),
            Ancestral(),
            (3, 2),
            grid=uniform_grid(3, end=0.1),
            trace=[1.0, 0.1],
            final=final,  # pyright: ignore[reportArgumentType]
            generator=seed(),
        )
        assert counting.passes == passes
        assert found.info.evaluations == pytest.approx(counting.rows / 3)


def test_repr_has_all_settings() -> None:
    said = "WithCorrector(TauLeaping('last'), steps=2, scale=0.5, start=0.9, multiple_jumps='reject')"
    assert repr(WithCorrector(TauLeaping("last"), 2, 0.5, 0.9, "reject")) == said
    assert repr(WithCorrector(Ancestral(), 1)) == "WithCorrector(Ancestral(), steps=1, scale=1, start=1)"


def test_progress_is_plain_lines_where_there_is_no_terminal(
    reverse: ReverseProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(reverse, TauLeaping(), (9, 2), grid=uniform_grid(10), batch_size=3, generator=seed(), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("TauLeaping(): 3/30 steps")
    assert lines[-1].startswith("TauLeaping(): 30/30 steps")
    assert all(line.endswith(" s left") for line in lines)
    sample(reverse, TauLeaping(), (9, 2), grid=uniform_grid(10), generator=seed())
    assert capsys.readouterr().err == ""


def test_progress_is_a_bar_on_a_terminal(
    reverse: ReverseProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    sample(reverse, TauLeaping(), (9, 2), grid=uniform_grid(3), generator=seed(), progress=True)
    shown = capsys.readouterr().err
    assert "3/3" in shown
    assert "left" in shown


class _Counting(Denoiser):
    """Counts its evaluations."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser, self.passes, self.rows, self.passes_with_gradients = denoiser, 0, 0, 0

    def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
        self.passes += 1
        self.rows += len(x_t)
        self.passes_with_gradients += torch.is_grad_enabled()
        return self.denoiser(x_t, t, observed=observed, condition=condition)


class _Told(Denoiser):
    """Is sure that x0 is what the condition says."""

    def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
        assert condition is not None
        assert len(condition) == len(x_t)
        known = torch.nn.functional.one_hot(condition[:, None].expand(x_t.shape), 3)
        return Posterior(known.double().log())
