"""Texts without secrets: what a URL can hold of them goes into no message, plan or manifest."""

from __future__ import annotations

import re

HIDDEN = "…"

# Signed URLs carry their signature in the query, some services a token in the fragment; GDAL's /vsicurl?
# carries headers and user names there. Names of objects in Cloud Storage (gs://) hold none, and a question
# mark in them is a pattern. A scheme is short, and a URL is gone through once: long texts without spaces
# would else be gone through anew from each of their letters.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,30}://"
_URL = re.compile(rf"(?:(?<![A-Za-z0-9+.-])(?!gs:){_SCHEME}|/vsi[a-z0-9_]+)[^\s'\"<>]*")
_CLOSING = "),.;:]}"
"""Signs at the end of a URL that are of the sentence round it."""

# up to the last @: there are passwords with one, and with signs that a URL must not hold
_USER = re.compile(rf"({_SCHEME})[^\s/'\"]*@")
_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|SIGNATURE|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)
_SHORTEST = 6

_known: tuple[str, ...] = ()
"""Values to hide, the longest first: one may hold another."""


def without_secrets(text: str) -> str:
    """Returns a text with known secrets, and queries, fragments, user names, passwords of URLs hidden."""
    if "@" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", text)
    if "?" in text or "#" in text:
        text = _URL.sub(_without_end, text)
    for secret in _known:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def _without_end(found: re.Match[str]) -> str:
    url = found[0].rstrip(_CLOSING)
    # in the name of a file, as /vsizip/ has it, a # is a sign like others
    scheme = url.find("://")
    starts = [url.find("?"), url.find("#", scheme) if scheme >= 0 else -1]
    at = min((start for start in starts if start >= 0), default=len(url))
    if at + 1 >= len(url):
        return found[0]
    return f"{url[: at + 1]}{HIDDEN}{found[0][len(url) :]}"


def note_variable(name: str, value: str) -> None:
    """Hides the value of an environment variable from now on, if its name says that it is a secret."""
    global _known
    if len(value) >= _SHORTEST and _NAMES.search(name):
        _known = tuple(sorted({*_known, value}, key=lambda secret: (-len(secret), secret)))
