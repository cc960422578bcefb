"""Search of a STAC API."""

from __future__ import annotations

from collections.abc import Sequence

from patchbeam.errors import SourceError
from patchbeam.rasters.catalog.item import Item
from patchbeam.rasters.catalog.stac import item_of

MOST_ITEMS = 200_000
"""A search that finds more than this is refused: it lacks a region, a time or a collection."""


def search(
    url: str,
    key: str,
    *,
    collections: Sequence[str],
    bbox: tuple[float, float, float, float] | None,
    datetime: str | None,
) -> list[Item]:
    """Returns the items that a STAC API finds; filters of properties are not its affair.

    Args:
        url: landing page of the API.
        key: of the source, for messages.
        collections: their ids.
        bbox: west, south, east, north in degrees.
        datetime: as in :class:`patchbeam.rasters.catalog.filters.Filters`.

    Raises:
        SourceError: pystac-client is not there, the API does not answer, or it finds nothing.
    """
    try:
        from pystac_client import Client
        from pystac_client.exceptions import APIError
    except ImportError:
        raise SourceError(f"{key}.path: {url} is a STAC API; install patchbeam[stac] to search it") from None
    try:
        found = Client.open(url).search(
            collections=list(collections), bbox=bbox, datetime=datetime, max_items=MOST_ITEMS + 1
        )
        features = list(found.items_as_dicts())
    # what requests and pystac raise has no common base but this
    except (APIError, OSError, ValueError, KeyError, NotImplementedError) as error:
        raise SourceError(f"{key}.path: the STAC API {url} does not answer as one: {error}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pystac", "pystac_client", "requests"):
            raise
        raise SourceError(f"{key}.path: the STAC API {url} does not answer as one: {error}") from None
    if len(features) > MOST_ITEMS:
        raise SourceError(f"{key}: {url} finds more than {MOST_ITEMS} items; give grid.region and datetime:")
    if not features:
        raise SourceError(
            f"{key}: {url} finds no scene in the region: collections {', '.join(collections)},"
            f" bbox {None if bbox is None else [round(v, 6) for v in bbox]}, datetime {datetime}"
        )
    return [item_of(feature, _self(feature, url), None, key) for feature in features]


def _self(feature: dict[str, object], url: str) -> str:
    links = feature.get("links")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("rel") == "self" and link.get("href"):
            return str(link["href"])
    return url
