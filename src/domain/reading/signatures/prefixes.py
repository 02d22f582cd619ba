"""Removes or recognises the prefix of a log line: times, ranks, levels."""

import re

PREFIX = re.compile(
    r"(?:\s*(?:\[?rank ?\d+\]?:|(?i:\(rank[ =:_-]?\d+\):?|\[rank[ =:_-]?\d+\]:?)"
    r"|\[\d+,\d+\]<std(?:err|out)>:|\[pod/[^\]\s]{1,120}\]"
    r"|\[default\d+\]:|\[\d+\]:|\d{1,6}: (?=\S|\s)|\([^()\n]{0,80}pid=[^("
    r")\n]"
    r"{0,80}\)|\[[^\[\]\n]{0,40}\d\d:\d\d:\d\d[^\[\]\n]{0,20}\]|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d"
    r":\d\d"
    r"(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+|\d\d:\d\d:\d\d(?:[.,"
    r"]\d+)?"
    r"|\[ *\d+\.\d+\]|std(?:err|out):|\|?\s*[EIWF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\]"
    r"|[EIWFD] \d\d-\d\d \d\d:\d\d:\d\d \S+\]|[EIWF]\d{4} \d\d:\d\d:\S+ +\d+ \S+\]|worker-?\d+:"
    r"|\((?:raylet|gcs_server|autoscaler)[^)]*\)))+\s?"
)
"""What log collectors and launchers put before a line."""

_LEVEL = re.compile(
    r"\s*(?:[\[<(]?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)[\]>)]?"
    r"(?:[:| -]+[\w./<>-]+(?::\d+)?(?=[:\]| -]))?[:\]| -]+)",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(r"^\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b: |\] |^\w+: error: ")


def bare(line: str) -> str:
    """Return a line without its logger's prefix: times, ranks, levels."""
    prefix = PREFIX.match(line)
    return line[prefix.end() :] if prefix else line


def looks_logged(line: str) -> bool:
    """Return whether a program wrote a line: a time, a rank, a level or an exception."""
    return bool(PREFIX.match(line) or _LEVEL.match(line) or _EXCEPTION.search(line))


def texts_of(line: str, masked: str) -> tuple[str, ...]:
    """Return a line in up to three forms, since `^` may match the start of each.

    The forms are: without prefix and level, without prefix, and unchanged.
    """
    prefix = PREFIX.match(line)
    start = prefix.end() if prefix else 0
    level = _LEVEL.match(line, start)
    if level:
        return (masked[level.end() :], masked[start:], masked)
    return (masked[start:], masked) if start else (masked,)
