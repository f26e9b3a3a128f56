"""A twin as files: its folder, and a preset of its own where it stands for no real one."""

from pathlib import Path

from diffusers import DiffusionPipeline

from tpu_ui.presets import Preset, load


def saved(pipeline: DiffusionPipeline, folder: Path, name: str, toml: str) -> Preset:
    """Save the pipeline in `folder` with a preset made of `toml`; returns that preset."""
    pipeline.save_pretrained(folder / name)
    path = folder / f"{name}.toml"
    path.write_text(toml.format(name=name))
    return load(path)
