"""Measurements, each a ratio of two things measured in one run. Not part of the app."""
