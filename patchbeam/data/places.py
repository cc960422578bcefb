"""Where the items of a database lie on the patch grid of their export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from patchbeam.data.database import Database
from patchbeam.data.errors import DataError
from patchbeam.data.order import Ints
from patchbeam.data.transforms import CachedView, TransformedView
from patchbeam.data.views import SelectedView, ZippedView
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer

Affine6 = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPlace:
    """How patches lie on the map.

    Attributes:
        columns_rows: patches in a row, and rows of patches.
        patch_width_height: pixels of a patch without its margin.
        margin_width_height: pixels of margin left and right, and above and below.
        crs: of the map: ``EPSG:n`` or WKT.
        affine: xScale, xShear, xTranslate, yShear, yScale, yTranslate of the grid.
    """

    columns_rows: tuple[int, int]
    patch_width_height: tuple[int, int]
    margin_width_height: tuple[int, int]
    crs: str
    affine: Affine6

    def row_col(self, patch: int) -> tuple[int, int]:
        """Returns the patch row and column of a patch."""
        return divmod(patch, self.columns_rows[0])

    def transform(self, patch: int, *, margin: bool) -> Affine6:
        """Returns the affine of a patch: from its pixels, with or without its margin, to the CRS."""
        row, col = self.row_col(patch)
        (width, height), (across, down) = self.patch_width_height, self.margin_width_height
        x, y = col * width - across * margin, row * height - down * margin
        a, b, c, d, e, f = self.affine
        return a, b, c + a * x + b * y, d, e, f + d * x + e * y


def place_of_manifest(manifest: Manifest) -> PatchPlace | None:
    """Returns the place of an export's patches, ``None`` for sets that lie on no map."""
    grid, options = manifest.grid, manifest.format_options
    if grid is None:
        return None
    pixels = grid.width, grid.height
    sizes = options.patch_width_height
    counts = [p // s if manifest.edge == "drop" else -(-p // s) for p, s in zip(pixels, sizes, strict=True)]
    kernel = options.kernel_width_height
    return PatchPlace(
        columns_rows=(counts[0], counts[1]),
        patch_width_height=sizes,
        margin_width_height=(kernel[0] // 2, kernel[1] // 2),
        crs=grid.crs_code or grid.crs_wkt,
        affine=grid.transform,
    )


def place_of_mixer(mixer: Mixer, margin_width_height: tuple[int, int]) -> PatchPlace:
    """Returns the place of the patches of a mixer, whose margin has to be known otherwise."""
    return PatchPlace(
        columns_rows=(mixer.patches_per_row, mixer.rows),
        patch_width_height=mixer.patch_width_height,
        margin_width_height=margin_width_height,
        crs=mixer.crs,
        affine=mixer.affine,
    )


@runtime_checkable
class Placed(Protocol):
    """A database whose items are patches of a grid."""

    @property
    def place(self) -> PatchPlace | None:
        """How patches lie on the map."""

    @property
    def patch_indices(self) -> Ints:
        """The patch of each item, int64 ``(item,)``."""


def patch_places(database: Database) -> tuple[PatchPlace, Ints]:
    """Returns the place of the items of a database of patches, or of a view of one, and their patches.

    Raises:
        DataError: the items lie on no patch grid.
    """
    if isinstance(database, SelectedView):
        place, indices = patch_places(database.base)
        return place, indices[database.indices]
    if isinstance(database, TransformedView | CachedView):
        return patch_places(database.base)
    if isinstance(database, ZippedView):
        return patch_places(database.parts[0])
    if isinstance(database, Placed) and database.place is not None:
        return database.place, database.patch_indices
    raise DataError(
        f"a {type(database).__name__} lies on no patch grid; give a PatchDatabase with a manifest or mixer, "
        "or a "
        "view of one"
    )
