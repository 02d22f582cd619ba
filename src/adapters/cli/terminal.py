"""Colour and bold type at a terminal. The text is the same as in a pipe."""

from rich.console import Console
from rich.text import Text

_STYLES = (
    (r"(?m)^[A-Z]{4,}( YOU)?( ENDED)?(?=  | *$)", "bold"),
    (r"(?m)^NEEDS YOU$", "bold red"),
    (r"(?m)^ [A-Za-z]+(?:,? [A-Za-z]+){0,2}(?=  )", "bold"),
    (r"(?m)(?<=-> )watchkeeper .*?(?=  # |$)", "bold cyan"),
    (r"(?m)  # .*$", "dim"),
    (r"(?m)^ (FAIL|BLOCK)\b|\b(BROKEN|REJECTED|INCOMPLETE|GONE)\b", "bold red"),
    (r"(?m)^ ok\b", "green"),
    (r"\bmonitor stale\b|\bnot watched\b|\bnobody watches it\b|\balert\b", "red"),
    (r"https?://[^\s,;)]+", "underline"),
)
"""Patterns of our own screens, and their styles; later ones win."""


def show_styled(text: str) -> None:
    """Print a screen at a terminal. Rich leaves out the colours if `NO_COLOR` is set."""
    styled = Text(text)
    for pattern, style in _STYLES:
        styled.highlight_regex(pattern, style)
    Console(highlight=False, soft_wrap=True).print(styled)
