"""The literal secrets in a structure, as tests name them."""

from typing import NamedTuple

from pydantic import JsonValue

from watchkeeper.domain.values.secrets.places import path_name, survey


class Found(NamedTuple):
    """A secret: its place, such as `env.HF_TOKEN` or `command[3]`, and its kind."""

    place: str
    kind: str


def find_secrets_in(value: JsonValue) -> tuple[Found, ...]:
    """Return the secrets in a structure, those in keys first."""
    found = survey(value, ())
    return tuple(
        Found(path_name(path), span.kind)
        for places in (found.keys, found.values)
        for path, here in places.items()
        for span in here.spans
    )
