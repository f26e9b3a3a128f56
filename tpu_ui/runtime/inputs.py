"""Inputs of a call as a value that can stand in a key."""

from collections.abc import Callable, Hashable
from typing import Any

import torch


class NotComparableError(Exception):
    """A value with no form that could stand in a key."""


def frozen(value: Any, of_tensor: Callable[[torch.Tensor], Hashable] | None = None) -> Hashable:
    """A form of `value` that is equal only for equal values of the same type.

    `of_tensor` gives what stands for a tensor. Raises NotComparableError: there is a tensor and no
    `of_tensor`, or an object of a type that is not plain data.
    """
    if value is None or isinstance(value, str | int | float | bool | torch.device | torch.dtype):
        return type(value).__name__, value
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(frozen(one, of_tensor) for one in value)
    if isinstance(value, dict):
        names = sorted(value)
        return "dict", tuple((name, frozen(value[name], of_tensor)) for name in names)
    if of_tensor is not None and isinstance(value, torch.Tensor):
        return of_tensor(value)
    raise NotComparableError(type(value).__name__)
