"""What a Space, a container and systemd are told, in step with the program. None of them is here:
their files are read."""

import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import app
from tests.test_supply import PIN, locked
from tpu_ui import settings

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
UNIT = ROOT / "deploy" / "tpu-ui.service"
FRONT_END = ROOT / "deploy" / "front-end.txt"
VARIABLE = re.compile(r"\b(TPU_UI_\w+)=(\S+)")
# Of systemd.unit(5), .service(5), .exec(5), .kill(5): those that mean something there.
SWITCHES = {
    *("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectClock", "ProtectControlGroups"),
    *("ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables"),
    *("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality"),
}
UNIT_NAMES = {
    "Unit": {"Description", "Documentation", "Wants", "After"},
    "Service": {
        *SWITCHES,
        *("Type", "User", "Group", "WorkingDirectory", "ExecStart", "EnvironmentFile"),
        *("Environment", "StateDirectory", "CacheDirectory", "StateDirectoryMode"),
        *("CacheDirectoryMode", "Restart", "RestartSec", "TimeoutStopSec", "KillMode"),
        *("CapabilityBoundingSet", "ProtectSystem", "RestrictAddressFamilies", "UMask"),
        *("SystemCallArchitectures", "LimitMEMLOCK", "LimitNOFILE"),
    },
    "Install": {"WantedBy"},
}
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}

__all__ = ["locked"]  # a fixture


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: name and the rest, continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def all_of(name: str) -> list[str]:
    return [rest for one, rest in instructions() if one == name]


def front_matter() -> dict[str, str]:
    text = (ROOT / "README.md").read_text().split("---\n")[1]
    return dict(line.split(": ", 1) for line in text.splitlines())


def pins(path: Path) -> dict[str, str]:
    """Package -> the whole line but for its comment."""
    lines = [line.partition("  #")[0].strip() for line in path.read_text().splitlines()]
    return {re.split(r"[<>=;]", line)[0]: line for line in lines if line and line[0] != "#"}


def test_space_runs_the_versions_that_were_tried() -> None:
    matter = front_matter()
    assert matter["sdk"] == "gradio"
    assert f"gradio=={matter['sdk_version']}" == pins(ROOT / "requirements.txt")["gradio"]
    assert matter["python_version"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (ROOT / matter["app_file"]).exists()
    assert {matter["colorFrom"], matter["colorTo"]} <= COLOURS
    assert len(matter["short_description"]) <= 60
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert matter["license"] == "apache-2.0"


def test_front_end_needs_a_part_of_what_the_app_needs() -> None:
    ours, all_pins = pins(FRONT_END), pins(ROOT / "requirements.txt")
    assert ours.items() <= all_pins.items()
    assert not {name for name in ours if name.startswith(("torch", "diffusers", "transformers"))}


def test_container_has_the_python_and_the_packages_that_were_tried(
    locked: dict[str, tuple[str, int]],
) -> None:
    assert all_of("FROM") == [f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"]
    (install,) = [one for one in all_of("RUN") if "pip install" in one]
    assert "--require-hashes -r requirements.lock" in install
    assert {"torch-tpu", "libtpu", "torch", "gradio"} <= locked.keys()
    assert all(PIN.match(f"{name}=={version}") for name, (version, _) in locked.items())


def test_container_copies_all_that_the_program_is_made_of() -> None:
    copied = [name for one in all_of("COPY") for name in one.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"app.py", "presets", "tpu_ui", "requirements.lock"} <= set(copied)
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)
    # What the program imports of its own is in there.
    for path in (ROOT / "tpu_ui").rglob("*.py"):
        assert not re.search(
            r"^(from|import) (tests|benchmarks|demo_model)\b", path.read_text(), re.M
        )


@pytest.mark.parametrize("path", [DOCKERFILE, UNIT], ids=lambda path: path.name)
def test_variables_are_options_of_the_program_with_values_that_it_takes(path: Path) -> None:
    found = dict(VARIABLE.findall(path.read_text()))
    assert found
    chosen = settings.read([], found)
    plain = settings.read([], {})
    for name in found:
        field = name.removeprefix("TPU_UI_").lower()
        assert getattr(chosen, field) != getattr(plain, field) or field == "port", name


def test_container_is_no_root_locked_and_listens_where_it_says() -> None:
    assert all_of("USER") == ["tpu-ui"]
    order = [name for name, _ in instructions()]
    assert order.index("USER") > max(i for i, name in enumerate(order) if name in ("RUN", "COPY"))
    chosen = settings.read([], dict(VARIABLE.findall(DOCKERFILE.read_text())))
    assert (chosen.lock, chosen.host) == (True, "0.0.0.0")
    assert all_of("EXPOSE") == [str(chosen.port)]
    assert all_of("CMD") == ['["python", "app.py"]']
    assert all(
        str(folder).startswith(all_of("VOLUME")[0]) for folder in (chosen.cache, chosen.outputs)
    )


class Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def test_container_is_well_while_it_warms_up_and_not_when_it_has_failed() -> None:
    """Its health check, run as it stands, against every answer of `/health`."""
    (check,) = all_of("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    environment = {"TPU_UI_PORT": str(server.server_port)}
    ended = {}
    try:
        for Health.status in (200, 503, 500):
            run = [sys.executable, *command[1:]]
            done = subprocess.run(run, env=environment, capture_output=True, timeout=30)
            ended[Health.status] = done.returncode
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert ended == {200: 0, 503: 0, 500: 1}


def unit() -> dict[str, list[tuple[str, str]]]:
    """Of the systemd unit: section -> its lines, name and value."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in UNIT.read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            lines = sections.setdefault(heading[1], [])
        elif line and line[0] not in "#;":
            name, equals, value = line.partition("=")
            assert equals, line
            lines.append((name, value))
    return sections


def test_unit_starts_the_program_as_the_readme_installs_it() -> None:
    text, readme = UNIT.read_text(), (ROOT / "README.md").read_text()
    assert "ExecStart=/opt/tpu-ui/.venv/bin/python app.py" in text
    for name in ("/opt/tpu-ui", "/etc/tpu-ui.env", "deploy/tpu-ui.service", "deploy/Dockerfile"):
        assert name in readme
    for line in ("User=tpu-ui", "NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes"):
        assert line in text.splitlines()
    assert not re.search(r"^Environment=.*(AUTH|TOKEN)", text, re.M)  # anybody could read it


def test_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    """By its rules, and by itself where it is installed."""
    sections = unit()
    assert list(sections) == ["Unit", "Service", "Install"]
    for section, lines in sections.items():
        names = [name for name, _ in lines]
        assert set(names) <= UNIT_NAMES[section]
        assert {name for name in names if names.count(name) > 1} <= {"Environment"}
    service = dict(sections["Service"])
    assert all(value for name, value in service.items() if name != "CapabilityBoundingSet")
    for name, value in service.items():
        if name in SWITCHES:
            assert value in ("yes", "no"), name
    assert Path(service["ExecStart"].split()[0]).is_absolute()
    assert int(service["TimeoutStopSec"]) > 10  # in which the app has ended by itself
    if shutil.which("systemd-analyze") is None:
        return
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/tpu-ui/.venv/bin/python", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=30
    )
    assert UNIT.name not in done.stderr, done.stderr


def test_usual_folders_that_cannot_be_written_are_replaced_and_named_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a machine whose disk is read-only."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir("/sys")
    chosen = app.with_folders(settings.read([], {}))
    root = tmp_path / f"tpu-ui-{app.os.getuid()}"
    assert (chosen.outputs, chosen.cache) == (root / "outputs", root / "cache")
    assert (root.stat().st_mode & 0o777) == 0o700
    assert "The folder outputs cannot be written" in caplog.text
    named = settings.read(["--outputs", "/sys/pictures", "--cache", "/sys/kept"], {})
    assert app.with_folders(named) == named


def test_temporary_folder_that_somebody_else_could_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"tpu-ui-{app.os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert planted not in app.own_temporary("cache").parents
