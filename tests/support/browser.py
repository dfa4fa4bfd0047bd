"""A real headless Chromium on the dashboard's pages, its keyboard, and axe-core."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from tests.support.environments import npm_environment
from tests.support.processes import SECRET, free_port
from tests.support.repository import ROOT

# A real headless Chromium that opens the dashboard's pages, and the process that serves them.

# What takes a second on an idle machine; a busy one imports a vendor's library meanwhile.
WAIT_S = 90.0
DESKTOP = (1280, 900)
PHONE = (390, 844)
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
)


class Pages:
    """The dashboard's process, in front of a service."""

    def __init__(self, api: str, home: Path, *, secret: str = SECRET, **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = home
        self.environment = {
            "PATH": os.environ["PATH"],
            "SOLWARD_HOME": str(home / "home"),
            "NEXT_PUBLIC_API_URL": api,
            "NEXT_PUBLIC_API_SECRET": secret,
        } | environment
        self.program: tuple[str, ...] = ("-m", "solward_cli")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> Pages:
        """Start and wait until it says where it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["dashboard", "--port", str(self.port), *arguments]
        with (self.folder / "dashboard.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, *command],
                env=self.environment,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Service:"):
                return self
        raise AssertionError((self.folder / "dashboard.log").read_text()[-4000:])

    def stop(self, with_signal: int = signal.SIGTERM) -> int:
        """End the process and wait for it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


# Whether an element is in a dialog that still opens: a button that moves on between the press and
# the release of the mouse gets no click.
_MOVES = """
return document.getAnimations().some(
    each => each.playState === "running" && each.effect.target?.contains(arguments[0]));
"""

# Endless animations (a spinner's) are no movement that ends.
_IS_STILL = """
const moving = document.getAnimations().some(each => each.playState === "running"
    && each.effect.getComputedTiming().endTime !== Infinity);
const now = performance.now();
if (!window.lastChange) {
    window.lastChange = now;
    new MutationObserver(() => { window.lastChange = performance.now(); })
        .observe(document.body, {subtree: true, childList: true, attributes: true});
}
return !moving && now - window.lastChange > 100;
"""

_PRESSED = (
    *("button", "a", "[role=button]", "[role=tab]", "[role=menuitem]"),
    *(".q-item", ".q-btn", "[role=option]"),
)
# One script for all of a page: to ask the driver of each element takes 10 ms.
_SHOWN = """
const isShown = each => {
    if (!each.checkVisibility({opacityProperty: true, visibilityProperty: true})) return false;
    const box = each.getBoundingClientRect();
    if (!box.width || !box.height) return false;
    // What slides open cuts off what is not to be seen yet.
    for (let above = each.parentElement; above; above = above.parentElement) {
        if (getComputedStyle(above).overflowY !== "hidden") continue;
        const frame = above.getBoundingClientRect();
        if (box.top >= frame.bottom || box.bottom <= frame.top) return false;
    }
    return true;
};
const shown = [...document.querySelectorAll(arguments[0])].filter(isShown);
"""
# A button's icon is the name of a glyph on a line of its own.
_NAMED = """
const name = each => {
    const lines = each.innerText.split("\\n").map(line => line.trim()).filter(line => line);
    return (lines.filter(line => !/^[a-z0-9]+(_[a-z0-9]+)+$/.test(line)).at(-1) ?? each.innerText);
};
return shown.find(each => !each.matches(":disabled")
    && (each.getAttribute("aria-label") || name(each)).toLowerCase() === arguments[1]);
"""


# The driver scrolls to an element, and clicks on the point where it saw it: cards that are drawn in
# between push the element on, and the click would open a card. Such a click is swallowed.
_AIM = """
window.aim?.listening.abort();
const aim = window.aim = {missed: false, listening: new AbortController()};
const at = arguments[0];
document.addEventListener("click", event => {
    if (aim.missed = !at.contains(event.target)) {
        event.stopImmediatePropagation();
        event.preventDefault();
    }
}, {capture: true, once: true, signal: aim.listening.signal});
"""


# The element was drawn anew, still slides in, or lies under a dialog that opens or closes.
_MOVED = (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)


class Browser:
    """One Chromium on one dashboard; every wait is for a condition and ends with what was shown."""

    def __init__(self, url: str, *, traffic: bool = False) -> None:
        self.url = url
        self.driver = _chromium(traffic)
        self._prefers: dict[str, str] = {}
        self.size(*DESKTOP)

    def quit(self) -> None:
        """Close it."""
        self.driver.quit()

    def open(self, path: str = "/") -> Browser:
        """Open a page and wait for its socket and its first answer of the API."""
        self.driver.get(self.url + path)
        self.until(
            lambda: self.script("return !!(window.socket && window.socket.connected)"),
            f"the socket of {path}",
        )
        return self

    def answered(self, path: str) -> Browser:
        """Open a page and wait until it shows what it asked for, and nothing on it moves."""
        self.open(path)
        self.until(lambda: not self.all(".sw-main[aria-busy]"), f"what {path} asks for")
        self.still()
        return self

    def still(self) -> None:
        """Until nothing slides or fades any more, and what was to be drawn is."""
        self.until(lambda: self.script(_IS_STILL), "the page to be still")

    def size(self, width: int, height: int) -> None:
        """The size of the window; below 700 pixels it is a phone, touch and all."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": height,
                "deviceScaleFactor": 1,
                "mobile": width < 700,
            },
        )

    def dark(self, on: bool = True) -> None:
        """What the system prefers."""
        self.prefers(scheme="dark" if on else "light")

    def prefers(self, *, scheme: str | None = None, motion: str | None = None) -> None:
        """What the system prefers: a `scheme` of light or dark; a `motion` of reduce."""
        self._prefers |= {"color-scheme": scheme} if scheme else {}
        self._prefers |= {"reduced-motion": motion} if motion else {}
        features = [{"name": f"prefers-{name}", "value": it} for name, it in self._prefers.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def script(self, text: str, *arguments: Any) -> Any:
        """The value of a script on the page."""
        return self.driver.execute_script(text, *arguments)

    def text(self) -> str:
        """All that is shown."""
        return str(self.script("return document.body.innerText"))

    def until(self, holds: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
        """What `holds` returned, once it is true."""

        def held(_driver: object) -> Any:
            try:
                return holds()
            except _MOVED:
                return None

        try:
            return WebDriverWait(self.driver, timeout_s, poll_frequency=0.05).until(held)
        except TimeoutException:
            shown = f"waited {timeout_s:g} s for {what}; shown:\n{self.text()}\n{self.errors()}"
            raise AssertionError(shown) from None

    def wait_for(self, text: str, timeout_s: float = WAIT_S) -> None:
        """Until the page shows the text."""
        self.until(lambda: text in self.text(), repr(text), timeout_s)

    def wait_gone(self, text: str, timeout_s: float = WAIT_S) -> None:
        """Until the page no longer shows it."""
        self.until(lambda: text not in self.text(), f"{text!r} to go", timeout_s)

    def all(self, css: str) -> list[WebElement]:
        """Every element of a CSS selector that is displayed now."""
        found: list[WebElement] = self.script(_SHOWN + "return shown;", css)
        return found

    def one(self, css: str, timeout_s: float = WAIT_S) -> WebElement:
        """The first one displayed, once there is one."""
        found: WebElement = self.until(lambda: next(iter(self.all(css)), None), css, timeout_s)
        return found

    def marked(self, testid: str) -> WebElement:
        """The element with this data-testid."""
        return self.one(f'[data-testid="{testid}"]')

    def press(self, testid: str) -> None:
        """Click the element with this data-testid, once it is uncovered and stands still."""

        def pressed() -> bool:
            return self._hit(next(iter(self.all(f'[data-testid="{testid}"]')), None))

        self.until(pressed, f"{testid} to be pressed")

    def click(self, name: str, *, within: str = "body") -> None:
        """Press the enabled button, link, tab or menu item of this name (aria-label or text), once
        it stands still."""
        wanted = ", ".join(f"{within} {each}" for each in _PRESSED)

        def press() -> bool:
            return self._hit(self.script(_SHOWN + _NAMED, wanted, name.lower()))

        self.until(press, f"a button {name!r} to press")

    def _hit(self, found: WebElement | None) -> bool:
        if found is None or self.script(_MOVES, found):
            return False
        self.script(_AIM, found)
        found.click()
        # A click that opened another document took the aim with it.
        return not self.script("return window.aim?.missed ?? false")

    def fill(self, label: str, value: str, *, within: str = "body") -> None:
        """Replace what is in the field of this label, by the keyboard."""
        name = json.dumps(label)
        field = self.one(f"{within} input[aria-label={name}], {within} textarea[aria-label={name}]")
        field.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE, value)

    def choose(self, label: str, option: str, *, within: str = "body") -> None:
        """Pick an option of a select."""
        # What has the label is an input of no size; a person presses the field around it.
        name = f"[aria-label={json.dumps(label)}]"
        field = f"{within} .q-field:has({name}) .q-field__control"
        # A dialog that still slides in has another field where this one was a moment ago.
        self.still()

        expanded = json.dumps(f"{within} {name}[aria-expanded=true]")
        is_open = f"return !!document.querySelector({expanded})"

        def opened() -> bool:
            if not self.script(is_open):
                self.one(field).click()
                self.still()
            return bool(self.script(is_open))

        self.until(opened, f"the options of {label!r}")
        self.click(option, within=".q-menu")

    def errors(self) -> list[str]:
        """What the console complained about since the last call (CSP violations too)."""
        return [
            str(entry["message"])
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
        ]

    def traffic(self) -> Iterator[dict[str, Any]]:
        """CDP's Network events since the last call; only of a browser made with `traffic`."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"].startswith("Network."):
                yield message


def _chromium(traffic: bool) -> webdriver.Chrome:
    binary = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        raise AssertionError(
            "These tests need a real browser: apt-get install chromium chromium-driver"
        )
    options = Options()
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    wanted = {"browser": "ALL"} | ({"performance": "ALL"} if traffic else {})
    options.set_capability("goog:loggingPrefs", wanted)
    options.binary_location = binary
    return webdriver.Chrome(options=options, service=Driver(driver))


# A person without a mouse: keys go to what has the focus, which is looked at after each.

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
        stop = self.stop()
        for _ in range(_MOST_STOPS):
            if stop is not None and stop.name.casefold() == name.casefold():
                return stop
            step()
            stop = self.stop()
            if stop is not None:
                assert_seen(self._at_rest(stop))
                passed.append(stop.name)
        raise AssertionError(f"Tab does not come to {name!r}, but to {passed}")

    def _at_rest(self, stop: Stop) -> Stop:
        """The stop once the page stands still: what arrives above it moves it, and it back."""
        if stop.seen:
            return stop
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


# axe-core of npm, run on the page that a real browser shows.

# WCAG 2.0, 2.1 and 2.2, levels A and AA, and what is good practice beside them.
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
_RUN = """
const [tags, within, done] = arguments;
const options = {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]};
axe.run({include: [[within]]}, options).then(
    found => done(found.violations.map(each => ({
        rule: each.id, impact: each.impact, help: each.help,
        nodes: each.nodes.map(node => [node.target.join(" "), node.failureSummary]),
    }))),
    error => done(String(error)));
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that elements of a page break.

    Attributes:
        impact: minor, moderate, serious or critical.
        nodes: of each element its selector, and what is wrong with it.
    """

    rule: str
    impact: str
    help: str
    nodes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        where = "".join(f"\n    {at}: {' '.join(why.split())}" for at, why in self.nodes[:4])
        return f"{self.impact} {self.rule} ({self.help}), {len(self.nodes)} elements{where}"


def findings(browser: Browser, within: str = "html") -> list[Finding]:
    """What axe-core finds on the page as it is now, in elements of a CSS selector."""
    if not browser.script("return 'axe' in window"):
        browser.script(_source())
    found: Any = browser.driver.execute_async_script(_RUN, _TAGS, within)
    assert isinstance(found, list), found
    return [
        Finding(
            each["rule"],
            each["impact"],
            each["help"],
            tuple((at, why) for at, why in each["nodes"]),
        )
        for each in found
    ]


@cache
def _source() -> str:
    programs = ROOT / "tests" / "e2e" / "dashboard" / "npm"
    return (npm_environment(programs, "axe") / "axe-core" / "axe.min.js").read_text()
