"""A user's mistake is refused at the door, by a message that says what was given and what is wanted."""

from collections.abc import Callable, Iterator

import jaxtyping
import pytest


def _refuses(call: Callable[[], object], error: type[Exception], *parts: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error, f"{raised.type.__name__}: {raised.value}"
    missing = [part for part in parts if part not in str(raised.value)]
    assert not missing, f"{missing} not in {str(raised.value)!r}"


@pytest.fixture(name="refuses")
def as_a_user() -> Iterator[Callable[..., None]]:
    """``refuses(call, error, *parts)``: the call must raise exactly ``error``, with all of ``parts`` in its message.

    The checker of types and shapes that tests run under would be quicker, and users do not have it: it is switched off.
    """
    was = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield _refuses
    jaxtyping.config.update("jaxtyping_disable", was)
