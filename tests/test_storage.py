"""Le socle du stockage : écriture atomique, base SQLite, horloge, erreurs en français."""

import errno
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from memoire.storage import (
    Clock,
    DamagedFileError,
    Database,
    StorageError,
    require_identifier,
    safe_name,
    write_atomically,
)
from tests.storage_tools import (
    HOSTILE,
    FakeClock,
    assert_no_trace,
    fill,
    identifiers,
    kill,
    raw_bytes,
    start,
    tiny_disk,
)

V1 = ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",)
V2 = (*V1, "ALTER TABLE notes ADD COLUMN author TEXT; UPDATE notes SET author = 'inconnu'")
KIND = 7


def insert(database: Database, *texts: str) -> None:
    with database.transaction() as connection:
        connection.executemany("INSERT INTO notes (text) VALUES (?)", [(text,) for text in texts])


def texts(database: Database) -> list[str]:
    return [row[0] for row in database.rows("SELECT text FROM notes ORDER BY id")]


# Identifiants et noms


def test_no_two_identifiers_share_a_name() -> None:
    assert len({safe_name(identifier).lower() for identifier in HOSTILE}) == len(HOSTILE)


@given(identifier=identifiers)
def test_a_name_is_a_plain_file_name(identifier: str) -> None:
    name = safe_name(identifier)
    assert name.isalnum()
    assert len(name) == 64


@pytest.mark.parametrize(
    ("value", "error"), [("", ValueError), ("a\ud800", ValueError), (None, TypeError), (3, TypeError)]
)
def test_bad_identifier_is_refused_in_french(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"user (doit|ne peut|contient)"):
        require_identifier("user", value)


# Écriture atomique


def test_a_writer_killed_at_any_time_leaves_a_whole_file(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from memoire.storage import write_atomically\n"
        "path, n = pathlib.Path(sys.argv[1]), 0\n"
        "while True:\n"
        "    n += 1\n"
        "    write_atomically(path, (str(n % 10) * 200_000).encode())\n"
        "    print(n, flush=True)\n"
    )
    path = tmp_path / "fichier"
    for _ in range(10):
        process = start(script, path)
        assert process.stdout
        for _ in range(3):
            process.stdout.readline()
        kill(process)
        content = path.read_bytes()
        assert content == content[:1] * 200_000, "un fichier à moitié écrit"
    assert len(list(tmp_path.iterdir())) <= 2, "les fichiers temporaires s'accumulent"


def test_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disque") as disk:
        path = disk / "fichier"
        write_atomically(path, b"ancien")
        fill(disk)
        with pytest.raises(StorageError, match="disque plein"):
            write_atomically(path, b"nouveau" * 10_000)
        assert path.read_bytes() == b"ancien"
        assert {item.name for item in disk.iterdir()} == {"fichier", "remplissage"}


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "fichier"
    write_atomically(path, b"ancien")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="disque plein"):
        write_atomically(path, b"nouveau")
    assert [item.read_bytes() for item in tmp_path.iterdir()] == [b"ancien"]


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "dossier").write_bytes(b"je suis un fichier")
    with pytest.raises(StorageError, match="Écriture impossible"):
        write_atomically(tmp_path / "dossier" / "fichier", b"")
    with pytest.raises(StorageError, match="inaccessible"):
        Database(tmp_path / "dossier" / "base.db", KIND, V1)


# Base SQLite


def test_what_is_committed_is_there_after_reopening(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    insert(database, "un", "deux")
    database.close()
    assert texts(Database(tmp_path / "base.db", KIND, V1)) == ["un", "deux"]


def test_a_failed_transaction_writes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    with pytest.raises(StorageError), database.transaction() as connection:
        connection.executemany("INSERT INTO notes (text) VALUES (?)", [("un",), (None,)])
    assert texts(database) == []
    insert(database, "deux")
    assert texts(database) == ["deux"]


def test_migration_keeps_the_data_and_runs_once(tmp_path: Path) -> None:
    old = Database(tmp_path / "base.db", KIND, V1)
    insert(old, "un")
    old.close()
    for _ in range(2):
        new = Database(tmp_path / "base.db", KIND, V2)
        assert new.rows("SELECT text, author FROM notes") == [("un", "inconnu")]
        new.close()


def test_failed_migration_changes_nothing(tmp_path: Path) -> None:
    old = Database(tmp_path / "base.db", KIND, V1)
    insert(old, "un")
    old.close()
    with pytest.raises(StorageError):
        Database(tmp_path / "base.db", KIND, (*V2, "CREATE TABLE other (a); DROP TABLE missing"))
    again = Database(tmp_path / "base.db", KIND, V1)
    assert again.rows("SELECT * FROM notes") == [(1, "un")]


def test_newer_schema_and_other_data_are_refused(tmp_path: Path) -> None:
    Database(tmp_path / "base.db", KIND, V2).close()
    before = (tmp_path / "base.db").read_bytes()
    with pytest.raises(StorageError, match="plus récent"):
        Database(tmp_path / "base.db", KIND, V1)
    with pytest.raises(StorageError, match="autres données"):
        Database(tmp_path / "base.db", KIND + 1, V2)
    assert (tmp_path / "base.db").read_bytes() == before
    foreign = sqlite3.connect(tmp_path / "autre.db")
    foreign.execute("CREATE TABLE clients (nom)")
    foreign.close()
    with pytest.raises(StorageError, match="autres données"):
        Database(tmp_path / "autre.db", KIND, V1)


@pytest.mark.parametrize("damage", ["début", "milieu", "tronqué", "vidé", "texte"])
def test_damaged_database_is_never_read_as_empty(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "base.db"
    database = Database(path, KIND, V1)
    insert(database, *(f"note {n} " * 50 for n in range(400)))
    database.close()
    content = bytearray(path.read_bytes())
    assert len(content) > 100_000
    if damage == "début":
        content[:200] = b"\x00" * 200
    elif damage == "milieu":
        content[4096:90_000] = os.urandom(90_000 - 4096)
    elif damage == "tronqué":
        del content[len(content) // 2 :]
    elif damage == "texte":
        content[:] = b"Ceci n'est pas une base.\n" * 300
    else:
        content.clear()
        path.with_name("base.db-wal").write_bytes(b"un journal" * 1000)
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="modifié"):
        texts(Database(path, KIND, V1))
    assert path.read_bytes() == bytes(content), "le fichier endommagé a été touché"


def test_full_disk_is_reported_and_nothing_committed_is_lost(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disque") as disk:
        database = Database(disk / "base.db", KIND, V1)
        insert(database, "un")
        fill(disk)
        with pytest.raises(StorageError, match="disque est plein"):
            insert(database, "x" * 500_000)
        assert texts(database) == ["un"]
        (disk / "remplissage").unlink()
        insert(database, "deux")
        database.close()
        assert texts(Database(disk / "base.db", KIND, V1)) == ["un", "deux"]


def test_unwritable_database_is_reported_in_french(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    insert(database, "un")
    database.rows("PRAGMA query_only = ON")  # ce que donne un support en lecture seule
    with pytest.raises(StorageError, match="lecture seule"):
        insert(database, "deux")
    assert texts(database) == ["un"]


def test_closed_database_is_reported_in_french(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    database.close()
    with pytest.raises(StorageError, match="fermée"):
        texts(database)


def test_busy_database_is_reported_in_french(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Database(tmp_path / "base.db", KIND, V1)
    monkeypatch.setattr("memoire.storage.BUSY_SECONDS", 0.05)
    second = Database(tmp_path / "base.db", KIND, V1)
    with first.transaction(), pytest.raises(StorageError, match="occupée"):
        insert(second, "deux")


def test_many_processes_may_create_the_same_database(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from memoire.storage import Database\n"
        f"database = Database(sys.argv[1], {KIND}, {V1!r})\n"
        "with database.transaction() as connection:\n"
        "    connection.execute('INSERT INTO notes (text) VALUES (?)', (sys.argv[2],))\n"
    )
    processes = [start(script, tmp_path / "base.db", number) for number in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    assert sorted(texts(Database(tmp_path / "base.db", KIND, V1))) == [str(number) for number in range(8)]


def test_threads_may_share_a_database(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    threads = [threading.Thread(target=lambda: [insert(database, "x") for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts(database)) == 160


def test_nothing_deleted_remains_after_scrub(tmp_path: Path) -> None:
    database = Database(tmp_path / "base.db", KIND, V1)
    for round_ in range(30):
        insert(database, *(f"Secret {user} {round_} " * (user + 1) for user in range(20)))
    for user in range(20):
        with database.transaction() as connection:
            connection.execute("DELETE FROM notes WHERE text LIKE ?", (f"Secret {user} %",))
        assert f"secret {user} ".encode() in raw_bytes(tmp_path), "scrub serait inutile"
        database.scrub()
        assert_no_trace(tmp_path, f"Secret {user} ")
        assert len(texts(database)) == 30 * (19 - user)


def test_scrub_says_when_a_reader_elsewhere_prevents_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoire.storage.BUSY_SECONDS", 0.05)
    writer, reader = (Database(tmp_path / "base.db", KIND, V1) for _ in range(2))
    insert(writer, "secret")
    with reader.transaction("DEFERRED") as connection:
        connection.execute("SELECT * FROM notes").fetchall()
        with writer.transaction() as other:
            other.execute("DELETE FROM notes")
        with pytest.raises(StorageError, match="inachevé"):
            writer.scrub()
    writer.scrub()
    assert_no_trace(tmp_path, "secret")


# Horloge


def test_clock_never_goes_backwards() -> None:
    source = FakeClock(100.0)
    clock = Clock(source)
    assert clock() == 100.0
    source.now = 50.0
    assert clock() == 100.0
    assert clock(at_least=120.0) == 120.0
    source.now = 110.0
    assert clock() == 120.0
    source.now = 130.0
    assert clock() == 130.0
