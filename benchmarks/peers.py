"""Other trace stores, each from PyPI in an environment of its own, made at first use."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

ENVIRONMENTS = Path(__file__).parent.parent / ".peers"
PATIENCE = 180.0  # seconds until a server answers


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """How to start it and what to send to; `{port}`, `{grpc}` and `{folder}` are filled in."""

    name: str
    package: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    health: str
    page: str  # what somebody looks at meanwhile
    database: str
    count: str  # SQL: how many spans can be seen
    headers: tuple[str, ...] = ()


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A server that was started."""

    peer: Peer
    port: int
    pid: int
    folder: Path
    start_seconds: float  # from its start to the first 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def visible(self) -> int:
        """How many spans its store shows."""
        path = self.folder / self.peer.database
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as store:
                return int(store.execute(self.peer.count).fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    def size(self) -> int:
        """What its store takes on the disk."""
        return sum(
            file.stat().st_size for file in (self.folder / self.peer.database).parent.glob("*") if file.is_file()
        )


OURS = Peer(
    name="dashcam",
    package="",
    command=(
        "-m",
        "dashcam",
        "serve",
        "--port",
        "{port}",
        "--grpc-port",
        "0",
        "--otlp-port",
        "0",
        "--data",
        "{folder}",
    ),
    health="/ready",
    page="/api/sessions?limit=50",
    database="default/sessions.db",
    count="SELECT count(*) FROM spans",
)
MLFLOW = Peer(
    name="MLflow",
    package="mlflow",
    command=(
        *("-m", "mlflow", "server", "--host", "127.0.0.1", "--port", "{port}"),
        *("--backend-store-uri", "sqlite:///{folder}/mlflow.db", "--default-artifact-root", "{folder}/artifacts"),
    ),
    health="/health",
    page="/",
    database="mlflow.db",
    count="SELECT count(*) FROM spans",
    headers=("x-mlflow-experiment-id: 0",),
)
PHOENIX = Peer(
    name="Phoenix",
    package="arize-phoenix",
    command=("-m", "phoenix.server.main", "serve"),
    environment={
        "PHOENIX_PORT": "{port}", "PHOENIX_GRPC_PORT": "{grpc}", "PHOENIX_WORKING_DIR": "{folder}",
        "PHOENIX_HOST": "127.0.0.1", "PHOENIX_TELEMETRY_ENABLED": "false",
    },
    health="/healthz",
    page="/",
    database="phoenix.db",
    count="SELECT count(*) FROM spans",
)  # fmt: skip


@contextmanager
def running(peer: Peer) -> Iterator[Running]:
    """A server on free ports in a folder of its own; it and its children end with the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name.lower()}-"))
    process, server = start(peer, folder, free_port())
    try:
        yield server
    finally:
        end(process, 15)
        shutil.rmtree(folder, ignore_errors=True)


def start(peer: Peer, folder: Path, port: int) -> tuple[subprocess.Popen[bytes], Running]:
    """Start a server, and wait until it answers."""
    filled = {"port": port, "grpc": free_port(), "folder": folder}
    command = [str(python_of(peer)), *(part.format(**filled) for part in peer.command)]
    told = {name: value.format(**filled) for name, value in peer.environment.items()}
    with (folder / "output.txt").open("ab") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, env={**os.environ, **told}, stdout=output, stderr=output, cwd=folder, start_new_session=True
        )
    try:
        _wait(f"http://127.0.0.1:{port}{peer.health}", process, folder)
    except BaseException:
        end(process, 9)
        raise
    seconds = time.perf_counter() - begun
    return process, Running(peer=peer, port=port, pid=process.pid, folder=folder, start_seconds=seconds)


def end(process: subprocess.Popen[bytes], signal: int) -> None:
    """End the group that it was started as, and nobody else."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()


def python_of(peer: Peer) -> Path:
    """The interpreter that has the peer; ours is this one."""
    if not peer.package:
        return Path(sys.executable)
    home = ENVIRONMENTS / peer.package
    python = home / "bin" / "python"
    if not (home / ".installed").exists():
        print(f"  … installing {peer.package}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", peer.package], check=True, stderr=subprocess.DEVNULL)
        (home / ".installed").touch()
    return python


def memory_of(pid: int) -> float:
    """MB of a process and all below it: private, and its share of what is shared."""
    total, todo = 0, [pid]
    while todo:
        each = todo.pop()
        try:
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
            total += int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1])
            for task in Path(f"/proc/{each}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, StopIteration):
            continue
    return total / 1024


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with {process.returncode}: {(folder / 'output.txt').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.02)
    raise RuntimeError(f"{url} didn't answer in {PATIENCE:.0f} s: {(folder / 'output.txt').read_text()[-2000:]}")
