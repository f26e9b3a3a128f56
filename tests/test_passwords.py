"""Passwords: known again, and not to be read."""

import io
from pathlib import Path

import pytest

from tpu_ui import passwords
from tpu_ui.errors import SettingsError
from tpu_ui.passwords import Logins, Secret, known_logins, secret_of
from tpu_ui.settings import read

CHEAP = (16, 8, 1)


def test_a_password_is_known_again_and_is_in_nothing_that_is_kept() -> None:
    secret = Secret.of("pässword:with colon", CHEAP)
    again = Secret.read(secret.written)
    assert again.matches("pässword:with colon")
    for wrong in ("", "pässword:with colo", "pässword:with colon ", "x" * 10_000, "\ud800"):
        assert not again.matches(wrong)
    assert "pässword" not in repr(secret) + secret.written
    assert Secret.of("same", CHEAP).written != Secret.of("same", CHEAP).written


def test_a_name_that_nobody_has_takes_a_hash_too(monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins({"ann": Secret.of("right", CHEAP)})
    worked: list[str] = []
    digest = passwords._digest
    monkeypatch.setattr(passwords, "_digest", lambda *args: worked.append(args[0]) or digest(*args))
    assert not logins.knows("nobody", "right")
    assert not logins.knows("ann", "wrong")
    assert not logins.knows("ann", "x" * 2_000)
    assert logins.knows("ann", "right")
    assert logins.knows("ann", "right")
    assert worked == ["right", "wrong", "right"], "each once, and a right one not again"
    assert not Logins({}).knows("", "")


def test_logins_are_read_from_a_file_that_the_tool_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda *_: "right")
    assert passwords.main(["ann"]) == 0
    line = capsys.readouterr().out
    assert "right" not in line
    file = tmp_path / "logins"
    file.write_text(f"# visitors\n\n{line}")
    known = known_logins(("me", "a-password"), file)
    assert known["ann"].matches("right")
    assert known["me"].matches("a-password")
    hashed = line.strip().partition(":")[2]
    assert secret_of(hashed).matches("right")
    with pytest.raises(SettingsError, match="ann is the owner's name"):
        known_logins(("ann", "x"), file)


@pytest.mark.parametrize(
    "text",
    [
        "ann",
        "ann:password",
        ":scrypt$16$8$1$AA==$AA==",
        "ann:scrypt$16$8$1$AA==",
        "ann:scrypt$x$8$1$AA==$AA==",
        "ann:scrypt$99999999999$8$1$AA==$AA==",
        "ann:scrypt$16$8$1$?$AA==",
    ],
)
def test_a_line_that_is_no_login_is_named_and_not_shown(text: str, tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text(f"# visitors\n{text}\n")
    with pytest.raises(SettingsError, match="line 2") as caught:
        known_logins(None, file)
    assert "password" not in str(caught.value).replace("tpu_ui.passwords", "")


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("nothing", "bytes"):
        with pytest.raises(SettingsError, match="cannot be read"):
            known_logins(None, tmp_path / name)


def test_options_of_roles_that_cannot_go_together_are_refused() -> None:
    with pytest.raises(SettingsError, match="--auth"):
        read(["--auth", "a:b", "--owner", "c:d"], {})
    with pytest.raises(SettingsError, match="needs an owner"):
        read(["--visitors", "file"], {})


def test_limits_are_on_where_strangers_come_and_off_on_ones_own_machine() -> None:
    assert (read([], {}).rate, read([], {}).images_per_hour) == (0, 0)
    assert (read(["--share"], {}).rate, read([], {"SPACE_ID": "x"}).images_per_hour) == (30, 200)
    given = read(["--share", "--rate", "0"], {"TPU_UI_IMAGES_PER_HOUR": "7"})
    assert (given.rate, given.images_per_hour) == (0, 7)


def test_the_tool_refuses_what_is_not_typed_the_same_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = io.StringIO("one\ntwo\n")
    monkeypatch.setattr("getpass.getpass", lambda *_: typed.readline().strip())
    assert passwords.main(["ann"]) == 2
    assert passwords.main([]) == passwords.main(["a:b"]) == 2
