"""Vitesse du stockage : recherche parmi 10 000 vecteurs, écriture d'un message, reprise d'une longue session.

Objectifs, sur un cœur au repos : moins de 10 ms par recherche, moins de 1 ms par écriture (médiane), moins de 0,2 s
par reprise. ``make bench`` affiche les mesures ; aucune ne fait échouer les tests.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoire import SlidingWindowMemory
from memoire.messages import create_message
from memoire.persistence import SessionMemory, SQLiteSessionStore
from memoire.vectors import HashingEmbedder, InMemoryVectorStore, Record, SQLiteVectorStore

MANY = 10_000
EMBEDDER = HashingEmbedder(512)
TEXT = "Le message numéro {} parle du budget, du serveur de Nantes et de la livraison du mois de mai."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vitesse")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    vectors = np.random.default_rng(0).normal(size=(MANY, EMBEDDER.dimension)).astype(np.float32)
    kinds = ("affirmation", "question")
    return [Record(f"{n}", TEXT.format(n), vectors[n], {"kind": kinds[n % 2]}) for n in range(MANY)]


@pytest.fixture(scope="module", params=["mémoire vive", "SQLite"])
def store(request: pytest.FixtureRequest, folder: Path, records: list[Record]) -> Iterator[Any]:
    sqlite = request.param == "SQLite"
    with SQLiteVectorStore(folder / "v.db", EMBEDDER) if sqlite else InMemoryVectorStore(EMBEDDER) as store:
        store.add("alice", records)
        yield store


@pytest.mark.benchmark(group="recherche parmi 10 000 vecteurs d'un utilisateur")
@pytest.mark.parametrize("kind", [None, "affirmation"])
def test_search(benchmark: Any, store: Any, kind: str | None) -> None:
    target = np.random.default_rng(1).normal(size=EMBEDDER.dimension)
    assert len(benchmark(store.search, "alice", target, 5, kind)) == 5


@pytest.mark.benchmark(group="première recherche parmi 10 000 vecteurs, base tout juste ouverte")
def test_first_search(benchmark: Any, folder: Path, records: list[Record]) -> None:
    with SQLiteVectorStore(folder / "neuve.db", EMBEDDER) as store:
        store.add("alice", records)
        target = np.random.default_rng(1).normal(size=EMBEDDER.dimension)
        benchmark.pedantic(store.search, ("alice", target, 5), setup=store._cache.clear, rounds=7)


@pytest.mark.benchmark(group="écriture d'un message dans SQLite")
@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_append(benchmark: Any, folder: Path, synchronous: str) -> None:
    store = SQLiteSessionStore(folder / f"{synchronous}.db", synchronous=synchronous)
    numbers = count()
    benchmark.pedantic(
        lambda: store.append("alice", "s1", create_message("user", TEXT.format(next(numbers)))), rounds=2_000
    )
    store.close()


@pytest.mark.benchmark(group="reprise d'une session de 10 000 messages")
def test_restart(benchmark: Any, folder: Path) -> None:
    store = SQLiteSessionStore(folder / "longue.db")
    for number in range(MANY):
        store.append("alice", "s1", create_message(("user", "assistant")[number % 2], TEXT.format(number)))
    store.close()

    def restart() -> str:
        again = SQLiteSessionStore(folder / "longue.db")
        context = SessionMemory(SlidingWindowMemory(5), again, "alice", "s1").get_context()
        again.close()
        return context

    assert TEXT.format(MANY - 1) in benchmark.pedantic(restart, rounds=7)


@pytest.mark.benchmark(group="oubli d'un utilisateur parmi 100, 10 000 messages")
def test_forget(benchmark: Any, folder: Path) -> None:
    store = SQLiteSessionStore(folder / "oubli.db")
    for number in range(MANY):
        store.append(f"{number % 100}", "s1", create_message("user", TEXT.format(number)))
    users = count()
    benchmark.pedantic(lambda: store.forget(f"{next(users)}"), rounds=7)
    store.close()
