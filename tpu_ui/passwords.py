"""Passwords: kept as scrypt hashes, and compared in the same time whatever is shown.

`python -m tpu_ui.passwords NAME` asks for one and prints the line of a logins file. Knows nothing
of who may do what.
"""

import base64
import binascii
import getpass
import hashlib
import secrets
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpu_ui.errors import SettingsError

KIND = "scrypt"
# With 16 MiB, five times in a row:
# https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
COST = (2**14, 8, 5)
MOST_COST = (2**17, 16, 8)
MAX_MEMORY_BYTES = 300_000_000
MAX_CHARACTERS = 1_000
SEEN_BEFORE = 1_000  # logins that were right, so that not every call of a program costs a hash


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A password that is known again and cannot be read."""

    cost: tuple[int, int, int]
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str, cost: tuple[int, int, int] = COST) -> "Secret":
        salt = secrets.token_bytes(16)
        return cls(cost, salt, _digest(password, cost, salt))

    @classmethod
    def read(cls, text: str) -> "Secret":
        """From what `written` gives. Raises SettingsError."""
        kind, *parts = text.split("$")
        try:
            n, r, p = (int(part) for part in parts[:3])
            salt, digest = (base64.b64decode(part, validate=True) for part in parts[3:])
        except (ValueError, binascii.Error):
            kind = ""
        if kind != KIND or not all(1 <= a <= b for a, b in zip((n, r, p), MOST_COST, strict=True)):
            raise SettingsError("A hash is written as `python -m tpu_ui.passwords NAME` prints it.")
        return cls((n, r, p), salt, digest)

    @property
    def written(self) -> str:
        ends = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return "$".join((KIND, *map(str, self.cost), *ends))

    def matches(self, password: str) -> bool:
        return secrets.compare_digest(_digest(password, self.cost, self.salt), self.digest)


class Logins:
    """Names and their secrets. A wrong name costs as much time as a wrong password.

    One hash is worked out at a time: each takes memory, and strangers may ask for many.
    """

    def __init__(self, known: Mapping[str, Secret]) -> None:
        self._known = dict(known)
        cost = max((one.cost for one in known.values()), default=COST)
        self._nobodys = Secret.of(secrets.token_urlsafe(), cost) if known else None
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._known)

    def knows(self, name: str, password: str) -> bool:
        """Whether this is somebody's login."""
        if self._nobodys is None or len(name) + len(password) > MAX_CHARACTERS:
            return False
        shown = f"{name}:{password}".encode(errors="surrogatepass")
        mark = hashlib.blake2b(shown, key=self._key).digest()
        with self._lock:
            if mark in self._right:
                return True
            right = self._known.get(name, self._nobodys).matches(password) and name in self._known
            if right:
                while len(self._right) >= SEEN_BEFORE:
                    del self._right[next(iter(self._right))]
                self._right[mark] = None
            return right


def secret_of(text: str) -> Secret:
    """Of a password, or of its hash. Raises SettingsError."""
    return Secret.read(text) if text.startswith(f"{KIND}$") else Secret.of(text)


def known_logins(owner: tuple[str, str] | None, visitors: Path | None) -> dict[str, Secret]:
    """The owner's, by password or hash, and those of a file. Raises SettingsError."""
    known = read_file(visitors) if visitors else {}
    if owner is not None:
        name, password = owner
        if name in known:
            raise SettingsError(f"{name} is the owner's name, and cannot be in {visitors} too.")
        known[name] = secret_of(password)
    return known


def read_file(path: Path) -> dict[str, Secret]:
    """A logins file: NAME:HASH a line; what begins with # is a remark. Raises SettingsError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SettingsError(f"The logins in {path} cannot be read: {error}.") from error
    known: dict[str, Secret] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, text = line.strip().partition(":")
        if not name or not colon or name in known:
            raise SettingsError(f"{path}, line {number}: write NAME:HASH, each name once.")
        try:
            known[name] = Secret.read(text)
        except SettingsError as error:
            raise SettingsError(f"{path}, line {number}: {error}") from error
    return known


def _digest(password: str, cost: tuple[int, int, int], salt: bytes) -> bytes:
    n, r, p = cost
    shown = password.encode(errors="surrogatepass")
    return hashlib.scrypt(shown, salt=salt, n=n, r=r, p=p, maxmem=MAX_MEMORY_BYTES)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0] or ":" in arguments[0]:
        print("usage: python -m tpu_ui.passwords NAME", file=sys.stderr)
        return 2
    password = getpass.getpass()
    if not password or password != getpass.getpass("Again: "):
        print("That was not the same twice.", file=sys.stderr)
        return 2
    print(f"{arguments[0]}:{Secret.of(password).written}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
