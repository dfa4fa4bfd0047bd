"""A person without a mouse: keys go to what has the focus, which is looked at after each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from tests.support.browser import Browser

# A page has fewer things to stop at.
_MOST_STOPS = 250
# What has the focus: its name without the names of icons' glyphs, where it is, and the ring around
# it with the contrast to what is behind that.
_LOOK = """
let each = document.activeElement;
if (!each || each === document.body) return null;
// Of a button that was clicked, a part has it.
each = each.matches(".q-focus-helper") ? each.closest("[tabindex='0']") : each;
const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const over = (top, below) => { const a = top[3] ?? 1;
    return top.slice(0, 3).map((c, at) => c * a + below[at] * (1 - a)); };
const behind = node => {
    const layers = [];
    for (; node; node = node.parentElement) {
        const colour = numbers(getComputedStyle(node).backgroundColor);
        layers.push(colour);
        if ((colour[3] ?? 1) === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
const ringed = each.closest(".q-field")?.querySelector(".q-field__control")
    ?? (each.matches(".q-dialog__inner") ? each.firstElementChild : each);
// As it is once it has faded in.
for (const one of [each, ringed])
    for (const fade of one.getAnimations()) if (fade instanceof CSSTransition) fade.finish();
const ring = [each, ringed].map(one => [one, getComputedStyle(one)])
    .find(([, style]) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
let contrast = 0;
if (ring) {
    const inside = parseFloat(ring[1].outlineOffset) < 0;
    const back = behind(inside ? ring[0] : ring[0].parentElement);
    const [a, b] = [over(numbers(ring[1].outlineColor), back), back].map(luminance);
    contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
const text = each.cloneNode(true);
text.querySelectorAll(".q-icon").forEach(icon => icon.remove());
const named = each.getAttribute("aria-label") || text.textContent.replace(/\\s+/g, " ").trim()
    || each.labels?.[0]?.textContent || "";
const box = each.getBoundingClientRect();
const header = each.closest(".sw-header, .q-dialog, .q-drawer, .q-menu, .nicegui-skip-link") ? 0
    : document.querySelector(".sw-header")?.getBoundingClientRect().bottom ?? 0;
const id = each.stopId ??= (window.stops = (window.stops ?? 0) + 1);
return {id, name: named, tag: each.tagName, contrast,
    card: each.parentElement.closest("[data-testid]")?.dataset.testid ?? "",
    inDialog: !!each.closest(".q-dialog"),
    inMain: !!each.closest(".sw-main"), html: each.outerHTML.slice(0, 200),
    seen: box.width < 2 || (box.bottom > header && box.top < innerHeight && box.right > 0
        && box.left < innerWidth)};
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """What has the focus.

    Attributes:
        contrast: of the ring around it to what is behind; 0 without a ring.
        seen: whether it is in the window, and not under the header.
        card: the data-testid of what it is in.
    """

    id: int
    name: str
    tag: str
    contrast: float
    inDialog: bool  # noqa: N815 - as the script names it
    inMain: bool  # noqa: N815
    html: str
    seen: bool
    card: str


class Keyboard:
    """The keys of one browser."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def press(self, *keys: str) -> Keyboard:
        """One key after the other, as typed."""
        actions = ActionChains(self.browser.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()
        return self

    def back(self) -> Keyboard:
        """Shift and Tab."""
        actions = ActionChains(self.browser.driver)
        actions.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        return self

    def arrow(self, key: str) -> Keyboard:
        """An arrow that moves the focus, and until it has."""

        def at() -> int | None:
            stop = self.stop()
            return None if stop is None else stop.id

        before = at()
        self.press(key)
        self.browser.until(lambda: at() != before, "the focus to move on")
        return self

    def stop(self) -> Stop | None:
        """What has the focus now; None where nothing has."""
        found: dict[str, Any] | None = self.browser.script(_LOOK)
        return None if found is None else Stop(**found)

    def to(self, name: str, *, by: Callable[[], Any] | None = None) -> Stop:
        """Press Tab until what is called `name` has the focus; every stop on the way is seen."""
        step = by or (lambda: self.press(Keys.TAB))
        passed: list[str] = []
        for _ in range(_MOST_STOPS):
            found = self.stop()
            if found is not None and found.name.casefold() == name.casefold():
                return found
            step()
            stop = self.stop()
            if stop is not None:
                assert_seen(self._at_rest(stop))
                passed.append(stop.name)
        raise AssertionError(f"Tab does not come to {name!r}, but to {passed}")

    def _at_rest(self, stop: Stop) -> Stop:
        """The stop once the page stands still: what arrives above it moves it, and it back."""
        found = stop

        def is_seen() -> bool:
            nonlocal found
            found = self.stop() or found
            return found.seen

        with contextlib.suppress(AssertionError):
            self.browser.until(is_seen, "the focus in the window", timeout_s=5)
        return found

    def enter(self, name: str) -> None:
        """Go to what is called `name`, and press Enter."""
        self.to(name)
        self.press(Keys.ENTER)

    def write(self, name: str, text: str) -> None:
        """Go to the field of this name, and replace what is in it."""
        self.to(name)
        actions = ActionChains(self.browser.driver)
        actions.key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL)
        actions.send_keys(Keys.DELETE, text).perform()


def assert_seen(stop: Stop) -> None:
    """It is in the window, and a ring with a contrast of 3:1 is around it (WCAG 2.4.7, 1.4.11)."""
    assert stop.seen, f"not in the window: {stop}"
    assert stop.contrast >= 3, f"no ring, or one that is hard to see: {stop}"
