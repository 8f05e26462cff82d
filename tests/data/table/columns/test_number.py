"""Numbers: monotone, invertible up to the bin, the column's own precision, and a density that adds up to 1."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tauleap.data.table.columns import NumberEncoder
from tauleap.data.table.columns.number_text import NumberFormat, number_format
from tauleap.data.table.columns.precision import decimals_of

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(size=3000),
    "two decimals": np.round(RNG.lognormal(size=3000) * 10, 2),
    "whole": RNG.integers(-500, 5000, 3000),
    "mostly zero": np.where(RNG.random(3000) < 0.9, 0, RNG.integers(1, 99_999, 3000)),
    "few values": RNG.integers(0, 7, 3000),
    "heaps": np.where(RNG.random(3000) < 0.5, RNG.integers(1, 100, 3000) * 1000, RNG.integers(0, 10**5, 3000)),
    "float32": RNG.normal(size=1000).astype(np.float32),
    "above 2**53": 2**62 + RNG.integers(0, 10**6, 1000),
    "hashes of 64 bits": RNG.integers(-(2**63), 2**63 - 1, 40)[RNG.integers(0, 40, 1000)],
    "small table": RNG.normal(size=30),
    "infinite": np.append(RNG.normal(size=300), [np.inf, -np.inf]),
}


def assert_round_trip(values: np.ndarray, bins: int = 100) -> NumberEncoder:
    encoder = NumberEncoder.fit(values, bins=bins)
    states, missing = encoder.encode(values)
    assert not missing.any()
    assert states.min() >= 0
    assert states.max() < encoder.num_states
    order = np.argsort(values, kind="stable")
    assert (np.diff(states[order]) >= 0).all()
    for rng in (np.random.default_rng(1), np.random.default_rng(2)):
        decoded = encoder.decode(states, rng)
        assert (encoder.encode(decoded)[0] == states).all()
        alone = np.array([len(set(values[states == state])) == 1 for state in range(encoder.num_states)])[states]
        assert (decoded[alone].astype(values.dtype) == values[alone]).all()
    assert NumberEncoder.from_config(json.loads(json.dumps(encoder.config()))) == encoder
    return encoder


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("bins", [2, 20, 100])
def test_round_trip(name: str, bins: int) -> None:
    assert_round_trip(COLUMNS[name], bins)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=60)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60)
    | st.lists(st.integers(-5, 300), min_size=1, max_size=200),
    st.integers(2, 30),
)
def test_round_trip_of_any_numbers(values: list[float], bins: int) -> None:
    array = np.array(values)
    encoder = assert_round_trip(array, bins)
    assert (encoder.log_density(array) <= 0).all()
    assert np.isfinite(encoder.log_density(array)).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=60))
def test_unseen_numbers_are_monotone(values: list[float]) -> None:
    encoder = NumberEncoder.fit(COLUMNS["heaps"])
    probe = np.sort(np.array([*values, -1e300, 1e300, 0.5, 1000.5]))
    states, missing = encoder.encode(probe)
    assert not missing.any()
    assert (np.diff(states) >= 0).all()
    assert (states[0], states[-1]) == (0, encoder.num_states - 1)


def test_whole_numbers_of_64_bits_come_back_exactly() -> None:
    values = np.array([2**63 - 1, -(2**63), 7, 123456789012345679, 2**53 + 1] * 20)
    encoder = NumberEncoder.from_config(json.loads(json.dumps(NumberEncoder.fit(values).config())))
    assert (encoder.decode(encoder.encode(values)[0]) == values).all()
    unsigned = np.array([2**64 - 1, 2**63, 5] * 20, dtype=np.uint64)
    encoder = NumberEncoder.fit(unsigned)
    assert encoder.decode(encoder.encode(unsigned)[0]).tolist() == unsigned.tolist()


def test_types_and_precision() -> None:
    whole = NumberEncoder.fit(COLUMNS["whole"])
    assert whole.decode(np.arange(whole.num_states)).dtype == np.int64
    decimals = NumberEncoder.fit(COLUMNS["two decimals"])
    decoded = decimals.decode(np.arange(decimals.num_states))
    assert decimals.decimals == 2
    assert (np.round(decoded, 2) == decoded).all()
    hundreds = NumberEncoder.fit(np.arange(0, 10**6, 700))
    assert (hundreds.decode(np.arange(hundreds.num_states)) % 100 == 0).all()
    six_digits = NumberEncoder.fit(np.array([float(f"{value:.6g}") for value in RNG.lognormal(0, 3, 2000)]))
    assert six_digits.significant == 6


def test_atoms_are_exact_and_alone() -> None:
    values = COLUMNS["mostly zero"]
    encoder = NumberEncoder.fit(values)
    states, _ = encoder.encode(values)
    zero = encoder.encode(np.array([0]))[0][0]
    assert (values[states == zero] == 0).all()
    assert encoder.encode(np.array([1e-9]))[0][0] == zero + 1
    assert encoder.num_states > 50


def test_tails_have_finer_bins() -> None:
    values = RNG.normal(size=20_000)
    states, _ = NumberEncoder.fit(values).encode(values)
    rows = np.bincount(states)
    assert rows[0] < 15
    assert rows[-1] < 15
    assert rows[len(rows) // 2] == pytest.approx(200, rel=0.1)


def test_small_tables_have_bins_of_several_rows() -> None:
    states, _ = NumberEncoder.fit(COLUMNS["small table"]).encode(COLUMNS["small table"])
    assert np.bincount(states).min() >= 3
    assert NumberEncoder.fit(np.array([20.5, 31.25])).num_states == 2


def test_decoded_rows_have_the_distribution_of_the_column() -> None:
    values = COLUMNS["heaps"]
    encoder = NumberEncoder.fit(values)
    decoded = encoder.decode(encoder.encode(values)[0], np.random.default_rng(0))
    levels = np.linspace(0, 1, 201)
    assert np.abs(np.quantile(decoded, levels) - np.quantile(values, levels)).max() <= 1000
    assert np.mean(decoded % 1000 == 0) == pytest.approx(np.mean(values % 1000 == 0), abs=0.02)


def test_uniforms_choose_the_place_inside_a_bin() -> None:
    encoder = NumberEncoder.fit(COLUMNS["normal"])
    low = encoder.decode(np.array([50]), uniforms=np.array([0.0]))
    high = encoder.decode(np.array([50]), uniforms=np.array([1 - 1e-12]))
    assert low < high
    assert encoder.encode(low)[0] == encoder.encode(high)[0] == [50]


@pytest.mark.parametrize("bins", [2, 5, 30])
def test_probabilities_of_the_values_of_a_state_add_up_to_one(bins: int) -> None:
    values = np.round(RNG.normal(size=500) * 40).astype(int) * 2
    encoder = NumberEncoder.fit(values, bins=bins)
    grid = np.arange(-30_000, 30_000)
    states, log_density = encoder.encode(grid)[0], encoder.log_density(grid)
    totals = np.bincount(states, weights=np.exp(log_density), minlength=encoder.num_states)
    assert totals == pytest.approx(np.ones(encoder.num_states), abs=0.002)


@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_probabilities_of_unseen_values_between_atoms_add_up_to_one(decimals: int) -> None:
    whole = np.repeat(np.delete(np.arange(-30, 60), [4, 17, 18, 40, 41, 42]), 5)
    encoder = NumberEncoder.fit(whole / 10**decimals)
    grid = np.arange(-400, 400) / 10**decimals
    states, log_density = encoder.encode(grid)[0], encoder.log_density(grid)
    totals = np.bincount(states, weights=np.exp(log_density), minlength=encoder.num_states)
    assert totals == pytest.approx(np.ones(encoder.num_states), abs=0.002)


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        (np.arange(300) / 4, {"offset": 5}),
        (np.arange(300) / 4, {"integer": True}),
        (np.arange(300) * 100, {"offset": 5}),
    ],
)
def test_a_config_whose_states_would_not_come_back_is_refused(values: np.ndarray, changed: dict[str, int]) -> None:
    config = NumberEncoder.fit(values).config()
    with pytest.raises(ValueError, match="whole numbers"):
        NumberEncoder.from_config({**config, **changed})


def test_bits_are_comparable_between_numbers_of_bins() -> None:
    """For uniform whole numbers the entropy is known, so that every number of bins must give it."""
    values = np.repeat(np.arange(1024), 4)
    for bins in (4, 32, 256):
        encoder = NumberEncoder.fit(values, bins=bins)
        states, _ = encoder.encode(values)
        frequencies = np.bincount(states) / len(states)
        bits = (-np.log(frequencies[states]) - encoder.log_density(values)).mean() / math.log(2)
        assert bits == pytest.approx(10, abs=0.01)


def test_held_out_values_have_finite_bits() -> None:
    encoder = NumberEncoder.fit(COLUMNS["two decimals"][:2000])
    probe = np.array([-1e9, -1.0, 0.005, 1e9, np.nan])
    assert np.isfinite(encoder.log_density(probe)).all()
    assert encoder.log_density(probe)[-1] == 0


def test_missing_numbers() -> None:
    encoder = NumberEncoder.fit(np.array([1.0, np.nan, 2.0]))
    states, missing = encoder.encode(np.array([np.nan, 2.0]))
    assert states.tolist() == [0, 1]
    assert missing.tolist() == [True, False]


@pytest.mark.parametrize("bins", [0, 1, 10_001])
def test_numbers_of_bins_that_are_refused(bins: int) -> None:
    with pytest.raises(ValueError, match=r"bins must be a whole number of 2\.\.10,000"):
        NumberEncoder.fit(np.array([1.0]), bins=bins)
    with pytest.raises(ValueError, match="one value or more"):
        NumberEncoder.fit(np.array([np.nan]))


@pytest.mark.parametrize(
    "texts",
    [
        ["$1,234.50", "-$5.00", "$0.25"],
        ["1.234,50 €", "-5,00 €", "0,25 €"],
        ["EUR 5", "EUR 12", "EUR 7"],
        ["12%", "7%", "100%"],
        ["12.5 %", "7.0 %", "-3.5 %"],
        ["+1.50", "-2.25", "+0.00"],
        ["1.235e+06", "2.500e-03", "-7.000e+00"],
        ["1.235E+06", "2.500E-03", "7.000E+00"],
        ["(3.00)", "12.50", "7.25"],
        ["−3.5", "12.0", "7.5"],
        ["07.50", "12.25", "00.00"],
        ["1\u00a0234,5", "12,0", "9\u00a0999,9"],
        ["1'234.50", "5.00", "0.25"],
        ["1 234", "56", "7 890 123"],
        [".5", "-.25", "1.75"],
        ["€ -5,00", "€ 1.250,00", "€ 12,50"],
        ["$-5", "$12", "$7"],
        ["1e5", "2.5e-3", "-7e12"],
        ["1E5", "2.5E7", "3E9"],
        ["1e+05", "2.5e-03", "7e+00"],
        ["5,000.25 kr", "-12.50 kr", "0.00 kr"],
        ["1.50‰", "0.25‰", "2.00‰"],
    ],
)
def test_formats_of_numbers_come_back(texts: list[str]) -> None:
    found = number_format(texts)
    assert found is not None
    form, valid = found
    assert valid.all()
    values, _ = form.parse(texts)
    assert form.write(values, decimals_of(values)) == texts
    assert NumberFormat.from_config(json.loads(json.dumps(form.config()))) == form


@pytest.mark.parametrize("texts", [["$5", "€5", "£7"], ["A12", "A13"], ["x1", "x2"], ["(030) 123", "(040) 7"]])
def test_texts_that_only_look_like_numbers(texts: list[str]) -> None:
    assert number_format(texts) is None


def test_whole_numbers_stay_exact_beside_texts() -> None:
    values, valid = NumberFormat().parse(["9007199254740993", "x", "18446744073709551615"])
    assert valid.tolist() == [True, False, True]
    assert values[valid].tolist() == [9007199254740993, 18446744073709551615]
