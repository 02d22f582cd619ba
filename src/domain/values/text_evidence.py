"""Typed facts from foreign text."""

from typing import Annotated

from pydantic import Field, NonNegativeInt

from watchkeeper.domain.values.basic import Value


class Frame(Value):
    """One place in a traceback.

    Attributes:
        file: The file as in the traceback, at most 300 characters.
        line: The line number, from 1; 0 if unknown.
        name: The function; empty at a module's top, and for a syntax error.
        code: The source line, if the traceback shows it.
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
        frame: The innermost place, without Python's import code.
        own: The innermost place outside of libraries; null if all places are in libraries.
    """

    kind: str
    error: Annotated[str, Field(max_length=300)]
    frame: Frame
    own: Frame | None = None


class TrackerLink(Value):
    """A tracker run that a job's output names as its own.

    Attributes:
        tracker_id: Its id.
        display_name: Its name for people; empty if unknown.
        url: Its link; empty for a run that is only kept on disk.
        folder: The client's data folder; empty if unknown.
        line: The line that named it first, without colours, at most 300 characters.
        resumed: Whether a start said that it resumes an existing tracker run.
        begun: Whether a start said that it begins a new tracker run.
    """

    tracker_id: str
    display_name: str = ""
    url: str = ""
    folder: str = ""
    line: str = ""
    resumed: bool = False
    begun: bool = False
