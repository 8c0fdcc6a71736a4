"""The name of a browser, for the list of somebody's sessions. Pure."""

from __future__ import annotations

# The first that is found counts: most browsers name others as well.
BROWSERS = {
    "Edg": "Edge",
    "OPR": "Opera",
    "Firefox": "Firefox",
    "Chromium": "Chromium",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}
UNKNOWN = "Another browser"


def browser_name(user_agent: str) -> str:
    """Return what a User-Agent says in a few words, such as Firefox on Windows.

    Nothing of what the client sent is kept but these words.
    """
    browser = next((name for mark, name in BROWSERS.items() if mark in user_agent), UNKNOWN)
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), None)
    return f"{browser} on {system}" if system else browser
