"""Loads signatures from the data files of this package; validates each row."""

import tomllib
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from watchkeeper.domain.reading.signatures.model import Label, Rank, Scope, Signature
from watchkeeper.domain.values.causes import Outlook


class _Row(BaseModel):
    """One `[[signature]]` of a file; the fields are those of `Signature`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]+\.[a-z0-9-]+$")
    label: Label = Field(alias="class")
    rank: Literal["mark", "generic", "symptom", "specific", "root"]
    scope: Scope = Scope.LINE
    outlook: Outlook | None = None
    also: tuple[Label, ...] = ()
    cancels: tuple[Label, ...] = ()
    stated: bool = False
    pattern: tuple[str, ...] = Field(min_length=1)
    """Alternatives; the message matches if one of them does."""
    example: str = Field(min_length=1)
    counter_example: str = Field(min_length=1)
    source: str = Field(min_length=1)


def signatures_of(*families: str) -> tuple[Signature, ...]:
    """Return the signatures of some families, in the order of their files.

    Args:
        families: Names of data files in this package, without `.toml`.

    Raises:
        ValueError: A file is not TOML, or a row has a wrong or an unknown field. The message names
            the file and the row.
    """
    folder = resources.files("watchkeeper.domain.reading.signatures")
    return tuple(
        signature
        for family in families
        for signature in parsed(family, folder.joinpath(f"{family}.toml").read_text("utf-8"))
    )


def parsed(family: str, text: str) -> tuple[Signature, ...]:
    """Return the signatures in the text of a data file."""
    rows = tomllib.loads(text).get("signature", [])
    return tuple(_signature(family, at, row) for at, row in enumerate(rows, 1))


def _signature(family: str, at: int, values: object) -> Signature:
    try:
        row = _Row.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{family}.toml, signature {at}: {error}") from error
    return Signature(
        id=row.id,
        label=row.label,
        pattern="|".join(row.pattern),
        example=row.example,
        counter_example=row.counter_example,
        source=row.source,
        rank=Rank[row.rank.upper()],
        scope=row.scope,
        outlook=row.outlook,
        also=row.also,
        cancels=row.cancels,
        stated=row.stated,
    )
