# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its debugging pipe (devtools-protocol, JSON between zero bytes).

with Browser(folder) as browser:
    browser.open("http://127.0.0.1:9109/heap")
    browser.wait_for("document.querySelector('#keys').childElementCount > 0")
    browser.picture(path)
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds: a busy machine starts a browser slowly


def find() -> str | None:
    """The program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


class BrowserError(AssertionError):
    """The browser did not do it; the message says what it said."""


class Browser:
    """One browser with one tab. `folder` takes its profile and what it says."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 800) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [
            find() or "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
            f"--user-data-dir={folder}/chromium", f"--window-size={width},{height}",
            "--remote-debugging-pipe",
        ]  # fmt: skip
        # The pipe is descriptors 3 and 4; a shell moves it there from its input and output.
        self.log = folder / "chromium.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >&2', "sh", *command],
                stdin=to_browser, stdout=from_browser, stderr=log,
            )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._got = b""
        self.said: list[str] = []  # errors and console lines of the page
        self._session: str | None = None
        try:
            self._attach(width, height)
        except BaseException:
            self.__exit__()
            raise

    def _attach(self, width: int, height: int) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression: str, patience: float = PATIENCE) -> Any:
        """Its value, as soon as that counts as true."""
        deadline = time.monotonic() + patience
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                text = self.value("document.body.innerText")
                raise BrowserError(f"never true: {expression}; {self.said}; {text[:2000]}")
            time.sleep(0.05)
        return value

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def dark(self, yes: bool) -> None:
        """What the page is told of the user's wish."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if yes else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path: Path | None = None) -> bytes:
        data = base64.b64decode(self.call("Page.captureScreenshot")["data"])
        if path:
            path.write_bytes(data)
        return data

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description", str(details)))
        elif message.get("method") == "Log.entryAdded":
            self.said.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._got:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise BrowserError(f"the browser is silent: {self.log.read_text()[-2000:]}")
            self._got += part
        text, _, self._got = self._got.partition(b"\0")
        return json.loads(text)
