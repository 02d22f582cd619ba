"""Options of a command and keys of a configuration."""

import re

_OPTION = re.compile(r"^(?:--?)?(?P<name>[A-Za-z_][\w./-]*)(?:=(?P<value>.*))?$", re.DOTALL)
_KEY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CODE = (".py", ".yaml", ".yml", ".toml", ".json")
_OF_CHECKPOINTS = re.compile(r"^checkpoint(?:s|er|ing)?_")
_PROGRESS_BAR = re.compile(r"progress|tqdm|\bbar\b", re.IGNORECASE)
_GUESSED = re.compile(
    r"\b(?:inferred|guess\w*|estimat\w*|assum\w*|about|roughly)\b|~", re.IGNORECASE
)
"""Words by which people say that a number was not read anywhere."""

_REFERENCE = re.compile(r"^\$\{?\w+\}?$")
_DIGEST = re.compile(r"@sha256:([0-9a-f]{64})\b")
_IMAGE = re.compile(r"[\w.-]+(?:[:/][\w.-]+)*/[\w./-]+(?::[\w.-]+)?@sha256:[0-9a-f]{64}\b")


def option_value(command: tuple[str, ...], option: str) -> str | None:
    """Return the value that a command gives to an option, if it has the option."""
    for position, word in enumerate(command):
        if word == option and position + 1 < len(command):
            return command[position + 1]
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def options_of(command: tuple[str, ...]) -> dict[str, str]:
    """Parse a command: options with their values, and the other words by position.

    >>> options_of(("python", "train.py", "--lr", "3e-4", "seed=1", "--fast"))
    {'word 0': 'python', 'word 1': 'train.py', '--lr': '3e-4', 'seed': '1', '--fast': 'given'}
    """
    found: dict[str, str] = {}
    position, words = 0, 0
    while position < len(command):
        word = command[position]
        match = _OPTION.match(word)
        if match is not None and match["value"] is not None:
            name = word.partition("=")[0]
            value = match["value"]
        elif word.startswith("-") and match is not None:
            following = command[position + 1] if position + 1 < len(command) else "-"
            takes = not following.startswith("-") or following[1:2].isdigit()
            name, value = word, following if takes else "given"
            position += 1 if takes else 0
        else:
            name, value = f"word {words}", word
            words += 1
        # A repeated option counts twice: order and number matter to the program.
        found[name] = f"{found[name]}, {value}" if name in found else value
        position += 1
    return found


def is_dotted_key(name: str) -> bool:
    """Return whether a name looks like a configuration's key, and not like a place in code.

    >>> [is_dotted_key(name) for name in ("trainer.steps", "train.py:40", "a.py", "steps")]
    [True, False, False, False]
    """
    return _KEY.fullmatch(name) is not None and not name.endswith(_CODE)


def last_part(key: str) -> str:
    """Return the last part of a key, without a leading word checkpoint.

    >>> last_part("--checkpoint-keep-last"), last_part("trainer.checkpointer.save_interval")
    ('keep_last', 'save_interval')
    """
    name = key.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
    return _OF_CHECKPOINTS.sub("", name)


def is_reference(value: str) -> bool:
    """Return whether a value only names a variable, such as `${WANDB_API_KEY}`."""
    return _REFERENCE.match(value) is not None


def digest_of(image: str) -> str:
    """Return the SHA-256 by which an image is named; empty without one."""
    found = _DIGEST.search(image)
    return found[1] if found is not None else ""


def image_digests(text: str) -> list[str]:
    """Return the digests of all images that a word of a command names."""
    return [image.rpartition("@sha256:")[2] for image in _IMAGE.findall(text)]


def is_progress_bar(source: str) -> bool:
    """Return whether a stated source is a progress bar, which rounds."""
    return _PROGRESS_BAR.search(source) is not None


def is_guessed(source: str) -> bool:
    """Return whether a stated source says that nobody read the number anywhere."""
    return _GUESSED.search(source) is not None
