"""docs/reference/metrics.md lists every line that the service logs, as the source has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from tests.support.repository import ROOT

from solward.database import outbox
from solward.service.retention import RetentionResult
from solward.types.events import Event

PAGE = (ROOT / "docs" / "reference/metrics.md").read_text()
SECTION = PAGE.partition("\n## Log lines\n")[2]
# A part begins with the level of its lines; those that are marked may be errors too.
PART = re.compile(r"^### [^\n]+\n\nLevel `(\w+)`(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)`( §)? \| (.*?)\| (.+) \|$", re.MULTILINE)

LEVELS = {name: name for name in ("debug", "info", "warning", "error", "critical")}
LEVELS["exception"] = "error"

_RECORD = dict.fromkeys(
    ("id", "walletId", "agentId", "principal", "type", "status", "signature", "error"), "x"
)
RECORD_FIELDS = {*outbox._log_fields(Event(1, 1, "transaction:failed", _RECORD, "a trace"))}
ALERT_FIELDS = {"alert", "walletId", "transactionId", "principal", "detail"}
# Names and fields that are made when the line is written.
NAMES = {
    "line": {*outbox._LINES.values()},
    "f'plugin_request_{outcome}'": {"plugin_request_failed", "plugin_request_refused"},
}
FIELDS = {
    "**_log_fields(event)": RECORD_FIELDS,
    "**event.data": ALERT_FIELDS,
    "**asdict(found)": {field.name for field in fields(RetentionResult)},
    # Bound around the line.
    "**fields": set(),
}

Lines = dict[str, tuple[set[str], set[str]]]


def logged(source: str) -> Iterator[tuple[set[str], str, set[str]]]:
    """Names, level and fields of each line that a module writes by structlog."""
    if "structlog.get_logger" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in LEVELS or ast.unparse(node.func.value) != "_log":
            continue
        (given,) = node.args
        constant = isinstance(given, ast.Constant)
        names = {str(given.value)} if constant else NAMES[ast.unparse(given)]
        found: set[str] = set()
        for each in node.keywords:
            found |= {each.arg} if each.arg else FIELDS[f"**{ast.unparse(each.value)}"]
        yield names, LEVELS[node.func.attr], found


def written() -> Lines:
    lines: Lines = {}
    modules = [
        path
        for folder in ("framework/solward", "plugins", "server")
        for path in sorted(Path(ROOT / folder).rglob("*.py"))
    ]
    for path in modules:
        for names, level, found in logged(path.read_text()):
            for name in names:
                levels, known = lines.setdefault(name, (set(), set()))
                levels.add(level)
                known |= found
    return lines


def test_every_line_is_documented_with_its_levels_and_fields_and_no_other() -> None:
    documented: Lines = {}
    rows = 0
    for level, part in PART.findall(SECTION):
        found = ROW.findall(part)
        assert [name for name, *_ in found] == sorted(name for name, *_ in found)
        rows += len(found)
        for name, marked, shown, _ in found:
            levels = {level, "error"} if marked else {level}
            documented[name] = (levels, {*re.findall(r"`(\w+)`", shown)})
    assert rows == len(documented)
    assert documented == written()


def test_the_scan_finds_what_is_written_by_whatever_level() -> None:
    source = (
        "_log = structlog.get_logger(__name__)\n"
        "_log.exception('it_failed', one=1)\n"
        "_log.info(line, **_log_fields(event))\n"
    )
    assert list(logged(source)) == [
        ({"it_failed"}, "error", {"one"}),
        ({*outbox._LINES.values()}, "info", RECORD_FIELDS),
    ]
