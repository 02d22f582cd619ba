"""A frozen sequence that grows at its end without a full copy.

Folds are frozen values, and copying a tuple of 10,000 lines for each new line is too slow. Items
are stored in blocks whose sizes are powers of two, so each item is copied about log2(n) times in
all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)  # No slots: Python 3.11 cannot make a frozen generic one as Series[str]().
class Series(Generic[Item]):
    """An immutable sequence of items; see `grown`.

    Attributes:
        blocks: Their sizes are powers of two and fall strictly.
    """

    blocks: tuple[tuple[Item, ...], ...] = ()

    def __len__(self) -> int:
        """Return how many items there are."""
        return sum(len(block) for block in self.blocks)

    def __iter__(self) -> Iterator[Item]:
        """Go through the items in order."""
        for block in self.blocks:
            yield from block

    def __getitem__(self, index: int) -> Item:
        """Return one item, counted from 0.

        Raises:
            IndexError: The index is out of range.
        """
        if index >= 0:
            for block in self.blocks:
                if index < len(block):
                    return block[index]
                index -= len(block)
        raise IndexError("no such item")


def grown(series: Series[Item], item: Item) -> Series[Item]:
    """Return the series with one more item.

    >>> numbers = Series[int]()
    >>> for number in range(6):
    ...     numbers = grown(numbers, number)
    >>> numbers.blocks, list(numbers)
    (((0, 1, 2, 3), (4, 5)), [0, 1, 2, 3, 4, 5])
    """
    blocks = list(series.blocks)
    last: tuple[Item, ...] = (item,)
    while blocks and len(blocks[-1]) == len(last):
        last = blocks.pop() + last
    return Series((*blocks, last))
