"""Checks of a provider, which use local servers only."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from solward.plugins import LoadedProvider
from solward.support import jsontext
from solward.testing.canaries import STAND_IN
from solward.testing.conformance import samples
from solward.testing.conformance.report import GIVEN_IN, Finding, Outcome, errors_finding, finding
from solward.testing.conformance.watch import Watch, error_text, name_of
from solward.testing.scripted import provider_request
from solward.types.errors import InvalidRequest, ProviderError, SolwardError
from solward.types.provider import Completion, CompletionRequest, ProviderContext, ToolCall, Usage

AT_ONCE = 4
# Seconds; a provider may retry a vendor's failure a few times, with pauses.
FAILS_WITHIN_S = 60.0
ENDS_WITHIN_S = 2.0
LOOKS_S = 0.01
# Seconds; a first call may import a vendor's library.
STARTS_WITHIN_S = 60.0

CALLS_NOBODY = "declares neither a key nor an address, so it calls no server"
NO_ADDRESS = "declares no base_url_env, so the kit cannot give it a server on this machine"
NO_VENDOR = (
    "needs its vendor; give the address of a local server that speaks the vendor's protocol, as"
    f" `address`, or in {GIVEN_IN}"
)


@dataclass(slots=True)
class Subject:
    """A provider under test.

    Attributes:
        address: address of a server that answers the provider; None if there is none.
        texts: every text that it returned or raised so far.
        errors: deliberate errors that it raised.
    """

    provider: LoadedProvider
    watch: Watch
    address: str | None
    secret: str = field(default_factory=lambda: f"canary-{secrets.token_hex(16)}", repr=False)
    texts: list[str] = field(default_factory=list)
    errors: list[SolwardError] = field(default_factory=list)

    @property
    def calls_no_server(self) -> bool:
        """True if the provider calls no server."""
        spec = self.provider.spec
        return spec.secret_env is None and spec.base_url_env is None

    @property
    def can_answer(self) -> bool:
        """True if the provider can answer in this check."""
        return self.calls_no_server or self.address is not None

    def request(self, marker: str = "") -> CompletionRequest:
        """Return a request for the default model; its prompt and strategy contain the marker."""
        request = provider_request(model=self.provider.spec.default_model)
        if not marker:
            return request
        strategy = f"always do wait reason={marker}"
        return replace(request, strategy=strategy, system=f"{request.system} {marker}")

    def context(self, address: str | None) -> ProviderContext:
        """Return a context for the provider, with a canary as the secret and this address."""
        spec = self.provider.spec
        return ProviderContext(
            None if spec.secret_env is None else self.secret,
            None if spec.base_url_env is None else address,
        )

    async def complete(self, address: str | None, marker: str = "") -> Completion | BaseException:
        """Return one completion, or the exception that the provider raised."""
        try:
            answer = await self.provider.complete(self.request(marker), {}, self.context(address))
        except Exception as error:
            self.texts += [str(error), repr(error)]
            if isinstance(error, SolwardError):
                self.errors.append(error)
            return error
        self.texts.append(repr(answer))
        return answer


async def provider_findings(
    provider: LoadedProvider, watch: Watch, *, address: str | None = None, tiered: bool = False
) -> list[Finding]:
    """Return the findings of all checks of a loaded provider, in a fixed order."""
    subject = Subject(provider, watch, address)
    options = _check_options(provider)
    if options.outcome is Outcome.FAILED:
        return [options]
    found = [await check(subject) for check in (_check_answers, _check_stream, _check_concurrency)]
    # Run at the same time, because these checks mostly wait for a failing vendor.
    failing = await asyncio.gather(
        _check_refusal(subject), _check_failures(subject), _check_cancellation(subject)
    )
    beside = [errors_finding(subject.errors)] if tiered else []
    return [options, *found, *failing, _check_secrets(subject), *beside]


def _check_options(provider: LoadedProvider) -> Finding:
    try:
        base = provider.options.validate({})
    except InvalidRequest as error:
        return Finding("options", Outcome.FAILED, f"without any option: {error}")
    accepted = []
    for what, wrong in samples.invalid_params(provider.spec.options, base):
        try:
            provider.options.validate(wrong)
        except InvalidRequest:
            continue
        accepted.append(f"{what} is accepted")
    return finding("options", accepted, f"defaults: {base}" if base else "")


async def _check_answers(subject: Subject) -> Finding:
    if not subject.can_answer:
        return Finding("answers", Outcome.SKIPPED, NO_VENDOR)
    answer = await subject.complete(subject.address)
    trouble = _answer_fault(answer)
    if trouble:
        return Finding("answers", Outcome.FAILED, trouble)
    assert isinstance(answer, Completion)
    odd = list(filter(None, (_call_fault(each, subject.request()) for each in answer.tool_calls)))
    text = "text" if answer.text else ""
    calls = ", ".join(call.name for call in answer.tool_calls)
    return finding("answers", odd, " and ".join(filter(None, (text, calls))), warns=True)


async def _check_refusal(subject: Subject) -> Finding:
    name = "refused_connection"
    if subject.calls_no_server:
        return Finding(name, Outcome.OK, CALLS_NOBODY)
    if subject.provider.spec.base_url_env is None:
        return Finding(name, Outcome.SKIPPED, NO_ADDRESS)
    answer = await _with_deadline(FAILS_WITHIN_S, subject.complete(refusing_address()))
    if not isinstance(answer, ProviderError):
        return Finding(name, Outcome.FAILED, _wrong_error_text("nobody answers", answer))
    if not answer.retryable:
        detail = f"its error says that a retry is useless: {answer}"
        return Finding(name, Outcome.WARNING, detail)
    return Finding(name, Outcome.OK, str(answer))


async def _check_failures(subject: Subject) -> Finding:
    name = "vendor_failures"
    if subject.calls_no_server:
        return Finding(name, Outcome.OK, CALLS_NOBODY)
    if subject.provider.spec.base_url_env is None:
        return Finding(name, Outcome.SKIPPED, NO_ADDRESS)
    trouble = []
    for what, response in (("the key is refused", UNAUTHORIZED), ("no JSON comes", GARBAGE)):
        async with FakeVendor(response) as vendor:
            answer = await _with_deadline(FAILS_WITHIN_S, subject.complete(vendor.address))
        if not isinstance(answer, ProviderError):
            trouble.append(_wrong_error_text(what, answer))
    return finding(name, trouble, "a refused key and a broken answer raise ProviderError")


async def _check_cancellation(subject: Subject) -> Finding:
    name = "cancellation"
    if subject.provider.spec.base_url_env is None and not subject.calls_no_server:
        return Finding(name, Outcome.SKIPPED, NO_ADDRESS)
    async with FakeVendor(None) as vendor:
        task = asyncio.ensure_future(subject.complete(vendor.address))
        requested = asyncio.ensure_future(vendor.requested.wait())
        await asyncio.wait(
            {task, requested}, timeout=STARTS_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
        requested.cancel()
        if task.done():
            if isinstance(task.result(), Completion):
                return Finding(name, Outcome.OK, "ended before it could be cancelled")
            return Finding(name, Outcome.FAILED, f"did not wait for an answer: {task.result()!r}")
        if not vendor.requested.is_set():
            return Finding(name, Outcome.SKIPPED, f"did not call its address: {vendor.address}")
        task.cancel()
        await asyncio.wait({task}, timeout=ENDS_WITHIN_S)
        seen = await subject.watch.observed(vendor.address, 0)
        until = asyncio.get_running_loop().time() + ENDS_WITHIN_S
        while not seen.ended and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOKS_S)
            seen = await subject.watch.observed(vendor.address, 0)
        if not seen.ended:
            detail = f"still runs {ENDS_WITHIN_S:g} s after it was cancelled"
            return Finding(name, Outcome.FAILED, detail)
        if seen.cancelled and (seen.raised is None or not seen.raised.cancelled):
            made = seen.answer if seen.raised is None else seen.raised.type
            return Finding(name, Outcome.FAILED, f"turns its cancellation into {made}")
    return Finding(name, Outcome.OK, "cancelled in the middle, it ended at once")


async def _check_concurrency(subject: Subject) -> Finding:
    name = "concurrency"
    if not subject.can_answer:
        return Finding(name, Outcome.SKIPPED, NO_VENDOR)
    markers = [f"marker-{at}-{secrets.token_hex(4)}" for at in range(AT_ONCE)]
    answers = await asyncio.gather(*(subject.complete(subject.address, each) for each in markers))
    trouble = [trouble for answer in answers if (trouble := _answer_fault(answer))]
    for marker, answer in zip(markers, answers, strict=True):
        if any(other in repr(answer) for other in markers if other != marker):
            trouble.append("an answer belongs to another request: state is shared")
    return finding(name, trouble, f"{AT_ONCE} at once")


async def _check_stream(subject: Subject) -> Finding:
    if not subject.provider.streams:
        return Finding("stream", Outcome.OK, "not implemented; a chat's answer comes in one piece")
    if not subject.can_answer:
        return Finding("stream", Outcome.SKIPPED, NO_VENDOR)
    request = replace(subject.request(), tools=())
    pieces: list[Any] = []
    try:
        async for piece in subject.provider.stream(request, {}, subject.context(subject.address)):
            pieces.append(piece)
    except Exception as error:
        subject.texts += [str(error), repr(error)]
        return Finding("stream", Outcome.FAILED, error_text(error))
    subject.texts.append(repr(pieces))
    odd = [piece for piece in pieces if not isinstance(piece, str | Usage)]
    if odd:
        return Finding("stream", Outcome.FAILED, f"yields a {type(odd[0]).__name__}")
    if not "".join(piece for piece in pieces if isinstance(piece, str)).strip():
        return Finding("stream", Outcome.FAILED, "yields no text")
    return Finding("stream", Outcome.OK, f"{len(pieces)} pieces")


def _check_secrets(subject: Subject) -> Finding:
    # In a plugin host it has a placeholder instead of the key.
    if any(secret in text for text in subject.texts for secret in (subject.secret, STAND_IN)):
        return Finding("secrets", Outcome.FAILED, "reveals its key")
    return Finding("secrets", Outcome.OK, f"no secret in {len(subject.texts)} texts")


def _answer_fault(answer: object) -> str:
    if isinstance(answer, BaseException):
        return error_text(answer)
    if not isinstance(answer, Completion):
        return f"answers a {type(answer).__name__}, not a Completion"
    if answer.text is not None and not isinstance(answer.text, str):
        return "the answer's text is not a string"
    calls = answer.tool_calls
    if not isinstance(calls, tuple) or not all(isinstance(each, ToolCall) for each in calls):
        return "tool_calls is no tuple of ToolCall"
    if answer.usage is not None and not isinstance(answer.usage, Usage):
        return "usage is no Usage"
    return "" if answer.text or calls else "the answer has neither text nor a tool call"


def _call_fault(call: ToolCall, request: CompletionRequest) -> str | None:
    """Return why an agent could not run a tool call; None if it could. Models make such calls, but
    a provider should not."""
    tools = [each.name for each in request.tools]
    if call.name not in tools:
        return f"calls {call.name!r:.60}; the tools of the request are {', '.join(tools)}"
    given = call.arguments
    if isinstance(given, str):
        try:
            given = jsontext.read(given or "{}")
        except ValueError:
            return f"calls {call.name} with arguments that are no JSON: {call.arguments!r:.60}"
    if given is not None and not isinstance(given, Mapping):
        kind = type(given).__name__
        return f"calls {call.name} with a {kind} as arguments; an object is expected"
    return None


def _wrong_error_text(what: str, answer: object) -> str:
    if isinstance(answer, BaseException):
        return f"raises {name_of(answer)}, not ProviderError, if {what}"
    return f"answers even if {what}"


async def _with_deadline(seconds: float, work: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        return error


def http_response(status: str, kind: str, body: str) -> bytes:
    """Return a whole HTTP response that ends the connection."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


UNAUTHORIZED = http_response(
    "401 Unauthorized", "application/json", '{"error": {"message": "invalid key"}}'
)
GARBAGE = http_response("200 OK", "text/html", "<html>Welcome!</html>")


class FakeVendor:
    """A server that answers every request with the same response, or never if it is None.

    Attributes:
        requested: set by the first request.
    """

    def __init__(self, response: bytes | None) -> None:
        self.requested = asyncio.Event()
        self.address = ""
        self._response = response
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> FakeVendor:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        # Since Python 3.12.1 this waits for open connections too, which are closed above.
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                self.requested.set()
                if self._response is None:
                    await reader.read()
                else:
                    writer.write(self._response)
                    await writer.drain()
                    # Closing with the request's body unread would reset the connection.
                    async with asyncio.timeout(1):
                        while await reader.read(65_536):
                            pass
        except TimeoutError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


def refusing_address() -> str:
    """Return a local address that refuses connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
