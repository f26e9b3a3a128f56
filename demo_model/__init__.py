"""The demo model: how the weights in presets/demo were made, from rendered postcards to scores.

Nothing here is needed to run the app; the app reads presets/demo only.
"""
