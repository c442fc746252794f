"""Ce que partagent les tests de stockage : identifiants hostiles, octets bruts, serveur Redis, processus tués."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

HOSTILE = [
    "alice",
    "Alice",
    "ALICE",
    "alice ",
    " alice",
    "alice\n",
    "alice\x00",
    "alice\x00bob",
    "bob",
    "../bob",
    "..",
    ".",
    "/etc/passwd",
    "C:\\bob",
    "bob.json",
    "bob'; DROP TABLE messages; --",
    "bob' OR '1'='1",
    '"bob"',
    "%",
    "_",
    "*",
    "bob*",
    "[ab]ob",
    "memoire:bob",
    "bob:session",
    "bob}:{alice",
    "{bob}",
    "bob\r\nDEL memoire",
    "é",
    "e\u0301",
    "ﬁ",
    "fi",
    "İ",
    "i",
    "ß",
    "ss",
    "🙂",
    "\u202ebob",
    "NULL",
    "None",
    "0",
    "0.0",
    "1",
    "true",
    "x" * 5000,
]
"""Identifiants tous différents, dont chacun tente d'en désigner un autre."""

identifiers = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


class FakeClock:
    """Horloge que le test avance, ou recule."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def raw_bytes(folder: Path) -> bytes:
    """Tous les octets de tous les fichiers d'un dossier, en minuscules."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()).lower()


def assert_no_trace(folder: Path, *texts: str) -> None:
    content = raw_bytes(folder)
    for text in texts:
        for encoded in {text, text.lower(), text.upper()}:
            assert encoded.encode().lower() not in content, f"il reste « {text} » dans {folder}"


def start(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Lance un programme Python dans un autre processus."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """Un vrai serveur Redis, sur un port libre, dont on peut tuer et relancer le processus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        from redis import Redis
        from redis.exceptions import RedisError

        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "appendonly": "yes", "save": "3600 1"}
        options |= {"appendfsync": "always", "rdbcompression": "no"}  # sans compression, les octets se lisent
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
        client = Redis(port=self.port)
        for _ in range(500):
            try:
                client.ping()
                client.close()
                return
            except RedisError:
                time.sleep(0.02)
        raise AssertionError("redis-server ne démarre pas")

    def kill(self) -> None:
        kill(self.process)


NO_REDIS = "redis-server est absent : « apt-get install redis-server » pour lancer ces tests"


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip(NO_REDIS)
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def tiny_disk(folder: Path, size: str = "1m") -> Iterator[Path]:
    """Un disque minuscule (tmpfs), que seul l'administrateur peut monter."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("monter un disque minuscule demande les droits d'administration")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Remplit un disque jusqu'au dernier octet."""
    with open(folder / "remplissage", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def failing(*_: Any, **__: Any) -> Any:
    raise ConnectionError("le service ne répond pas")
