"""Settings: the command line, the environment, and who wins."""

import pytest

from tpu_ui.errors import SettingsError
from tpu_ui.settings import read


def test_defaults_are_a_private_local_app() -> None:
    chosen = read([], {})
    assert (chosen.device, chosen.model, chosen.mode, chosen.warm) == (
        "auto",
        "demo",
        None,
        "default",
    )
    assert (chosen.strategy, chosen.chips) == ("auto", None)
    assert (chosen.host, chosen.port, chosen.share, chosen.lock) == (
        "127.0.0.1",
        7860,
        False,
        False,
    )


def test_empty_variable_is_none() -> None:
    empty = {"TPU_UI_PORT": "", "TPU_UI_LOCK": "", "TPU_UI_WARM": "", "TPU_UI_SHARE": ""}
    chosen = read([], empty)
    assert (chosen.port, chosen.lock, chosen.warm, chosen.share) == (7860, False, "default", False)


def test_every_option_has_a_variable_and_the_command_line_wins() -> None:
    environment = {
        "TPU_UI_DEVICE": "cpu",
        "TPU_UI_MODEL": "other",
        "TPU_UI_MODE": "eager",
        "TPU_UI_STRATEGY": "staged",
        "TPU_UI_CHIPS": "4",
        "TPU_UI_WARM": "all",
        "TPU_UI_LOCK": "1",
        "TPU_UI_HOST": "0.0.0.0",
        "TPU_UI_PORT": "8000",
        "TPU_UI_SHARE": "no",
        "TPU_UI_AUTH": "me:secret:with:colons",
        "TPU_UI_WORKERS": "2",
        "TPU_UI_OUTPUTS": "pictures",
        "TPU_UI_CACHE": "kept",
    }
    chosen = read(["--port", "9000"], environment)
    assert (chosen.device, chosen.model, chosen.mode, chosen.warm) == (
        "cpu",
        "other",
        "eager",
        "all",
    )
    assert (chosen.strategy, chosen.chips) == ("staged", 4)
    assert (chosen.lock, chosen.host, chosen.port, chosen.share) == (True, "0.0.0.0", 9000, False)
    assert chosen.auth == ("me", "secret:with:colons")
    assert (chosen.workers, chosen.outputs.name, chosen.cache.name) == (2, "pictures", "kept")
    assert "secret" not in repr(chosen)


@pytest.mark.parametrize(
    ("arguments", "environment", "locked"),
    [
        (["--share"], {}, True),
        ([], {"SPACE_ID": "somebody/tpu-ui"}, True),
        (["--share", "--no-lock"], {}, False),
        (["--lock"], {}, True),
        ([], {"TPU_UI_SHARE": "true"}, True),
    ],
)
def test_lock_is_on_by_itself_when_shared_or_hosted(
    arguments: list[str], environment: dict[str, str], locked: bool
) -> None:
    assert read(arguments, environment).lock is locked


def test_space_listens_on_all_addresses() -> None:
    assert read([], {"SPACE_ID": "somebody/tpu-ui"}).host == "0.0.0.0"


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [("TPU_UI_DEVICE", "gpu", "software-tpu"), ("TPU_UI_LOCK", "maybe", "1 or 0")],
)
def test_wrong_variable_is_named_with_what_is_right(variable: str, value: str, right: str) -> None:
    with pytest.raises(SettingsError, match=right) as caught:
        read([], {variable: value})
    assert variable in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "0"],
        ["--port", "65536"],
        ["--workers", "0"],
        ["--auth", "me"],
        ["--mode", "fast"],
        ["--strategy", "tiled"],
        ["--chips", "0"],
    ],
)
def test_wrong_command_line_ends_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        read(arguments, {})
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_limits_have_defaults_that_keep_a_disk_from_filling() -> None:
    chosen = read([], {})
    assert (chosen.queue, chosen.queue_per_visitor, chosen.patience_s) == (100, 20, 120.0)
    assert (chosen.keep_images, chosen.keep_gb, chosen.keep_days) == (10_000, 20.0, 0)
    assert not chosen.log_prompts


def test_pictures_of_strangers_are_kept_for_a_month_unless_told_otherwise() -> None:
    assert read(["--share"], {}).keep_days == 30
    assert read([], {"SPACE_ID": "me/space"}).keep_days == 30
    assert read(["--share", "--keep-days", "0"], {}).keep_days == 0
    assert read(["--keep-days", "0.5"], {}).keep_days == 0.5


def test_limits_have_variables() -> None:
    environment = {
        "TPU_UI_QUEUE": "7",
        "TPU_UI_QUEUE_PER_VISITOR": "3",
        "TPU_UI_PATIENCE": "600",
        "TPU_UI_KEEP_IMAGES": "0",
        "TPU_UI_KEEP_GB": "1.5",
        "TPU_UI_KEEP_DAYS": "2",
        "TPU_UI_LOG_PROMPTS": "yes",
    }
    chosen = read([], environment)
    assert (chosen.queue, chosen.queue_per_visitor, chosen.patience_s) == (7, 3, 600.0)
    assert (chosen.keep_images, chosen.keep_gb, chosen.keep_days) == (0, 1.5, 2.0)
    assert chosen.log_prompts


@pytest.mark.parametrize(
    "arguments",
    [
        ["--queue", "0"],
        ["--queue-per-visitor", "-1"],
        ["--patience", "4"],
        ["--patience", "nan"],
        ["--keep-images", "1.5"],
        ["--keep-gb", "-1"],
        ["--keep-days", "inf"],
    ],
)
def test_limits_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read(arguments, {})
    assert caught.value.code == 2


def test_another_app_and_its_token_are_named_by_variables() -> None:
    variables = {
        "TPU_UI_REMOTE": "https://vm.example:7860/tpu/",
        "TPU_UI_REMOTE_TOKEN": "me:secret",
    }
    chosen = read([], variables)
    assert (chosen.remote, chosen.remote_token) == ("https://vm.example:7860/tpu", "me:secret")
    assert "secret" not in repr(chosen)
    assert read([], {}).remote is None


@pytest.mark.parametrize("path", ["/tpu", "https://example.org/tpu"])
def test_root_path_is_a_path_or_an_address(path: str) -> None:
    assert read(["--root-path", f"{path}/"], {}).root_path == path


@pytest.mark.parametrize(
    ("option", "value", "right"),
    [
        ("--remote", "vm.example:7860", "http://HOST:PORT"),
        ("--remote", "ftp://vm.example", "http://HOST:PORT"),
        ("--remote", "https://me:secret@vm.example", "--remote-token"),
        ("--remote", "https://vm.example/?a=b", "--remote-token"),
        ("--root-path", "tpu", "/tpu"),
    ],
)
def test_address_that_is_none_is_refused_with_what_is_right(
    option: str, value: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read([option, value], {})
    assert right in capsys.readouterr().err
