"""``patchbeam plan --estimate``: what it prints, its JSON, and the file of prices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import JOB, Place, command

from pipelines.prices import costs, load_prices


@pytest.fixture()
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_it_prints(place: Place) -> None:
    before = place.files()
    outcome = command("plan", str(place.write(JOB)), "--estimate", "--workers", "1")
    assert outcome.status == 0, outcome
    assert "measured      1 of 1 read blocks (seed 0, 1 thread): " in outcome.out
    assert "on this machine" in outcome.out and "on disk " in outcome.out and " to 1" in outcome.out
    assert "n1-standard-4" in outcome.out and "cost (USD)" in outcome.out and "--prices FILE" in outcome.out
    assert outcome.out.startswith("grid")
    assert place.files() == before | {place.folder / "job.yaml"}


def test_as_json(place: Place) -> None:
    outcome = command("plan", str(place.write(JOB)), "--estimate", "--json", "--seed", "3", "--blocks", "2")
    found = json.loads(outcome.out)
    estimate = found["estimate"]
    assert found["patches"]["total"] == estimate["patches"] == 9
    assert estimate["blocks"] == {"measured": 1, "total": 1} and estimate["seed"] == 3
    assert estimate["uncompressedBytes"]["value"] == found["shards"]["uncompressedBytes"][0]
    assert estimate["measures"][0]["records"] == 9
    assert {one["workerType"] for one in estimate["dataflow"]} >= {"n1-standard-1", "n2-standard-8"}
    assert all(one["cost"] > 0 and one["memoryFits"] for one in estimate["dataflow"])


def prices(**change: Any) -> dict[str, Any]:
    return {
        "asOf": "2030-01-01",
        "region": "europe-west1",
        "currency": "EUR",
        "vcpuHour": 1,
        "memoryGibHour": 0.5,
        "diskGibHour": 0.01,
        "diskGibPerWorker": 100,
        "startupMinutes": 6,
        "workers": 2,
        "workerTypes": [
            {"name": "small", "vcpus": 1, "memoryGib": 2},
            {"name": "big", "vcpus": 4, "memoryGib": 4},
        ],
        **change,
    }


def test_own_prices(place: Place) -> None:
    file = place.folder / "prices.yaml"
    file.write_text(yaml.safe_dump(prices()))
    outcome = command("plan", str(place.write(JOB)), "--estimate", "--prices", str(file))
    assert "Dataflow, 2 workers, prices of 2030-01-01 in europe-west1:" in outcome.out
    assert "cost (EUR)" in outcome.out and "big" in outcome.out and "n1-standard" not in outcome.out


def test_the_prices_of_the_package_are_those_of_beam() -> None:
    beam = pytest.importorskip("apache_beam.testing.load_tests.dataflow_cost_consts")
    here = load_prices(None)
    assert here.region == "us-central1" and here.currency == "USD"
    assert here.vcpu_hour == beam.VCPU_PER_HR_BATCH
    assert here.memory_gib_hour == beam.MEM_PER_GB_HR_BATCH
    assert here.disk_gib_hour == beam.PD_PER_GB_HR


def test_what_workers_cost(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(prices()))
    small, big = costs(load_prices(str(tmp_path / "p.yaml")), 3600.0, 1 << 30, 10)
    # ten blocks of six minutes: five rounds on two cores, two on eight; six minutes to start
    assert small.minutes == pytest.approx(36) and big.minutes == pytest.approx(18)
    assert small.cost == pytest.approx(2 * 0.6 * (1 + 2 * 0.5 + 1))
    assert big.cost == pytest.approx(2 * 0.3 * (4 + 4 * 0.5 + 1))
    assert small.fits and not big.fits


def test_a_file_that_is_none_of_prices(place: Place) -> None:
    for text in ("x,y\n1,2\n", "[1]", ""):
        file = place.folder / "prices.yaml"
        file.write_text(text)
        outcome = command("plan", str(place.write(JOB)), "--estimate", "--prices", str(file))
        assert outcome.status == 2
        assert f"--prices: {file}: this is no map of keys to values; write one as" in outcome.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vcpuHour": "dear"}, 'vcpuHour: "dear" is not a number'),
        ({"vcpuHours": 1}, "did you mean 'vcpuHour'?"),
        ({"workers": 0}, "workers: 0"),
        ({"workerTypes": []}, "workerTypes"),
        (None, "not YAML: expected the node content"),
    ],
)
def test_a_bad_file_of_prices(place: Place, change: dict[str, Any] | None, said: str) -> None:
    file = place.folder / "prices.yaml"
    file.write_text("a: [" if change is None else yaml.safe_dump(prices(**change)))
    outcome = command("plan", str(place.write(JOB)), "--estimate", "--prices", str(file))
    assert outcome.status == 2 and outcome.err.startswith("patchbeam: --prices: "), outcome
    assert said in outcome.err and str(file) in outcome.err


def test_no_file_of_prices(place: Place) -> None:
    outcome = command("plan", str(place.write(JOB)), "--estimate", "--prices", "nowhere.yaml")
    assert outcome.status == 2 and "nowhere.yaml cannot be read" in outcome.err
