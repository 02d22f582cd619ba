"""Recognises log sentences which say that the loss is NaN or infinite.

The patterns are narrow, since the finding is an alert. A sentence does not count if it is
conditional, denied, quoted or about an evaluation. It does not count either if the loop recovers by
itself, for example by skipping the step.
"""

import re

_NONE = (
    r"(?:nan|-?inf(?:inity)?|infinite|non-?finite|not finite|not a number)"
    r"(?: (?:or|and|/) (?:nan|inf(?:inity)?|infinite))?"
)
_BY_WHAT = r"(?:stop(?:ping|ped)|exit(?:ing|ed)|abort(?:ing|ed)|terminat(?:ing|ed)|quit(?:ting)?)"
_OF_TRAINING = r"(?:(?:train(?:ing)?|total|lm|batch|global|mean|current|local|forward) ){0,2}"
_ENDS = r"(?=\s*$|[.,;!)]| (?:at|in|on|after|for|calculation)\b)"
_IN_NONE = r"(?! (?:in|for) (?:0|zero|no)\b)"

_SAYS = re.compile(
    r"(?<![\w/.'\"`-])" + _OF_TRAINING + r"loss(?: returned in \W?training_step\W?)?"
    r" (?:is|became|has become|becomes|turned|went|has gone|diverged)(?: now| to| into)? " + _NONE +
    r"(?![\w'\"`/?-])(?!\s*[:=]\s*(?:false|no|none|0)\b)" + _IN_NONE +
    r"(?! (?:checks?|checking|guards?|guarded|filter\w*|polic\w+|handl\w+|safe|free|mask\w*|count"
    r"|detection|detector|monitor\w*|protect\w*|toleran\w+)\b)"
    r"|(?<![\w/.'\"`-])" + _NONE + r" (?:value )?(?:for )?" + _OF_TRAINING + r"loss"
    r"(?:(?: value)? (?:(?:detected|encountered|found)\b(?!\s*[:=])" + _IN_NONE +
    r"|at (?:step|iter(?:ation)?|epoch)\W{1,2}\d)"
    r"|\s*(?:[,;:.!-]|--)+\s*(?:training )?" + _BY_WHAT + r"\b)"
    r"|\b(?:got|detected|encountered|found|hit) (?:an? )?" + _NONE + r" (?:in (?:the )?)?"
    + _OF_TRAINING + r"loss" + _ENDS +
    r"|(?<![\w/.'\"`-])" + _NONE + r" (?:detected|found) in (?:the )?" + _OF_TRAINING + r"loss"
    + _ENDS,
    re.IGNORECASE,
)  # fmt: skip
_AT_STEP = re.compile(r"\b(?:step|iter(?:ation)?)\W{1,2}(?P<step>\d{1,15})\b", re.IGNORECASE)

_LAST_WORD = re.compile(r"(?<![\w/=-])(?P<word>[a-z][\w'-]*(?<!\d)) $", re.IGNORECASE)
_MAY_STAND_BEFORE = frozenset(
    {"the", "our", "info", "warning", "warn", "error", "critical", "fatal", "stopped", "train"}
)
"""Words allowed right before such a sentence. Any other word may mean another loss or a condition.
A part of a path, or a text that ends in a digit, is a name and not a word."""

_STOPS_FOR = re.compile(_BY_WHAT + r"\b.{0,30} (?:because|since|as)(?: the| our)? $", re.IGNORECASE)
"""Words for a stop because of a NaN. They prove that a NaN occurred."""

_NOT_NOW = re.compile(
    r"(?<![\w/=.:-])(?:if|when(?:ever)?|where|whether|unless|until|once|after|as soon as|should"
    r"|would|could|can|may(?! \d)|might|in case|known issue|no|not|never|without|check\w*"
    r"|assert(?!ionerror)\w*|raise|return|ensure\w*|verif\w+|stop_on|on_nan|assume|previous\w*"
    r"|earlier|formerly|fixe?[ds]|avoid\w*|prevent\w*|eval\w*|valid\w*|val|test(?:ing|s)?|dev"
    r"|predict\w*|best|min|sanity)(?![\w./=-])(?!:\w)|\b(?:0|zero) $",
    re.IGNORECASE,
)
"""Words that turn what follows into a condition, a denial, a past event, or another loss.

They count only as words: a part of a path, the name of a host or job, or a day in May does not.
"""

_GOT_OVER = re.compile(
    r"\bskip\w*+(?! 0\b)|\bignor\w+|\bdiscard\w*|\bdropp\w+|(?<!['\"])\bscal(?:e|er|ing)\b"
    r"|\boverflow\w*|(?<!no )\bretry\w*|\bprevious (?:run|attempt)|\blast (?:run|attempt|time)"
    r"|\bfor example\b|(?<!not )(?<!cannot )(?<!can't )\b(?:continu|recover)\w*|\breplac\w+"
    r"|\broll(?:ing|ed) back|\binstead\b|\bset(?:ting)? (?:it |them )?to\b|\bthreshold\b"
    r"|\bpatience\b|\bterminates\b|\b(?:stop\w*|exit\w*|terminat\w*|abort\w*)(?: is)? disabled",
    re.IGNORECASE,
)
"""Words of a loop that continues: it skips the step, or lowers float16's loss scale. Also words
that occur only in settings."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COMMENT = re.compile(r"\s*(?:#\s|//)")


def says_no_number(text: str) -> tuple[bool, int | None]:
    """Return whether a line says in words that the training loss is NaN or infinite.

    Returns:
        The answer, and the step that the sentence itself names.

    >>> says_no_number("Loss is nan, stopping training"), says_no_number("loss is NaN at step 500")
    ((True, None), (True, 500))
    >>> says_no_number("skipping step, loss is inf, reducing loss scale")
    (False, None)
    """
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    found = _SAYS.search(text)
    if found is None or _GOT_OVER.search(text) or _COMMENT.match(text):
        return False, None
    before = text[: found.start()]
    word = _LAST_WORD.search(before)
    may = word is None or word["word"].lower() in _MAY_STAND_BEFORE
    if not may and not _STOPS_FOR.search(before):
        return False, None
    if _NOT_NOW.search(before):
        return False, None
    at = _AT_STEP.search(text)
    return True, int(at["step"]) if at is not None else None
