"""Writes the table of docs/reference/metrics.md: each metric as it is declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics import MetricWrapperBase

from solward.telemetry import metrics
from solward_server.resources import metrics as scrape

# The gauges that a scrape reads from the database or the ledger.
_READ: Final = frozenset(re.findall(r"metrics\.([A-Z_]+)", inspect.getsource(scrape)))


def table(_page: str) -> Iterator[str]:
    """Yields the table's lines, one metric each."""
    yield "| metric | kind | labels | what |"
    yield "|---|---|---|---|"
    for name, each in vars(metrics).items():
        if isinstance(each, MetricWrapperBase) and not each._labelvalues:
            (family,) = each.describe()
            full = f"{family.name}_total" if family.type == "counter" else family.name
            kind = f"{family.type} †" if name in _READ else family.type
            labels = ", ".join(f"`{label}`" for label in each._labelnames)
            yield f"| `{full}` | {kind} | {labels} | {family.documentation} |"
