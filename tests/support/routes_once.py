"""Compiles routes once a process; each test's application has the same ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from unittest import mock

from werkzeug.routing import PathConverter, Rule, UnicodeConverter

_compile = Rule.compile

# What they make of a part of a path depends on neither their arguments nor their map.
_PLAIN = {UnicodeConverter, PathConverter}


@contextmanager
def compiled_once() -> Iterator[None]:
    """Reuse what Werkzeug compiled for a rule of the same text, until the block ends.

    An application has 100 rules, and compiling them takes a third of opening a service.
    """
    made: dict[Hashable, Rule] = {}

    def compile_or_reuse(self: Rule) -> None:
        # The rule's text names its variables' converters.
        key = (self.rule, self.merge_slashes, self.subdomain, self.host)
        like = made.get(key)
        if like is None or self.defaults:
            _compile(self)
            if not self.defaults and {*map(type, self._converters.values())} <= _PLAIN:
                made[key] = self
            return
        self.arguments |= like.arguments
        self._parts, self._trace = like._parts, like._trace
        self._converters = like._converters
        self._build = like._build.__func__.__get__(self)  # type: ignore[attr-defined]
        self._build_unknown = like._build_unknown.__func__.__get__(self)  # type: ignore[attr-defined]

    with mock.patch.object(Rule, "compile", compile_or_reuse):
        yield
