"""TPU UI: text-to-image on Google TPUs in the browser. Importing this loads nothing heavy."""

__version__ = "0.1.0"
