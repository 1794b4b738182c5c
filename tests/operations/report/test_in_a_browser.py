"""The report in Chromium: it follows the reader's theme, runs no script and asks no server for anything."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import websocket

from operations import command_line
from tests.operations.report.runs import run_folder

_BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not _BROWSER, reason="needs chromium or google-chrome on PATH")


class Tab:
    """A tab of the browser, with the addresses that its page asked for."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._numbers = count(1)
        self.addresses: list[str] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the DevTools protocol."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        return self._wait(lambda answer: answer.get("id") == number)["result"]

    def open(self, address: str) -> None:
        """Opens an address and waits until all of it is loaded."""
        self.ask("Network.enable")
        self.ask("Page.enable")
        self.ask("Page.navigate", url=address)
        self._wait(lambda answer: answer.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _wait(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("method") == "Network.requestWillBeSent":
                self.addresses.append(answer["params"]["request"]["url"])
            if is_wanted(answer):
                return answer


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    """An empty tab of a browser that runs for one test."""
    command = [str(_BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={tmp_path / 'profile'}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as browser:
        try:
            assert browser.stderr
            lines = (re.search(r"DevTools listening on ws://([^/]+)/", line) for line in browser.stderr)
            listening = next(match for match in lines if match)
            yield Tab(_first_tab(listening[1]))
        finally:
            browser.terminate()


def _first_tab(host: str) -> str:
    with urllib.request.urlopen(f"http://{host}/json/list") as answer:
        return next(page for page in json.load(answer) if page["type"] == "page")["webSocketDebuggerUrl"]


@pytest.mark.parametrize(
    ("theme", "background", "text"),
    [("light", "rgb(255, 255, 255)", "rgb(31, 35, 40)"), ("dark", "rgb(13, 17, 23)", "rgb(230, 237, 243)")],
)
def test_the_page_follows_the_theme_and_loads_nothing(
    theme: str, background: str, text: str, tab: Tab, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    command_line.run(["report", "--folder", str(run_folder(tmp_path / "mine")), "--to", str(page)])
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    tab.open(page.as_uri())
    assert tab.value("getComputedStyle(document.body).backgroundColor") == background
    assert tab.value("getComputedStyle(document.querySelector('svg .title')).fill") == text
    assert tab.value("document.title") == "mine"
    assert tab.value("document.querySelectorAll('svg .series path').length") == 5
    assert tab.value("[...document.querySelectorAll('svg')].every(s => s.clientWidth > 500)")
    assert tab.addresses == [page.as_uri()]
