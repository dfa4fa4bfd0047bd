"""Holds every answer, and every request that went well, to the service's own description."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

from jsonschema import Draft202012Validator, FormatChecker
from quart import Quart
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from solward.service.service import Solward
from solward_server.resources import PREFIX
from solward_server.resources.openapi import describe, described_by

_DOCUMENT = "urn:solward"
_FORMATS = FormatChecker(["uuid"])
# What is not described is no route, or not with this method.
_NO_ROUTE = {404, 405}


class Described:
    """One description, and what has to be true of it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        resource = Resource(document, DRAFT202012)
        self._registry = Registry().with_resource(_DOCUMENT, resource)
        self._validators: dict[str, Draft202012Validator] = {}
        # Templates last: a skill's own path is the more exact one.
        self._paths = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(path))), path)
            for path in sorted(document["paths"], key=lambda path: path.count("{"))
        ]

    def template(self, path: str) -> str | None:
        """The described path that this one fits."""
        path = path.partition("?")[0]
        return next((known for pattern, known in self._paths if pattern.fullmatch(path)), None)

    def check(
        self, method: str, path: str, sent: bytes | None, status: int, kind: str, text: str
    ) -> None:
        """Fail where an answer, or a request that was accepted, is not as described."""
        if method in ("HEAD", "OPTIONS") or status == 204:
            return
        template = self.template(path)
        operation = self.document["paths"].get(template, {}).get(method.lower())
        if operation is None:
            assert status in _NO_ROUTE, f"{method} {path} answers {status} and is not described"
            return
        where = f"{method} {template}"
        response = operation["responses"].get(str(status))
        assert response is not None, f"{where}: {status} is not described: {text[:300]}"
        if status == 304:
            assert not text, f"{where}: 304 has a body"
            return
        shared = response.get("$ref")
        response = target(self.document, response)
        kind = kind.partition(";")[0]
        assert kind in response["content"], f"{where}: {status} as {kind} is not described"
        if kind != "application/json":
            return
        pointer = f"#/paths/{_escaped(template)}/{method.lower()}"
        answer = f"{shared or f'{pointer}/responses/{status}'}/content/{_escaped(kind)}/schema"
        self._validate(answer, text, f"{where}: the answer {status}")
        if status == 200 and "requestBody" in operation and "dryRun" not in path:
            asked = f"{pointer}/requestBody/content/{_escaped(kind)}/schema"
            body = (sent or b"").decode().strip() or "{}"
            self._validate(asked, body, f"{where}: a request that went well")

    def _validate(self, pointer: str, text: str, what: str) -> None:
        validator = self._validators.get(pointer)
        if validator is None:
            schema = {"$ref": _DOCUMENT + pointer}
            validator = Draft202012Validator(
                schema, registry=self._registry, format_checker=_FORMATS
            )
            self._validators[pointer] = validator
        for error in validator.iter_errors(json.loads(text)):
            reasons = "; ".join(part.message for part in error.context or ())
            raise AssertionError(f"{what}: {error.json_path}: {error.message} {reasons}\n{text}")


def target(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """What a reference into the document's components refers to; anything else as it is."""
    if "$ref" not in node:
        return node
    _, _, kind, name = node["$ref"].split("/")
    found: dict[str, Any] = document["components"][kind][name]
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


_OF_APP: WeakKeyDictionary[Quart, Described] = WeakKeyDictionary()
_OF_PLUGINS: dict[Hashable, Described] = {}


def described(app: Quart, service: Solward) -> Described:
    """The description of an application, made once for the same plugins."""
    if app not in _OF_APP:
        plugins = described_by(service.registry)
        if plugins not in _OF_PLUGINS:
            _OF_PLUGINS[plugins] = Described(describe(service.registry, PREFIX))
        _OF_APP[app] = _OF_PLUGINS[plugins]
    return _OF_APP[app]
