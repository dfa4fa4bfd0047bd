"""`GET /openapi.json`: valid, complete, and true of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from tests.promises import promise
from tests.support.services import Api, Described, serving_api, target

from solward import SkillSpec
from solward.notify.webhook import REFUSALS
from solward.plugins import load_registry
from solward.plugins.schema import checked_schema
from solward_server.http.auth import ADMIN_REQUIRED, KEY_INVALID, KEY_REQUIRED, Access, rule_of
from solward_server.http.body import NOT_JSON
from solward_server.openapi.route import SECURITY
from solward_server.resources import PREFIX
from solward_server.resources.openapi import describe, lowest_roles

Operation = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return describe(load_registry(("*",), demo=True), PREFIX)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def media(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every JSON body and answer, with where it stands."""
    for path, method, operation in operations(document):
        bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
        for name, body in bodies.items():
            for kind, found in target(document, body).get("content", {}).items():
                if kind == "application/json":
                    yield f"{method} {path} {name}", found


def test_it_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    validate(document)


@promise("public-routes")
async def test_it_describes_every_route_with_its_credential_and_no_other(api: Api) -> None:
    served: dict[str, set[str]] = {}
    security = {}
    for rule in api.app.url_map.iter_rules():
        path = re.sub(r"<(\w+?)(_id)?>", lambda m: "{" + m[1] + ("Id" if m[2] else "") + "}",
                      rule.rule)  # fmt: skip
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            served.setdefault(path, set()).add(method.lower())
            security[path, method.lower()] = SECURITY[
                rule_of(api.app.view_functions[rule.endpoint]).access
            ]
    document = (await api.get("/openapi.json")).json
    for path, method, operation in operations(document):
        generic = re.sub(r"/skills/\w+$", "/skills/{name}", path)
        assert security[generic, method] == operation["security"], path
    shown = {re.sub(r"(/wallets/.*/skills)/\w+$", r"\1/{name}", path): set(methods)
             for path, methods in document["paths"].items()}  # fmt: skip
    assert shown == served


async def test_each_loaded_skill_has_a_path_with_its_own_schema(api: Api) -> None:
    document = (await api.get("/openapi.json")).json
    skills = (await api.get("/skills")).json["skills"]
    assert len(skills) >= 17
    for skill in skills:
        path = f"{PREFIX}/wallets/{{walletId}}/skills/{skill['name']}"
        operation = document["paths"][path]["post"]
        shown = operation["requestBody"]["content"]["application/json"]["schema"]
        assert shown == skill["parameters"]
        taken = [target(document, each) for each in operation["parameters"]]
        headers = {each["name"] for each in taken if each["in"] == "header"}
        assert headers == ({"Idempotency-Key"} if skill["effects"] == "spend" else set())


@pytest.mark.more
def test_a_third_partys_skill_and_provider_are_described_too() -> None:
    loaded = load_registry(("*",))
    schema = {
        "type": "object",
        "properties": {"tip": {"type": "integer"}},
        "required": ["tip"],
        "additionalProperties": False,
    }
    spec = SkillSpec(name="tip_jar", description="Tips.", parameters=schema)
    theirs = replace(loaded.skills["wait"], spec=spec, distribution="tip-jar", version="2.0")
    registry = replace(
        loaded,
        skills={**loaded.skills, "tip_jar": theirs},
        providers={**loaded.providers, "llama": loaded.providers["openai"]},
    )
    document = describe(registry, PREFIX)
    validate(document)
    path = document["paths"][f"{PREFIX}/wallets/{{walletId}}/skills/tip_jar"]["post"]
    assert path["requestBody"]["content"]["application/json"] == {"schema": schema}
    assert "tip-jar" in path["summary"]
    agents = document["paths"][f"{PREFIX}/agents"]["post"]["requestBody"]["content"]
    provider = agents["application/json"]["schema"]["properties"]["llmProvider"]
    assert {"llama", "openai", None} <= set(provider["enum"])
    # What one service has loaded is not shown by another.
    assert f"{PREFIX}/wallets/{{walletId}}/skills/tip_jar" not in describe(loaded, PREFIX)["paths"]


@promise("description-fits-generators")
def test_every_example_fits_its_schema_and_every_body_has_one() -> None:
    """Defaults too; of bodies, answers, parameters, headers and schemas."""
    for document in described_variants():
        registry = Registry().with_resource("urn:d", Resource(document, DRAFT202012))
        for where, found in media(document):
            # The protocol's own messages have one in the body alone.
            assert {"example", "examples"} & found.keys() or "/mcp " in where, where
        found = list(examples_of(document))
        assert len(found) > 500
        for where, schema, example in found:
            validator = Draft202012Validator(
                {"$id": "urn:d:example"} | _absolute(schema),
                registry=registry,
                format_checker=Draft202012Validator.FORMAT_CHECKER,
            )
            assert [error.message for error in validator.iter_errors(example)] == [], where


def described_variants() -> Iterator[dict[str, Any]]:
    """The documents of a demo, of a service, of one without plugins, and of one with others'."""
    loaded = load_registry(("*",))
    yield describe(load_registry(("*",), demo=True), PREFIX)
    yield describe(loaded, PREFIX)
    yield describe(replace(loaded, skills={}, providers={}), PREFIX)
    spec = SkillSpec(name="tip_jar", description="Tips.", parameters=checked_schema(ODD))
    theirs = replace(loaded.skills["wait"], spec=spec, distribution="tip-jar")
    only_theirs = {"llama": loaded.providers["openai"]}
    yield describe(replace(loaded, skills={"tip_jar": theirs}, providers=only_theirs), PREFIX)


PAIR = {
    "type": "array",
    "prefixItems": [{"type": "string"}, {"type": "integer"}],
    "items": False,
    "contains": True,
}
# A schema that a plugin may have; its fields are named as keywords are.
ODD = {
    "type": "object",
    "properties": {
        "pair": PAIR,
        "not": {"anyOf": [PAIR, {"type": "null"}], "not": False},
        "items": {"type": "boolean", "default": True, "enum": [True], "if": True, "else": False},
        "default": {"type": "object", "properties": {"in": PAIR}, "additionalProperties": False},
    },
    "propertyNames": True,
    "additionalProperties": False,
}


def examples_of(node: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every example and default below a node of the document, with where it is and its schema."""
    if isinstance(node, list):
        for number, each in enumerate(node):
            yield from examples_of(each, f"{where}/{number}")
    if not isinstance(node, dict):
        return
    is_schema = isinstance(node.get("type"), str | list) and "in" not in node
    schema = node if is_schema else node.get("schema")
    if isinstance(schema, dict):
        named = node.get("examples", {})
        several = named if isinstance(named, list) else [each["value"] for each in named.values()]
        for name in ("example", "default"):
            several = [*several, *([node[name]] if name in node else [])]
        for each in several:
            yield where, schema, each
    for name, each in node.items():
        if name not in ("example", "examples", "default") or where.endswith("/properties"):
            yield from examples_of(each, f"{where}/{name}")


@promise("description-fits-generators")
def test_no_schema_is_a_boolean_and_the_document_says_where_the_service_is() -> None:
    for document in described_variants():
        assert document["servers"][0]["url"] == "/"
        for schema in schemas_of(document):
            assert isinstance(schema, dict)
    # The last has a plugin's schemas.
    validate(document)


ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames")
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs")


def schemas_of(node: Any, *, is_schema: bool = False) -> Iterator[Any]:
    """Every schema of the document but `additionalProperties`, which may be true or false."""
    if is_schema:
        yield node
        if isinstance(node, dict):
            below = [node[name] for name in ONE if name in node]
            below += [each for name in SEVERAL for each in node.get(name, ())]
            below += [each for name in NAMED for each in node.get(name, {}).values()]
            if isinstance(node.get("additionalProperties"), dict):
                below.append(node["additionalProperties"])
            for each in below:
                yield from schemas_of(each, is_schema=True)
    elif isinstance(node, list):
        for each in node:
            yield from schemas_of(each)
    elif isinstance(node, dict):
        for name, each in node.items():
            if name == "schemas":
                for schema in each.values():
                    yield from schemas_of(schema, is_schema=True)
            elif name not in ("example", "examples"):
                yield from schemas_of(each, is_schema=name == "schema")


def _absolute(schema: Any) -> Any:
    """The schema with references that hold outside its document."""
    if isinstance(schema, list):
        return [_absolute(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: "urn:d" + value if name == "$ref" else _absolute(value)
        for name, value in schema.items()
    }


def test_every_answer_is_closed_but_where_its_fields_are_others(document: dict[str, Any]) -> None:
    """A field that is added without being described turns the server's tests red."""
    open_ones = {
        "details", "data", "parameters", "options", "llmOptions", "recentTransactions",
    }  # fmt: skip

    def walk(schema: Any, name: str, where: str) -> None:
        if isinstance(schema, list):
            for each in schema:
                walk(each, name, where)
        elif isinstance(schema, dict):
            if schema.get("type") == "object" and name not in open_ones:
                assert "additionalProperties" in schema, (where, name)
            for key, value in schema.get("properties", {}).items():
                walk(value, key, where)
            for key in ("items", "oneOf", "anyOf"):
                walk(schema.get(key), name, where)

    for name, schema in document["components"]["schemas"].items():
        walk(schema, name, "components")
    for where, found in media(document):
        if not where.endswith("body") and "mcp" not in where and "openapi.json" not in where:
            walk(found["schema"], where, where)


def test_every_operation_says_what_refuses_it(document: dict[str, Any]) -> None:
    ids, tags = set(), {tag["name"] for tag in document["tags"]}
    for path, method, operation in operations(document):
        assert operation["operationId"] not in ids
        ids.add(operation["operationId"])
        assert set(operation["tags"]) <= tags, path
        assert operation["summary"], path
        answers = operation["responses"]
        if operation["security"] == []:
            assert "401" not in answers
            continue
        examples = target(document, answers["401"])["content"]["application/json"][
            "examples"
        ].values()
        texts = {each["value"]["error"] for each in examples}
        refused = {
            1: set(),
            2: {ADMIN_REQUIRED},
            3: {KEY_REQUIRED, KEY_INVALID},
        }[len(operation["security"])]
        if operation["security"] == SECURITY[Access.SIGNED]:
            refused = {*REFUSALS.values()}
        assert texts == refused, path
        assert "500" in answers
        assert ("404" in answers) >= ("{" in path and path != "/mcp"), path
        # `OPTIONAL` bodies are read, and refused, as well.
        if "requestBody" in operation:
            assert {"400", "413"} <= answers.keys(), (method, path)


def test_fields_and_parts_of_paths_say_how_they_are_refused(document: dict[str, Any]) -> None:
    def texts(method: str, path: str, status: str) -> list[str]:
        answer = target(document, document["paths"][PREFIX + path][method]["responses"][status])
        examples = answer["content"]["application/json"]["examples"].values()
        return [each["value"]["error"] for each in examples]

    assert texts("post", "/admins", "400") == [
        "name is required and must be a string",
        "name must be 1 to 64 letters, digits and ._@-, and begin with a letter or a digit",
        "role is required and must be a string",
        "role must be one of read, operate, policy",
        "expiresAt must be an ISO 8601 time with its zone, such as 2026-12-31T00:00:00Z",
        NOT_JSON,
    ]
    runs = "/wallets/{walletId}/schedules/{scheduleId}/runs"
    assert texts("get", runs, "400")[:2] == [
        "limit must be a whole number from 1 to 200",
        "before must be the dueAt of a run",
    ]
    assert texts("get", runs, "404") == ["Schedule not found", "Wallet not found"]
    # A text of a query is never of another kind.
    assert texts("delete", "/wallets/{walletId}/plugins/{plugin}/store", "400")[0] == (
        "key is required"
    )


async def test_it_is_public_and_served_as_it_is_made(api: Api) -> None:
    answer = await api.get("/openapi.json", token=None)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    document = json.loads(answer.text)
    assert document == describe(api.service.live.registry, PREFIX, lowest_roles(api.app))
    for path, method, operation in operations(document):
        roled = SECURITY[Access.ADMIN][-1] in operation["security"]
        assert ("x-least-role" in operation) == roled, (method, path)
        assert ("403" in operation["responses"]) >= roled, (method, path)


@pytest.mark.more
async def test_services_with_different_plugins_serve_different_documents(
    api: Api, tmp_path: Path
) -> None:
    path = f"{PREFIX}/wallets/{{walletId}}/skills/wait"

    async def served(each: Api) -> Any:
        return json.loads((await each.get("/openapi.json")).text)

    loaded = api.service.live.registry
    wait = loaded.skills["wait"]
    other = replace(wait, spec=replace(wait.spec, description="Sit still."))
    assert (await served(api))["paths"][path]["post"]["description"] != "Sit still."
    async with serving_api(tmp_path / "demo", demo=True) as demo:
        document = await served(demo)
        assert document == describe(demo.service.live.registry, PREFIX, lowest_roles(demo.app))
        assert document != await served(api)
    async with serving_api(tmp_path / "same") as same:
        assert await served(same) == await served(api)
        same.service.live.registry = replace(loaded, skills={**loaded.skills, "wait": other})
        assert (await served(same))["paths"][path]["post"]["description"] == "Sit still."
    assert (await served(api))["paths"][path]["post"]["description"] == wait.spec.description


TAGGED = '{"id":"e05136c2-0095-4472-9b84-19b9e354eeee","name":"a",' \
    '"publicKey":"Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh",' \
    '"createdAt":"2026-11-21T10:34:55.152Z","tags":[]}'  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "text", "said"),
    [
        ("GET", "/wallets/x", None, 200, TAGGED, None),
        ("GET", "/wallets/x", None, 200, TAGGED.replace("[]", '[],"more":1'), "'more'"),
        ("GET", "/wallets/x", None, 200, TAGGED.replace(',"tags":[]', ""), "'tags' is a required"),
        ("GET", "/wallets/x", None, 200, TAGGED.replace("[]", '"none"'), "not of type 'array'"),
        ("GET", "/wallets/x", None, 200, TAGGED.replace("2026-", "26-"), "does not match"),
        ("GET", "/wallets/x", None, 200, TAGGED.replace("e0513", "zzzzz"), "is not a 'uuid'"),
        ("GET", "/wallets/x", None, 418, '{"error":"tea"}', "418 is not described"),
        ("GET", "/wallets/x", None, 404, '{"error":"a","code":1}', "'code' was unexpected"),
        ("GET", "/brew", None, 200, "{}", "is not described"),
        ("GET", "/brew", None, 404, "{}", None),
        ("PATCH", "/wallets/x", b'{"tags":5}', 200, TAGGED, "a request that went well"),
        ("PATCH", "/wallets/x", b'{"tags":["a"]}', 200, TAGGED, None),
    ],
)
def test_the_check_of_every_answer_can_fail(
    document: dict[str, Any],
    method: str,
    path: str,
    sent: bytes | None,
    status: int,
    text: str,
    said: str | None,
) -> None:
    checked = Described(document)
    call = (method, PREFIX + path, sent, status, "application/json", text)
    if said is None:
        checked.check(*call)
    else:
        with pytest.raises(AssertionError, match=re.escape(said)):
            checked.check(*call)
