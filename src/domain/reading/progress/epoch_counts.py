"""Reads a step that restarts with each epoch: `Epoch 3/10: step 100/200`.

The shape is the word epoch with its number, followed by a count with a maximum. The maximum is the
epoch's, as frameworks print them. The step is the run's in three cases: without a maximum, with the
epoch behind the step, or with a total count (`global_step`, `num_updates`) on the line.
"""

import re
from dataclasses import dataclass

from watchkeeper.domain.reading.progress.numbers import SHOWN, Count, shown_count

# All repeats are possessive, so that white space is matched in one way only.
_OF = r"\s*+/\s*+"
_COUNT = r"(?P<step>" + SHOWN + ")" + _OF + r"(?P<maximum>" + SHOWN + r")(?![\d.:/])"

_IN_EPOCH = re.compile(
    r"(?<![A-Za-z_])epoch(?P<word>\s*+\(train\))?[\s:=#\[]*+"
    r"(?P<epoch>\d{1,6})(?:" + _OF + r"(?P<epochs>\d{1,6}))?\b"
    r"(?P<between>[\]\s:,|;)\-\u2013\u2500-\u257f]*+)\[?\s*+"
    r"(?:(?P<unit>(?:steps?|batch(?:es)?|iter(?:ation)?s?|it|updates?)\b)[\s:=#]*+)?\[?\s*+"
    + _COUNT
    + r"(?P<share>\s*+\(\s*+\d+ ?%\))?",
    re.IGNORECASE,
)
_TIMM = re.compile(r"\bTrain:\s++(?P<epoch>\d{1,6})\s++\[\s*+" + _COUNT + r"\s*+\(\s*+\d+%\)\]")
_KERAS = re.compile(r"^[\s\x08]*+" + _COUNT + r"\s++(?:\[[=>.]++\]|\u2501++)\s")
_HEADER = re.compile(r"^\s*+Epoch (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\s*+$")


@dataclass(frozen=True, slots=True)
class EpochCount:
    """A step that is counted within an epoch.

    Attributes:
        step: The step shown.
        maximum: The maximum shown: the epoch's steps.
        epoch: The epoch's number as printed; `None` if the line has none.
        epochs: The total number of epochs, if shown.
        done: Epochs before this one.
        begin: Where it begins in the line.
        end: Where it ends.
    """

    step: Count
    maximum: Count
    epoch: int | None
    epochs: int | None
    done: int | None
    begin: int
    end: int


def epoch_count(text: str) -> EpochCount | None:
    """Return the step within an epoch that a line shows, or `None`."""
    found = _IN_EPOCH.search(text)
    if found is None:
        timed = _TIMM.search(text)
        return None if timed is None else _made(timed, int(timed["epoch"]), None, from_one=False)
    if found["share"] and not found["unit"]:
        # `Train Epoch: 3 [6400/60000 (11%)]` counts samples.
        return None
    if not found["unit"] and not (found["between"] or found["epochs"]):
        return None
    if not found["unit"] and not _whole(found):
        # A rounded count without a word may count tokens.
        return None
    epochs = int(found["epochs"]) if found["epochs"] else None
    # Lightning's bar counts from 0 and shows the last epoch's number; fairseq pads with zeros.
    from_zero = "\u2022" in text
    padded = len(found["epoch"]) > 1 and found["epoch"].startswith("0")
    composer = "][batch=" in found[0]
    from_one = epochs is not None or padded or composer or found["word"] is not None
    return _made(found, int(found["epoch"]), epochs, from_one=from_one and not from_zero)


def keras_count(text: str) -> EpochCount | None:
    """Return the count of Keras' bar, whose epoch is in an earlier line."""
    found = _KERAS.search(text)
    return None if found is None else _made(found, None, None, from_one=True)


def epoch_header(text: str) -> tuple[int, int] | None:
    """Return the epoch and how many there are, from the line that Keras writes above a bar.

    >>> epoch_header("Epoch 3/10"), epoch_header("Epoch 3/10: step 7")
    ((3, 10), None)
    """
    found = _HEADER.match(text)
    return (int(found["epoch"]), int(found["epochs"])) if found else None


def _whole(found: re.Match[str]) -> bool:
    counts = (shown_count(found["step"]), shown_count(found["maximum"]))
    return all(count is not None and count.exact for count in counts)


def _made(
    found: re.Match[str], epoch: int | None, epochs: int | None, *, from_one: bool
) -> EpochCount | None:
    step, maximum = shown_count(found["step"]), shown_count(found["maximum"])
    if step is None or maximum is None:
        return None
    if step.value - step.uncertainty > maximum.value + maximum.uncertainty:
        return None
    done = None if epoch is None else max(epoch - from_one, 0)
    begin, end = found.start(), found.end()
    return EpochCount(step, maximum, epoch, epochs, done, begin, end)
