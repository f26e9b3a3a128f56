"""Captured programs as files: capturing in a process of its own, and what came of it, kept.

`python -m tpu_ui.plan.captured FOLDER LAYOUT DEVICES SIZE...` captures the programs of the pickled
preset that it reads, in this process, which then has torch and the software TPU in it; `images`
runs that, once for the same code and the same model.
"""

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tpu_ui import plans
from tpu_ui.errors import PlanError
from tpu_ui.folders import write_whole
from tpu_ui.plans import Image, Layout, Program
from tpu_ui.presets import Preset
from tpu_ui.shapes import ImageSize, Strategy
from tpu_ui.strategy import Placement

FACTS = "captured.json"
STRATEGIES = {  # by which a runtime compiles these programs
    Layout.WHOLE: Strategy.RESIDENT,
    Layout.BLOCKS: Strategy.OFFLOAD,
    Layout.SHARDED: Strategy.SHARDED,
}
ROOT = Path(__file__).resolve().parent.parent.parent
# What decides what is captured.
PLAN_SOURCES = ("blank", "capture", "captured", "components", "sharding", "standin")
SOURCES = ("runtime", *(f"plan/{name}.py" for name in PLAN_SOURCES))

Captured = tuple[list[Image], dict[str, int]]  # with weights_bytes of each component


def program_file(folder: Path, digest: str) -> Path:
    """Where the program of that digest is among captured ones."""
    return folder / f"{digest}.program"


def images(
    preset: Preset,
    layout: Layout,
    size: ImageSize,
    cache: Path,
    waits: Callable[[], None],
    devices: int = 1,
) -> tuple[list[Image], dict[str, int], Path]:
    """The images of that size, with nothing known of their programs but digests; what each
    component weighs; and the folder of the programs.

    `waits` is called once in a while. Raises PlanError.
    """
    folder = cache / "captured" / _key(preset, layout, devices, size)
    if not (folder / FACTS).exists():
        _run(preset, layout, devices, size, folder, waits)
    return (*read(folder), folder)


def read(folder: Path) -> Captured:
    """What was captured into `folder`."""
    facts = json.loads((folder / FACTS).read_text())
    return [Image.model_validate(image) for image in facts["images"]], facts["weights_bytes"]


def _run(
    preset: Preset,
    layout: Layout,
    devices: int,
    size: ImageSize,
    folder: Path,
    waits: Callable[[], None],
) -> None:
    command = [sys.executable, "-m", __name__, str(folder), layout, str(devices), str(size)]
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile() as given:
        given.write(pickle.dumps(preset))
        given.seek(0)
        if attended(command, waits, stdin=given, stdout=told, stderr=told):
            told.seek(0)
            lines = [line for line in told.read().splitlines() if "Error" in line] or ["it ended"]
            raise PlanError(f"The programs of {preset.title} cannot be captured: {lines[-1]}")


def attended(
    command: Sequence[str],
    waits: Callable[[], None],
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[str],
    stderr: IO[str],
) -> int:
    """The exit status of a process of this repository. `waits` is called once in a while; what ends
    this call ends the process."""
    child = subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        while child.poll() is None:
            waits()
    finally:
        child.kill()
        child.wait()
    return child.returncode


def _key(preset: Preset, layout: Layout, devices: int, size: ImageSize) -> str:
    """Of all that decides what is captured."""
    digest = hashlib.sha256(f"{preset.model_dump_json()} {layout} {devices} {size}".encode())
    digest.update(repr(plans.versions()).encode())
    ours = Path(__file__).resolve().parent.parent
    sources = [file for name in SOURCES for file in (*(ours / name).rglob("*.py"), ours / name)]
    configs = (preset.folder / "configs" / preset.name).rglob("*.json")
    for file in sorted([*sources, *configs]):
        if file.is_file():
            digest.update(file.read_bytes())
    among = f"-{devices}" if devices > 1 else ""
    return f"{preset.name}-{layout}{among}-{size}-{digest.hexdigest()[:16]}"


def main(
    folder: Path,
    preset: Preset,
    layout: Layout,
    sizes: Sequence[ImageSize],
    prepare: Callable[[], object] = lambda: None,
    devices: int = 1,
) -> None:
    """Capture into `folder`. `prepare` is called as soon as torch may be imported. `devices`: that
    share the model, in a sharded layout."""
    # Kept traces would come without a program to capture.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="tpu-ui-")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from tpu_ui.runtime import device, software_tpu  # noqa: PLC0415 - after the environment

    opened = device.open_device("software-tpu")
    from tpu_ui.plan.capture import Capture  # noqa: PLC0415 - imports torch

    prepare()

    placed = Placement(STRATEGIES[layout], devices)
    capture = Capture(opened, software_tpu.installed(), preset, placed)
    found = [
        _image(image, layout, devices, folder) for size in sizes for image in capture.images(size)
    ]
    facts = {
        "weights_bytes": capture.weights_bytes,
        "images": [image.model_dump(mode="json", exclude_defaults=True) for image in found],
    }
    write_whole(folder / FACTS, json.dumps(facts, indent=1).encode())


def _image(image: Any, layout: Layout, devices: int, folder: Path) -> Image:
    """A captured image, its programs written into `folder`."""
    programs = []
    for program, runs in image.runs.items():
        data = pickle.dumps((program.code, program.options))
        digest = hashlib.sha256(program.code).hexdigest()[:32]
        write_whole(program_file(folder, digest), data)
        programs.append(
            Program(
                component=program.component,
                part=program.part,
                copies=program.copies,
                runs=runs,
                digest=digest,
                devices=program.devices,
            )
        )
    return Image(
        layout=layout,
        devices=devices,
        size=str(image.size),
        guided=image.guided,
        embedding_bytes=image.embedding_bytes,
        kept_bytes=image.kept_bytes,
        programs=tuple(programs),
    )


if __name__ == "__main__":
    _folder, _layout, _devices, *_sizes = sys.argv[1:]
    main(
        Path(_folder),
        pickle.load(sys.stdin.buffer),  # from this user's own process
        Layout(_layout),
        [ImageSize.parse(one) for one in _sizes],
        devices=int(_devices),
    )
