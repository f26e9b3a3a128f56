"""How much one visitor may ask for, and who counts as one."""

import math
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import Serve, Served
from tests.ui.test_endpoints import join, listen_until
from tests.ui.test_mcp import called
from tests.ui.test_roles import CHEAP
from tpu_ui.errors import AllowanceError
from tpu_ui.passwords import Secret
from tpu_ui.ui.allowance import Allowance, Window
from tpu_ui.ui.door import _network, door_of
from tpu_ui.ui.visitor import MARK

RATE, IMAGES = 6, 8


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_visitor_waits_as_long_as_she_is_told_and_no_longer() -> None:
    clock = Clock()
    allowance = Allowance(rate=2, images_per_hour=5, clock=clock)
    allowance.take("ann", 1)
    clock.now_s += 20
    allowance.take("ann", 1)
    with pytest.raises(AllowanceError, match=r"ask 2 times a minute. Ask again in 40 s") as caught:
        allowance.take("ann", 1)
    allowance.take("another", 5)
    clock.now_s += caught.value.wait_s
    allowance.take("ann", 1)
    clock.now_s += 60
    with pytest.raises(AllowanceError, match=r"5 images an hour; 2 are left. Ask again in 58 min"):
        allowance.take("ann", 3)
    allowance.take("ann", 2)
    with pytest.raises(AllowanceError, match=r"5 images an hour; 0 are left.$") as caught:
        allowance.take("ann", 6)
    assert caught.value.wait_s == math.inf


def test_what_was_refused_is_given_back_and_what_is_long_past_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    window = Window(5, 60, clock)
    assert window.take("a", 3) == 0
    assert window.take("a", 2) == 0
    window.give_back("a", 3)
    assert window.left("a") == 3
    monkeypatch.setattr("tpu_ui.ui.allowance.SWEPT_AT", 100)
    for number in range(1_000):
        clock.now_s += 1
        window.take(str(number))
    assert len(window._taken) <= 101


@pytest.fixture
def limited(serve: Serve) -> Iterator[Served]:
    door = door_of(
        owner="me",
        logins={name: Secret.of("password", CHEAP) for name in ("me", "ann")},
        locked_at_start=True,
        allowance=Allowance(RATE, IMAGES),
    )
    with serve(door=door, visitor_limit=2) as served:
        yield served


def asked(served: Served, login: str = "", count: int = 1, **headers: str) -> httpx.Response:
    if login:
        headers["Authorization"] = f"Bearer {login}"
    body = {"prompt": "a tree", "steps": 1, "n": count, "user": str(headers)}
    url = f"{served.url}v1/images/generations"
    return httpx.post(url, json=body, headers=headers, timeout=30)


def test_who_asks_too_often_is_told_when_to_ask_again_at_every_door(limited: Served) -> None:
    assert asked(limited, count=4).status_code == 200
    assert asked(limited, count=3).status_code == 200
    refused = asked(limited, count=2)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert "8 images an hour; 1 are left. Ask again in 60 min" in refused.text
    assert 3_500 < int(refused.headers["Retry-After"]) <= 3_600
    # The same address under another session, another user, a mark of its own making.
    join(limited, "another session", "a tree")
    listen_until(limited, "another session", "process_completed")
    join(limited, "a third session", "a tree")
    listen_until(limited, "a third session", "images an hour; 0 are left")
    assert asked(limited, **{MARK: "10.0.0.1 0123456789abcdef"}).status_code == 429
    assert called(limited, "generate", prompt="a tree").isError
    # Others are not held up, behind a proxy on this machine neither; what a caller claims of
    # herself before it is no address of hers.
    assert asked(limited, "ann:password").status_code == 200
    assert asked(limited, **{"X-Forwarded-For": "203.0.113.7"}).status_code == 200
    assert asked(limited, count=4, **{"X-Forwarded-For": "1.1.1.1, 203.0.113.7"}).status_code == 200
    assert asked(limited, count=4, **{"X-Forwarded-For": "2.2.2.2, 203.0.113.7"}).status_code == 429
    assert not called(limited, "generate", "127.0.0.2", prompt="a tree", steps=1).isError
    for _ in range(RATE + 1):
        assert asked(limited, "me:password", count=2).status_code == 200


def test_an_allowance_goes_by_network_where_one_caller_has_many_addresses() -> None:
    assert _network("2001:db8:1:2::5") == _network("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert _network("2001:db8:1:3::5") != _network("2001:db8:1:2::5")
    assert _network("192.0.2.1") == "192.0.2.1"
    assert _network("unknown") == "unknown"
