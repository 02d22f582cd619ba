"""The actors of events. They are for attribution only and prove no identity."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from watchkeeper.domain.values.basic import Value

ActorKind = Literal["human", "agent", "service"]
"""The kind of an actor. Only a human may approve, waive, consent or acknowledge."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[^\s\p{Cc}]{1,80}$")]
"""A principal's name: 1 to 80 characters, without spaces and control characters."""


class Actor(Value):
    """The actor of an event.

    Attributes:
        principal: The actor's name.
        kind: Human, agent or service, by the list of principals.
        authenticated: How the name was authenticated: it was not, and every event says so.
    """

    principal: PrincipalName
    kind: ActorKind
    authenticated: Literal["none"] = "none"
