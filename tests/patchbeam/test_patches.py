from __future__ import annotations

import pickle

import numpy as np
import pytest
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox

from patchbeam.errors import GridError
from patchbeam.patches import MAX_SIDE, PatchGrid, Window


@st.composite
def patch_grids(draw: st.DrawFn, largest: int = 60) -> PatchGrid:
    edge = draw(st.sampled_from(["drop", "pad"]))
    width, height = draw(st.tuples(*[st.integers(1, largest)] * 2))
    most = (width, height) if edge == "drop" else (largest, largest)
    patch = draw(st.tuples(st.integers(1, most[0]), st.integers(1, most[1])))
    kernel = draw(st.tuples(*[st.integers(1, 9)] * 2))
    return PatchGrid(
        width=width, height=height, patch_width_height=patch, kernel_width_height=kernel, edge=edge
    )


@given(patch_grids())
def test_patches_are_disjoint_and_cover_all_but_the_lost_pixels(patches: PatchGrid) -> None:
    columns, rows = patches.padded_width_height
    seen = np.zeros((max(rows, patches.height), max(columns, patches.width)), np.int64)
    for i in range(patches.count):
        w = patches.window(i)
        seen[w.row_off : w.row_stop, w.col_off : w.col_stop] += 1
    on_grid = seen[: patches.height, : patches.width]
    assert seen.max() == 1
    assert (on_grid == 0).sum() == patches.lost_pixels
    lost_columns, lost_rows = patches.lost_columns_rows
    kept = on_grid[: patches.height - lost_rows, : patches.width - lost_columns]
    assert kept.min() == 1
    assert kept.size + patches.lost_pixels == patches.width * patches.height
    if patches.edge == "pad":
        assert patches.lost_pixels == 0
        assert columns - patches.width < patches.patch_width_height[0]
        assert rows - patches.height < patches.patch_width_height[1]
    else:
        assert columns <= patches.width < columns + patches.patch_width_height[0]
        assert rows <= patches.height < rows + patches.patch_width_height[1]


@given(patch_grids())
def test_index_row_col_and_window_are_one_to_one(patches: PatchGrid) -> None:
    windows = []
    for i in range(patches.count):
        row, col = patches.row_col(i)
        assert patches.index(row, col) == i
        window = patches.window(i)
        assert (window.row_off // window.height, window.col_off // window.width) == (row, col)
        assert (window.width, window.height) == patches.patch_width_height
        windows.append(window)
    assert len(set(windows)) == patches.count == patches.rows * patches.columns
    assert patches.windows().tolist() == [[w.col_off, w.row_off, w.width, w.height] for w in windows]
    half = patches.count // 2
    assert patches.windows(half).tolist() == patches.windows().tolist()[half:]


@given(patch_grids())
def test_margin_is_half_the_kernel_on_every_side(patches: PatchGrid) -> None:
    last = patches.count - 1
    inner, stored = patches.window(last), patches.stored_window(last)
    across, down = (k // 2 for k in patches.kernel_width_height)
    assert (stored.col_off, stored.row_off) == (inner.col_off - across, inner.row_off - down)
    assert (stored.col_stop, stored.row_stop) == (inner.col_stop + across, inner.row_stop + down)
    assert (stored.width, stored.height) == patches.stored_width_height


@given(patch_grids(), st.tuples(*[st.integers(-20, 80)] * 2), st.tuples(*[st.integers(0, 60)] * 2))
def test_patches_in_a_window_are_those_that_share_a_pixel(
    patches: PatchGrid, start: tuple[int, int], size: tuple[int, int]
) -> None:
    window = Window(*start, *size)
    expected = [i for i in range(patches.count) if patches.window(i).intersection(window) is not None]
    rows, columns = patches.patches_in(window)
    assert [patches.index(row, col) for row in rows for col in columns] == expected


@pytest.mark.parametrize(("kernel", "stored"), [(1, 256), (2, 258), (3, 258), (128, 384), (129, 384)])
def test_stored_size_of_odd_and_even_kernels(kernel: int, stored: int) -> None:
    patches = PatchGrid(width=300, height=300, kernel_width_height=(kernel, 1))
    assert patches.stored_width_height == (stored, 256)


@pytest.mark.parametrize(
    ("width", "height", "patch", "columns", "count", "lost"),
    [(3340, 2598, 256, 13, 130, (12, 38)), (410, 173, 64, 6, 12, (26, 45))],
)
def test_counts_of_real_exports(
    width: int, height: int, patch: int, columns: int, count: int, lost: tuple[int, int]
) -> None:
    patches = PatchGrid(width=width, height=height, patch_width_height=(patch, patch))
    assert (patches.columns, patches.count, patches.lost_columns_rows) == (columns, count, lost)


def test_pad_adds_nothing_where_patches_fit() -> None:
    patches = PatchGrid(width=512, height=513, edge="pad")
    assert (patches.columns, patches.rows, patches.padded_width_height) == (2, 3, (512, 768))


def test_numbers_stay_exact_on_the_largest_grid() -> None:
    patches = PatchGrid(width=MAX_SIDE, height=MAX_SIDE, patch_width_height=(1, 1))
    last = patches.count - 1
    assert patches.count == MAX_SIDE**2
    assert patches.row_col(last) == (MAX_SIDE - 1, MAX_SIDE - 1)
    assert patches.windows(last).tolist() == [[MAX_SIDE - 1, MAX_SIDE - 1, 1, 1]]


@pytest.mark.parametrize("edge", ["drop", "pad"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patch_width_height": (0, 4)}, "formatOptions.patchDimensions: 0 must be greater"),
        ({"patch_width_height": (4, -1)}, "formatOptions.patchDimensions: -1 must be greater"),
        ({"patch_width_height": (4,)}, r"formatOptions.patchDimensions: \[4\] has 1 numbers"),
        ({"patch_width_height": (4.0, 4)}, "formatOptions.patchDimensions: 4.0 is not a whole number"),
        ({"patch_width_height": (True, 4)}, "True is not a whole number"),
        ({"kernel_width_height": (0, 1)}, "formatOptions.kernelSize: 0 must be greater"),
        ({"kernel_width_height": (1, -3)}, "formatOptions.kernelSize: -3 must be greater"),
        ({"width": 0}, "grid's width and height: 0 must be greater"),
        ({"width": 2**31}, "more than 2147483647"),
        ({"kernel_width_height": (2**31 - 1, 1)}, "more than 2147483647 pixels a side; give smaller"),
    ],
)
def test_impossible_sizes_are_refused(edge: str, change: dict[str, object], words: str) -> None:
    sizes: dict[str, object] = {"width": 10, "height": 10, "patch_width_height": (4, 4), "edge": edge}
    with pytest.raises(GridError, match=words):
        PatchGrid(**(sizes | change))  # type: ignore[arg-type]


def test_a_grid_smaller_than_a_patch_names_pad() -> None:
    with pytest.raises(
        GridError, match=r"100 × 300 pixels is smaller than one patch of 256 × 256.*edge: pad"
    ):
        PatchGrid(width=100, height=300)
    assert PatchGrid(width=100, height=300, edge="pad").count == 2


def test_unknown_edge_is_refused() -> None:
    with pytest.raises(GridError, match="edge: 'wrap'"):
        PatchGrid(width=300, height=300, edge="wrap")  # type: ignore[arg-type]


def test_a_patch_that_is_not_there_is_an_error() -> None:
    patches = PatchGrid(width=600, height=600)
    for index in (-1, 4):
        with pytest.raises(IndexError, match=f"patch {index} is not in 0..3"):
            patches.window(index)
    with pytest.raises(IndexError, match="patch row 2, column 0"):
        patches.index(2, 0)
    with pytest.raises(IndexError, match="patches 3 to 5"):
        patches.windows(3, 5)


def test_bounds_follow_the_lattice() -> None:
    patches = PatchGrid(width=600, height=600)
    north_up = GeoBox((600, 600), Affine(10, 0, 500000, 0, -10, 5000000), "EPSG:32633")
    assert patches.bounds(3, north_up) == (502560.0, 4994880.0, 505120.0, 4997440.0)
    south_up = GeoBox((600, 600), Affine(10, 0, 500000, 0, 10, 5000000), "EPSG:32633")
    assert patches.bounds(3, south_up) == (502560.0, 5002560.0, 505120.0, 5005120.0)
    turned = GeoBox((600, 600), Affine(0, 10, 500000, -10, 0, 5000000), "EPSG:32633")
    assert patches.bounds(1, turned) == (500000.0, 4994880.0, 502560.0, 4997440.0)


def test_values_compare_hash_and_pickle() -> None:
    patches = PatchGrid(width=600, height=600, patch_width_height=[64, 64])  # type: ignore[arg-type]
    assert patches == PatchGrid(width=600, height=600, patch_width_height=(64, 64))
    assert pickle.loads(pickle.dumps(patches)) == patches
    assert len({patches, Window(0, 0, 1, 1), Window(0, 0, 1, 1)}) == 2


def test_window_arithmetic() -> None:
    window = Window(2, 3, 10, 20)
    assert window.buffered(1, 2) == Window(1, 1, 12, 24)
    assert window.shifted(-2, 1) == Window(0, 4, 10, 20)
    assert window.intersection(Window(8, 0, 10, 10)) == Window(8, 3, 4, 7)
    assert window.intersection(Window(12, 0, 10, 10)) is None
