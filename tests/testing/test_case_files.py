"""What a project's `checks/*.json` say a venue, a protocol or a provider is checked with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from solward.testing.conformance.cases import read_cases
from solward.types.errors import InvalidRequest
from solward_cli import main
from solward_cli.plugins import KINDS, create

REQUEST = {"inputMint": "a", "outputMint": "b", "amount": 1, "slippageBps": 50}
ANSWER = {"url": "https://a.example/", "status": 402, "headers": [["Price", "1"]], "body": "é"}


def check(*arguments: str, status: int = 0) -> dict[str, str]:
    """check -> outcome of a project's only plugin."""
    result: Result = CliRunner().invoke(main, ["plugins", "check", *arguments, "--json"])
    assert result.exit_code == status, result.output
    [plugin] = json.loads(result.stdout)["plugins"]
    return {each["check"]: each["outcome"] for each in plugin["findings"]} | {
        "tier": plugin["tier"]
    }


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_of_each_kind_is_checked_whole_by_one_command(
    tmp_path: Path, kind: str
) -> None:
    project = tmp_path / f"new_{kind}"
    create(f"new_{kind}", KINDS[kind], project)
    result = CliRunner().invoke(main, ["plugins", "check", str(project), "--json"])
    assert result.exit_code == 0, result.output
    for plugin in json.loads(result.stdout)["plugins"]:
        skipped = [each["check"] for each in plugin["findings"] if each["outcome"] == "skipped"]
        assert (skipped, plugin["tier"]) == (["wheels"], "gold"), plugin


@pytest.mark.more
def test_a_protocol_that_reads_another_amount_is_told_both(tmp_path: Path) -> None:
    project = tmp_path / "toll"
    create("toll", KINDS["payment"], project)
    module = project / "src" / "toll" / "payment.py"
    module.write_text(module.read_text().replace("units=read_units", "units=2 * read_units"))
    result = CliRunner().invoke(main, ["plugins", "check", str(project)])
    assert result.exit_code == 1
    assert "answers[0]: payment_offers must return 10000 units of 4zMMC" in result.output
    assert "it returned 20000 units of 4zMMC" in result.output


@pytest.mark.more
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('ToolCall("no_such", {})', "calls 'no_such'; the tools of the request are wait, transfer"),
        ('ToolCall("wait", "{")', "calls wait with arguments that are no JSON: '{'"),
        ('ToolCall("wait", ["x"])', "calls wait with a list as arguments; an object is expected"),
    ],
    ids=["unknown", "no_json", "list"],
)
def test_a_provider_whose_calls_nobody_can_carry_out_is_warned(
    tmp_path: Path, call: str, said: str
) -> None:
    project = tmp_path / "pacer"
    create("pacer", KINDS["provider"], project)
    module = project / "src" / "pacer" / "provider.py"
    module.write_text(module.read_text().replace("ToolCall(skill, {})", call))
    result = CliRunner().invoke(main, ["plugins", "check", str(project)])
    assert result.exit_code == 0, result.output
    assert said in result.output
    assert "warning  answers" in result.output


@pytest.mark.more
def test_a_protocol_that_breaks_its_case_fails_by_the_case(tmp_path: Path) -> None:
    project = tmp_path / "toll"
    create("toll", KINDS["payment"], project)
    given = project / "checks" / "payment.json"
    cases = json.loads(given.read_text())
    cases["answers"].append({"url": "https://a.example/", "status": 402, "headers": []})
    given.write_text(json.dumps(cases))
    assert check(str(project), status=1)["offers"] == "failed"
    given.unlink()
    assert check(str(project))["offers"] == "skipped"
    other = tmp_path / "cases.json"
    del cases["answers"][1]
    other.write_text(json.dumps(cases))
    assert check(str(project), "--cases", str(other))["offers"] == "ok"


@pytest.mark.more
def test_cases_of_another_plugin_are_refused(tmp_path: Path) -> None:
    create("toll", KINDS["payment"], tmp_path / "toll")
    (tmp_path / "cases.json").write_text('{"kind": "venue", "plugin": "toll"}')
    arguments = [
        "plugins",
        "check",
        str(tmp_path / "toll"),
        "--cases",
        str(tmp_path / "cases.json"),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code != 0
    assert "the cases are for the venue 'toll', which is not checked" in result.output


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("rule", {}, "kind must be one of payment, provider, skill, venue; got 'rule'"),
        ("skill", {"cases": []}, "cases is not a field of a skill's cases; use settings"),
        ("skill", {"settings": []}, "settings must be an object"),
        (
            "venue",
            {"answers": []},
            "answers is not a field of a venue's cases; use pools, requests",
        ),
        ("venue", {"plugin": 5}, "plugin must be a text"),
        ("venue", {"pools": "a"}, "pools must be a list"),
        ("venue", {"pools": [1]}, "pools[0] must be a text"),
        ("venue", {"requests": [1]}, "requests[0] must be an object"),
        ("venue", {"requests": [{**REQUEST, "amount": 1.5}]},
         "requests[0].amount must be a whole number of at least 0"),
        ("venue", {"requests": [{**REQUEST, "outputMint": None}]},
         "requests[0].outputMint must be a text"),
        ("payment", {"answers": [{**ANSWER, "headers": [["a"]]}]},
         "answers[0].headers must be a list of pairs of texts"),
        ("payment", {"answers": [{**ANSWER, "offers": [{"asset": "a", "units": "1"}]}]},
         "answers[0].offers[0].units must be a whole number of at least 0"),
        ("payment", {"receipts": [{**ANSWER, "status": True}]},
         "receipts[0].status must be a whole number of at least 0"),
        ("provider", {"address": "https://api.example.com"},
         "address must be on this machine, such as http://127.0.0.1:8080"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(
    tmp_path: Path, kind: str, fields: dict[str, Any], said: str
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"plugin": "toll", "kind": kind} | fields))
    with pytest.raises(InvalidRequest) as refused:
        read_cases(path)
    assert str(refused.value) == f"{path}: {said}"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a": 1, "a": 2}', "[]"])
def test_what_is_no_file_of_cases_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=r"cases\.json"):
        read_cases(path)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_cases(tmp_path / "none.json")


def test_the_values_of_a_file_are_those_that_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"plugin": "toll", "kind": "payment", "answers": [ANSWER]}))
    [answer] = read_cases(path).given["cases"].answers
    assert (answer.status, answer.method, answer.header("price")) == (402, "GET", "1")
    assert answer.body == "é".encode()
