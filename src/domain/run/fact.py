"""The base of every event."""

from typing import ClassVar

from watchkeeper.domain.values.basic import Value


class Fact(Value):
    """Something that happened: recorded once, never edited, never refused."""

    topic: ClassVar[str]
