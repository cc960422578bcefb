"""What workers cost, from a YAML file that the user can change, and what a job then does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from patchbeam.errors import JobError
from pipelines.jobfile.messages import describe_all
from pipelines.jobfile.yamltext import parse_yaml

_PROCESS_GIB = 0.35
"""Memory of a worker process with its libraries, before it holds a pixel."""

_MOST = 1_000_000
Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class WorkerType(_Model):
    """A kind of machine: its name, cores and memory."""

    name: str
    vcpus: Annotated[int, Field(ge=1, le=_MOST)]
    memory_gib: Amount


class Prices(_Model):
    """The file of prices; all are for an hour."""

    as_of: date
    region: str
    currency: str
    source: str = ""
    vcpu_hour: Price
    memory_gib_hour: Price
    disk_gib_hour: Price
    disk_gib_per_worker: Price
    startup_minutes: Price
    workers: Annotated[int, Field(ge=1, le=_MOST)]
    worker_types: Annotated[tuple[WorkerType, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a job costs on workers of one type.

    Attributes:
        type: of the workers.
        minutes: from the start of the workers to the end.
        cost: of all workers, in the currency of the prices.
        fits: whether one process a core has the memory it needs.
    """

    type: WorkerType
    minutes: float
    cost: float
    fits: bool


def load_prices(path: str | None) -> Prices:
    """Reads a file of prices.

    Args:
        path: of the file; ``None`` for the one that comes with the package.

    Raises:
        JobError: it is not there or not one; names file and key.
    """
    try:
        if path is None:
            text = resources.files("patchbeam").joinpath("prices.yaml").read_text(encoding="utf-8")
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        values = parse_yaml(text, f"--prices: {path}")
        if not isinstance(values, dict):
            raise JobError(
                f"--prices: {path}: this is no map of keys to values; write one as patchbeam/prices.yaml is"
            )
        return Prices.model_validate(values)
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"--prices: {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    except ValidationError as error:
        said = "; ".join(describe_all(Prices, error.errors()))
        raise JobError(f"--prices: {path}: {said}") from None


def costs(prices: Prices, cpu_seconds: float, memory_bytes: int, blocks: int) -> list[Cost]:
    """Returns what a job costs on each type of worker.

    Args:
        prices: the prices.
        cpu_seconds: the work, in seconds of one core, taken to be as fast as one of a worker's.
        memory_bytes: what a process needs above its libraries; one runs on each core.
        blocks: how many the work falls into; no more cores than that are of use.
    """
    found = []
    for kind in prices.worker_types:
        cores = prices.workers * kind.vcpus
        # the last round of blocks is not shared by all cores
        rounds = math.ceil(blocks / cores)
        work_s = rounds * cpu_seconds / max(1, blocks)
        hours = work_s / 3600 + prices.startup_minutes / 60
        hourly = (
            kind.vcpus * prices.vcpu_hour
            + kind.memory_gib * prices.memory_gib_hour
            + prices.disk_gib_per_worker * prices.disk_gib_hour
        )
        need = kind.vcpus * (memory_bytes / 2**30 + _PROCESS_GIB)
        found.append(
            Cost(
                type=kind,
                minutes=60 * hours,
                cost=prices.workers * hours * hourly,
                fits=need <= kind.memory_gib,
            )
        )
    return found
