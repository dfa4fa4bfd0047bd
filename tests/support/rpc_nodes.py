"""RPC nodes on loopback that really listen, and can be made to fail in each way a node does."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from aiohttp import ClientSession, web
from tests.support.rpc_batches import answer_each

from solward_localnet.errors import RpcError
from solward_localnet.node import Localnet

Answers = Callable[[str, Sequence[Any]], Awaitable[Any]]

GENESIS = "4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZAMdL4VZHirAn"


class RpcNode:
    """One node.

    `faults` by method (`*` for every one): an HTTP status, a JSON-RPC error code below zero,
    `garbage`, `deep`, `no json-rpc`, `hang`, `cut`, or a function in place of the node's own
    `answers`. Those of `batch` meet batches alone; a list there is the answer.

    Attributes:
        posts: HTTP requests.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._runner: web.AppRunner | None = None
        self.faults: dict[str, Any] = {}
        self.calls: Counter[str] = Counter()
        self.posts = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the port of before where there was one."""
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Refuse connections from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        self.posts += 1
        body = await http.read()
        if body.startswith(b"[") and "batch" in self.faults:
            return await self._one(http, {"method": "batch"})
        return await answer_each(body, partial(self._one, http))

    async def _one(self, http: web.Request, request: Any) -> web.StreamResponse:
        method, params = request["method"], request.get("params", [])
        self.calls[method] += 1
        fault = self.faults.get(method, self.faults.get("*"))
        answers = self.answers
        if fault == "hang":
            await asyncio.sleep(60)
        elif fault == "cut":
            assert http.transport is not None
            http.transport.abort()
        elif fault == "garbage":
            return web.Response(text="<html>busy</html>")
        elif fault == "deep":
            # Once it did what it was asked for.
            await answers(method, params)
            return web.Response(text="[" * 100_000, content_type="application/json")
        elif fault == "no json-rpc":
            return web.json_response({"error": {"code": "busy"}})
        elif isinstance(fault, list):
            return web.json_response(fault)
        elif isinstance(fault, int) and fault > 0:
            return web.json_response({"error": "busy"}, status=fault)
        elif isinstance(fault, int):
            return _answer(request, error={"code": fault, "message": f"code {fault}"})
        elif fault is not None:
            answers = fault
        try:
            return _answer(request, result=await answers(method, params))
        except RpcError as error:
            return _answer(request, error=error.to_json())


def _answer(request: Any, **outcome: Any) -> web.Response:
    body = {"jsonrpc": "2.0", "id": request.get("id"), **outcome}
    return web.Response(text=json.dumps(body), content_type="application/json")


def named(name: str, genesis: str = GENESIS) -> Answers:
    """A node that answers every call with its own name."""

    async def answers(method: str, _params: Sequence[Any]) -> Any:
        return genesis if method == "getGenesisHash" else name

    return answers


def of(localnet: Localnet) -> Answers:
    """A node of a real ledger."""
    return localnet.call


@asynccontextmanager
async def listening(*answers: Answers) -> AsyncIterator[tuple[RpcNode, ...]]:
    """Nodes that listen until left."""
    nodes = tuple(map(RpcNode, answers))
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            with suppress(RuntimeError):
                await node.stop()


@asynccontextmanager
async def in_front_of(url: str) -> AsyncIterator[RpcNode]:
    """A node that asks the one at `url` whatever it is asked, until it is told to do otherwise."""
    async with ClientSession() as session:

        async def answers(method: str, params: Sequence[Any]) -> Any:
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
            async with session.post(url, json=call) as response:
                answer = await response.json()
            if "error" in answer:
                raise RpcError(**answer["error"])
            return answer["result"]

        async with listening(answers) as (node,):
            yield node
