"""Choices in a prompt: "a {red|green} house" becomes one of two, drawn by the seed.

Braces without a bar in them are text like any other.
"""

import random
import re

# Innermost: what is in it is drawn already. Nothing is tried twice: a prompt may mean to be slow.
CHOICE = re.compile(r"\{([^{}|]*+(?:\|[^{}|]*+)++)\}")


def draw(text: str, seed: int) -> str:
    """`text` with every choice made. The same seed makes the same choices."""
    chance = random.Random(seed)
    while (found := CHOICE.search(text)) is not None:
        text = text[: found.start()] + chance.choice(found[1].split("|")) + text[found.end() :]
    return text


def longest(text: str) -> str:
    """`text` with the longest of every choice, by characters."""
    while (found := CHOICE.search(text)) is not None:
        text = text[: found.start()] + max(found[1].split("|"), key=len) + text[found.end() :]
    return text
