"""The contract's settings for recovery.

They say how a bad node is handled, and which files can change the training.
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
"""Files that can change the training: model, training loop, optimizer and data, by the written
procedure for hero runs. Configuration and packages are included. A glob without `/` is compared
with each part of a path, so that a folder `data` counts."""

Globs = tuple[Annotated[str, Field(min_length=1, max_length=300)], ...]


class RecoverPart(Value):
    """Settings for recovery and small fixes.

    Attributes:
        bad_node: The response to a bad TPU node (R7). `ask`: its deletion is proposed, and waits
            for a human's consent. `exception`: the named node may be deleted without a consent. A
            human answers in both cases.
        trajectory: Further globs of files that can change the training. A glob without `/` is
            compared with each part of a path. A glob with `/` is compared with the whole path; `*`
            also matches `/`. A small fix in such a file is not covered by an approval (R5).
        harmless: Globs of files that cannot change the training, such as `src/mylib/model_card.py`.
            They come first.
    """

    bad_node: Literal["ask", "exception"] = "ask"
    trajectory: Globs = ()
    harmless: Globs = ()
