"""Files in the shape of the five benchmark tables open without flags, and decoded rows look like the original ones."""

import io
from pathlib import Path

import numpy as np
import pytest

from tauleap.data.table.columns import TableEncoder, to_frame
from tauleap.data.table.csv import read_delimited, write_delimited

ROWS = 1200


def adult(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    job = rng.choice(["Private", "State-gov", "NA"], ROWS, p=[0.8, 0.15, 0.05])
    gain = np.where(rng.random(ROWS) < 0.9, 0, rng.choice([2174, 7688, 15024, 99999], ROWS))
    rows = zip(rng.integers(17, 90, ROWS), job, rng.integers(12_000, 900_000, ROWS) // 3, gain, strict=True)
    text = "age,workclass,fnlwgt,capital_gain\n" + "".join(f"{a},{j},{w},{g}\n" for a, j, w, g in rows)
    return text, {"age": "number", "workclass": "category", "capital_gain": "number"}


def default(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    bills = np.round(rng.normal(50_000, 60_000, ROWS)).astype(int)
    paid = np.where(rng.random(ROWS) < 0.3, rng.choice([0, 1000, 2000, 5000], ROWS), rng.integers(0, 9999, ROWS))
    rows = zip(range(1, ROWS + 1), bills, paid, rng.integers(-2, 9, ROWS), rng.integers(0, 2, ROWS), strict=True)
    text = "ID,X12,X18,X6,Y\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    return text, {"ID": "id", "X12": "number", "X18": "number", "X6": "number", "Y": "number"}


def shoppers(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    rates = rng.integers(0, 20, ROWS) / rng.integers(20, 120, ROWS)
    lines = [
        f"{rate:.9g},{month},{weekend},{special:g}\n"
        for rate, month, weekend, special in zip(
            rates,
            rng.choice(["Feb", "May", "Nov"], ROWS),
            rng.choice(["TRUE", "FALSE"], ROWS),
            rng.integers(0, 6, ROWS) / 5,
            strict=True,
        )
    ]
    types = {"ExitRates": "number", "Month": "category", "Weekend": "boolean", "SpecialDay": "number"}
    return "ExitRates,Month,Weekend,SpecialDay\n" + "".join(lines), types


def magic(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    lines = [
        f"{a:.6g},{b:.4f},{c}\n"
        for a, b, c in zip(rng.lognormal(3, 1, ROWS), rng.normal(size=ROWS), rng.choice(["g", "h"], ROWS), strict=True)
    ]
    return "fLength,fConc,class\n" + "".join(lines), {"fLength": "number", "fConc": "number", "class": "category"}


def beijing(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    lines = [
        f"{i},{2010 + i // 300},{1 + i % 12},{'NA' if i % 20 == 0 else p},{d},{w:.2f}\n"
        for i, (p, d, w) in enumerate(
            zip(
                rng.integers(0, 500, ROWS), rng.choice(["NW", "SE", "cv"], ROWS), rng.exponential(20, ROWS), strict=True
            ),
            start=1,
        )
    ]
    types = {"No": "id", "year": "number", "pm2.5": "number", "cbwd": "category", "Iws": "number"}
    return "No,year,month,pm2.5,cbwd,Iws\n" + "".join(lines), types


@pytest.mark.parametrize("make", [adult, default, shoppers, magic, beijing])
def test_a_benchmark_table(make: object, tmp_path: Path) -> None:
    text, types = make(np.random.default_rng(0))  # pyright: ignore[reportCallIssue]
    path = tmp_path / "table.csv"
    path.write_text(text)
    raw = read_delimited(path)
    encoder = TableEncoder.fit(raw, model_missing=True)
    assert raw.problems == ()
    found = {column.name: column.encoder.type for column in encoder.columns}
    assert {name: found[name] for name in types} == types
    encoded = encoder.encode(raw)
    decoded = encoder.decode(encoded.states, np.random.default_rng(0))
    written = io.StringIO()
    write_delimited(decoded, written)
    lines, original = written.getvalue().splitlines(), text.splitlines()
    assert lines[0] == original[0]
    assert len(lines) == len(original)
    frame = to_frame(decoded)
    for column, values in zip(
        encoder.columns, zip(*(line.split(",") for line in original[1:]), strict=True), strict=True
    ):
        again = [line.split(",")[list(found).index(column.name)] for line in lines[1:]]
        if column.encoder.type in ("category", "boolean"):
            assert again == list(values)
        elif column.encoder.type == "id":
            assert again == [str(i) for i in range(1, ROWS + 1)]
        else:
            # The same missing cells, at most as many decimals, and every value in its bin.
            assert [text == "NA" for text in again] == [text == "NA" for text in values]
            decimals = max(len(text.partition(".")[2]) for text in values)
            assert max(len(text.partition(".")[2]) for text in again) <= decimals
    path.write_text(written.getvalue())
    assert (encoder.encode(read_delimited(path)).states == encoded.states).all()
    assert (encoder.encode(raw).states == encoded.states).all()
    assert len(frame) == ROWS
