"""Who acted. For attribution only: nothing here proves an identity."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from watchkeeper.domain.values.basic import Value

ActorKind = Literal["human", "agent", "service"]
"""The kind of an actor. Only a human may approve, waive, consent or acknowledge."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[^\s\p{Cc}]{1,80}$")]
"""A principal's name: 1 to 80 characters, without spaces and control characters."""


class Actor(Value):
    """Who asked for something, as far as it is known.

    Attributes:
        principal: The name it acts under.
        kind: Human, agent or service, as the list of principals says.
        authenticated: How the name was proven. It is not, and every event says so.
    """

    principal: PrincipalName
    kind: ActorKind
    authenticated: Literal["none"] = "none"
