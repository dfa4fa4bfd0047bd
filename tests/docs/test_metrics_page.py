"""docs/reference/metrics.md lists every metric; the alert rules name only what exists."""

from __future__ import annotations

import re

import yaml
from tests.support.repository import ROOT

from solward.audit.alerts import BLOCKS, BLOCKS_WITHIN_MS, Alert
from solward.notify.alerts import EVENTS, LOOK_S, MOST_LINES, MOST_TEXT
from solward.support.durations import MINUTE_MS
from solward.telemetry import metrics

PAGE = (ROOT / "docs" / "reference/metrics.md").read_text()
RULES = (ROOT / "deploy" / "prometheus-alerts.yml").read_text()
OURS = [
    each
    for each in vars(metrics).values()
    if hasattr(each, "describe") and hasattr(each, "_labelnames") and not each._labelvalues
]


def name_of(metric: object) -> str:
    (family,) = metric.describe()  # type: ignore[attr-defined]
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def test_every_metric_is_documented_with_its_kind_and_labels_and_no_other() -> None:
    rows = re.findall(r"^\| `(solward_\w+)` \| (\w+)(?: †)? \|([^|]*)\| .+ \|$", PAGE, re.MULTILINE)
    documented = {name: (kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows}
    made = {
        name_of(metric): (metric.describe()[0].type, list(metric._labelnames)) for metric in OURS
    }
    assert len(rows) == len(documented)
    assert documented == made


def test_every_metric_is_in_the_registry_of_its_own() -> None:
    exposed = metrics.render()[0].decode()
    for metric in OURS:
        assert f"# TYPE {name_of(metric)} " in exposed


def test_the_alert_rules_are_rules_and_name_only_metrics_that_exist() -> None:
    known = {"up"}
    for metric in OURS:
        name = name_of(metric)
        known |= {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    rules = [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        named = set(re.findall(r"\b(solward_\w+|up)\b", rule["expr"]))
        assert named, rule["alert"]
        assert named <= known, rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_alert_is_documented_with_its_numbers() -> None:
    section = PAGE.partition("\n## Alerts\n")[2].partition("\n### ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(Alert)
    assert f"{BLOCKS} transactions" in section
    assert f"within {BLOCKS_WITHIN_MS // MINUTE_MS} minutes" in section
    for alert in Alert:
        assert alert in RULES


def test_every_event_that_the_alerts_webhook_tells_is_documented_and_no_other() -> None:
    section = PAGE.partition("\n### Alerts by webhook\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`([\w:]+)`", " ".join(rows))) == sorted(EVENTS)
    assert f"{MOST_LINES} lines" in section
    assert f"{MOST_TEXT} characters" in section
    assert f"every {LOOK_S:.0f} seconds" in PAGE
