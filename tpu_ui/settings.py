"""Settings from the command line and the environment: the only reader of both.

Each option has an environment variable, `TPU_UI_` and its name in capitals with underscores; the
command line wins. Knows the names of things, not what they are.
"""

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tpu_ui.errors import SettingsError

PREFIX = "TPU_UI_"
DEVICES = ("auto", "tpu", "software-tpu", "cpu")
MODES = ("eager", "fused", "compiled")
WARM = ("default", "all", "none")
STRATEGIES = ("auto", "resident", "staged", "offload", "sharded")
DEFAULT_PORT = 7860
LEAST_PATIENCE_S = 5.0  # a worker that is well says something every two seconds
KEEP_DAYS = 30.0  # of strangers' pictures
RATE, IMAGES_PER_HOUR = 30, 200  # for each stranger
SECRET = (f"{PREFIX}AUTH", f"{PREFIX}OWNER", "OAUTH_CLIENT_SECRET")
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


@dataclass(frozen=True, slots=True, repr=False)
class HubSettings:
    """What a Space is told of Hugging Face's sign-in, with `hf_oauth` in its front matter."""

    provider: str
    client_id: str
    client_secret: str
    scopes: str
    own_host: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set when the app starts.

    `mode` is None for the model's own default, `chips` for all there are. `lock` is resolved: on by
    itself when the app is shared or hosted, and so is `keep_days`. A `keep_` of 0 means no limit.
    `auth` closes the door to all others, `owner` does not; of both the owner is who has it. Their
    passwords may be hashes, and go to the check of logins alone, as `remote_token` goes to the far
    app alone. `hub` is where Hugging Face signs people in, and as what: set in a Space.
    """

    device: str
    model: str
    mode: str | None
    strategy: str
    chips: int | None
    warm: str
    lock: bool
    lock_given: bool
    host: str
    port: int
    root_path: str | None
    share: bool
    auth: tuple[str, str] | None
    owner: tuple[str, str] | None
    visitors: Path | None
    hub: HubSettings | None
    hub_owners: tuple[str, ...]
    rate: int
    images_per_hour: int
    workers: int
    outputs: Path
    cache: Path
    queue: int
    queue_per_visitor: int
    patience_s: float
    keep_images: int
    keep_gb: float
    keep_days: float
    log_prompts: bool
    hosted: bool
    remote: str | None
    remote_token: str | None

    @property
    def has_owner(self) -> bool:
        """Whether somebody can show that she is the owner."""
        return bool(self.auth or self.owner or (self.hub and self.hub_owners))

    def __repr__(self) -> str:
        return f"Settings(device={self.device}, model={self.model})"  # never the password


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings meant by a command line (without the program's name) and an environment.

    Raises SettingsError for an environment variable that is wrong. A wrong command line ends the
    program with status 2 and the usage, as argparse does.
    """
    hosted = "SPACE_ID" in environment  # set by Hugging Face in a Space
    parser = _parser(hosted)
    given = parser.parse_args([*_from_environment(parser, environment), *arguments])
    public = given.share or hosted
    lock = given.lock if given.lock is not None else public
    keep_days = given.keep_days if given.keep_days is not None else KEEP_DAYS if public else 0
    images_per_hour = given.images_per_hour
    if images_per_hour is None:
        images_per_hour = IMAGES_PER_HOUR if public else 0
    _check_roles(given)
    return Settings(
        device=given.device,
        model=given.model,
        mode=given.mode,
        strategy=given.strategy,
        chips=given.chips,
        warm=given.warm,
        lock=lock,
        lock_given=given.lock is not None,
        host=given.host,
        port=given.port,
        root_path=given.root_path,
        share=given.share,
        auth=given.auth,
        owner=given.owner,
        visitors=given.visitors,
        hub=None if given.auth else _hub(environment),
        hub_owners=_names(given.hub_owners, environment),
        rate=given.rate if given.rate is not None else RATE if public else 0,
        images_per_hour=images_per_hour,
        workers=given.workers,
        outputs=given.outputs,
        cache=given.cache,
        queue=given.queue,
        queue_per_visitor=given.queue_per_visitor,
        patience_s=given.patience,
        keep_images=given.keep_images,
        keep_gb=given.keep_gb,
        keep_days=keep_days,
        log_prompts=given.log_prompts,
        hosted=hosted,
        remote=given.remote,
        remote_token=given.remote_token,
    )


def from_process(arguments: Sequence[str]) -> Settings:
    """The settings of this process. Raises SettingsError. What is secret of them is then taken out
    of the environment, which the workers inherit."""
    chosen = read(arguments, os.environ)
    for name in SECRET:
        os.environ.pop(name, None)
    return chosen


def _parser(hosted: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="app.py",
        description="TPU UI: text-to-image on Google TPUs, in the browser.",
        epilog=f"Each option can be set by a variable: --warm all is {PREFIX}WARM=all.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--device", choices=DEVICES, default="auto", help="where to run (default: auto)")
    add("--model", default="demo", help="name of a preset (default: demo)")
    add("--mode", choices=MODES, help="mode to start in (default: the model's)")
    add("--strategy", choices=STRATEGIES, default="auto", help="where weights live (default: auto)")
    add("--chips", type=_count, help="chips each worker may use (default: all there are)")
    add("--warm", choices=WARM, default="default", help="sizes to compile at the start")
    add(
        "--lock",
        action=argparse.BooleanOptionalAction,
        help="only compiled sizes can be asked for (default: on when shared or hosted)",
    )
    add("--host", default="0.0.0.0" if hosted else "127.0.0.1", help="address to listen on")
    add("--port", type=_port, default=DEFAULT_PORT, help=f"port (default: {DEFAULT_PORT})")
    add("--root-path", type=_root_path, metavar="PATH", help="where a proxy has the page: /tpu")
    add("--share", action=argparse.BooleanOptionalAction, default=False, help="make a share link")
    _add_roles(parser)
    add(
        "--workers",
        type=_count,
        default=1,
        help="workers, each with a model of its own (default: 1)",
    )
    add("--outputs", type=Path, default=Path("outputs"), help="folder for the pictures")
    add("--cache", type=Path, default=Path("cache"), help="folder for compiled programs")
    add("--remote", type=_url, metavar="URL", help="have another TPU UI do the work")
    add(
        "--remote-token",
        metavar="TOKEN",
        help="for it: USER:PASSWORD of its --auth; the variable keeps it out of process lists",
    )
    _add_limits(parser)
    return parser


def _add_roles(parser: argparse.ArgumentParser) -> None:
    """Who may do what. Passwords are better set by variables: all can see a command line."""
    add = parser.add_argument
    login = "USER:PASSWORD"
    add("--auth", type=_login, metavar=login, help="ask everybody for a login; this is the owner's")
    add("--owner", type=_login, metavar=login, help="the owner's, of a page open to visitors")
    add("--visitors", type=Path, help="file of visitors' logins (python -m tpu_ui.passwords)")
    add("--hub-owners", default="", help="in a Space, names of owners (default: its author)")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """How much of everything."""
    add = parser.add_argument
    add("--queue", type=_some, default=100, help="jobs that may wait (default: 100)")
    add("--queue-per-visitor", type=_some, default=20, help="of one visitor's (default: 20)")
    on = "(default: 0; {} if shared or hosted)"
    add("--rate", type=_many, help=f"requests a minute of one visitor {on.format(RATE)}")
    add("--images-per-hour", type=_many, help=f"of one visitor {on.format(IMAGES_PER_HOUR)}")
    add(
        "--patience",
        type=_patience,
        default=120.0,
        help="seconds for one step of an image, before the worker is taken to hang (default: 120)",
    )
    add("--keep-images", type=_many, default=10_000, help="pictures kept; 0: all (default: 10000)")
    add("--keep-gb", type=_amount, default=20.0, help="GB of them; 0: all (default: 20)")
    add("--keep-days", type=_amount, help="days; 0: for ever (default: 0; 30 if shared or hosted)")
    add(
        "--log-prompts",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="have the log hold prompts (default: it holds none)",
    )


def _check_roles(given: argparse.Namespace) -> None:
    if given.auth and given.owner:
        raise SettingsError("Give --auth, which keeps strangers out, or --owner, which does not.")
    if given.visitors and not (given.auth or given.owner):
        raise SettingsError("--visitors needs an owner: give --auth or --owner as well.")


def _hub(environment: Mapping[str, str]) -> HubSettings | None:
    """https://huggingface.co/docs/hub/spaces-oauth names these variables."""
    if not ("SPACE_ID" in environment and environment.get("OAUTH_CLIENT_ID")):
        return None
    return HubSettings(
        provider=environment.get("OPENID_PROVIDER_URL") or "https://huggingface.co",
        client_id=environment["OAUTH_CLIENT_ID"],
        client_secret=environment.get("OAUTH_CLIENT_SECRET", ""),
        scopes=environment.get("OAUTH_SCOPES") or "openid profile",
        own_host=environment.get("SPACE_HOST", "").split(",")[0].strip(),
    )


def _names(given: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    names = given or environment.get("SPACE_AUTHOR_NAME", "")
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _from_environment(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """The command line that the environment variables stand for."""
    arguments = []
    for action in parser._actions:
        option = action.option_strings[-1] if action.option_strings else ""
        name = action.option_strings[0].removeprefix("--") if option else ""
        variable = PREFIX + name.upper().replace("-", "_")
        value = environment.get(variable)
        if not value or action.dest == "help":
            continue
        if isinstance(action, argparse.BooleanOptionalAction):
            arguments.append(_switch(variable, name, value))
        elif action.choices is not None and value not in action.choices:
            raise SettingsError(
                f"{variable} is {value!r}; it must be one of {', '.join(action.choices)}."
            )
        else:
            arguments.append(f"--{name}={value}")
    return arguments


def _switch(variable: str, name: str, value: str) -> str:
    if value.lower() in _TRUE:
        return f"--{name}"
    if value.lower() in _FALSE:
        return f"--no-{name}"
    raise SettingsError(f"{variable} is {value!r}; it must be 1 or 0.")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 64")
    return int(text)


def _many(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1_000_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _some(text: str) -> int:
    if (number := _many(text)) < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


def _patience(text: str) -> float:
    if (seconds := _amount(text)) < LEAST_PATIENCE_S:
        raise argparse.ArgumentTypeError(f"it must be {LEAST_PATIENCE_S:g} s or more")
    return seconds


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 <= amount <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")
    return amount


def _root_path(text: str) -> str:
    """A path, or the whole public address."""
    if not text.startswith(("/", "http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no path; write /tpu or https://HOST/tpu")
    return text.rstrip("/")


def _url(text: str) -> str:
    """An address to put paths behind. A login in it would be shown with it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address; write http://HOST:PORT")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(
            "it takes an address alone; a login goes into --remote-token"
        )
    return text.rstrip("/")


def _login(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not user or not colon or not password:
        raise argparse.ArgumentTypeError("a login is written USER:PASSWORD")
    return user, password
