"""Names of accelerators, as contracts, commands and orchestrators write them."""

import re
from collections.abc import Iterable

_MACHINES = re.compile(
    r"(?<![\w-])(?P<type>v[2-7][a-z]{0,5}-[0-9]{1,5}|(?:[0-9]+x)?(?:a100|h100|h200|b200|gb200|gh200)"
    r"(?:-[0-9]+(?:gb|g)?)?(?:x[0-9]+)?)(?![\w-])",
    re.IGNORECASE,
)
"""TPU types by Google's names, such as `v5p-1024`, and accelerators by common names."""

_TYPE = re.compile(r"[a-z]+[0-9]+[a-z]*")
_APART = re.compile(r"[^a-z0-9]+")
_TPU = re.compile(r"^v\d+[a-z]*-|\btpu", re.IGNORECASE)


def machines_in(words: Iterable[str]) -> str:
    """Return the first type of machine that a command or environment names; empty without one.

    >>> machines_in(["--tpu", "v5p-1024"]), machines_in(["8xh100-80gb"]), machines_in(["train.py"])
    ('v5p-1024', '8xh100-80gb', '')
    """
    found = _MACHINES.search(" ".join(words))
    return found["type"] if found is not None else ""


def is_among(stated: str, accelerators: Iterable[str]) -> bool:
    """Return whether a stated name may mean one of the accelerators.

    Names differ: `v5p-1024` is Ray's `TPU-V5P`, `8xh100-80gb` its `H100`. A report that only
    mentions GPUs contradicts no name.
    """
    words = set(_TYPE.findall(stated.lower()))
    for name in accelerators:
        plain = name.lower()
        if plain in ("gpu", "tpu") or plain in stated.lower():
            return True
        if words & set(_TYPE.findall(plain)):
            return True
    return False


def is_same_type(stated: str, given: str) -> bool:
    """Return whether two names may mean one type; a longer name of a type is no other type.

    >>> is_same_type("v5p-1024", "TPU-v5p-1024-head"), is_same_type("v5p-1024", "v4-8")
    (True, False)
    """
    one, other = _APART.sub("", stated.lower()), _APART.sub("", given.lower())
    return one in other or other in one


def is_tpu(name: str) -> bool:
    """Return whether a type of machine is a TPU."""
    return _TPU.search(name) is not None
