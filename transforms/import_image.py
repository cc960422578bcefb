"""Records to maps: index, count, make tiles, publish. Only numbers and locations travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np

from patchbeam import storage
from patchbeam.errors import CountMismatch
from patchbeam.lock import LockTicket
from patchbeam.mosaic.counts import open_schema
from patchbeam.mosaic.finished import TileDone
from patchbeam.mosaic.make import TileMaker
from patchbeam.mosaic.plan import ImportPlan, MemberRange, read_members
from patchbeam.mosaic.publish import is_published, publish_map
from patchbeam.mosaic.state import load_state, save_state
from patchbeam.mosaic.tiles import import_name
from patchbeam.pool import Pool
from patchbeam.records.files import RecordFiles
from patchbeam.records.index import FileIndex, index_file
from transforms.meters import Advance, Reading, counter, distribution
from transforms.write import gather

TILES_TOGETHER = 32
"""Tiles of one element where threads share it."""

_Task = tuple[int, str, MemberRange | None]


def state_path(plan: ImportPlan) -> str:
    """Returns the file that tells workers what all tiles need."""
    return storage.join(plan.temporary_folder, "state.npz")


class _IndexFiles(beam.DoFn):  # type: ignore[misc]
    def __init__(self, folder: str, threads: int) -> None:
        self._folder = folder
        self._threads = threads

    def setup(self) -> None:
        self._records, self._advance = counter("records_indexed"), Advance("files")

    def process(self, tasks: Sequence[_Task]) -> Iterator[tuple[int, FileIndex]]:
        def index(task: _Task) -> tuple[int, FileIndex]:
            number, name, members = task
            return number, index_file(name, spool_folder=self._folder, members=read_members(members))

        with Pool(self._threads) as pool:
            for number, file in pool.map(index, tasks):
                self._records.inc(file.records)
                self._advance(1, file.size_bytes)
                yield number, file


class IndexRecords(beam.PTransform):  # type: ignore[misc]
    """Finds the records of files: ``PBegin`` → ``(None, [(file number, FileIndex), …])``, gathered.

    Args:
        names: the files in order.
        folder: where gzip files that cannot be sought are inflated to.
        members: for each file, where an export's index tells its gzip members.
        threads: threads inside one element.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: str,
        members: Sequence[MemberRange | None] = (),
        *,
        threads: int = 1,
    ) -> None:
        super().__init__()
        known = members or [None] * len(names)
        self._tasks = list(zip(range(len(names)), names, known, strict=True))
        self._folder = folder
        self._threads = threads

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """One task a file, several to an element where threads share it."""
        size = 1 if self._threads == 1 else 8 * self._threads
        groups = [tuple(self._tasks[i : i + size]) for i in range(0, len(self._tasks), size)]
        indexes = (
            begin
            | "Files" >> beam.Create(groups)
            | "DealFiles" >> beam.Reshuffle()
            | "Index" >> beam.ParDo(_IndexFiles(self._folder, self._threads))
        )
        return gather(indexes, "Indexes")


def joined(gathered: Iterable[tuple[int, FileIndex] | None], expected: int) -> RecordFiles:
    """Returns the records of all files.

    Raises:
        CountMismatch: the runner lost a file or repeated one.
    """
    found = sorted((one for one in gathered if one is not None), key=lambda one: one[0])
    if [number for number, _ in found] != list(range(expected)):
        raise CountMismatch(
            f"{len(found)} indexes of {expected} record files came out of the pipeline: the runner lost or "
            "repeated "
            "work; run the job again"
        )
    return RecordFiles([file for _, file in found])


class _PlanTiles(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan) -> None:
        self._plan = plan

    def process(self, gathered: tuple[None, Iterable[tuple[int, FileIndex] | None]]) -> Iterator[int]:
        plan = self._plan
        files = joined(gathered[1], len(plan.records))
        schema = open_schema(files, plan.layout, plan.options)
        save_state(state_path(plan), files, schema)
        yield from range(plan.tiles.count)


class _MakeTile(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads
        self._maker: TileMaker | None = None

    def setup(self) -> None:
        self._tiles, self._patches = counter("tiles_made"), counter("patches_placed")
        self._stored, self._sizes = counter("bytes_stored"), distribution("tile_bytes")
        self._reading, self._advance = Reading(), Advance("tiles")

    def process(self, tiles: Sequence[int]) -> Iterator[TileDone]:
        if self._maker is None:
            files, schema, order = load_state(state_path(self._plan))
            self._maker = TileMaker(self._plan, files, schema, threads=self._threads, order=order)
            self._pixel_bytes = len(schema.names) * np.dtype(schema.type).itemsize
        for done in self._maker.make_all(tiles):
            window = self._plan.tiles.window(done.tile)
            self._tiles.inc()
            self._patches.inc(done.patches)
            self._stored.inc(done.size_bytes)
            self._sizes.update(done.size_bytes)
            self._reading.take()
            self._advance(1, window.width * window.height * self._pixel_bytes)
            yield done

    def teardown(self) -> None:
        if self._maker is not None:
            self._maker.close()


class _Publish(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan, overwrite: bool, lock: LockTicket | None) -> None:
        self._plan = plan
        self._overwrite = overwrite
        self._lock = lock

    def process(self, gathered: tuple[None, Iterable[TileDone | None]]) -> Iterator[str]:
        if is_published(self._plan):
            if self._lock is not None:
                self._lock.release()
            yield import_name(self._plan.output)
            return
        _, schema, _ = load_state(state_path(self._plan))
        done = [one for one in gathered[1] if one is not None]
        yield publish_map(self._plan, schema, done, overwrite=self._overwrite, lock=self._lock)


class MakeTiles(beam.PTransform):  # type: ignore[misc]
    """Makes and publishes tiles: ``int`` → name of the completion file.

    Args:
        plan: the import; its state has been saved.
        threads: threads inside one element; 1 where the runner brings its own workers.
        overwrite: whether an earlier map with this prefix is replaced.
        lock: what shows, when the run publishes, that it still holds its output.
    """

    def __init__(
        self, plan: ImportPlan, *, threads: int = 1, overwrite: bool = False, lock: LockTicket | None = None
    ) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._overwrite = overwrite
        self._lock = lock

    def expand(self, tiles: beam.PCollection[int]) -> beam.PCollection[str]:
        """Tiles are dealt out, made, gathered and moved to their places together."""
        # one worker makes neighbours one after the other: it reads the next while it writes the last
        size = 1 if self._threads == 1 else TILES_TOGETHER
        made = (
            tiles
            | "Number" >> beam.Map(lambda tile: (tile // size, tile)).with_output_types(tuple[int, int])
            | "DealTiles" >> beam.GroupByKey()
            | "InOrder" >> beam.MapTuple(lambda _, numbers: sorted(numbers))
            | "Make" >> beam.ParDo(_MakeTile(self._plan, self._threads)).with_output_types(TileDone)
        )
        return gather(made, "Tiles") | "Publish" >> beam.ParDo(
            _Publish(self._plan, self._overwrite, self._lock)
        )


class RecordsToTiles(beam.PTransform):  # type: ignore[misc]
    """Imports record files as a map: ``PBegin`` → name of the completion file.

    Args:
        plan: the import.
        threads: threads inside one element; 1 where the runner brings its own workers.
        overwrite: whether an earlier map with this prefix is replaced.
        lock: what shows, when the run publishes, that it still holds its output.
    """

    def __init__(
        self, plan: ImportPlan, *, threads: int = 1, overwrite: bool = False, lock: LockTicket | None = None
    ) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._overwrite = overwrite
        self._lock = lock

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Index, count, tiles, publication."""
        plan = self._plan
        return (
            begin
            | "IndexRecords"
            >> IndexRecords(plan.records, plan.temporary_folder, plan.members, threads=self._threads)
            | "PlanTiles" >> beam.ParDo(_PlanTiles(plan)).with_output_types(int)
            | "MakeTiles"
            >> MakeTiles(plan, threads=self._threads, overwrite=self._overwrite, lock=self._lock)
        )
