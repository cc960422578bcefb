"""A real Flink on loopback: what it is made of, fetched through PyPI and Maven, and a cluster of processes.

python tests/flink.py        # as `make test-flink`: fetches, runs the tests, says what could not be had
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

TESTS = Path(__file__).resolve().parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from job_services import running  # noqa: E402
from range_server import free_port  # noqa: E402
from shared import ROOT  # noqa: E402

SERIES = "1.20"
LIBRARIES = f"apache-flink-libraries=={SERIES}.*"
JOB_SERVER = f"org.apache.beam:beam-runners-flink-{SERIES}-job-server:{version('apache-beam')}"
FOLDER = ROOT / "out" / "flink"
PATIENCE_S = 90.0
# colours, and which goal of which plugin has failed
_NOISE = re.compile(r"\x1b\[[\d;]*m|\[ERROR\]|ERROR:|Failed to execute goal .* project standalone-pom:")
FETCH_S = 900
SLOTS = 2

# Flink reaches into the JDK; from Java 17 on that has to be allowed
_OPENED = ("util", "lang", "net", "nio", "time", "io", "text", "lang.reflect", "util.concurrent")
_OPENS = [
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-opens=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
]
# what the script of a distribution works out from the size of the process
_MEMORY = {
    "taskmanager.cpu.cores": "2.0",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.task.heap.size": "384m",
    "taskmanager.memory.task.off-heap.size": "0m",
    "taskmanager.memory.managed.size": "128m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
}


class Missing(Exception):
    """Something that Flink needs cannot be had; says what, in which version, and why."""


def libraries(*, fetch: bool = False) -> list[Path]:
    """The jars of Flink itself.

    Args:
        fetch: whether they are fetched where they are not there.
    """
    folder = FOLDER / SERIES
    if not any(folder.glob("flink-dist-*.jar")):
        if not fetch:
            raise Missing(f"{LIBRARIES}: make test-flink fetches it")
        _fetch_libraries(folder)
    return sorted(folder.glob("*.jar"))


def _fetch_libraries(folder: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as place:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _run(
            [*pip, f"--no-binary={LIBRARIES.partition('=')[0]}", "--dest", place, LIBRARIES],
            f"{LIBRARIES} (PyPI)",
        )
        (archive,) = Path(place).glob("*.tar.gz")
        jars = Path(place) / "jars"
        jars.mkdir()
        with tarfile.open(archive) as files:
            for member in files:
                if re.fullmatch(r"[^/]+/deps/lib/[^/]+\.jar", member.name):
                    member.name = Path(member.name).name
                    files.extract(member, jars, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        jars.rename(folder)


def job_server(*, fetch: bool = False) -> Path:
    """The jar of Beam's job server for Flink, of the version of Beam that is installed.

    Args:
        fetch: whether it is fetched where it is not there.
    """
    named = os.environ.get("PATCHBEAM_FLINK_JOB_SERVER")
    if named:
        if not Path(named).is_file():
            raise Missing(f"PATCHBEAM_FLINK_JOB_SERVER={named}: there is no such file")
        return Path(named)
    _, name, version = JOB_SERVER.split(":")
    path = FOLDER / f"{name}-{version}.jar"
    if not path.exists():
        if not fetch:
            raise Missing(f"{JOB_SERVER}: make test-flink fetches it, or PATCHBEAM_FLINK_JOB_SERVER names it")
        if shutil.which("mvn") is None:
            raise Missing(f"{JOB_SERVER}: there is no Maven (mvn) to fetch it with")
        FOLDER.mkdir(parents=True, exist_ok=True)
        for goal, more in (("get", "-Dtransitive=false"), ("copy", f"-DoutputDirectory={FOLDER}")):
            command = ["mvn", "-q", "-B", f"dependency:{goal}", f"-Dartifact={JOB_SERVER}", more]
            _run(command, f"{JOB_SERVER} (Maven)")
    return path


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        said = _NOISE.sub("", lines[0] if lines else f"{command[0]} ended with {done.returncode}")
        raise Missing(f"{what}: {said.partition('. ')[0].strip()}")


def flink_arguments(port: int, jar: Path) -> tuple[str, ...]:
    """What makes a pipeline run on the Flink whose REST service is at a port of this machine."""
    return (
        "--runner=FlinkRunner",
        f"--flink_version={SERIES}",
        f"--flink_master=localhost:{port}",
        f"--flink_job_server_jar={jar}",
        "--parallelism=2",
    )


@dataclass
class Cluster:
    """One JobManager and its TaskManagers.

    Attributes:
        port: of its REST service.
    """

    port: int
    _folder: Path
    _jars: list[Path]
    _stack: ExitStack
    _managers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def overview(self) -> dict[str, int]:
        """What the JobManager says of itself; empty while it does not answer."""
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/overview", None, 5) as told,
        ):
            return {key: value for key, value in json.load(told).items() if isinstance(value, int)}
        return {}

    def task_managers(self) -> list[int]:
        """The processes of those that live."""
        return [manager.pid for manager in self._managers if manager.poll() is None]

    def fill_up(self, wanted: int = 2) -> None:
        """Starts TaskManagers, as a supervisor does, until so many live and are known to the JobManager."""
        while len(self.task_managers()) < wanted:
            number = len(self._managers)
            more = [part for pair in _MEMORY.items() for part in ("-D", "=".join(pair))]
            more += ["-D", f"taskmanager.resource-id=tm{number}"]
            name = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
            self._managers.append(self.start(f"tm{number}", name, ["-Xmx512m", *_direct("256m")], more))
        self.wait_for_task_managers(wanted)

    def wait_for_task_managers(self, wanted: int) -> None:
        """Waits until the JobManager knows of exactly so many, with their slots."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            told = self.overview()
            if told.get("taskmanagers") == wanted and told.get("slots-total") == SLOTS * wanted:
                return
            time.sleep(0.2)
        raise AssertionError(f"{wanted} TaskManagers: {self.overview()}; logs in {self._folder}")

    def start(self, log: str, name: str, options: list[str], more: list[str]) -> subprocess.Popen[bytes]:
        """Starts a process of Flink."""
        classes = os.pathsep.join(map(str, self._jars))
        java = ["java", *_OPENS, *options, "-cp", classes, name, "--configDir", str(self._folder), *more]
        return self._stack.enter_context(running(java, self._folder / f"{log}.log"))


def _direct(size: str) -> list[str]:
    return [f"-XX:MaxDirectMemorySize={size}", "-XX:MaxMetaspaceSize=256m"]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Runs a JobManager and two TaskManagers on loopback, each of the latter with two slots.

    Raises:
        Missing: Java or Flink's jars are not there.
    """
    if shutil.which("java") is None:
        raise Missing("Java (11 or 17) is not there")
    jars = libraries()
    port, rpc, blobs = free_port(), free_port(), free_port()
    (folder / "tmp").mkdir()
    settings = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc,
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.process.size": "1024m",
        "blob.server.port": blobs,
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": SLOTS,
        "taskmanager.memory.process.size": "1280m",
        "cluster.evenly-spread-out-slots": "true",
        # a lost TaskManager is noticed soon, and what it did is done again by the other
        "heartbeat.interval": 1000,
        "heartbeat.timeout": 10000,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 5,
        "restart-strategy.fixed-delay.delay": "1 s",
        "io.tmp.dirs": folder / "tmp",
    }
    (folder / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    with ExitStack() as stack:
        made = Cluster(port, folder, jars, stack)
        name = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        made.start("jm", name, ["-Xmx512m", "-XX:MaxMetaspaceSize=256m"], [])
        made.fill_up()
        yield made
        for manager in made.task_managers():
            os.kill(manager, signal.SIGTERM)


def main() -> int:
    """Fetches what there is, runs the tests with it, and says what was missing."""
    missing = []
    for what in (libraries, job_server):
        try:
            what(fetch=True)
        except Missing as error:
            missing.append(str(error))
    tests = ["tests/runners/test_flink.py", "-rs", *sys.argv[1:]]
    status = subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT).returncode
    for text in missing:
        print(f"make test-flink: could not be fetched: {text}", file=sys.stderr)
    if missing:
        print("make test-flink: the tests that need it have not run; they are skipped above", file=sys.stderr)
    return status or bool(missing)


if __name__ == "__main__":
    sys.exit(main())
