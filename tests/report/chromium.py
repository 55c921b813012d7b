"""A real browser for the tests of pages: the system's chromium, without a window."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--disable-dev-shm-usage",
)  # fmt: skip
PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "chromium and chromium-driver are not installed"
PATIENCE = 60.0  # seconds, of machines with much to do


class Page:
    """A page that is open, and what happened on it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, file: Path | str, view: str = "", width: int = 1240) -> None:
        """Open a file or an address at a view, and wait until it is drawn."""
        self.complaints()
        self.resize(width)
        address = file if isinstance(file, str) else f"file://{quote(str(file))}"
        self.driver.get("about:blank")
        self.driver.get(f"{address}#{view}" if view else address)
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.command("Emulation.setDeviceMetricsOverride", mobile=width < 500, **size)

    def command(self, name: str, **options: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, options)

    def __call__(self, script: str, *arguments: Any) -> Any:
        """The value of a JavaScript expression."""
        return self.driver.execute_script(f"return ({script});", *arguments)

    def wait(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.03)

    def click(self, selector: str) -> None:
        self.driver.execute_script(
            "document.querySelector(arguments[0]).click()", selector
        )

    def choose(self, name: str, value: str) -> None:
        self.driver.execute_script(
            "const list = document.getElementById(arguments[0]);"
            "list.value = arguments[1]; list.dispatchEvent(new Event('change'))",
            name,
            value,
        )

    def press(self, *keys: str) -> None:
        """Real keys, to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def text(self, selector: str) -> str:
        return str(self("document.querySelector(arguments[0]).textContent", selector))

    def is_skip_link(self, number: int) -> bool:
        """Whether a numbered control is seen only while it has the focus."""
        script = "document.querySelector(`[data-n='${arguments[0]}']`).className"
        return bool(self(script, number) == "skip")

    def complaints(self) -> list[str]:
        """What the console has said since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the last time."""
        entries = self.driver.get_log("performance")
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own, and end it."""
    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = PROGRAM or ""
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    service = Service(DRIVER, log_output=os.devnull)
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Page(driver)
    finally:
        driver.quit()
