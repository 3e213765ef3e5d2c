# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its DevTools protocol over a pipe: needs nothing but the browser."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1200, 800

COUNT_COLOURS = """(async () => {
  const image = new Image();
  image.src = "data:image/png;base64,%s";
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const counts = new Map();
  for (const pixel of new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer))
    counts.set(pixel, (counts.get(pixel) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 4000);
})()"""


def executable() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process with one page. `errors` has what the console and the network reported since open()."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="cucore-browser-", ignore_cleanup_errors=True)
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        arguments = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--mute-audio",
            "--force-color-profile=srgb", f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={self.folder.name}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        # The protocol is spoken on descriptors 3 and 4.
        command = f"exec {shlex.join(arguments)} 3<&{commands} 4>&{answers}"
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", command], pass_fds=(commands, answers), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=os.environ | {"HOME": self.folder.name},
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.numbers = itertools.count(1)
        self.buffered = b""
        self.session = ""
        self.errors: list[str] = []
        self.events: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(WIDTH, HEIGHT)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffered:
            data = os.read(self.from_browser, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffered += data
        message, self.buffered = self.buffered.split(b"\0", 1)
        result: dict[str, Any] = json.loads(message)
        return result

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data) :]
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.note(answer)

    def note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method", ""), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(a.get("value", a)) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}".rstrip())
        elif method == "Network.requestWillBeSent" and parameters["request"]["url"].startswith(("http:", "https:")):
            self.errors.append(f"asks the network for {parameters['request']['url']}")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, path: Path | str) -> None:
        """Returns when the page and all that it contains are loaded."""
        self.errors.clear()
        self.events.clear()
        url = path.resolve().as_uri() if isinstance(path, Path) else path
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.note(self.receive())
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "the expression failed"))
        return answer["result"].get("value")

    def boxes(self, selector: str) -> list[tuple[float, float, float, float]]:
        """Left, top, width and height of all elements."""
        expression = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => {{ const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})"
        return [(box[0], box[1], box[2], box[3]) for box in self.evaluate(expression)]

    def overflow(self) -> float:
        """By how many pixels the page is wider than the window."""
        width = self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return float(width)

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def screenshot(self, path: Path | None = None) -> bytes:
        """The visible part, as PNG."""
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(png)
        return png

    def colours(self, png: bytes) -> dict[str, int]:
        """How many pixels have which colour ("#rrggbb"), the most frequent first."""
        rows = self.evaluate(COUNT_COLOURS % base64.b64encode(png).decode())
        return {f"#{p & 255:02x}{p >> 8 & 255:02x}{p >> 16 & 255:02x}": count for p, count in rows}


def check(browser: Browser, path: Path, *colours: str) -> dict[str, int]:
    """Opens a page, in a wide and in a narrow window, and returns the colours of the wide one."""
    browser.resize(400, 700)
    browser.open(path)
    assert browser.errors == []
    assert browser.overflow() == 0, "a narrow window cuts the page off"
    browser.resize(1200, 800)
    browser.open(path)
    assert browser.errors == []
    assert browser.overflow() == 0
    found = browser.colours(browser.screenshot(path.with_suffix(".png")))
    assert len(found) > 20, "the page is blank"
    for colour in colours:
        assert found.get(colour, 0) >= 20, f"nothing is drawn in {colour}: {list(found)[:20]}"
    return found
