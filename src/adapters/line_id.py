"""The id of a request line: text or an integer, returned unchanged."""

import json
from typing import Annotated

from pydantic import BeforeValidator

from watchkeeper.adapters.bad_input import visible

ID_EXPECTED = "expected text or an integer"
_SHOWN_MAX = 60


def checked_id(value: object) -> str | int:
    """Return an id as it is.

    Raises:
        ValueError: It is neither text nor an integer; says what it is.

    >>> checked_id(7), checked_id("a")
    (7, 'a')
    """
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    # As JSON writes it: a client that sent `null` looks for that word.
    shown = visible(json.dumps(value, ensure_ascii=False, default=str))
    cut = "..." if len(shown) > _SHOWN_MAX else ""
    raise ValueError(f"{shown[:_SHOWN_MAX]}{cut}: {ID_EXPECTED}")


LineId = Annotated[str | int, BeforeValidator(checked_id)]
