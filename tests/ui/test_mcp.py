"""The API as tools of a language model, with a real MCP client."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import Serve, Served
from tests.launching import run_apart
from tpu_ui.passwords import Secret
from tpu_ui.request import GenerationRequest
from tpu_ui.ui.door import door_of

CHEAP = (16, 8, 1)  # of hashes
TOOLS = {"generate", "warm_up", "status", "models", "cancel", "read_metadata"}


def with_session(
    served: Served,
    do: Callable[[ClientSession], Awaitable[Any]],
    address: str = "127.0.0.1",
    login: str = "",
) -> Any:
    async def connected() -> Any:
        url = f"{served.url}gradio_api/mcp/"
        headers = {"Authorization": f"Bearer {login}"} if login else {}
        transport = httpx.AsyncHTTPTransport(local_address=address)
        async with (
            httpx.AsyncClient(transport=transport, headers=headers, timeout=30) as client,
            streamable_http_client(url, http_client=client) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await do(session)

    return run_apart(connected())


def called(
    served: Served, tool: str, address: str = "127.0.0.1", login: str = "", **inputs: object
) -> Any:
    return with_session(served, lambda session: session.call_tool(tool, inputs), address, login)


def test_every_endpoint_is_a_tool_and_every_input_is_described(server: Served) -> None:
    tools = with_session(server, lambda session: session.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert len(tool.description) > 40
        for name, about in tool.inputSchema["properties"].items():
            assert about["description"], f"{tool.name}: {name}"


def test_a_tool_makes_a_picture_and_says_where_it_is(server: Served) -> None:
    result = called(server, "generate", prompt="a tree by tool", steps=3)
    assert not result.isError
    text = result.content[0].text
    assert "'steps': 3" in text
    url = text.partition("'url': '")[2].partition("'")[0]
    assert httpx.get(url).content in {path.read_bytes() for path in server.outputs.rglob("*.png")}


def test_a_refusal_is_told_in_words_and_the_next_call_works(server: Served) -> None:
    result = called(server, "generate", prompt="a tree", size="1x1")
    assert result.isError
    assert "has no size 1x1" in result.content[0].text
    assert not called(server, "status").isError


def test_callers_at_different_places_are_different_visitors(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitors: list[str] = []
    submit = server.dispatcher.submit

    def noted(request: GenerationRequest, visitor: str = "", kept: bool = True) -> str:
        visitors.append(visitor)
        return submit(request, visitor, kept)

    monkeypatch.setattr(server.dispatcher, "submit", noted)
    for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):
        assert not called(server, "generate", address, prompt="a tree", steps=1).isError
    first, other, again = visitors
    assert first == again != other
    assert "127" not in first + other


def test_a_closed_app_is_closed_to_tools_without_a_login_and_open_with_one(serve: Serve) -> None:
    logins = {name: Secret.of(f"{name}s-password", CHEAP) for name in ("me", "ann")}
    with serve(door=door_of(owner="me", logins=logins, closed=True)) as served:
        for login in ("", "ann:a-wrong-password", ":"):
            assert refused(served, login) == 401
        for path in ("schema", "sse", "messages/", "http/", ""):
            answer = httpx.get(f"{served.url}gradio_api/mcp/{path}")
            assert (answer.status_code, "Bearer NAME:PASSWORD" in answer.text) == (401, True), path
        assert served.dispatcher.tally().images == 0
        for login, owns in (("ann:anns-password", False), ("me:mes-password", True)):
            assert not called(served, "status", login=login).isError
            assert not called(served, "generate", login=login, prompt="a tree", steps=1).isError
            warmed = called(served, "warm_up", login=login, size="256x256")
            assert warmed.isError is not owns
            assert owns or "Only the owner can do this" in warmed.content[0].text
            config = httpx.get(f"{served.url}config", headers={"Authorization": f"Bearer {login}"})
            assert config.json()["username"] == login.partition(":")[0]
        assert served.dispatcher.tally().images == 2
        # What let the tools in lets in nobody else.
        assert httpx.get(f"{served.url}config", headers={"x-gradio-user": "mcp"}).status_code == 401


def refused(served: Served, login: str) -> int:
    """How a real client is told that it may not even ask what tools there are."""
    with pytest.raises(ExceptionGroup) as told:
        with_session(served, lambda session: session.list_tools(), login=login)
    error: BaseException = told.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, httpx.HTTPStatusError)
    return error.response.status_code
