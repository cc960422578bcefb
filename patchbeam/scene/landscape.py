"""The lie of the land: which kind of ground each pixel is, and its relief, texture and growth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchbeam.scene.noise import LATTICE, Field, Floats, Ints, Texture, draw_out, nodes, salt_of
from patchbeam.scene.parcels import PARCELS, SYSTEMS, TOWN_SIDE, parcels, strips, systems, town_plan
from patchbeam.scene.spectra import KINDS, NUMBER, VARIANTS, by_code

# Shares of the scene that the fields are cut off at; parcels shift them a little.
_LAKES, _RIVERS, _WOODS, _TOWNS, _PITS = 0.05, 0.009, 0.27, 0.055, 0.004


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ground:
    """The ground of one window, each ``(row, col)``.

    Attributes:
        code: index into the tables of :mod:`patchbeam.scene.spectra`, intp.
        light: factor of brightness by relief and texture, float32.
        vigour: growth relative to the rest of the field, about -1 to 1, float32.
    """

    code: NDArray[np.intp]
    light: Floats
    vigour: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Survey:
    """The smooth fields of one window at lattice points, float32 ``(row, col)``.

    Attributes:
        row, col: the window's first pixel, multiples of eight.
        cols: its columns in pixels.
        height: above the sea, as it were; with one more lattice row and column, for slopes.
        river: distance from the middle of a river.
        woods, towns: there are some where the field is high.
        system: which neighbourhood of parcels.
        vigour: growth.
    """

    row: int
    col: int
    cols: int
    height: Floats
    river: Floats
    woods: Floats
    towns: Floats
    system: Floats
    vigour: Floats

    def part(self, first: int, rows: int) -> Survey:
        """The survey of ``rows`` pixel rows from row ``first`` of the window on, a multiple of eight."""
        start, count = first // LATTICE, len(nodes(first, rows))
        some = slice(start, start + count)
        return Survey(
            row=self.row + first,
            col=self.col,
            cols=self.cols,
            height=self.height[start : start + count + 1],
            river=self.river[some],
            woods=self.woods[some],
            towns=self.towns[some],
            system=self.system[some],
            vigour=self.vigour[some],
        )


class Landscape:
    """The land of one seed, fitted to a scene of one size.

    Shares of water, woods and towns are fitted on a coarse sample of the whole scene, so that even a
    small scene has some of each. Apart from that every pixel depends on its position alone.
    """

    def __init__(self, seed: int, width: int, height: int, *, largest: tuple[int, int]) -> None:
        self._height_field = Field(salt=salt_of(seed, 1), largest=2048, smallest=16, roughness=0.5)
        self._river_field = Field(salt=salt_of(seed, 2), largest=2048, smallest=32, roughness=0.42)
        self._wood_field = Field(salt=salt_of(seed, 3), largest=512, smallest=16, roughness=0.62)
        self._town_field = Field(salt=salt_of(seed, 4), largest=512, smallest=32, roughness=0.4)
        self._system_field = Field(salt=salt_of(seed, 5), largest=1024, smallest=64, roughness=0.35)
        self._vigour_field = Field(salt=salt_of(seed, 6), largest=256, smallest=16, roughness=0.7)
        self._grain = Texture(salt_of(seed, 7), period=509, largest=largest)
        self._canopy = Texture(salt_of(seed, 8), period=487, smooth=1, largest=largest)

        grid = sample_points(width, height)
        self._lake = quantile(self._height_field.at(*grid), _LAKES)
        self._upland = quantile(self._height_field.at(*grid), 0.55)
        self._river = quantile(np.abs(self._river_field.at(*grid)), _RIVERS)
        self._wood = quantile(self._wood_field.at(*grid), 1 - _WOODS)
        self._town = quantile(self._town_field.at(*grid), 1 - _TOWNS)
        self._pit = quantile(self._vigour_field.at(*grid), _PITS)
        self._systems = systems(seed)
        self._parcel_code, self._wood_code, self._parcel_shift = parcels(seed)
        self._strip_length, self._strip_start, self._strip_split = strips(seed)
        self._streets = town_plan(seed)
        self._grain_by_code = by_code([kind.grain for kind in KINDS])
        self._vigour_by_code = by_code([kind.vigour for kind in KINDS])

    def survey(self, row: int, col: int, rows: int, cols: int) -> Survey:
        """The smooth fields of the pixels from (``row``, ``col``) on, which are multiples of eight."""
        lattice = nodes(row, rows), nodes(col, cols)
        return Survey(
            row=row,
            col=col,
            cols=cols,
            height=self._height_field.at(nodes(row, rows + LATTICE), nodes(col, cols + LATTICE)),
            river=np.abs(self._river_field.at(*lattice)),
            woods=self._wood_field.at(*lattice),
            towns=self._town_field.at(*lattice),
            system=self._system_field.at(*lattice),
            vigour=self._vigour_field.at(*lattice),
        )

    def ground(self, survey: Survey, rows: int) -> Ground:
        """The ground of the first ``rows`` pixel rows of a survey.

        Tracks look one pixel ahead, so the last row and column are not fit for use.
        """
        row, col, cols = survey.row, survey.col, survey.cols
        height = survey.height

        def drawn(values: Floats) -> Floats:
            return draw_out(values, rows, cols)

        grain = self._grain.window(row, col, rows, cols)
        canopy = self._canopy.window(row, col, rows, cols)
        vigour = drawn(survey.vigour)
        level = drawn(height[:-1, :-1])
        parcel, system, u, v = self._parcels_of(row, col, drawn(survey.system), vigour)
        code = self._parcel_code.take(parcel)
        _draw_tracks(code, system, parcel)
        shift = canopy * np.float32(0.012)
        shift += self._parcel_shift.take(parcel)

        # Whole windows without woods, towns or water are told from the lattice, with room for what
        # shifts their limits.
        if survey.woods.max() > self._wood - 0.6:
            wooded = np.flatnonzero(drawn(survey.woods) + shift > self._wood)
            # Conifers grow higher up, stand by stand.
            upland = level.ravel()[wooded] + shift.ravel()[wooded] > self._upland
            code.ravel()[wooded] = self._wood_code.take(parcel.ravel()[wooded]) + upland * np.uint8(VARIANTS)
        if survey.towns.max() > self._town - 0.6:
            self._build(code, np.flatnonzero(drawn(survey.towns) + shift > self._town), u, v)
        code[vigour + shift * np.float32(0.2) < self._pit] = NUMBER["gravel pit"] * VARIANTS
        if survey.river.min() < self._river:
            np.copyto(code, np.uint8(NUMBER["river"] * VARIANTS), where=drawn(survey.river) < self._river)
        if height.min() < self._lake + 0.05:
            shore = grain * np.float32(0.002)
            shore += level
            np.copyto(code, np.uint8(NUMBER["lake"] * VARIANTS), where=shore < self._lake)

        index = code.astype(np.intp)
        # Light falls in from the upper left, at the relief's slope between neighbouring lattice points.
        light = drawn((height[1:, 1:] - height[:-1, :-1]) * np.float32(0.9))
        light *= code >= NUMBER["broadleaved wood"] * VARIANTS  # water is level
        light += np.float32(1)
        texture = np.where(code < NUMBER["meadow"] * VARIANTS, canopy, grain)
        texture *= self._grain_by_code.take(index)
        light += texture
        vigour *= self._vigour_by_code.take(index)
        return Ground(code=index, light=light, vigour=vigour)

    def _parcels_of(
        self, row: int, col: int, field: Floats, warp: Floats
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
        """Parcel number, system, and the place in the system's own axes, of each pixel."""
        rows, cols = field.shape
        x = np.arange(col, col + cols, dtype=np.float32)[None, :]
        y = np.arange(row, row + rows, dtype=np.float32)[:, None]
        scaled = field * np.float32(SYSTEMS / 1.6)
        scaled += np.float32(SYSTEMS / 2)
        np.clip(scaled, 0, SYSTEMS - 1, out=scaled)
        system = scaled.astype(np.intp)
        across, along = self._systems[0].take(system), self._systems[1].take(system)
        u = across * x
        u += along * y
        v = across * y
        v -= along * x
        # Boundaries bend a little with the land.
        warp = warp * np.float32(0.10)
        u += warp
        v += warp
        strip = np.floor(u)
        number = strip.astype(np.int32)
        number *= np.int32(2039)
        number += system.astype(np.int32) * np.int32(977)
        strip_index = (number & np.int32(PARCELS - 1)).astype(np.intp)
        # Many strips are two of unequal width, which are divided into parcels each on its own.
        np.subtract(u, strip, out=strip)
        number += (strip > self._strip_split.take(strip_index)) * np.int32(1013)
        strip_index = (number & np.int32(PARCELS - 1)).astype(np.intp)
        place = v * self._strip_length.take(strip_index)
        place += self._strip_start.take(strip_index)
        mixed = np.floor(place).astype(np.int32).view(np.uint32)
        mixed *= np.uint32(0x9E3779B1)
        mixed ^= number.view(np.uint32) * np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(0x2C1B3C6D)
        mixed >>= np.uint32(20)
        return mixed.astype(np.intp), system, u, v

    def _build(self, code: NDArray[np.uint8], places: NDArray[np.intp], u: Floats, v: Floats) -> None:
        """Lays out streets and houses along the parcels' axes."""
        if places.size:
            east = (u.ravel()[places] * np.float32(36)).astype(np.int32) & (TOWN_SIDE - 1)
            north = (v.ravel()[places] * np.float32(36)).astype(np.int32) & (TOWN_SIDE - 1)
            code.ravel()[places] = self._streets.ravel()[north * TOWN_SIDE + east]


def sample_points(width: int, height: int, most: int = 192) -> tuple[Ints, Ints]:
    """Lattice rows and columns spread over a scene, at most ``most`` of each."""
    rows, cols = -(-height // LATTICE) + 1, -(-width // LATTICE) + 1
    return (
        np.unique(np.linspace(0, rows - 1, min(most, rows)).astype(np.int64)),
        np.unique(np.linspace(0, cols - 1, min(most, cols)).astype(np.int64)),
    )


def quantile(values: Floats, share: float) -> np.float32:
    """The value below which ``share`` of ``values`` lies; one of them, never between two."""
    ordered = np.sort(values, axis=None)
    return np.float32(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


def _draw_tracks(code: NDArray[np.uint8], system: NDArray[np.intp], parcel: NDArray[np.intp]) -> None:
    """Draws roads where systems of parcels meet, and tracks along some of the parcels' boundaries."""
    narrow = parcel.astype(np.int16)
    differs = narrow[:-1, :-1] ^ narrow[1:, 1:]
    track = (differs != 0) & (differs & np.int16(3) == 0)
    np.copyto(code[:-1, :-1], np.uint8(NUMBER["track"] * VARIANTS), where=track)
    small = system.astype(np.int8)
    road = small[:-1, :-1] != small[1:, 1:]
    np.copyto(code[:-1, :-1], np.uint8(NUMBER["street"] * VARIANTS), where=road)
