"""Conditions and predictions of models of tables."""

from collections.abc import Callable

from tests.tables.small import exact_model, rows


def test_conditions_and_predictions(refuses: Callable[..., None]) -> None:
    model, _ = exact_model(rows())
    refuses(lambda: model.sample(2, given=["pet"]), TypeError, "given must be a mapping such as", "got list")  # type: ignore[arg-type]
    refuses(lambda: model.predict(rows()[:2], ["size"]), ValueError, "observed names 'size'")
    refuses(
        lambda: model.predict(rows()[:2], ["age"], numbers="best"),  # type: ignore[arg-type]
        ValueError,
        'numbers must be "mean" or "median", got \'best\'',
    )
