"""The browser of the tests."""

import os
import shutil
from contextlib import contextmanager

from selenium import webdriver

# The same engine without windows, menus and services of its own, at two thirds of the CPU time.
BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
MISSING = "no browser is installed: apt-get install chromium chromium-driver"


@contextmanager
def running():
    """Run Chromium. Its driver gives it an empty folder, and removes it."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")
    # To optimize what a page runs once takes longer than to run it.
    options.add_argument("--js-flags=--no-turbofan --no-maglev")
    if os.geteuid() == 0:  # to whom Chromium refuses its sandbox
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        yield chromium
    finally:
        chromium.quit()
