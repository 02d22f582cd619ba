"""The contract's settings for recovery.

What recovery may do beyond its rules, and which changes count as able to change the training.
"""

from typing import Annotated, Literal

from pydantic import Field

from watchkeeper.domain.values.basic import Value

TRAJECTORY = (
    "*model*",
    "*layer*",
    "*attention*",
    "*transformer*",
    "moe*.py",
    "*_moe.py",
    "*router*",
    "*train*",
    "*loop*",
    "*loss*",
    "*optim*",
    "*schedule*",
    "*precision*",
    "*quantiz*",
    "*checkpoint*",
    "*data*",
    "*token*",
    "*mixture*",
    "*collat*",
    "*batch*",
    "*config*",
    "*.yaml",
    "*.yml",
    "*.json",
    "*.toml",
    "*.lock",
    "*requirements*",
    "*Dockerfile*",
    "*.sh",
)
"""Files whose change may lead to another trajectory: model, training loop, optimizer and data, as
the written procedure for hero runs names them; and configuration and packages, which decide what
these do. A glob without `/` is held against each part of a path, so that a folder `data` counts."""

Globs = tuple[Annotated[str, Field(min_length=1, max_length=300)], ...]


class RecoverPart(Value):
    """What recovery may do, and which code it holds for harmless.

    Attributes:
        bad_node: What follows a bad TPU node (R7). `ask`: its deletion is proposed, and waits for
            a human's consent. `exception`: the bad-node exception of the written procedure: the one
            node that is named may be deleted without a consent. A human answers in both cases.
        trajectory: Globs of files that can change the training, beside those that are known. One
            without `/` is held against each part of a path, one with it against the whole, where
            `*` also matches `/`. A small fix in such a file is not covered by an approval (R5).
        harmless: Globs of files that cannot, which come first, such as `src/mylib/model_card.py`.
    """

    bad_node: Literal["ask", "exception"] = "ask"
    trajectory: Globs = ()
    harmless: Globs = ()
