"""Les supports de sessions : un même contrat (points 11 à 13) pour SQLite et pour Redis, éprouvé par la casse."""

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoire import SlidingWindowMemory, SummaryMemory
from memoire.chatbot import Chatbot
from memoire.llm import SimulatedLLM
from memoire.messages import Message, create_message
from memoire.persistence import RedisSessionStore, SessionMemory, SQLiteSessionStore
from memoire.storage import DamagedFileError, Receipt, StorageError
from tests.storage_tools import (
    HOSTILE,
    FakeClock,
    RedisServer,
    assert_no_trace,
    failing,
    fill,
    free_port,
    identifiers,
    kill,
    raw_bytes,
    redis_server,
    start,
    tiny_disk,
)
from tests.strategies import STRATEGIES
from tests.test_contract import conversations, feed

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Où ouvrir le support : un fichier, ou l'adresse du serveur (vidé)."""
    if kind == "sqlite":
        return str(tmp_path / "base" / "sessions.db")
    server = request.getfixturevalue("redis")
    store = RedisSessionStore(server.url)
    store._client.flushall()
    store.close()
    return str(server.url)


@pytest.fixture
def folder(kind: str, place: str, request: pytest.FixtureRequest) -> Path:
    """Le dossier où le support écrit."""
    return Path(place).parent if kind == "sqlite" else Path(request.getfixturevalue("redis").folder)


@pytest.fixture
def open_store(kind: str, place: str) -> Iterator[Open]:
    opened: list[Any] = []

    def open_(**options: Any) -> Any:
        opened.append((SQLiteSessionStore if kind == "sqlite" else RedisSessionStore)(place, **options))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Any:
    return open_store()


def say(text: str, role: str = "user") -> Message:
    return create_message(role, text)


def contents(store: Any, user: str, session: str) -> list[str]:
    return [item.message.content for item in store.load(user, session)]


# Écrire et relire


def test_messages_come_back_as_they_were_in_order(store: Any, open_store: Open) -> None:
    calls = [{"id": "c1", "name": "create_task", "arguments": '{"titre": "pain\u00a0!"}'}]
    sent = [
        say("Vous êtes un assistant.", "system"),
        say("Bonjour 🙂\x00\n'; --"),
        create_message("assistant", "", calls),
        create_message("tool", "créée", tool_call_id="c1"),
        say("", "assistant"),
    ]
    revisions = [store.append("alice", "s1", message) for message in sent]
    assert [revision.number for revision in revisions] == [1, 2, 3, 4, 5]
    for reader in (store, open_store()):
        stored = reader.load("alice", "s1")
        assert [item.message for item in stored] == sent
        assert [item.number for item in stored] == [1, 2, 3, 4, 5]
        assert reader.revision("alice", "s1") == revisions[-1]


def test_an_unknown_session_is_empty(store: Any) -> None:
    assert store.load("alice", "s1") == []
    assert store.revision("alice", "s1") is None
    assert store.derived("alice", "s1") == {}
    assert store.sessions("alice") == []
    assert store.remove("alice", "s1", []) is None


def test_derived_texts_are_stored_with_their_message_and_keep_their_order(store: Any) -> None:
    store.append("alice", "s1", say("un"), {"z": "premier", "b": "deuxième"})
    store.append("alice", "s1", say("deux"), {"a": "troisième"})
    store.append("alice", "s1", say("trois"))
    assert list(store.derived("alice", "s1").items()) == [("z", "premier"), ("b", "deuxième"), ("a", "troisième")]
    assert store.derived("alice", "s2") == {}


def test_remove_takes_only_the_named_messages(store: Any) -> None:
    revisions = [store.append("alice", "s1", say(text)) for text in ("un", "deux", "trois")]
    other = store.append("alice", "s2", say("autre"))
    after = store.remove("alice", "s1", [revisions[1], other])
    assert after == store.revision("alice", "s1") == (revisions[0].epoch, 4)
    assert contents(store, "alice", "s1") == ["un", "trois"]
    assert contents(store, "alice", "s2") == ["autre"]
    assert store.append("alice", "s1", say("quatre")).number == 5
    assert contents(store, "alice", "s1") == ["un", "trois", "quatre"]
    assert [info.messages for info in store.sessions("alice")] == [3, 1]


def test_a_recreated_session_has_no_revision_in_common_with_the_old_one(store: Any) -> None:
    old = [store.append("alice", "s1", say(text)) for text in ("un", "deux")]
    store.forget_session("alice", "s1")
    new = [store.append("alice", "s1", say(text)) for text in ("trois", "quatre")]
    assert not set(old) & set(new)
    assert store.remove("alice", "s1", old) is None
    assert contents(store, "alice", "s1") == ["trois", "quatre"]


def test_sessions_are_listed_from_the_oldest(store: Any) -> None:
    for session in ("z", "a", "m"):
        store.append("alice", session, say("bonjour"))
    store.append("alice", "z", say("encore"))
    assert [(info.session, info.messages) for info in store.sessions("alice")] == [("z", 2), ("a", 1), ("m", 1)]


def test_export_is_portable_and_complete(open_store: Open) -> None:
    store = open_store(clock=FakeClock(0.0), ttl=60)
    store.append("alice", "s1", say("Bonjour"), {"clé": "un résumé"})
    store.append("bob", "s1", say("Secret de Bob"))
    document = json.loads(json.dumps(store.export("alice"), ensure_ascii=False))
    assert document == {
        "format": "memoire-export",
        "version": 1,
        "user": "alice",
        "exported_at": "1970-01-01T00:00:00+00:00",
        "sessions": [
            {
                "session": "s1",
                "created_at": "1970-01-01T00:00:00+00:00",
                "updated_at": "1970-01-01T00:00:00+00:00",
                "expires_at": "1970-01-01T00:01:00+00:00",
                "messages": [{"role": "user", "content": "Bonjour", "at": "1970-01-01T00:00:00+00:00"}],
                "summaries": ["un résumé"],
            }
        ],
    }


# Refuser


@pytest.mark.parametrize("bad", ["", "a\ud800"])
def test_bad_identifiers_and_texts_are_refused_before_anything_is_written(store: Any, bad: str) -> None:
    store.append("alice", "s1", say("un"))
    attempts: list[Callable[[], Any]] = [
        lambda: store.append(bad, "s1", say("x")),
        lambda: store.append("alice", bad, say("x")),
        lambda: store.load(bad, "s1"),
        lambda: store.derived("alice", bad),
        lambda: store.revision(bad, "s1"),
        lambda: store.sessions(bad),
        lambda: store.export(bad),
        lambda: store.forget(bad),
        lambda: store.forget_session("alice", bad),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"vide|UTF-8"):
            attempt()
    assert contents(store, "alice", "s1") == ["un"]


def test_texts_that_cannot_be_written_are_refused(store: Any) -> None:
    store.append("alice", "s1", say("un"))
    call = [{"id": "c\ud800", "name": "f", "arguments": "{}"}]
    for message, derived in (
        (say("a\ud800"), None),
        (create_message("assistant", "", call), None),
        (say("x"), {"clé": "\ud800"}),
        (say("x"), {"\ud800": "texte"}),
    ):
        with pytest.raises(ValueError, match="UTF-8"):
            store.append("alice", "s1", message, derived)
    with pytest.raises(TypeError, match="reçu"):
        store.append("alice", "s1", "bonjour")
    assert contents(store, "alice", "s1") == ["un"]
    assert store.derived("alice", "s1") == {}


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "60", True])
def test_bad_lifetime_is_refused(open_store: Open, ttl: Any) -> None:
    with pytest.raises(ValueError, match="ttl"):
        open_store(ttl=ttl)


# Isoler (contrat, point 11)


def test_hostile_identifiers_never_name_anothers_data(store: Any) -> None:
    for number, user in enumerate(HOSTILE):
        store.append(user, "s", say(f"de {number}"), {"k": f"dérivé {number}"})
        store.append("partagé", user, say(f"session {number}"))
    for number, user in enumerate(HOSTILE):
        assert contents(store, user, "s") == [f"de {number}"]
        assert contents(store, "partagé", user) == [f"session {number}"]
        assert store.derived(user, "s") == {"k": f"dérivé {number}"}
        assert [info.session for info in store.sessions(user)] == ["s"]
        assert [m["content"] for m in store.export(user)["sessions"][0]["messages"]] == [f"de {number}"]
    assert [info.session for info in store.sessions("partagé")] == HOSTILE
    for user in HOSTILE[::9]:
        assert store.forget_session("partagé", user).counts["messages"] == 1
    assert [info.session for info in store.sessions("partagé")] == [s for s in HOSTILE if s not in HOSTILE[::9]]


def test_generated_identifiers_never_name_anothers_data(store: Any) -> None:
    sent: dict[tuple[str, str], list[str]] = {}

    @settings(max_examples=60)
    @given(user=identifiers, session=identifiers, text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    def check(user: str, session: str, text: str) -> None:
        store.append(user, session, say(text))
        sent.setdefault((user, session), []).append(text)
        for known in sent:
            assert contents(store, *known) == sent[known]
        assert {info.session for info in store.sessions(user)} == {s for u, s in sent if u == user}

    check()


@pytest.mark.parametrize("prefix", ["", "a:b", "a*", "é", "a b"])
def test_redis_prefix_cannot_reach_other_keys(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        RedisSessionStore("redis://localhost", prefix=prefix)


def test_a_client_of_ones_own_may_be_given(redis: RedisServer) -> None:
    from redis import Redis

    store = RedisSessionStore(Redis(port=redis.port, decode_responses=True), ttl=60, prefix="client")
    store.append("alice", "s1", say("Bonjour"), {"k": "dérivé"})
    assert contents(store, "alice", "s1") == ["Bonjour"]
    assert [info.messages for info in store.sessions("alice")] == [1]
    assert store.forget("alice").counts == {"sessions": 1, "messages": 1, "derived": 1}
    store.close()


def test_redis_prefixes_are_apart(redis: RedisServer) -> None:
    first, second = (RedisSessionStore(redis.url, prefix=prefix, rewrite_files=False) for prefix in ("a", "a.b"))
    first.append("alice", "s", say("un"))
    second.append("alice", "s", say("deux"))
    assert contents(first, "alice", "s") == ["un"]
    first.forget("alice")
    first.purge()
    assert contents(second, "alice", "s") == ["deux"]
    second.forget("alice")


# Durer (contrat, point 12)

WRITER = """
import os, sys
from memoire.messages import create_message
from memoire.persistence import RedisSessionStore, SQLiteSessionStore

place = sys.argv[1]
if place.startswith("redis:"):
    import redis

def write(start, many):
    store = (RedisSessionStore if place.startswith("redis:") else SQLiteSessionStore)(place)
    for number in range(start, start + many):
        text = f"message {number} " + "x" * (number % 50 * 40)
        store.append("alice", "s1", create_message("user", text), {f"{number}": f"dérivé {number}"})
        os.write(1, b"%d\\n" % number)  # d'un seul tenant : deux processus écrivent dans ce tube
"""

ONE_WRITER = f"{WRITER}\nwrite(int(sys.argv[2]), int(sys.argv[3]))"

MANY_WRITERS = f"""{WRITER}
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        write(int(line), 100_000)
    os.write(1, b"pid %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"fin\\n")
"""


def write_then_die(nursery: Any, start: int, many: int) -> list[int]:
    """Lance un processus qui écrit, le tue après ``many`` acquittements ; rend tout ce qui a été acquitté."""
    nursery.stdin.write(f"{start}\n".encode())
    nursery.stdin.flush()
    pid, numbers, killed = 0, [], False
    for line in nursery.stdout:
        word, *rest = line.split()
        if word == b"fin":
            assert killed, "le processus est mort de lui-même"
            return numbers
        if word == b"pid":
            pid = int(rest[0])
        else:
            numbers.append(int(word))
        if pid and len(numbers) >= many and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
    raise AssertionError("le lanceur est mort")


def test_sixty_kills_lose_nothing_acknowledged(place: str, open_store: Open) -> None:
    done: list[int] = []
    nursery = start(MANY_WRITERS, place)
    for round_ in range(60):
        done += write_then_die(nursery, 100_000 * round_, 1 + round_ % 7)
        if round_ % 10 == 9:
            store = open_store()
            stored = [int(text.split()[1]) for text in contents(store, "alice", "s1")]
            assert set(done) <= set(stored), "un message acquitté a disparu"
            assert stored == sorted(stored), "l'ordre a changé"
            assert len(stored) - len(done) <= round_ + 1, "plus d'un message non acquitté par processus tué"
            assert list(store.derived("alice", "s1")) == [str(number) for number in stored], "un message sans dérivé"
    kill(nursery)
    assert len(done) >= 200


def test_fifty_concurrent_writers_lose_nothing_and_keep_order(place: str, open_store: Open) -> None:
    processes = [start(ONE_WRITER, place, 1000 * number, 50) for number in range(5)]
    for process in processes:
        assert process.stdout
        assert len(process.stdout.readlines()) == 50
        assert process.wait() == 0
    store = open_store()
    stored = store.load("alice", "s1")
    assert [item.number for item in stored] == list(range(1, 251))
    assert [item.at for item in stored] == sorted(item.at for item in stored)
    numbers = [int(item.message.content.split()[1]) for item in stored]
    for writer in range(5):
        assert [n for n in numbers if n // 1000 == writer] == [1000 * writer + n for n in range(50)]


def test_fifty_threads_writing_at_once_lose_nothing(store: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(50) as pool:
        revisions = list(pool.map(lambda n: store.append("alice", f"s{n % 3}", say(f"{n}")), range(50)))
    assert len(set(revisions)) == 50
    stored = {(f"s{s}", item.number): item.message.content for s in range(3) for item in store.load("alice", f"s{s}")}
    for number, revision in enumerate(revisions):
        assert stored[f"s{number % 3}", revision.number] == f"{number}"


def test_full_disk_is_an_error_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disque") as disk:
        store = SQLiteSessionStore(disk / "sessions.db")
        memory = SessionMemory(SlidingWindowMemory(50), store, "alice", "s1")
        memory.add_message("user", "acquitté")
        fill(disk)
        with pytest.raises(StorageError, match="disque est plein"):
            memory.add_message("user", "x" * 500_000)
        assert memory.get_context() == "[user] acquitté"
        (disk / "remplissage").unlink()
        memory.add_message("user", "ensuite")
        store.close()
        assert contents(SQLiteSessionStore(disk / "sessions.db"), "alice", "s1") == ["acquitté", "ensuite"]


def test_damaged_file_is_reported_not_read_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SQLiteSessionStore(path)
    store.append("alice", "s1", say("bonjour"))
    store.close()
    path.write_bytes(b"n'importe quoi, mais assez long" * 200)
    with pytest.raises(DamagedFileError, match="mettez-le de côté"):
        SQLiteSessionStore(path)
    assert path.read_bytes() == b"n'importe quoi, mais assez long" * 200


def test_redis_going_away_is_an_error_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        store = RedisSessionStore(server.url)
        memory = SessionMemory(SummaryMemory(2), store, "alice", "s1")
        done = [f"message {number}, acquitté avant la panne" for number in range(20)]
        for text in done:
            memory.add_message("user", text)
        context = memory.get_context()
        server.kill()
        for attempt in (lambda: memory.add_message("user", "perdu"), memory.get_context, lambda: store.forget("alice")):
            with pytest.raises(StorageError, match="Redis ne répond pas"):
                attempt()
        server.start()
        assert contents(store, "alice", "s1") == done
        assert memory.get_context() == context
        memory.add_message("user", "après la panne")
        assert contents(store, "alice", "s1") == [*done, "après la panne"]


def test_redis_killed_under_a_writer_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        for round_ in range(3):
            process = start(ONE_WRITER, server.url, 1000 * round_, 1000)
            assert process.stdout
            numbers = [int(process.stdout.readline()) for _ in range(20)]
            server.kill()
            numbers += [int(line) for line in process.stdout if line.endswith(b"\n")]
            assert process.wait() != 0, "le programme n'a pas vu que le serveur avait disparu"
            server.start()
            stored = [int(text.split()[1]) for text in contents(RedisSessionStore(server.url), "alice", "s1")]
            assert set(numbers) <= set(stored)


def test_a_lost_reply_from_redis_does_not_duplicate_the_message(redis: RedisServer) -> None:
    store = RedisSessionStore(redis.url, prefix="reponse")
    connection = store._client.connection_pool.get_connection()
    pipeline, lost = store._client.pipeline, []

    def pipeline_losing_one_reply() -> Any:
        pipe = pipeline()
        execute = pipe.execute

        def execute_then_lose() -> Any:
            from redis.exceptions import WatchError

            result = execute()
            if not lost:
                lost.append(True)
                raise WatchError("A ConnectionError occurred while watching one or more keys")
            return result

        pipe.execute = execute_then_lose
        return pipe

    store._client.pipeline = pipeline_losing_one_reply
    revision = store.append("alice", "s1", say("une seule fois"))
    assert lost
    assert contents(store, "alice", "s1") == ["une seule fois"]
    assert store.revision("alice", "s1") == revision
    connection.disconnect()


def test_an_absent_redis_is_reported_in_french() -> None:
    store = RedisSessionStore(f"redis://:motdepasse@127.0.0.1:{free_port()}/0")
    with pytest.raises(StorageError, match="Redis ne répond pas") as caught:
        store.append("alice", "s1", say("bonjour"))
    assert "motdepasse" not in str(caught.value)


def test_version_1_database_is_migrated_with_its_data(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    old = sqlite3.connect(path)
    old.executescript(SQLiteSessionStore.MIGRATIONS[0])
    old.executescript(
        f"PRAGMA user_version = 1; PRAGMA application_id = {SQLiteSessionStore.KIND};"
        "INSERT INTO sessions VALUES (1, 'alice', 's1', 100, 200), (2, 'bob', 's1', 100, 150);"
        "INSERT INTO messages VALUES (1, 1, 100, 'user', 'Bonjour', NULL, NULL),"
        "(1, 2, 200, 'assistant', 'Bonjour Alice', NULL, NULL), (2, 1, 150, 'user', 'Salut', NULL, NULL);"
    )
    old.close()
    store = SQLiteSessionStore(path, clock=FakeClock(50.0))
    assert contents(store, "alice", "s1") == ["Bonjour", "Bonjour Alice"]
    assert store.append("alice", "s1", say("Encore")).number == 3
    assert [item.at for item in store.load("alice", "s1")] == [100.0, 200.0, 200.0]
    assert store.forget("bob") == Receipt("bob", 200.0, {"sessions": 1, "messages": 1, "derived": 0})


# Expirer


def test_an_expired_session_is_absent_from_every_read_at_once(open_store: Open) -> None:
    clock = FakeClock()
    store = open_store(ttl=60, clock=clock)
    first = store.append("alice", "s1", say("un"), {"k": "dérivé"})
    clock.now += 59.9
    assert contents(store, "alice", "s1") == ["un"]
    clock.now += 0.1
    assert store.load("alice", "s1") == []
    assert store.derived("alice", "s1") == {}
    assert store.revision("alice", "s1") is None
    assert store.sessions("alice") == []
    assert store.export("alice")["sessions"] == []
    again = store.append("alice", "s1", say("deux"))
    assert contents(store, "alice", "s1") == ["deux"], "la session expirée a ressuscité"
    assert store.derived("alice", "s1") == {}
    assert again.epoch != first.epoch


def test_each_message_extends_the_life_of_its_session(open_store: Open) -> None:
    clock = FakeClock()
    store = open_store(ttl=60, clock=clock)
    for _ in range(5):
        store.append("alice", "s1", say("encore là"))
        clock.now += 50
    assert len(store.load("alice", "s1")) == 5
    assert [info.expires for info in store.sessions("alice")] == [clock.now + 10]


def test_purge_erases_the_bytes_of_expired_sessions_only(open_store: Open, folder: Path) -> None:
    clock = FakeClock()
    store = open_store(ttl=60, clock=clock)
    store.append("alice", "vieille", say("Secret périmé d'Alice"), {"k": "Résumé périmé"})
    clock.now += 50
    store.append("alice", "jeune", say("Message vivant"))
    clock.now += 20
    receipt = store.purge()
    assert receipt.at == clock.now
    assert receipt.counts == {"sessions": 1, "messages": 1, "derived": 1}
    assert_no_trace(folder, "Secret périmé d'Alice", "Résumé périmé", "vieille")
    assert contents(store, "alice", "jeune") == ["Message vivant"]
    assert b"message vivant" in raw_bytes(folder)
    assert store.purge().counts == {"sessions": 0, "messages": 0, "derived": 0}


def test_an_interrupted_erasure_is_finished_by_the_next_purge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteSessionStore(tmp_path / "sessions.db")
    store.append("alice", "s1", say("Secret d'Alice"))
    with monkeypatch.context() as patch:
        patch.setattr(store._database, "scrub", failing)
        with pytest.raises(ConnectionError):
            store.forget("alice")
    assert b"secret d'alice" in raw_bytes(tmp_path)
    store.purge()
    assert_no_trace(tmp_path, "Secret d'Alice")


def test_redis_sets_the_lifetime_with_the_data(redis: RedisServer) -> None:
    store = RedisSessionStore(redis.url, ttl=0.3, prefix="bref", rewrite_files=False)
    store.append("alice", "s1", say("éphémère"))
    keys = list(store._client.scan_iter("bref:*"))
    assert len(keys) == 2
    assert all(0 < store._client.pttl(key) <= 300 for key in keys)
    time.sleep(0.4)
    assert list(store._client.scan_iter("bref:*")) == []
    assert store.load("alice", "s1") == []


def test_a_clock_going_backwards_is_harmless(open_store: Open) -> None:
    clock = FakeClock(1000.0)
    store = open_store(ttl=60, clock=clock)
    store.append("alice", "s1", say("un"))
    clock.now = 10.0
    store.append("alice", "s1", say("deux"))
    later = open_store(ttl=60, clock=clock)
    later.append("alice", "s1", say("trois"))
    assert contents(later, "alice", "s1") == ["un", "deux", "trois"]
    assert [item.at for item in later.load("alice", "s1")] == [1000.0, 1000.0, 1000.0]
    clock.now = 1061.0
    assert later.load("alice", "s1") == []
    clock.now = 10.0
    assert later.load("alice", "s1") == [], "une session expirée est revenue"


def test_equal_timestamps_keep_the_order(open_store: Open) -> None:
    store = open_store(clock=FakeClock())
    sent = [f"message {number}" for number in range(30)]
    for text in sent:
        store.append("alice", f"s{len(text)}", say(text))
        store.append("alice", "s1", say(text))
    assert contents(store, "alice", "s1") == sent
    assert [info.session for info in store.sessions("alice")] == ["s9", "s1", "s10"]


# Effacer (contrat, point 13)


def test_forget_leaves_no_byte_of_the_user_and_does_not_touch_the_others(open_store: Open, folder: Path) -> None:
    store = open_store(clock=FakeClock(500.0))
    users = [f"Utilisateur-{number:02d}" for number in range(12)]
    for round_ in range(12):
        for user in users:
            for part in range(1 + round_ % 3):
                text = f"Secret de {user}, tour {round_}.{part}. " * (1 + (round_ * 7 + part) % 9)
                store.append(user, f"Session de {user} {round_ % 3}", say(text), {f"{round_}": f"Résumé de {user}"})
    for number, user in enumerate(users):
        others = users[number + 1 :]
        before = [json.dumps(store.export(other)) for other in others]
        exported = store.export(user)["sessions"]
        receipt = store.forget(user)
        assert receipt.subject == user
        assert receipt.at == 500.0
        assert receipt.counts == {
            "sessions": 3,
            "messages": sum(len(session["messages"]) for session in exported),
            "derived": 12,
        }
        assert store.sessions(user) == []
        assert_no_trace(folder, f"Secret de {user},", f"Session de {user} ", f"Résumé de {user}", f"{user}\x00")
        assert [json.dumps(store.export(other)) for other in others] == before
    assert store.forget(users[0]).counts == {"sessions": 0, "messages": 0, "derived": 0}


@pytest.mark.parametrize("seed", range(3))
def test_forget_leaves_no_byte_in_the_slack_of_the_pages(tmp_path: Path, seed: int) -> None:
    """Lignes de tailles mêlées : SQLite en laisse des copies en les déplaçant, même avec secure_delete."""
    choose = random.Random(seed)
    store = SQLiteSessionStore(tmp_path / "sessions.db")
    users = [f"Utilisateur-{number:02d}" for number in range(20)]
    for number in range(600):
        user = choose.choice(users)
        text = f"Secret de {user}, {number}. " * choose.choice([1, 2, 5, 20, 60])
        derived = {f"k{choose.randrange(40)}": f"Résumé de {user} " * choose.choice([1, 3, 10])}
        store.append(user, f"s{choose.randrange(3)}", say(text), derived)
    choose.shuffle(users)
    for user in users:
        store.forget(user)
        assert_no_trace(tmp_path, user)


def test_forget_rewrites_the_snapshot_of_redis(redis: RedisServer) -> None:
    store = RedisSessionStore(redis.url, prefix="instantane")
    store.append("alice", "s1", say("Secret dans un instantané"))
    store.append("bob", "s1", say("Message de Bob"))
    store._client.save()
    snapshot = redis.folder / "dump.rdb"
    assert "Secret dans un instantané".encode() in snapshot.read_bytes()
    store.forget("alice")
    assert_no_trace(redis.folder, "Secret dans un instantané")
    assert b"Message de Bob" in snapshot.read_bytes()


def test_forget_session_leaves_the_other_sessions(store: Any, folder: Path) -> None:
    store.append("alice", "s1", say("Secret effacé"))
    store.append("alice", "s2", say("Message gardé"))
    receipt = store.forget_session("alice", "s1")
    assert (receipt.subject, receipt.counts) == ("s1", {"sessions": 1, "messages": 1, "derived": 0})
    assert_no_trace(folder, "Secret effacé")
    assert [info.session for info in store.sessions("alice")] == ["s2"]


def test_forget_also_empties_the_journal_of_another_connection(open_store: Open, folder: Path) -> None:
    first, second = open_store(), open_store()
    second.append("alice", "s1", say("Secret écrit par un autre programme"))
    first.append("bob", "s1", say("Bob"))
    assert first.forget("alice").counts["messages"] == 1
    assert second.load("alice", "s1") == []
    assert_no_trace(folder, "Secret écrit par un autre programme")


def test_redis_slow_log_keeps_nothing(redis: RedisServer) -> None:
    store = RedisSessionStore(redis.url, prefix="lent")
    store._client.config_set("slowlog-log-slower-than", 0)
    store.append("alice", "s1", say("Secret dans le journal des lenteurs"))
    store._client.config_set("slowlog-log-slower-than", 10_000)
    assert "Secret dans le journal" in str(store._client.slowlog_get(50))
    store.forget("alice")
    assert "Secret dans le journal" not in str(store._client.slowlog_get(50))


# Rebâtir une stratégie (SessionMemory)


@pytest.mark.parametrize("name", STRATEGIES)
def test_any_strategy_comes_back_with_the_same_context(store: Any, name: str) -> None:
    @settings(max_examples=8)
    @given(messages=conversations())
    def check(messages: list[dict[str, Any]]) -> None:
        store.forget_session("alice", "s1") if store.revision("alice", "s1") else None
        reference = STRATEGIES[name]()
        memory = SessionMemory(STRATEGIES[name](), store, "alice", "s1")
        for message in messages:
            feed(memory, [message])
            feed(reference, [message])
        restarted = SessionMemory(STRATEGIES[name](), store, "alice", "s1")
        assert restarted.get_messages() == memory.get_messages() == reference.get_messages()
        assert restarted.get_context("Quel budget ?") == reference.get_context("Quel budget ?")
        assert restarted.get_total_tokens() == reference.get_total_tokens()

    check()


def test_a_restart_computes_no_summary_again(store: Any) -> None:
    calls: list[str] = []

    def summarize(summary: str, old: Any) -> str:
        calls.append(summary)
        return f"résumé {len(calls)} de {len(old)}"

    memory = SessionMemory(SummaryMemory(2, summarize), store, "alice", "s1")
    for number in range(12):
        memory.add_message("user", f"message {number}")
    assert calls
    before, context = len(calls), memory.get_context()
    restarted = SessionMemory(SummaryMemory(2, summarize), store, "alice", "s1")
    assert restarted.get_context() == context
    assert len(calls) == before
    restarted.add_message("user", "message 12")
    restarted.add_message("user", "message 13")
    assert len(calls) > before
    assert SessionMemory(SummaryMemory(2, failing), store, "alice", "s1").get_context() == restarted.get_context()


def test_a_failing_strategy_stores_nothing(store: Any) -> None:
    memory = SessionMemory(SummaryMemory(1, failing), store, "alice", "s1")
    memory.add_message("user", "un")
    with pytest.raises(ConnectionError):
        memory.add_message("user", "deux")
    assert contents(store, "alice", "s1") == ["un"]
    assert memory.get_context() == "[user] un"


def test_a_failing_store_keeps_nothing_in_the_strategy(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SessionMemory(SummaryMemory(2), store, "alice", "s1")
    for number in range(5):
        memory.add_message("user", f"message {number}, assez long pour être résumé")
    context = memory.get_context()
    with monkeypatch.context() as patch:
        patch.setattr(store, "append", failing)
        with pytest.raises(ConnectionError):
            memory.add_message("user", "non acquitté")
    with pytest.raises(ValueError, match="UTF-8"):
        memory.add_message("user", "\ud800")
    assert memory.get_context() == context
    memory.add_message("user", "la suite")
    assert contents(store, "alice", "s1")[-1] == "la suite"


def test_two_programs_in_the_same_session_see_each_other(store: Any) -> None:
    first, second = (SessionMemory(SlidingWindowMemory(5), store, "alice", "s1") for _ in range(2))
    first.add_message("user", "du premier")
    second.add_message("user", "du second")
    first.add_message("user", "du premier encore")
    assert (
        first.get_context() == second.get_context() == "[user] du premier\n[user] du second\n[user] du premier encore"
    )
    second.reset()
    assert first.get_context() == ""
    first.add_message("user", "reprise")
    assert second.get_context() == "[user] reprise"


def test_a_session_recreated_behind_its_back_is_noticed(store: Any) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    memory.add_message("user", "ancien")
    store.forget_session("alice", "s1")
    store.append("alice", "s1", say("nouveau"))
    assert memory.get_context() == "[user] nouveau"


def test_a_message_slipped_in_during_an_append_is_not_missed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    memory.add_message("user", "un")
    append = store.append

    def slip(*arguments: Any) -> Any:
        append("alice", "s1", say("glissé"))
        return append(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", slip)
        memory.add_message("user", "deux")
    assert memory.get_context() == "[user] un\n[user] glissé\n[user] deux"


def test_a_session_replaced_during_an_append_is_noticed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    memory.add_message("user", "ancien")
    append = store.append

    def replace(*arguments: Any) -> Any:
        store.forget_session("alice", "s1")
        append("alice", "s1", say("nouveau"))
        return append(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", replace)
        memory.add_message("user", "suite")
    assert memory.get_context() == "[user] nouveau\n[user] suite"


def test_a_failed_turn_leaves_no_message_behind(store: Any) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    bot = Chatbot(SimulatedLLM(), memory, "Vous êtes un assistant.")
    bot.chat("Je m'appelle Alice.")
    context, replayed = memory.get_context(), []
    memory._rebuild = lambda: replayed.append(True)  # type: ignore[method-assign]
    bot.llm = type("Broken", (), {"complete": failing})()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            bot.chat("Ce message ne doit pas rester.")
    assert not replayed, "une annulation ne doit pas tout repasser"
    assert memory.get_context() == context
    assert "Ce message ne doit pas rester." not in contents(store, "alice", "s1")
    assert SessionMemory(SlidingWindowMemory(5), store, "alice", "s1").get_context() == context


def test_a_cancellation_during_an_outage_is_done_later(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    memory.add_message("user", "un")
    checkpoint = memory.checkpoint()
    memory.add_message("user", "annulé")
    with monkeypatch.context() as patch:
        patch.setattr(store, "remove", failing)
        with pytest.raises(ConnectionError):
            memory.restore(checkpoint)
    assert memory.get_context() == "[user] un"
    assert contents(store, "alice", "s1") == ["un"]


def test_a_cancellation_spares_what_another_program_wrote(store: Any) -> None:
    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    memory.add_message("user", "un")
    checkpoint = memory.checkpoint()
    memory.add_message("user", "annulé")
    store.append("alice", "s1", say("d'ailleurs"))
    memory.restore(checkpoint)
    assert memory.get_context() == "[user] un\n[user] d'ailleurs"


def test_the_same_system_prompt_is_stored_once(store: Any) -> None:
    for _ in range(3):
        bot = Chatbot(SimulatedLLM(), SessionMemory(SlidingWindowMemory(5), store, "alice", "s1"), "Soyez bref.")
        bot.chat("Bonjour")
    roles = [item.message.role for item in store.load("alice", "s1")]
    assert roles.count("system") == 1
    assert roles.count("user") == 3


def test_a_message_too_large_for_a_smaller_budget_is_counted_as_skipped(store: Any) -> None:
    from memoire import PriorityWindowMemory

    memory = SessionMemory(PriorityWindowMemory(1000), store, "alice", "s1")
    memory.add_message("user", "x" * 400)
    memory.add_message("user", "bref")
    smaller = SessionMemory(PriorityWindowMemory(50), store, "alice", "s1")
    assert smaller.skipped == 1
    assert smaller.get_context() == "[user] bref"


def test_a_summarizer_that_fails_during_a_replay_loses_no_message(store: Any) -> None:
    def refuse(summary: str, old: Any) -> str:
        raise ValueError("résumé vide")

    memory = SessionMemory(SlidingWindowMemory(5), store, "alice", "s1")
    for number in range(5):
        memory.add_message("user", f"message {number}")
    with pytest.raises(ValueError, match="résumé vide"):
        SessionMemory(SummaryMemory(2, refuse), store, "alice", "s1")
