"""Column types: what is detected, why, and how a user overrides it."""

import numpy as np
import pytest

from tauleap.data.table.columns import Cells, RawTable, TableEncoder, TableError, detect
from tauleap.data.table.columns.date_text import DateFormat
from tauleap.data.table.columns.number_text import NumberFormat

RNG = np.random.default_rng(0)


def found(texts: list[str], name: str = "x") -> str:
    return detect(name, Cells.from_texts(texts)).type


def texts(values: object) -> list[str]:
    return [str(value) for value in np.asarray(values).tolist()]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "2", "2"], "number"),
        (["1.5", "?", "2"], "number"),
        (["1.5", "-", "2", "unknown"], "number"),
        (["1e-5", "2.5E3", "3"], "number"),
        (["1,5", "2,25"], "number"),
        (texts(RNG.normal(size=500)), "number"),
        (["a", "?", "b"], "category"),
        (["01234", "04567", "01234"], "category"),
        (["yes", "no", "yes"], "boolean"),
        (["TRUE", "FALSE"], "boolean"),
        (["0", "1", "0"], "number"),
        (["", "NA"], "constant"),
        (["5", "5", ""], "constant"),
        (["2024-01-31", "?", "2024-02-01"], "date"),
        (["20240131", "20240201", "20230501", "20220707", "19991231"], "date"),
        (texts(range(1000, 1500)), "id"),
        (texts(RNG.permutation(5000)[:600]), "id"),
        (texts(RNG.integers(10**8, 10**9, 300)), "id"),
        (texts(RNG.integers(0, 50, 600)), "number"),
        (texts(-(np.arange(500) ** 2)), "number"),
        ([f"user-{i}" for i in range(40)], "id"),
        ([f"{i} was a day with rain and wind {i}" for i in range(40)], "text"),
        (["red", "green", "blue"] * 30, "category"),
    ],
)
def test_types(values: list[str], type_: str) -> None:
    assert found(values) == type_


def test_distinct_whole_numbers_of_small_tables() -> None:
    """20 ages or salaries that happen to differ are numbers; with the name of an ID they are an ID."""
    ages = texts([23, 31, 45, 52, 19, 64, 38, 27, 71, 33])
    salaries = texts(RNG.integers(20_000, 90_000, 20) * 7)
    assert found(ages, "age") == "number"
    assert found(salaries, "salary") == "number"
    assert found(salaries, "customer_id") == found(salaries, "customerID") == "id"
    assert found(texts(range(1, 13)), "row") == "id"
    assert found(texts(range(1, 6)), "x") == "number"
    assert found(texts(RNG.permutation(60)[:40]), "x") == "id"
    prices = texts(np.unique(RNG.lognormal(12, 0.4, 400) // 100 * 100).astype(int))
    assert found(prices, "price") == "number"
    assert found(texts(np.unique(RNG.normal(50_000, 9000, 150).astype(int))), "salary") == "number"
    populations = texts((10 ** RNG.uniform(3, 9, 200)).astype(int))
    assert found(populations, "population") == "number"


def test_reasons_have_one_line() -> None:
    for values in (["1", "2"], ["a\nb", "c"], texts(range(30))):
        assert "\n" not in detect("x", Cells.from_texts(values)).reason


def test_a_few_wrong_cells_are_reported_and_count_as_missing() -> None:
    column = [*texts(np.arange(300) % 150), "12a", "n.k."]
    raw = RawTable({"age": Cells.from_texts(column)}, lines=np.arange(302) + 2)
    encoder = TableEncoder.fit(raw)
    assert encoder.columns[0].encoder.type == "number"
    encoded = encoder.encode(raw, training=True)
    assert encoded.missing[:, 0].nonzero()[0].tolist() == [300, 301]
    assert [problem.line for problem in encoded.problems] == [302, 303]
    assert "'12a' is not a number and counts as missing" in str(encoded.problems[0])
    assert "--type age=category" in str(encoded.problems[0])
    # A trained model has its types: --type is no option of tauleap complete.
    assert "--type" not in str(encoder.encode(raw).problems[0])


def table(**columns: list[str]) -> RawTable:
    return RawTable({name: Cells.from_texts(values) for name, values in columns.items()})


def test_overrides() -> None:
    raw = table(zip=["10115", "20095", "10115"], day=["1/2/24", "3/4/24", "5/6/24"], n=["1", "2", "3"])
    encoder = TableEncoder.fit(raw, types={"zip": "category", "day": "date:%d/%m/%y", "n": "id"})
    assert [column.encoder.type for column in encoder.columns] == ["category", "date", "id"]
    assert encoder.sizes == (2, 3)
    assert encoder.decode(encoder.encode(raw).states).values[1].tolist()[0].isoformat() == "2024-02-01"


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"age": "number"}, "no column 'age'"),
        ({"a": "float"}, r"must be one of number, category.*got 'float'.*--type a=category"),
        ({"a": "date:%Q"}, "date format"),
        ({"a": "number"}, "has no number; its first values are 'x', 'y', 'z'"),
        ({"a": "boolean"}, "3 distinct values"),
    ],
)
def test_overrides_that_are_refused(types: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableEncoder.fit(table(a=["x", "y", "z"]), types=types)


def test_every_column_with_a_wrong_override_is_named() -> None:
    with pytest.raises(TableError) as caught:
        TableEncoder.fit(table(a=["x", "y"], b=["x", "y"], c=["1", "2"]), types={"a": "number", "b": "date"})
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)


def test_nothing_to_learn() -> None:
    with pytest.raises(TableError, match="no column has anything to learn"):
        TableEncoder.fit(table(a=["x", "x"], b=["1", ""]))


@pytest.mark.parametrize(
    ("raw", "remedy"),
    [
        ({"a b": [f"u{i}" for i in range(30)]}, "write --type 'a b=category' on the command line"),
        ({"a": ["x"] * 30}, "add rows with other values"),
    ],
)
def test_the_remedy_for_nothing_to_learn_works(raw: dict[str, list[str]], remedy: str) -> None:
    with pytest.raises(TableError, match="no column has anything to learn") as caught:
        TableEncoder.fit(table(**raw))
    assert remedy in str(caught.value)
    if "category" in remedy:
        assert TableEncoder.fit(table(**raw), types={"a b": "category"}).sizes == (30,)


def test_missing_can_be_a_state() -> None:
    raw = table(a=["1", "NA", "2"], b=["x", "x", ""], c=["u", "v", "u"])
    plain, modelled = TableEncoder.fit(raw), TableEncoder.fit(raw, model_missing=True)
    assert plain.sizes == (2, 2)
    assert plain.encode(raw).missing.any(0).tolist() == [True, False]
    assert modelled.sizes == (3, 2, 2)
    encoded = modelled.encode(raw)
    assert not encoded.missing.any()
    decoded = modelled.decode(encoded.states)
    assert decoded.missing[0].tolist() == [False, True, False]
    assert decoded.columns[0].texts(decoded.values[0], decoded.missing[0]) == ["1", "NA", "2"]


def test_the_description_has_types_reasons_and_the_way_to_change_them() -> None:
    encoder = TableEncoder.fit(table(id=texts(range(30)), a=["x", "y"] * 15))
    assert "--type a=text" in TableEncoder.fit(table(a=["x", "y"] * 15)).describe()[-1]  # it is a category already
    lines = encoder.describe()
    assert lines[1].split()[:2] == ["id", "id"]
    assert "running number" in lines[1]
    assert "--type id=category" in lines[-1]


@pytest.mark.parametrize(
    ("values", "type_", "reason"),
    [
        (["$5.00", "$7.50", "$9.25"], "number", "decimal numbers with $, 3 distinct"),
        (["5%", "7", "9%"], "category", "texts, 3 distinct"),  # 7 is not 7 %
        ([f"{3 * i} €" for i in range(60)], "number", "whole numbers with €, 60 distinct"),  # prices, not an ID
        (["07.50", "12.25", "07.50"], "number", "decimal numbers, 2 distinct"),
        (["0075", "1225"], "category", "texts, 2 distinct, digits with leading zeros"),
        (["1", "1.0", "2"], "number", "whole numbers, 2 distinct"),
        (["1/2/24", "3/4/24"], "date", "the day is read after the month, the other order fits as well"),
        (["13.2.61", "3.4.79"], "date", "two-digit years are 1961 to 1979"),
        (["2024-01-01T10:00+01:00", "2024-07-01T10:00+02:00"], "date", "several time zones, the output has +01:00"),
        (["3 March 2024", "4 May 2024"], "date", "dates written as %-d %B %Y"),
    ],
)
def test_reasons(values: list[str], type_: str, reason: str) -> None:
    detected = detect("x", Cells.from_texts(values))
    assert detected.type == type_
    assert reason in detected.reason


def test_large_whole_numbers_beside_unreadable_cells_stay_exact() -> None:
    values = [str(2**53 + 1 + 2 * (i % 30)) for i in range(300)]
    raw = table(a=[*values, "n.k.", "12a"], b=["x", "y"] * 151)
    encoder = TableEncoder.fit(raw)
    encoded = encoder.encode(raw)
    assert encoded.missing[:, 0].nonzero()[0].tolist() == [300, 301]
    decoded = encoder.decode(encoded.states)
    assert decoded.columns[0].texts(decoded.values[0], decoded.missing[0])[:300] == values


def test_numbers_of_more_than_64_bits_are_rounded_only_if_the_user_says_number_and_the_table_says_so() -> None:
    values = [str(10**24 + i % 40 * 10**7) for i in range(300)]
    assert found(values) == "category"
    encoder = TableEncoder.fit(table(a=values, b=["x", "y"] * 150), types={"a": "number"})
    assert "whole numbers of more than 64 bits are rounded to 15 digits" in encoder.describe()[1]
    lowest = [str(-(2**63) - 1 - i % 40) for i in range(300)]
    assert found(lowest) == "category"


def test_numbers_of_more_than_64_bits_are_written_without_digits_that_nobody_gave() -> None:
    values = [str(12345678901234567890123 + i % 40 * 10**20) for i in range(300)]
    encoder = TableEncoder.fit(table(a=values, b=["x", "y"] * 150))
    assert "whole numbers of more than 64 bits are rounded to 15 digits" in encoder.describe()[1]
    decoded = encoder.decode(encoder.encode(table(a=values, b=["x", "y"] * 150)).states)
    texts = decoded.columns[0].texts(decoded.values[0], decoded.missing[0])
    assert all(text[:15] == value[:15] and set(text[17:]) == {"0"} for text, value in zip(texts, values, strict=True))


def test_a_type_that_would_make_all_values_equal_is_refused() -> None:
    values = [str(10**25 + i % 40) for i in range(300)]
    message = "column 'a': has numbers that are all equal after rounding to 15 digits, so that there is nothing"
    with pytest.raises(TableError, match=f"{message} to learn from them as numbers; write"):
        TableEncoder.fit(table(a=values, b=["x", "y"] * 150), types={"a": "number"})


def test_digits_that_are_seconds_of_a_day_are_dates() -> None:
    values = [f"202401{1 + i % 28:02d}1005{i % 60:02d}" for i in range(100)]
    detected = detect("x", Cells.from_texts(values))
    assert (detected.type, detected.reason) == ("date", "dates written as %Y%m%d%H%M%S")


def test_the_order_of_day_and_month_is_in_doubt_only_after_the_first_place() -> None:
    assert "order" not in detect("x", Cells.from_texts(["2024-01-02", "2024-03-04"])).reason
    assert "order" in detect("x", Cells.from_texts(["01/02/2024", "03/04/2024"])).reason


def test_the_reason_says_why_a_column_of_almost_numbers_is_none() -> None:
    column = Cells.from_texts([*(str(i % 9) for i in range(36)), "Total"])
    assert detect("x", column).reason == "texts, 10 distinct; 97.2 % of the cells are numbers, and 'Total' is not"
    days = Cells.from_texts([*(f"2024-01-{1 + i % 9:02d}" for i in range(30)), *["3.1.2024"] * 10])
    assert detect("x", days).reason == "texts, 10 distinct; 75 % of the cells are dates, and '3.1.2024' is not"


def test_every_mark_of_missing_values_is_named() -> None:
    assert detect("x", Cells.from_texts(["1", "?", "-", "2"])).reason.endswith("'-' and '?' are missing")


def test_a_format_that_fits_no_cell_is_named_with_the_type_that_fits() -> None:
    days = table(d=["2024-01-01", "2024-01-02"], x=["1", "2"])
    with pytest.raises(TableError, match=r"no date in the format %d\.%m\.%Y; .*'2024-01-01'.*; write --type d=date on"):
        TableEncoder.fit(days, types={"d": "date:%d.%m.%Y"})
    assert TableEncoder.fit(days, types={"d": "date"}).columns[0].encoder.type == "date"


@pytest.mark.parametrize("mark", ["#DIV/0!", "#VALUE!", "#N/A", "\\N", "0000-00-00"])
def test_marks_of_spreadsheets_and_databases_are_missing(mark: str) -> None:
    values = [*(f"2024-01-{1 + i % 28:02d}" for i in range(30)), *[mark] * 10]
    assert detect("x", Cells.from_texts(values)).type == "date"
    numbers = [*map(str, range(0, 90, 3)), *[mark] * 10]
    assert detect("x", Cells.from_texts([*numbers, *numbers])).type == "number"


def test_a_column_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = NumberFormat.parse

    def counted(form: NumberFormat, texts: list[str], valid: object = None) -> object:
        parsed.append(len(texts))
        return parse(form, texts, valid)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(NumberFormat, "parse", counted)
    raw = table(plain=["1.5", "2.5", "4.5"] * 10, marked=["1", "?", "2"] * 10)
    encoder = TableEncoder.fit(raw)
    halves = [raw.select(np.arange(15)), raw.select(np.arange(15, 30))]
    states = [encoder.refit(halves[0]).encode(half).states for half in halves]
    assert np.concatenate(states).tolist() == encoder.encode(raw).states.tolist()
    assert parsed.count(3) <= 2  # with "?" once more, for the bins
    assert parsed.count(2) == 1


def test_equal_numbers_in_several_spellings_are_a_constant() -> None:
    encoder = TableEncoder.fit(table(a=["0.0", "-0.0"] * 30, b=["x", "y"] * 30))
    assert encoder.columns[0].encoder.type == "constant"
    assert encoder.columns[0].reason == "every value is 0.0"
    assert encoder.sizes == (2,)


def test_long_whole_numbers_without_repetition_are_an_id() -> None:
    assert found([str(2**100 + i * 2**61) for i in range(60)]) == "id"
    assert found([str(2**100 + i % 30 * 2**61) for i in range(60)]) == "number"


def test_zones_that_no_clock_has_are_no_dates() -> None:
    values = [f"2024-01-{1 + i % 28:02d}T10:00:00+99:99" for i in range(60)]
    assert found(values) == "category"
    with pytest.raises(ValueError, match="zone of a date format must be"):
        DateFormat("%Y-%m-%d %H:%M%z", "+24:00")
