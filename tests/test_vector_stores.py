"""Les bases vectorielles : un même contrat pour la mémoire vive, SQLite et Qdrant."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoire.storage import DamagedFileError, StorageError
from memoire.vectors import (
    EmbedderMismatchError,
    HashingEmbedder,
    InMemoryVectorStore,
    QdrantVectorStore,
    Record,
    SQLiteVectorStore,
    Vectors,
    nearest,
)
from tests.storage_tools import HOSTILE, assert_no_trace, failing, fill, free_port, identifiers, kill, start, tiny_disk

DIMENSION = 16
Open = Callable[..., Any]


class CountingEmbedder(HashingEmbedder):
    """Plongement lexical qui note les textes qu'on lui donne."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        super().__init__(dimension)
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.seen += texts
        return super().embed(texts)


@pytest.fixture(params=["mémoire vive", "sqlite", "qdrant"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def open_store(kind: str, tmp_path: Path, embedder: CountingEmbedder) -> Iterator[Open]:
    opened: list[Any] = []

    def open_(other: Any = None) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "mémoire vive": lambda: InMemoryVectorStore(other or embedder),
            "sqlite": lambda: SQLiteVectorStore(tmp_path / "base" / "vecteurs.db", other or embedder),
            "qdrant": lambda: QdrantVectorStore(other or embedder, tmp_path / "base"),
        }
        opened.append(makers[kind]())
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Any:
    return open_store()


lasting = pytest.mark.parametrize("kind", ["sqlite", "qdrant"], indirect=True)
"""Les bases qui survivent au programme."""


def axis(number: int, other: float = 0.0) -> Vectors:
    """Un vecteur le long d'un axe, un peu penché vers le dernier."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[number], vector[-1] = 1.0, other
    return vector


def ids(found: Sequence[Any]) -> list[str]:
    return [item.id for item in found]


def state(store: Any, owner: str) -> list[tuple[Any, ...]]:
    return [(r.id, r.text, np.round(r.vector, 6).tobytes(), dict(r.metadata)) for r in store.get(owner)]


# Ranger et retrouver


def test_the_nearest_come_first_with_their_cosine(store: Any) -> None:
    store.add("alice", [Record(f"{n}", f"texte {n}", axis(n, other=n / 10), {"tour": n}) for n in range(1, 5)])
    hits = store.search("alice", axis(2) * 7, 3)
    assert hits[0].id == "2"
    assert hits[0].text == "texte 2"
    assert hits[0].metadata == {"tour": 2}
    assert hits[0].score == pytest.approx(1 / np.sqrt(1.04), abs=2e-6)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert store.search("alice", axis(2), 0) == []
    assert len(store.search("alice", axis(2), 50)) == 4


def test_texts_come_back_in_the_order_they_entered(store: Any) -> None:
    for start_ in (0, 4):
        store.add("alice", [Record(f"{9 - n}", f"texte {n}", axis(n)) for n in range(start_, start_ + 4)])
    assert ids(store.get("alice")) == [f"{9 - n}" for n in range(8)]
    assert store.count("alice") == 8
    assert np.allclose(store.get("alice")[3].vector, axis(3))


def test_ties_go_to_the_first_entered(store: Any) -> None:
    for number in range(40):
        store.add("alice", [Record(f"{number}", f"texte {number}", axis(1, other=0.37))])
    store.add("alice", [Record("proche", "plus proche", axis(1))])
    for k in (1, 2, 5, 17, 40):
        assert ids(store.search("alice", axis(1), k)) == ["proche", *(f"{n}" for n in range(k - 1))]


def test_the_same_id_replaces_and_keeps_its_place(store: Any) -> None:
    store.add("alice", [Record("a", "un", axis(1)), Record("b", "deux", axis(2))])
    store.add("alice", [Record("a", "trois", axis(3), {"kind": "neuf"})])
    assert [(r.id, r.text) for r in store.get("alice")] == [("a", "trois"), ("b", "deux")]
    assert [(hit.id, hit.metadata) for hit in store.search("alice", axis(3), 1)] == [("a", {"kind": "neuf"})]
    assert store.search("alice", axis(1), 1)[0].score == 0
    store.add("alice", [Record("c", "premier", axis(4)), Record("c", "dernier", axis(5))])
    assert store.get("alice")[-1].text == "dernier"


def test_kind_filters_before_ranking(store: Any) -> None:
    records = [Record(f"q{n}", f"question {n}", axis(1), {"kind": "question"}) for n in range(20)]
    store.add("alice", [*records, Record("a", "affirmation", axis(1, other=1.0), {"kind": "affirmation"})])
    assert ids(store.search("alice", axis(1), 3, kind="affirmation")) == ["a"]
    assert ids(store.search("alice", axis(1), 2, kind="question")) == ["q0", "q1"]
    assert store.search("alice", axis(1), 3, kind="absente") == []
    assert len(store.search("alice", axis(1), 50)) == 21


def test_missing_vectors_are_computed_in_one_batch_and_never_twice(store: Any, embedder: CountingEmbedder) -> None:
    records = [Record(f"{n}", f"le budget numéro {n}") for n in range(5)]
    store.add("alice", records)
    assert embedder.seen == [record.text for record in records]
    store.add("alice", [*records, Record("5", "un texte neuf", metadata={"kind": "x"})])
    assert embedder.seen[5:] == ["un texte neuf"], "un vecteur déjà rangé a été recalculé"
    store.add("alice", [Record("0", "un autre texte")])
    assert embedder.seen[6:] == ["un autre texte"], "un texte changé doit être recalculé"
    store.add("bob", [Record("1", "le budget numéro 1")])
    assert embedder.seen[7:] == ["le budget numéro 1"], "le vecteur d'un autre propriétaire a servi"


def test_zero_vectors_are_harmless(store: Any) -> None:
    store.add("alice", [Record("nul", "", np.zeros(DIMENSION)), Record("un", "x", axis(1))])
    assert store.search("alice", np.zeros(DIMENSION, dtype=np.float32), 5) == []
    assert [(hit.id, hit.score) for hit in store.search("alice", axis(1), 5)] == [("un", 1.0), ("nul", 0.0)]


def test_huge_and_tiny_vectors_are_normalized(store: Any) -> None:
    for name, scale in (("immense", 1e300), ("minuscule", 1e-300)):
        store.add("alice", [Record(name, name, axis(1).astype(np.float64) * scale)])
    assert [hit.score for hit in store.search("alice", axis(1).astype(np.float64) * 1e300, 2)] == [1.0, 1.0]


def test_remove_takes_only_the_named_texts(store: Any) -> None:
    store.add("alice", [Record(f"{n}", f"texte {n}", axis(n)) for n in range(4)])
    store.add("bob", [Record("1", "de Bob", axis(1))])
    store.remove("alice", ["1", "inconnu"])
    store.remove("alice", [])
    store.remove("personne", ["1"])
    assert ids(store.get("alice")) == ["0", "2", "3"]
    assert ids(store.search("alice", axis(1), 10)) == ["0", "2", "3"]
    assert store.count("bob") == 1
    store.add("alice", [Record("1", "revenu", axis(1))])
    assert ids(store.get("alice")) == ["0", "2", "3", "1"]


def test_what_is_returned_can_be_changed_freely(store: Any) -> None:
    vector, metadata = axis(1), {"kind": "x"}
    store.add("alice", [Record("a", "texte", vector, metadata)])
    vector[:] = 9
    metadata.clear()
    record = store.get("alice")[0]
    record.vector[:] = 9
    record.metadata.clear()
    store.search("alice", axis(1), 1)[0].metadata.clear()
    assert state(store, "alice") == [("a", "texte", axis(1).tobytes(), {"kind": "x"})]
    assert store.search("alice", axis(1), 1)[0].score == 1.0


def test_all_stores_agree(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    embedder = HashingEmbedder(DIMENSION)
    stores = [
        InMemoryVectorStore(embedder),
        SQLiteVectorStore(tmp_path / "v.db", embedder),
        QdrantVectorStore(embedder, tmp_path / "q"),
    ]
    records = [
        Record(f"{n}", f"texte {n}", np.round(generator.normal(size=DIMENSION)), {"kind": "ab"[n % 2], "n": n})
        for n in range(60)
    ]
    for store in stores:
        store.add("alice", records[:40])
        store.add("bob", records)
        store.add("alice", records[30:])
        store.remove("alice", ["7", "8"])
    for _ in range(20):
        target = np.round(generator.normal(size=DIMENSION))
        for kind in (None, "a"):
            answers = [store.search("alice", target, 12, kind) for store in stores]
            assert len({tuple(ids(answer)) for answer in answers}) == 1
            assert np.allclose(*[[hit.score for hit in answer] for answer in answers[:2]], atol=1e-6)
    assert len({tuple(ids(store.get("alice"))) for store in stores}) == 1
    stores[2].close()


def test_a_store_can_be_copied_into_another(store: Any) -> None:
    source = InMemoryVectorStore(HashingEmbedder(DIMENSION))
    source.add("alice", [Record(f"{n}", f"le budget {n}", metadata={"n": n}) for n in range(5)])
    store.add("alice", source.get("alice"))
    assert [r.id for r in store.get("alice")] == [r.id for r in source.get("alice")]
    assert np.allclose([r.vector for r in store.get("alice")], [r.vector for r in source.get("alice")], atol=1e-6)


@given(rows=st.integers(0, 40), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_nearest_is_the_sorted_list_cut_at_k(rows: int, k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = np.round(generator.normal(size=(rows, 3))).astype(np.float32)
    target = np.array([1, 0, 0], dtype=np.float32)
    scores = np.round(matrix.astype(np.float64) @ target, 6)
    assert [row for row, _ in nearest(matrix, target, k)] == sorted(range(rows), key=lambda r: (-scores[r], r))[:k]


# Refuser


@pytest.mark.parametrize(
    ("vector", "error"),
    [
        (np.zeros(DIMENSION + 1), ValueError),
        (np.zeros((1, DIMENSION)), ValueError),
        (np.full(DIMENSION, np.nan), ValueError),
        (np.full(DIMENSION, np.inf), ValueError),
        ("un texte", TypeError),
        (["x"] * DIMENSION, TypeError),
    ],
)
def test_bad_vectors_are_refused_in_french(store: Any, vector: Any, error: type[Exception]) -> None:
    store.add("alice", [Record("a", "texte", axis(1))])
    before = state(store, "alice")
    with pytest.raises(error, match=r"[Vv]ecteur"):
        store.search("alice", vector, 3)
    with pytest.raises(error, match=r"[Vv]ecteur"):
        store.add("alice", [Record("b", "bon", axis(2)), Record("c", "mauvais", vector)])
    assert state(store, "alice") == before, "un lot refusé a laissé des traces"


@pytest.mark.parametrize(
    "record",
    [
        Record("", "texte", axis(1)),
        Record("\ud800", "texte", axis(1)),
        Record("a", "\ud800", axis(1)),
        Record("a", "texte", axis(1), {"clé": "\ud800"}),
        Record("a", "texte", axis(1), {"clé": float("nan")}),
        Record("a", "texte", axis(1), {"clé": ["liste"]}),  # type: ignore[dict-item]
        Record("a", 12, axis(1)),  # type: ignore[arg-type]
        Record(12, "texte", axis(1)),  # type: ignore[arg-type]
        "texte",
    ],
)
def test_bad_records_are_refused_in_french(store: Any, record: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"doit|peut|contient|associe|attendu"):
        store.add("alice", [Record("bon", "bon", axis(1)), record])
    assert store.count("alice") == 0


def test_bad_owners_and_sizes_are_refused(store: Any) -> None:
    for owner in ("", "\ud800"):
        for attempt in (
            lambda owner=owner: store.add(owner, []),
            lambda owner=owner: store.search(owner, axis(1), 1),
            lambda owner=owner: store.get(owner),
            lambda owner=owner: store.count(owner),
            lambda owner=owner: store.remove(owner, ["a"]),
            lambda owner=owner: store.forget(owner),
        ):
            with pytest.raises(ValueError, match="owner"):
                attempt()
    for k in (-1, 1.5, True, "3"):
        with pytest.raises((TypeError, ValueError), match="k doit"):
            store.search("alice", axis(1), k)
    with pytest.raises(TypeError, match="embedder"):
        InMemoryVectorStore("plongement")  # type: ignore[arg-type]


def test_a_failing_embedder_stores_nothing(store: Any, embedder: CountingEmbedder) -> None:
    store.add("alice", [Record("a", "un")])
    embedder.embed = failing  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        store.add("alice", [Record("b", "deux", axis(1)), Record("c", "trois")])
    embedder.embed = lambda texts: np.zeros((0, DIMENSION), dtype=np.float32)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="rendre 1 vecteurs"):
        store.add("alice", [Record("c", "trois")])
    assert ids(store.get("alice")) == ["a"]


# Isoler


def test_hostile_owners_never_reach_anothers_texts(store: Any) -> None:
    for number, owner in enumerate(HOSTILE):
        store.add(owner, [Record("même", f"texte {number}", axis(1))])
        store.add("partagé", [Record(owner, f"partagé {number}", axis(1), {"kind": owner})])
    for number, owner in enumerate(HOSTILE):
        assert [hit.text for hit in store.search(owner, axis(1), 50)] == [f"texte {number}"]
        assert [record.text for record in store.get(owner)] == [f"texte {number}"]
        assert [hit.text for hit in store.search("partagé", axis(1), 50, kind=owner)] == [f"partagé {number}"]
    assert ids(store.get("partagé")) == HOSTILE
    for number, owner in enumerate(HOSTILE):
        assert store.forget(owner) == 1
        if number + 1 < len(HOSTILE):
            assert store.count(HOSTILE[number + 1]) == 1
    assert store.count("partagé") == len(HOSTILE)


def test_generated_owners_never_reach_anothers_texts(store: Any) -> None:
    sent: dict[tuple[str, str], str] = {}

    @settings(max_examples=40)
    @given(owner=identifiers, id=identifiers)
    def check(owner: str, id: str) -> None:
        sent[owner, id] = f"texte {len(sent)}"
        store.add(owner, [Record(id, sent[owner, id], axis(1))])
        for known in {o for o, _ in sent}:
            assert {r.id: r.text for r in store.get(known)} == {i: t for (o, i), t in sent.items() if o == known}

    check()


def test_a_search_ranks_among_the_owners_items_alone(store: Any) -> None:
    for other in range(30):
        store.add(f"autre {other}", [Record(f"{n}", "plus proche", axis(1)) for n in range(5)])
    store.add("alice", [Record("loin", "le moins proche", axis(1, other=9.0))])
    assert ids(store.search("alice", axis(1), 1)) == ["loin"]


# Durer


@lasting
def test_texts_survive_a_restart(open_store: Open, kind: str, embedder: CountingEmbedder) -> None:
    store = open_store()
    store.add("alice", [Record(f"{n}", f"le budget {n}", metadata={"n": n}) for n in range(5)])
    before = state(store, "alice")
    hits = store.search("alice", embedder.embed(["budget"])[0], 3)
    store.close()
    again = open_store()
    assert state(again, "alice") == before
    assert again.search("alice", embedder.embed(["budget"])[0], 3) == hits
    again.add("alice", [Record("5", "le dernier")])
    assert ids(again.get("alice")) == ["0", "1", "2", "3", "4", "5"]


@lasting
@pytest.mark.parametrize("other", [HashingEmbedder(DIMENSION + 1), "même dimension"])
def test_another_embedder_is_refused_with_both_values(open_store: Open, kind: str, other: Any) -> None:
    if isinstance(other, str):
        other = HashingEmbedder(DIMENSION)
        other.name = "un autre modèle"
    store = open_store()
    store.add("alice", [Record("a", "texte", axis(1))])
    before, name = state(store, "alice"), store.embedder.name
    store.close()
    with pytest.raises(EmbedderMismatchError) as caught:
        open_store(other)
    for value in (name, str(DIMENSION), other.name, str(other.dimension)):
        assert value in str(caught.value)
    again = open_store()
    assert state(again, "alice") == before


@lasting
def test_a_failed_batch_leaves_the_store_as_it_was(
    open_store: Open, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.add("alice", [Record("a", "ancien", axis(1)), Record("b", "ancien", axis(2))])
    before = state(store, "alice")
    records = [Record("a", "nouveau", axis(3)), Record("c", "nouveau", axis(4)), Record("d", "nouveau", axis(5))]
    with monkeypatch.context() as patch:
        if kind == "sqlite":
            refuse = "WHEN new.key = 'd' BEGIN SELECT RAISE(FAIL, 'non'); END"
            store._database.rows(f"CREATE TEMP TRIGGER refuse BEFORE INSERT ON items {refuse}")
            with pytest.raises(StorageError, match="non"):
                store.add("alice", records)
        else:
            from qdrant_client.local.persistence import CollectionPersistence

            persist, calls = CollectionPersistence.persist, []

            def full(self: Any, point: Any) -> None:
                calls.append(point)
                if len(calls) == 3:
                    raise OSError(28, "No space left on device")
                persist(self, point)

            patch.setattr(CollectionPersistence, "persist", full)
            with pytest.raises(StorageError, match="No space left"):
                store.add("alice", records)
    assert state(store, "alice") == before
    store.close()
    assert state(open_store(), "alice") == before


def test_two_programs_see_each_others_texts(tmp_path: Path) -> None:
    embedder = HashingEmbedder(DIMENSION)
    first, second = (SQLiteVectorStore(tmp_path / "v.db", embedder) for _ in range(2))
    first.add("alice", [Record("a", "un", axis(1))])
    assert ids(second.search("alice", axis(1), 5)) == ["a"]
    first.add("alice", [Record("b", "deux", axis(1))])
    assert ids(second.search("alice", axis(1), 5)) == ["a", "b"]
    first.add("alice", [Record("a", "changé", axis(2))])
    assert [(h.id, h.text) for h in second.search("alice", axis(1), 5)] == [("b", "deux"), ("a", "changé")]
    first.remove("alice", ["b"])
    assert ids(second.search("alice", axis(1), 5)) == ["a"]
    first.forget("alice")
    assert second.search("alice", axis(1), 5) == []
    first.add("alice", [Record("z", "recréé", axis(1))])
    assert ids(second.search("alice", axis(1), 5)) == ["z"], "un cache périmé a répondu"


def test_the_cache_holds_few_owners(tmp_path: Path) -> None:
    store = SQLiteVectorStore(tmp_path / "v.db", HashingEmbedder(DIMENSION))
    for number in range(3 * store.CACHED):
        store.add(f"{number}", [Record("a", "x", axis(1))])
        store.search(f"{number}", axis(1), 1)
    assert len(store._cache) == store.CACHED


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from memoire.vectors import HashingEmbedder, Record, SQLiteVectorStore\n"
        "store = SQLiteVectorStore(sys.argv[1], HashingEmbedder(8))\n"
        "for n in range(20):\n"
        "    store.add('alice', [Record(f'{sys.argv[2]}-{n}', 'texte')])\n"
    )
    processes = [start(script, tmp_path / "v.db", writer) for writer in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    stored = ids(SQLiteVectorStore(tmp_path / "v.db", HashingEmbedder(8)).get("alice"))
    assert len(stored) == 80
    for writer in range(4):
        assert [id for id in stored if id.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(20)]


@lasting
def test_threads_may_share_a_store(open_store: Open, kind: str) -> None:
    store = open_store()

    def work(number: int) -> int:
        store.add("alice", [Record(f"{number}", "texte", axis(1))])
        return len(store.search("alice", axis(1), 50))

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(work, range(24))) >= 1
    assert store.count("alice") == 24


def test_a_killed_writer_leaves_whole_batches(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from memoire.vectors import HashingEmbedder, Record, SQLiteVectorStore\n"
        "store = SQLiteVectorStore(sys.argv[1], HashingEmbedder(64))\n"
        "for batch in range(1000):\n"
        "    store.add('alice', [Record(f'{sys.argv[2]}-{batch}-{n}', 'texte', [1.0] * 64) for n in range(20)])\n"
        "    print(batch, flush=True)\n"
    )
    for round_ in range(5):
        process = start(script, tmp_path / "v.db", round_)
        assert process.stdout
        done = [int(process.stdout.readline()) for _ in range(3)]
        kill(process)
        done += [int(line) for line in process.stdout if line.endswith(b"\n")]
        stored = ids(SQLiteVectorStore(tmp_path / "v.db", HashingEmbedder(64)).get("alice"))
        assert len(stored) % 20 == 0, "un lot est à moitié rangé"
        assert {f"{round_}-{batch}-19" for batch in done} <= set(stored)


def test_full_disk_is_reported_in_french(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disque") as disk:
        store = SQLiteVectorStore(disk / "v.db", HashingEmbedder(DIMENSION))
        store.add("alice", [Record("a", "un", axis(1))])
        fill(disk)
        with pytest.raises(StorageError, match="disque est plein"):
            store.add("alice", [Record("b", "x" * 500_000, axis(1))])
        assert ids(store.search("alice", axis(1), 5)) == ["a"]
        store.close()


@lasting
def test_damaged_storage_is_reported_not_read_as_empty(open_store: Open, kind: str, tmp_path: Path) -> None:
    store = open_store()
    store.add("alice", [Record(f"{n}", f"texte {n}", axis(1)) for n in range(50)])
    store.close()
    (file,) = (p for p in (tmp_path / "base").rglob("*") if p.name in ("vecteurs.db", "storage.sqlite"))
    file.write_bytes(b"Ceci n'est pas une base.\n" * 300)
    with pytest.raises(DamagedFileError, match="lisible"):
        open_store()
    assert file.read_bytes() == b"Ceci n'est pas une base.\n" * 300


def test_a_folder_in_use_is_reported_in_french(tmp_path: Path) -> None:
    embedder = HashingEmbedder(DIMENSION)
    with QdrantVectorStore(embedder, tmp_path), pytest.raises(StorageError, match="Qdrant"):
        QdrantVectorStore(embedder, tmp_path)


def test_an_absent_server_is_reported_in_french() -> None:
    with pytest.raises(StorageError, match="Qdrant ne répond pas"):
        QdrantVectorStore(HashingEmbedder(DIMENSION), url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ValueError, match="s'excluent"):
        QdrantVectorStore(HashingEmbedder(DIMENSION), "dossier", url="http://127.0.0.1")


# Effacer


@lasting
def test_forget_leaves_no_byte_and_does_not_touch_the_others(open_store: Open, kind: str, tmp_path: Path) -> None:
    store = open_store()
    if kind == "qdrant":  # certains SQLite sont bâtis ainsi
        store._client._client.collections["memoire"].storage.storage.execute("PRAGMA secure_delete=OFF")
    owners = [f"Propriétaire-{number}" for number in range(8)]
    for round_ in range(12):
        for owner in owners:
            text = f"Secret de {owner}, tour {round_}. " * (1 + round_ * 5 % 7)
            store.add(owner, [Record(f"clé de {owner} {round_}", text, metadata={"auteur": f"Moi, {owner}."})])
    for number, owner in enumerate(owners):
        store.search(owner, axis(1), 3)
        before = [state(store, other) for other in owners[number + 1 :]]
        assert store.forget(owner) == 12
        assert store.count(owner) == 0
        assert_no_trace(tmp_path, f"Secret de {owner}", f"clé de {owner}", f"Moi, {owner}", owner)
        assert [state(store, other) for other in owners[number + 1 :]] == before
        for record in store.get(owners[-1]):
            assert kind == "qdrant" or record.vector.tobytes() in (tmp_path / "base" / "vecteurs.db").read_bytes()
    assert store.forget(owners[0]) == 0
    store.close()
    copied = tmp_path / "copie"
    shutil.copytree(tmp_path / "base", copied)
    assert_no_trace(copied, "Secret de")


@lasting
def test_a_forgotten_vector_leaves_no_byte_either(open_store: Open, kind: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    store = open_store()
    store.add("alice", [Record("a", "texte", generator.normal(size=DIMENSION))])
    store.add("bob", [Record("a", "texte", generator.normal(size=DIMENSION))])
    secret = store.get("alice")[0].vector.tobytes()
    store.forget("alice")
    content = b"".join(p.read_bytes() for p in (tmp_path / "base").rglob("*") if p.is_file())
    assert secret not in content
    if kind == "sqlite":
        assert store.get("bob")[0].vector.tobytes() in content
