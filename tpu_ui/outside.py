"""JSON that comes from outside, taken in within bounds. Knows nothing of what it says."""

import json
import re
from collections.abc import Iterator, Mapping

MAX_DEPTH = 40
MAX_WHOLE = 2**63  # the answers' JSON has no larger numbers

_HALF = re.compile("[\ud800-\udfff]")


def parsed(text: str | bytes) -> object:
    """What the JSON says. Raises ValueError for what is none, or is nested too deep to be ours."""
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    for _, depth in within(value):
        if depth > MAX_DEPTH:
            raise ValueError("nested too deep")
    return value


def within(value: object) -> Iterator[tuple[object, int]]:
    """`value` and every value in it, keys of objects included, each with its depth."""
    left: list[tuple[object, int]] = [(value, 0)]
    while left:
        one, depth = left.pop()
        yield one, depth
        if isinstance(one, Mapping):
            left += ((name, depth + 1) for name in one)
            left += ((inner, depth + 1) for inner in one.values())
        elif isinstance(one, list):
            left += ((inner, depth + 1) for inner in one)


def holds_half_a_character(value: object) -> bool:
    """Whether there is a lone surrogate in it, which no UTF-8 can carry."""
    return any(isinstance(one, str) and _HALF.search(one) is not None for one, _ in within(value))


def can_be_sent(value: object) -> bool:
    """Whether an answer can carry it: no half character, and no number of more than 64 bits."""
    numbers = (one for one, _ in within(value) if isinstance(one, int))
    return not holds_half_a_character(value) and all(abs(one) < MAX_WHOLE for one in numbers)
