"""Tiny twins of the models: the same classes and components, narrow and shallow, random weights.

A module for each family makes pipelines; `of` turns a real preset into that of its twin.
"""

from tests.runtime.twins.making import of
from tests.runtime.twins.stable_diffusion_3 import sd3

__all__ = ["of", "sd3"]
