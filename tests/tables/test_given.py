"""``model.sample(n, given=...)`` against the exact conditional distribution of a model that is known."""

import numpy as np
import pandas
import pytest
import torch
from scipy.stats import chi2_contingency, ks_2samp

import tauleap as tl
from tauleap.sampling import FirstHitting
from tauleap.testing.laws import assert_drawn_from
from tests.tables.small import exact_model, rows, states_of

ROWS = 4000


@pytest.fixture(scope="module")
def model() -> tl.Model:
    return exact_model(rows())[0]


def _counts(model: tl.Model, frame: pandas.DataFrame) -> torch.Tensor:
    x = states_of(model, frame)
    sizes = model.process.sizes.tolist()
    places = torch.zeros(len(x), dtype=torch.int64)
    for site, size in enumerate(sizes):
        places = places * size + x[:, site]
    return places.bincount(minlength=int(np.prod(sizes))).double()


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({"pet": "dog"}, lambda r: r.pet == "dog"),
        ({"owner": True, "legs": 4}, lambda r: r.owner & (r.legs == 4)),
        ({"pet": ["cat", "fish"]}, lambda r: r.pet != "dog"),
        ({"legs": (0, 2)}, lambda r: r.legs <= 2),
        ({"pet": "dog", "legs": (3, None)}, lambda r: (r.pet == "dog") & (r.legs >= 4)),
        ({"pet": ["cat", "dog"], "legs": (4, None)}, lambda r: (r.pet != "fish") & (r.legs >= 4)),
        (
            {"legs": (None, 4), "pet": ["dog", "fish"], "owner": False},
            lambda r: (r.legs <= 4) & (r.pet != "cat") & ~r.owner,
        ),
    ],
)
def test_samples_have_the_conditional_law(model: tl.Model, given: dict, holds) -> None:
    drawn = model.sample(ROWS, given=given, seed=0)
    assert holds(drawn).all()
    expected = _counts(model, rows()[holds(rows())])
    assert_drawn_from(_counts(model, drawn)[None], (expected / expected.sum())[None])
    several = sum(isinstance(value, list | tuple) for value in given.values()) > 1
    assert ("effective_sample_size" in drawn.attrs) == several
    if several:
        assert 0.2 * ROWS < drawn.attrs["effective_sample_size"] <= ROWS


def test_a_range_that_ends_inside_bins_takes_a_part_of_them(model: tl.Model) -> None:
    """Samples given the range are those of many samples without it that are in the range."""
    low, high = 13.0, 31.0
    drawn, every = model.sample(ROWS, given={"age": (low, high)}, seed=0), model.sample(3 * ROWS, seed=1)
    inside = every[every.age.between(low, high)]
    assert drawn.age.between(low, high).all()
    assert ks_2samp(drawn.age, inside.age).pvalue > 1e-3
    counts = [_counts(model, frame) for frame in (drawn, inside)]
    possible = (counts[0] + counts[1]) > 0
    assert chi2_contingency(torch.stack(counts)[:, possible].numpy()).pvalue > 1e-3


def test_a_fixed_number_is_exact_where_its_bin_has_others(model: tl.Model) -> None:
    value = float(np.sort(rows().age)[200]) + 0.004  # not even a value of the data
    drawn = model.sample(20, given={"age": value}, seed=0)
    assert (drawn.age == value).all()
    assert model.sample(3, given={"owner": True, "pet": "fish"}, seed=1).pet.tolist() == ["fish"] * 3


def test_missing_values_can_be_given() -> None:
    frame = rows()
    frame.loc[frame.legs == 8, "pet"] = None
    model, _ = exact_model(frame, model_missing=True)
    drawn = model.sample(300, given={"pet": None}, seed=0)
    assert drawn.pet.isna().all()
    assert (drawn.legs == 8).all()


def test_states_and_seeds(model: tl.Model) -> None:
    options = {"given": {"legs": (0, 2)}, "seed": 3}
    x = model.sample(50, states=True, **options)
    assert torch.equal(x, model.sample(50, states=True, sampler=FirstHitting(), **options))
    assert bool((x[:, 3] <= 1).all())
    pandas.testing.assert_frame_equal(model.sample(50, **options), model.sample(50, **options))
    assert len(model.sample(0, **options)) == 0


def test_few_effective_rows_and_improbable_conditions_are_warned_about() -> None:
    """In a thirtieth of the rows of the first range the second one is certain, in the others it is improbable."""
    first, second = [0] * 20 + [1] * 580 + [2] * 1400, [1] * 20 + [0] * 579 + [2] + [1] * 1400
    model, law = exact_model(pandas.DataFrame({"a": first, "b": second}))
    with pytest.warns(UserWarning, match=r"the 3000 rows are worth about \d+ independent rows"):
        drawn = model.sample(3000, given={"b": (1, 2), "a": (0, 1)}, seed=0)
    assert 0.05 < drawn.attrs["effective_sample_size"] / 3000 < 0.1
    law[0, 2] = 1e-9
    unlikely = tl.denoise.ExactDenoiser(law / law.sum(), model.process)
    model = tl.Model(model.process, unlikely, shape=(2,), form=model.form, kind=model.kind)
    with pytest.warns(UserWarning, match="a row fulfils all conditions with probability 1e-09: they may contradict"):
        model.sample(2, given={"a": 0, "b": 2})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weight": 3}, r"given 'weight': there is no such column: write one of owner, age, pet, legs"),
        ({"pet": "bird"}, "'bird' is not one of its categories: write cat, dog, fish"),
        ({"pet": ["cat", "bird"]}, "'bird' is not one of its categories"),
        ({"pet": []}, "the list of values is empty"),
        ({"pet": ("cat", "dog")}, "a range is for numbers and dates, and this is a category"),
        ({"pet": None}, "missing values are not modelled"),
        ({"age": (30, 20)}, "the range '30:20' is empty: its first end must be the smaller one"),
        ({"age": (1000, None)}, "no training value is in"),
        ({"age": -5}, "outside the training values"),
        ({"age": "old"}, "'old' is not a number"),
        ({"age": (1, 2, 3)}, "a range has two ends"),
        ({"legs": [2, 4]}, "take a value or a range"),
        ({"weight": 3, "pet": "bird"}, r"'weight': .*; given 'pet': "),
        ({"pet": "fish", "legs": 4}, "no row can fulfil all conditions at once"),
        ({"pet": "fish", "legs": (2, 8)}, "no row can fulfil all conditions at once"),
    ],
)
def test_conditions_that_cannot_be_met(model: tl.Model, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.sample(3, given=given)


def test_given_needs_a_table() -> None:
    process = tl.noise.Absorbing(4, tl.noise.LogLinear())
    denoiser = tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(4, (2,)))
    with pytest.raises(ValueError, match=r"given is for models of tables: write complete\(x, observed\)"):
        tl.Model(process, denoiser, shape=(2,)).sample(2, given={"a": 1})


def test_conditions_that_contradict_a_dependency() -> None:
    """Every pet has its number of legs in the rows; the model may well give other combinations a probability."""
    frame = pandas.DataFrame({"pet": ["cat", "dog", "fish", "fish"] * 50, "legs": [4, 4, 0, 0] * 50})
    model, law = exact_model(frame)
    law[:3, :2] += 0.01
    broken = tl.denoise.ExactDenoiser(law / law.sum(), model.process)
    encoded = model.encode(frame)
    assert model.form is not None
    found = model.form.dependencies(encoded)
    about = {"dependencies": [each.config() for each in found]}
    model = tl.Model(model.process, broken, shape=(2,), form=model.form, kind=model.kind, about=about)
    assert [(each.determinant, each.dependent) for each in model.dependencies] == [("pet", "legs")]
    with pytest.raises(ValueError, match="given pet = fish and legs = 4 contradict each other: in all training rows"):
        model.sample(2, given={"pet": "fish", "legs": 4})
    with pytest.raises(ValueError, match=r"given pet = cat \| dog and legs = :3 contradict each other"):
        model.sample(2, given={"legs": (None, 3), "pet": ["cat", "dog"]})
    assert model.sample(2, given={"pet": ["cat", "fish"], "legs": 0}, seed=0).legs.tolist() == [0, 0]
    drawn = model.sample(500, seed=0)
    wrong = int((drawn.legs != drawn.pet.map({"cat": 4, "dog": 4, "fish": 0})).sum())
    assert wrong > 0
    assert model.violations(drawn) == {("pet", "legs"): wrong}
    assert model.violations(frame) == {("pet", "legs"): 0}
