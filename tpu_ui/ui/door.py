"""Who is who: visitors, visitors who have signed in, and the owner; and what each may do.

A name that a password goes with holds no colon, and one that Hugging Face vouches for begins
"hf:", so that neither can pass for the other.
"""

import base64
import binascii
import hashlib
import ipaddress
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import gradio as gr
from anyio import to_thread
from starlette.requests import HTTPConnection, Request

from tpu_ui.passwords import Logins, Secret
from tpu_ui.ui.allowance import Allowance, Window
from tpu_ui.ui.hub import Hub
from tpu_ui.ui.visitor import address_of, visitor_of

HUB = "hf:"
SIGNED_IN_S = 30 * 86_400
SESSIONS = 10_000
WRONG_A_MINUTE = 10  # logins of one address
# Names that no stranger can have point at this machine.
OWN_ENDINGS = (".localhost", ".local", ".lan", ".internal", ".home.arpa")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for a picture. `turn`: whose turns in the queue it takes. `account`: whose allowance
    it uses up; "": nobody's."""

    owns: bool
    turn: str
    account: str


class Sessions:
    """Who has signed in here, by a cookie. Gone when the app ends; the cookies are not kept."""

    def __init__(self) -> None:
        # Cookies know no ports: each app of a machine needs a name of its own.
        self.cookie = f"tpu-ui-{secrets.token_hex(4)}"
        self._names: dict[bytes, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def begin(self, name: str) -> str:
        """The cookie's value."""
        value = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._names) >= SESSIONS:
                del self._names[next(iter(self._names))]
            self._names[_mark(value)] = name, time.monotonic() + SIGNED_IN_S
        return value

    def name_of(self, request: HTTPConnection) -> str:
        with self._lock:
            name, until_s = self._names.get(_mark(request.cookies.get(self.cookie, "")), ("", 0.0))
        return name if time.monotonic() < until_s else ""

    def end(self, request: HTTPConnection) -> None:
        with self._lock:
            self._names.pop(_mark(request.cookies.get(self.cookie, "")), None)


@dataclass(frozen=True)
class Door:
    """The rules of one app, and who has signed in.

    `logins`: those of passwords, the owner's among them. `closed`: nobody comes in without one,
    Gradio's own page asks for it. `owners`: names whose bearers own the app. `hub`: Hugging Face
    vouches for names too. `everybody`: there is no login, and whoever reaches the app owns it.
    `allowance`: what all but the owner may ask for.
    """

    logins: Logins = field(default_factory=lambda: Logins({}))
    owners: frozenset[str] = frozenset()
    closed: bool = False
    hub: Hub | None = None
    everybody: bool = False
    allowance: Allowance = field(default_factory=Allowance)
    sessions: Sessions = field(default_factory=Sessions)
    wrong: Window = field(default_factory=lambda: Window(WRONG_A_MINUTE, 60.0))

    @property
    def signs_in(self) -> bool:
        """Whether the page is open, and some may sign in on it."""
        return not self.closed and (bool(self.logins) or self.hub is not None)

    def owns(self, request: gr.Request | None) -> bool:
        """Whether a caller of Gradio's is the owner."""
        if self.everybody:
            return request is None or is_ours(request.headers.get("host"))
        return request is not None and request.username in self.owners

    def caller(self, request: gr.Request | None) -> Caller:
        """Who calls one of Gradio's endpoints."""
        turn = visitor_of(request)
        if request is None:
            return Caller(self.owns(None), turn, "")
        return self._caller(self.owns(request), request.username or "", request.request, turn)

    async def caller_of(self, request: Request, turn: str) -> Caller:
        """Who calls another endpoint; `turn`, if turns are not by account."""
        owns, name = await self.lets_own(request), await self.name_of(request)
        return self._caller(owns, name, request, turn)

    async def lets_in(self, request: Request) -> bool:
        """Whether a caller of what is not Gradio's may come in."""
        return not self.closed or bool(await self.name_of(request))

    async def lets_own(self, request: Request) -> bool:
        """Whether a caller of what is not Gradio's is the owner."""
        if self.everybody:
            return is_ours(request.headers.get("host"))
        return await self.name_of(request) in self.owners

    async def name_of(self, request: HTTPConnection) -> str:
        """Who calls; "" for a stranger. The login may be shown as HTTP basic authentication, or as
        the bearer token "NAME:PASSWORD", as OpenAI's clients do with their key."""
        return self.sessions.name_of(request) or await self._by_header(request)

    async def knows(self, name: str, password: str, address: str) -> bool:
        """Whether this is a login. After too many wrong ones nothing is, for a while."""
        if self.wrong.wait_s(address):
            return False
        if await to_thread.run_sync(self.logins.knows, name, password):
            return True
        self.wrong.take(address)
        return False

    async def _by_header(self, request: HTTPConnection) -> str:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                shown = base64.b64decode(shown, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return ""
        elif scheme.lower() != "bearer":
            return ""
        name, colon, password = shown.partition(":")
        if not colon or not self.logins:  # other servers' keys, sent here by programs
            return ""
        return name if await self.knows(name, password, address_of(request)) else ""

    def _caller(self, owns: bool, name: str, request: HTTPConnection | None, turn: str) -> Caller:
        """Where there is an allowance, turns go by account too: of sessions a caller may make any
        number."""
        if owns or not self.allowance:
            return Caller(owns, turn, "")
        account = f"@{name}" if name else _network(address_of(request))
        return Caller(False, account, account)


def door_of(
    *,
    owner: str = "",
    logins: Mapping[str, Secret] | None = None,
    closed: bool = False,
    hub: Hub | None = None,
    hub_owners: Iterable[str] = (),
    locked_at_start: bool = False,
    allowance: Allowance | None = None,
) -> Door:
    """The rules as the app was started.

    `owner`: her name among the `logins`; `hub_owners`: names at Hugging Face. Without a login
    everybody owns an app that was started unlocked, as on one's own machine; nobody owns one that
    was started locked, since then it is shared or hosted and nobody can show who she is.
    """
    owners = {f"{HUB}{name}" for name in hub_owners if hub}
    known = logins or {}
    if owner:
        owners.add(owner)
    everybody = not known and hub is None and not locked_at_start
    return Door(
        logins=Logins(known),
        owners=frozenset(owners),
        closed=closed,
        hub=hub,
        everybody=everybody,
        allowance=allowance or Allowance(),
    )


def usual_door(locked_at_start: bool) -> Door:
    """That of an app without a login or a limit."""
    return door_of(locked_at_start=locked_at_start)


def is_ours(host: str | None) -> bool:
    """Whether a page at this address, as its Host header has it, can be this machine's own.

    A stranger's page can have its own name point here, and then asks in the name of whoever looks
    at it. It cannot have an address, or one of the names that are no one's to give.
    """
    name = (host or "").rsplit("@")[-1]
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    name = name.lower().rstrip(".")
    if "." not in name and ":" not in name:
        return True
    if name.endswith(OWN_ENDINGS):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _network(address: str) -> str:
    """An IPv6 caller has at least 2**64 addresses to ask from, and they count as one."""
    try:
        if isinstance(known := ipaddress.ip_address(address), ipaddress.IPv6Address):
            return str(ipaddress.ip_network((known.packed[:8] + bytes(8), 64)))
    except ValueError:
        pass
    return address


def _mark(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogatepass")).digest()
