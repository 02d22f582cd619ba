"""Reads the subject of an error from its stack frames, if its words lack it."""

import re

from watchkeeper.domain.reading.signatures.echoes import is_frame
from watchkeeper.domain.reading.signatures.model import Label, Rank
from watchkeeper.domain.reading.signatures.scanner import Hit

_TRACKERS = r"(?:wandb|mlflow|neptune|comet_ml)"
_LIBRARIES = r"[/\\](?:site|dist)-packages[/\\]"
_TRACKER = re.compile(
    rf"File \"(?:[^\"]*[/\\])?{_TRACKERS}[/\\]|{_LIBRARIES}(?:[^\"]*[/\\])?{_TRACKERS}\b",
    re.IGNORECASE,
)
_LIBRARY = re.compile(
    rf"{_LIBRARIES}|[/\\]lib[/\\]python\d|[/\\]python[\d.]*[/\\]lib[/\\]|File \"<", re.IGNORECASE
)
_CHECKPOINT = re.compile(
    r"checkpoint|ckpt|serialization\.py|load_state_dict|orbax|save_pretrained|torch\.load|safetensors",
    re.IGNORECASE,
)
_DATA = re.compile(
    r"datasets?[/\\_.]|dataset\b|dataloader|data_loader|_fetch|collat|tokeniz|parquet|pyarrow|tfrecord"
    r"|webdataset|grain|zarr|read_csv|load_dataset",
    re.IGNORECASE,
)
_SETTINGS = re.compile(
    r"config|argparse|parse_args|\bargs\b|arguments\.py|hydra|omegaconf|\bconf\b|yaml|settings|environ",
    re.IGNORECASE,
)
_CHILD = re.compile(r"CalledProcessError|ChildFailedError|ProcessExited|ProcessRaised|exit code")
_GENERIC_ENDS = frozenset({"code.key", "code.value", "mark.exception", "config.path"})
_TRACKED = frozenset({Label.NETWORK, Label.CONFIG_ERROR, Label.UNKNOWN, Label.CODE_BUG})


def is_of_a_child(line: str) -> bool:
    """Return whether an error is a launcher's report on a failed child process."""
    return _CHILD.search(line) is not None


def label_above(hit: Hit) -> Label | None:
    """Return the subject of an error from the lines before it, if its words lack it."""
    signature = hit.signature
    if signature.rank >= Rank.ROOT:
        return None
    frames = [line for line in (*hit.before, hit.line) if is_frame(line)]
    if signature.label in _TRACKED and _in_tracker(frames):
        return Label.WANDB_ERROR
    above = "\n".join(frames)
    if signature.id not in _GENERIC_ENDS or is_of_a_child(hit.line):
        return None
    above += "\n" + hit.line
    for pattern, label in (
        (_CHECKPOINT, Label.CHECKPOINT_ERROR),
        (_DATA, Label.DATA_ERROR),
        (_SETTINGS, Label.CONFIG_ERROR),
    ):
        if pattern.search(above):
            return label
    return None


def _in_tracker(frames: list[str]) -> bool:
    """Return whether a tracker's code failed; it may have called another library.

    Args:
        frames: The last frames of a traceback, the innermost last.
    """
    for frame in reversed(frames):
        if _TRACKER.search(frame):
            return True
        if not _LIBRARY.search(frame):
            return False
    return False
