"""Curves as an SVG picture: logarithmic on both axes, each named at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 270, 50, 50
# Okabe and Ito's, which people with other colour vision tell apart too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Least height of a name, so that none covers another.
_LINE = 16


def curves(
    title: str, unit: str, at: Sequence[int], lines: Mapping[str, Sequence[float]], of: str
) -> str:
    """The picture's text.

    Args:
        unit: of the values, beside their axis.
        at: where the values are, ascending.
        lines: name -> a value above 0 for each of `at`, or for the first few.
        of: what `at` counts, below its axis.
    """
    values = [value for line in lines.values() for value in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(at[0]), math.log10(at[-1])

    def x(count: float) -> float:
        return _LEFT + (math.log10(count) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        whole = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - (math.log10(value) - low) / (high - low) * whole

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="42">{escape(unit)}</text>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">'
        f"{escape(of)}</text>",
    ]
    for power in range(low, high + 1):
        height = y(10.0**power)
        parts += [
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"'
            ' stroke="#ddd"/>',
            f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{10.0**power:g}</text>',
        ]
    for count in at:
        parts.append(
            f'<text x="{x(count):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{count:,}</text>"
        )
    lowest = 0.0
    for number, (name, line) in enumerate(sorted(lines.items(), key=lambda each: -each[1][-1])):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = "" if number < len(_COLOURS) else ' stroke-dasharray="6 3"'
        points = [(x(count), y(value)) for count, value in zip(at, line, strict=False)]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        parts += [
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="2.5" fill="{colour}"/>'
            for left, top in points
        ]
        lowest = max(points[-1][1] + 4, lowest + _LINE)
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 10}" y="{lowest:.1f}" fill="{colour}">'
            f"{escape(name)}: {line[-1]:.3g}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])
