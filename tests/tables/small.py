"""A model of a small table that is exact: its denoiser is the posterior of the frequencies of the rows."""

import numpy as np
import pandas
import torch
from torch import Tensor

import tauleap as tl
from tauleap.data.memory import Kind
from tauleap.data.table.columns import Column, TableEncoder, from_frame
from tauleap.data.table.format import TableFormat
from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, LogLinear


def rows() -> pandas.DataFrame:
    """Return 600 rows of a boolean, a number in five bins, a category and a number of four values, all dependent."""
    rng = np.random.default_rng(0)
    owner = rng.random(600) < 0.4
    age = np.round(rng.gamma(4.0 + 4.0 * owner, 5.0), 2)
    pet = np.array(["cat", "dog", "fish"])[np.clip((age / 20 + rng.random(600)).astype(int), 0, 2)]
    legs = np.where(pet == "fish", 0, rng.choice([2, 4, 4, 8], 600))
    return pandas.DataFrame({"owner": owner, "age": age, "pet": pet, "legs": legs})


def columns_of(model: tl.Model) -> tuple[Column, ...]:
    """Return the columns of a model of a table."""
    assert isinstance(model.form, TableFormat)
    return model.form.encoder.columns


def states_of(model: tl.Model, frame: pandas.DataFrame) -> Tensor:
    """Return the states of rows."""
    return model.encode(frame).rows(torch.arange(len(frame)))


def exact_model(frame: pandas.DataFrame, *, bins: int = 5, model_missing: bool = False) -> tuple[tl.Model, Tensor]:
    """Return a model whose samples have the frequencies of the rows' states, and these frequencies."""
    raw = from_frame(frame)
    encoder = TableEncoder.fit(raw, bins=bins, model_missing=model_missing)
    encoded = encoder.encode(raw)
    sizes = encoder.sizes
    most = max(sizes) + 1
    law = torch.zeros((most,) * len(sizes), dtype=torch.float64)
    ones = torch.ones(len(frame), dtype=torch.float64)
    law.index_put_(tuple(torch.from_numpy(encoded.states).long().T), ones / len(frame), accumulate=True)
    process = Absorbing(most, LogLinear(), sizes=torch.tensor(sizes))
    form = TableFormat(encoder)
    model = tl.Model(process, ExactDenoiser(law, process), shape=(len(sizes),), form=form, kind=Kind("frame"))
    return model, law
