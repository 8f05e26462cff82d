"""Questions to a model have the same answers on an accelerator and on the CPU."""

import copy

import pytest
import torch

import tauleap as tl
from tauleap import Observed
from tauleap.evaluate import order_log_prob, path_log_prob
from tauleap.testing import cases
from tests.devices.parts import SITES, data, model, on_both


@pytest.mark.parametrize("name", ["absorbing", "uniform"])
def test_likelihoods_of_rows(each_sim: torch.device, name: str) -> None:
    process = cases.of_every_kind()[name]
    x0 = data(process)
    mask = torch.zeros_like(x0, dtype=torch.bool)
    mask[:3, 0] = True
    named = {"observed": Observed(mask, x0), "missing": mask.flip(0), "condition": torch.linspace(0, 1, len(x0))}

    def log_probs(reverse, x0, **named):
        if name == "absorbing":
            return order_log_prob(reverse, x0, orders=4, batch_size=5, **named)
        return path_log_prob(reverse, x0, grid=[1.0, 0.4, 0.0], draws=4, batch_size=5, **named)

    for options in ({}, named):
        here, there = on_both(log_probs, each_sim, model(process), x0, **options)
        assert there.value.device.type == "cpu"
        assert there.value.tolist() == pytest.approx(here.value.tolist(), rel=1e-4, abs=1e-5)
        assert there.stderr.tolist() == pytest.approx(here.stderr.tolist(), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["absorbing", "uniform"])
def test_marginals_and_surprising_cells(each_sim: torch.device, name: str) -> None:
    process = cases.of_every_kind()[name]
    x, condition = data(process), torch.linspace(0, 1, 6)
    reverse = model(process)
    here, there = (
        tl.Model(each.process, each.denoiser, shape=(SITES,)) for each in (reverse, copy.deepcopy(reverse).to(each_sim))
    )
    one = condition[:1]
    answers = []
    for each in (here, there):
        found = each.surprise(x, seed=0, batch_size=4, condition=condition)
        assert found.bits.device.type == "cpu"
        numbers = [found.bits, found.scores, found.row_scores]
        for given, samples in (({}, 9), ({1: int(x[0, 1])}, 50), ({1: [0, 1]}, 50), ({1: [0, 1]}, 1)):
            if name == "absorbing" or samples == 50:
                frame = each.marginal(0, given, samples=samples, steps=5, seed=0, condition=one)
                numbers.append(torch.tensor(frame.to_numpy().tolist()).clamp(max=99))
        answers.append(torch.cat([part.flatten() for part in numbers]))
    assert answers[1].tolist() == pytest.approx(answers[0].tolist(), rel=1e-3, abs=1e-4)
