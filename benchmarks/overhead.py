"""What the app costs: images through server and client, against the bare pipeline.

Both sides run the demo model on the software TPU with the same requests, in turns: once through
`python app.py` and `gradio_client`, once as calls of the pipeline in a process of its own, which
turns them into PIL images and stops there.
Usage: python -m benchmarks.overhead [ROUNDS [IMAGES [STEPS [MODE]]]]
"""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from gradio_client import Client

from benchmarks.side import report
from tpu_ui import presets
from tpu_ui.shapes import Device, Mode

PROMPT = "a small red house left of two green trees under a night sky"
PORT = 7899


def bare_pipeline(images: int, steps: int, mode: Mode) -> None:
    """The child: one line in starts a round, one line out says how many seconds it took."""
    with tempfile.TemporaryDirectory() as cache:
        from tpu_ui.runtime import device  # noqa: PLC0415 - the child's alone
        from tpu_ui.runtime.start import keep_programs  # noqa: PLC0415

        keep_programs(Path(cache))
        opened = device.open_device("software-tpu")
        import torch  # noqa: PLC0415

        from tpu_ui.runtime.compiled import CompiledPart  # noqa: PLC0415
        from tpu_ui.runtime.modes import Modes  # noqa: PLC0415
        from tpu_ui.runtime.placement import load_pipeline  # noqa: PLC0415
        from tpu_ui.strategy import RESIDENT  # noqa: PLC0415

        preset = presets.load_all()["demo"]
        loading = load_pipeline(preset, opened, RESIDENT)
        while True:
            try:
                next(loading)
            except StopIteration as end:
                pipeline, _ = end.value
                break
        size = preset.limits(Device.SOFTWARE_TPU).default_size
        parts = [
            CompiledPart([part], opened, "", None)
            for part in (pipeline.transformer, pipeline.vae.decoder)
        ]
        with Modes(parts, opened.device).running(mode):
            for line in itertools.chain(["warm-up", "warm-up"], iter(sys.stdin.readline, "")):
                began = time.monotonic()
                for seed in range(images):
                    pipeline(
                        prompt=PROMPT,
                        height=size.height_px,
                        width=size.width_px,
                        num_inference_steps=steps,
                        guidance_scale=preset.guidance.default,
                        generator=torch.Generator("cpu").manual_seed(seed),
                        **preset.call,
                    )
                if line != "warm-up":
                    print(time.monotonic() - began, flush=True)
                else:
                    print("warm", flush=True)


def main(rounds: int, images: int, steps: int, mode: Mode) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.overhead", "bare", str(images), str(steps), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "app.py", "--port", str(PORT), "--cache", f"{folder}/cache"]
        app = subprocess.Popen(
            [*command, "--outputs", f"{folder}/outputs", "--mode", mode],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            client = wait_ready()
            call = {"prompt": PROMPT, "steps": steps, "seed": 0, "count": images}
            client.predict(**call, api_name="/generate")
            while child.stdout.readline().strip() != "warm":
                pass
            child.stdout.readline()
            bare, served = [], []
            for _ in range(rounds):
                child.stdin.write("go\n")
                child.stdin.flush()
                bare.append(float(child.stdout.readline()))
                began = time.monotonic()
                client.predict(**call, api_name="/generate")
                served.append(time.monotonic() - began)
        finally:
            app.terminate()
            child.kill()
            app.wait(20)
    sides = {"bare pipeline": bare, "served": served}
    report(
        f"{images} x {steps} steps, {mode}",
        {
            name: {"median_s": statistics.median(times), "least_s": min(times)}
            for name, times in sides.items()
        },
    )
    print(json.dumps({"rounds": {name: [round(t, 3) for t in ts] for name, ts in sides.items()}}))


def wait_ready() -> Client:
    deadline_s = time.monotonic() + 300
    while time.monotonic() < deadline_s:
        try:
            # Without this the client reads all certificates anew for each file, over http too.
            client = Client(f"http://127.0.0.1:{PORT}", verbose=False, ssl_verify=False)
            if client.predict(api_name="/status")["sizes"]["256x256"]["state"] == "ready":
                return client
        except (httpx.TransportError, ValueError):  # it is not listening yet
            pass
        time.sleep(1)
    raise TimeoutError("the app was not ready in time")


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["bare"]:
        bare_pipeline(int(given[1]), int(given[2]), Mode(given[3]))
    else:
        rounds, images, steps, mode = [*given, *("7", "4", "30", "compiled")[len(given) :]]
        main(int(rounds), int(images), int(steps), Mode(mode))
