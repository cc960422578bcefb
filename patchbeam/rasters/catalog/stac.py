"""STAC documents: Item, ItemCollection, Collection and Catalog, as static files."""

from __future__ import annotations

import json
import posixpath
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from patchbeam import storage
from patchbeam.errors import PatchbeamError, SourceError
from patchbeam.pool import Pool
from patchbeam.rasters.catalog.item import Item, folder_of, resolve
from patchbeam.rasters.source import READERS

_TIMEOUT_S = 60
_MOST_DEPTH = 20


def load(path: str, key: str) -> Any:
    """Returns a parsed JSON document.

    Raises:
        SourceError: it cannot be read, or is no JSON.
    """
    try:
        if path.startswith(("http://", "https://")):
            with urllib.request.urlopen(path, timeout=_TIMEOUT_S) as answer:
                text = answer.read()
        else:
            text = storage.read_bytes(path)
    except (OSError, PatchbeamError, urllib.error.URLError) as error:
        raise SourceError(f"{key}: {path} cannot be read: {error}; check its name") from None
    try:
        document = json.loads(text)
        if b"\\u" in text:  # half of a character, which no path or message can hold
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{key}: {path} is not JSON: {error}") from None
    return document


def read_items(document: Any, path: str, key: str) -> list[Item] | None:
    """Returns the items of a STAC document, ``None`` when it is none.

    Raises:
        SourceError: something that it refers to cannot be read.
    """
    if not isinstance(document, Mapping):
        return None
    kind = document.get("type")
    if kind == "Feature" and "assets" in document:
        return [_item(document, path, _root(document, path, key), key)]
    if kind == "FeatureCollection":
        features = document.get("features")
        if (
            not isinstance(features, list)
            or not features
            or not all(isinstance(f, Mapping) and "assets" in f for f in features)
        ):
            return None
        return [_item(feature, path, folder_of(path), key) for feature in features]
    if kind in ("Collection", "Catalog") or ("stac_version" in document and "links" in document):
        with Pool(READERS) as pool:
            return _walk(document, path, _root(document, path, key), key, pool)
    return None


def item_of(feature: Mapping[str, Any], where: str, root: str | None, key: str) -> Item:
    """Returns an item from its JSON form.

    Raises:
        SourceError: it lacks what every item has.
    """
    return _item(feature, where, root, key)


def _item(feature: Mapping[str, Any], where: str, root: str | None, key: str) -> Item:
    name, assets, properties = feature.get("id"), feature.get("assets"), feature.get("properties")
    if name is None or not isinstance(assets, Mapping) or not isinstance(properties, Mapping):
        raise SourceError(
            f"{key}: {where}: item {name!r} has no id, assets or properties; it is no STAC Item"
        )
    return Item(
        id=str(name),
        properties=properties,
        assets={k: a for k, a in assets.items() if isinstance(a, Mapping)},
        where=where,
        root=root,
        collection=feature.get("collection"),
    )


def _links(document: Mapping[str, Any], rel: str) -> list[str]:
    links = document.get("links")
    return [
        str(link["href"])
        for link in (links if isinstance(links, list) else ())
        if isinstance(link, Mapping) and link.get("rel") == rel and link.get("href")
    ]


def _root(document: Mapping[str, Any], path: str, key: str) -> str:
    """Returns the folder of the catalogue's root document where that is above, else the document's own."""
    own = folder_of(path)
    for href in _links(document, "root")[:1]:
        if "://" in href or "://" in path or href.startswith("/"):
            continue
        target = posixpath.normpath(posixpath.join(own, href))
        try:
            top = load(target, key)
        except SourceError:
            continue
        # the claim of a document that what is above is its catalogue must be borne out there
        if isinstance(top, Mapping) and "stac_version" in top and own.startswith(folder_of(target)):
            return folder_of(target)
    return own


def _walk(
    document: Mapping[str, Any], path: str, root: str, key: str, pool: Pool, depth: int = 0
) -> list[Item]:
    if depth > _MOST_DEPTH:
        raise SourceError(f"{key}: {path} is {depth} catalogues deep; does it hold itself?")
    what = f"{key}: {path}"
    names = [resolve(href, path, root, what) for href in _links(document, "item")]
    loaded = pool.map(lambda name: load(name, key), names)
    items = [_item(feature, name, root, key) for name, feature in zip(names, loaded, strict=True)]
    for href in _links(document, "child"):
        child = resolve(href, path, root, what)
        inner = load(child, key)
        if not isinstance(inner, Mapping):
            raise SourceError(f"{key}: {child} is no STAC document, and {path} names it as its child")
        items += _walk(inner, child, root, key, pool, depth + 1)
    return items
