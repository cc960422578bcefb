"""Texts without secrets: what a URL can hold of them goes into no message, plan or manifest."""

from __future__ import annotations

import re

HIDDEN = "…"

# Signed URLs carry their signature in the query; GDAL's /vsicurl? carries headers and user names there. Names
# of objects in Cloud Storage (gs://) hold none, and a question mark in them is a pattern. A scheme is short:
# without a limit, a long text without spaces is gone through anew from each of its letters.
_SCHEME = r"(?<![A-Za-z0-9+.-])(?!gs:)[A-Za-z][A-Za-z0-9+.-]{0,30}://"
_QUERY = re.compile(rf"((?:{_SCHEME}|/vsi[a-z0-9_]+)[^\s?'\"<>]*)\?[^\s'\"<>]*[^\s'\"<>),.;:\]}}]")
# up to the last @: there are passwords with one
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#'\"]*@")
_NAMES = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|SIGNATURE|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)
_SHORTEST = 6

_known: tuple[str, ...] = ()
"""Values to hide, the longest first: one may hold another."""


def without_secrets(text: str) -> str:
    """Returns a text with the queries, user names and passwords of URLs hidden, and known secrets."""
    if "?" in text:
        text = _QUERY.sub(rf"\1?{HIDDEN}", text)
    if "@" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", text)
    for secret in _known:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def note_variable(name: str, value: str) -> None:
    """Hides the value of an environment variable from now on, if its name says that it is a secret."""
    global _known
    if len(value) >= _SHORTEST and _NAMES.search(name):
        _known = tuple(sorted({*_known, value}, key=lambda secret: (-len(secret), secret)))
