"""Typed facts that were read from foreign text."""

from typing import Annotated

from pydantic import Field, NonNegativeInt

from watchkeeper.domain.values.basic import Value


class Frame(Value):
    """One place in a traceback.

    Attributes:
        file: As the traceback has it, at most 300 characters.
        line: From 1; 0 where the traceback names none.
        name: The function; empty at a module's top, and for a syntax error.
        code: The line's own text, where the traceback shows it.
    """

    file: Annotated[str, Field(max_length=300)]
    line: NonNegativeInt
    name: str = ""
    code: Annotated[str, Field(max_length=300)] = ""


class Raised(Value):
    """An error with the place where it was raised.

    Attributes:
        kind: The error's class, without its module.
        error: Its whole line.
        frame: The innermost place, that of an import's machinery left out.
        own: The innermost place outside of libraries; none where all of it lies in them.
    """

    kind: str
    error: Annotated[str, Field(max_length=300)]
    frame: Frame
    own: Frame | None = None


class TrackerLink(Value):
    """One tracker run that a job's output names as the one it logs to.

    Attributes:
        tracker_id: Its id.
        display_name: Its name for people; empty where no line says it.
        url: Where people look at it; empty for a run that is only kept on disk.
        folder: Where the client keeps its data; empty where no line says it.
        line: The line that named it first, without colours, at most 300 characters.
        resumed: A start said that it goes on with a tracker run that was there.
        begun: A start said that it begins a new one.
    """

    tracker_id: str
    display_name: str = ""
    url: str = ""
    folder: str = ""
    line: str = ""
    resumed: bool = False
    begun: bool = False
