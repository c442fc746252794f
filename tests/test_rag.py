"""La mémoire à recherche : retrouver sans doublon, dans l'ordre, dans le budget, sans rien recalculer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memoire.persistence import SessionMemory, SQLiteSessionStore
from memoire.rag import RAGMemory, kind_of
from memoire.summary import ExtractiveSummarizer
from memoire.vectors import HashingEmbedder, InMemoryVectorStore, SQLiteVectorStore, Vectors
from tests.storage_tools import assert_no_trace, failing


class CountingEmbedder(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__(256)
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.seen += texts
        return super().embed(texts)


FACTS = [
    "Le budget du projet est de 40 000 euros.",
    "Le serveur de paiement tourne à Nantes.",
    "Ma collègue Inès préfère les réunions du matin.",
    "Le modèle de fraude atteint un rappel de 0,85.",
]


def talk(memory: Any, texts: Sequence[str] = FACTS, reply: str = "D'accord.") -> None:
    for text in texts:
        memory.add_message("user", text)
        memory.add_message("assistant", reply)


def memories(memory: Any, query: str | None = None) -> list[str]:
    lines = memory.get_context(query).splitlines()
    return [line.removeprefix("[souvenirs] ") for line in lines if line.startswith("[souvenirs] ")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Le budget est de 10k.", "affirmation"),
        ("Quel est le budget ?", "question"),
        ("Bonjour ! Merci beaucoup.", "politesse"),
        ("Le budget est de 10k. Qu'en pensez-vous ?", "affirmation"),
        ("", "politesse"),
    ],
)
def test_kinds_of_messages(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_what_left_the_window_is_found_again() -> None:
    memory = RAGMemory(HashingEmbedder(256), k=1, max_recent=2)
    talk(memory)
    assert memories(memory, "Quel est le budget du projet ?") == [FACTS[0]]
    assert memories(memory, "Où tourne le serveur ?") == [FACTS[1]]
    assert memories(memory, "") == []
    memory.add_message("user", "Rappelez-moi le budget du projet ?")
    assert memories(memory) == [FACTS[0]], "sans question, le dernier message de l'utilisateur en tient lieu"


def test_memories_are_chronological_and_without_duplicates() -> None:
    memory = RAGMemory(HashingEmbedder(256), k=3, max_recent=2)
    talk(memory, ["Le serveur est lent.", "Le serveur du projet a un budget.", "Le serveur est lent.", *FACTS])
    found = memories(memory, "Le serveur du projet et son budget")
    assert found == ["Le serveur est lent.", "Le serveur du projet a un budget.", FACTS[0]]


def test_a_recent_message_is_not_also_a_memory() -> None:
    memory = RAGMemory(HashingEmbedder(256), k=4, max_recent=2)
    talk(memory, ["Le budget est de 10k.", "Bonjour.", "Le budget est de 10k."])
    assert memories(memory, "budget") == []
    assert memory.get_context("budget").count("Le budget est de 10k.") == 1


def test_questions_are_kept_but_do_not_take_the_place_of_facts() -> None:
    memory = RAGMemory(HashingEmbedder(256), k=1, max_recent=0)
    memory.add_message("user", "Le budget du projet est de 40 000 euros.")
    for _ in range(5):
        memory.add_message("user", "Quel est le budget du projet ?")
    assert memories(memory, "Quel est le budget du projet ?") == [FACTS[0]]
    assert memory.store.count("local") == 6


def test_the_budget_is_filled_by_the_nearest_first() -> None:
    memory = RAGMemory(HashingEmbedder(256), k=4, max_recent=2, max_tokens=60, count_tokens=len)
    talk(memory, reply="ok")
    assert memory.get_total_tokens() <= 60
    assert memories(memory, "Quel est le budget du projet ?") == []
    memory = RAGMemory(HashingEmbedder(256), k=4, max_recent=2, max_tokens=60 + len(FACTS[0]), count_tokens=len)
    talk(memory, [*FACTS, "Le projet et le budget", "fin"], reply="ok")
    assert FACTS[0] in memories(memory, "Quel est le budget du projet ?")
    assert memory.get_total_tokens() <= 60 + len(FACTS[0])


def test_the_summary_enters_the_budget_or_stays_out() -> None:
    options: dict[str, Any] = {"max_recent": 2, "k": 0, "summarize": lambda summary, old: "un résumé de 26 caractères"}
    for budget, present in ((35, True), (30, False)):
        memory = RAGMemory(HashingEmbedder(256), max_tokens=budget, count_tokens=len, **options)
        talk(memory, ["un", "deux", "fin"], reply="ok")
        assert ("[résumé]" in memory.get_context()) is present
        assert memory.get_total_tokens() <= budget


def test_a_longer_system_prompt_pushes_messages_out() -> None:
    memory = RAGMemory(HashingEmbedder(256), max_recent=6, max_tokens=100, count_tokens=len)
    talk(memory, FACTS[:2], reply="ok")
    memory.add_message("system", "x" * 50)
    assert memory.get_total_tokens() <= 100
    assert memory.get_messages()[-1]["content"] == "ok"


@pytest.mark.parametrize("part", ["embedder", "store", "summarize"])
def test_a_failure_leaves_the_state_untouched(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = RAGMemory(HashingEmbedder(256), k=2, max_recent=2, summarize=ExtractiveSummarizer(20))
    talk(memory, FACTS[:2])
    before, count = memory.get_messages("budget"), memory.store.count("local")
    with monkeypatch.context() as patch:
        if part == "embedder":
            patch.setattr(memory.embedder, "embed", failing)
        elif part == "store":
            patch.setattr(memory.store, "add", failing)
        else:
            patch.setattr(memory, "summarize", failing)
        with pytest.raises(ConnectionError):
            memory.add_message("user", FACTS[2])
    assert memory.get_messages("budget") == before
    assert memory.store.count("local") == count
    memory.add_message("user", FACTS[2])
    assert memory.get_messages()[-1]["content"] == FACTS[2]


def test_each_question_is_embedded_once() -> None:
    embedder = CountingEmbedder()
    memory = RAGMemory(embedder, max_recent=0)
    talk(memory)
    embedder.seen.clear()
    for _ in range(3):
        memory.get_context("budget"), memory.get_messages("budget"), memory.get_total_tokens()
    assert embedder.seen == ["budget"]


def test_a_restart_embeds_and_duplicates_nothing(tmp_path: Path) -> None:
    embedder, sessions = CountingEmbedder(), SQLiteSessionStore(tmp_path / "sessions.db")

    def attach() -> SessionMemory:
        vectors = SQLiteVectorStore(tmp_path / "vecteurs.db", embedder)
        return SessionMemory(RAGMemory(embedder, vectors, "alice", max_recent=2), sessions, "alice", "s1")

    memory = attach()
    talk(memory)
    context, indexed = memory.get_context("budget"), memory.memory.store.count("alice")  # type: ignore[attr-defined]
    embedder.seen.clear()
    again = attach()
    assert embedder.seen == [], "un texte déjà rangé a été recalculé"
    assert again.memory.store.count("alice") == indexed  # type: ignore[attr-defined]
    assert again.get_context("budget") == context


def test_the_conversations_of_an_owner_share_their_memories_and_no_one_elses() -> None:
    store = InMemoryVectorStore(HashingEmbedder(256))
    for owner, budget in (("alice", "10k"), ("bob", "99k")):
        talk(RAGMemory(store.embedder, store, owner, max_recent=0), [f"Le budget du projet est de {budget}."])
    assert memories(RAGMemory(store.embedder, store, "alice"), "budget du projet") == [
        "Le budget du projet est de 10k."
    ]


def test_reset_removes_only_this_conversation() -> None:
    store = InMemoryVectorStore(HashingEmbedder(256))
    first, second = (RAGMemory(store.embedder, store, "alice", max_recent=0) for _ in range(2))
    talk(first, FACTS[:2])
    talk(second, FACTS[2:])
    first.reset()
    assert [record.text for record in store.get("alice") if record.text in FACTS] == FACTS[2:]
    assert memories(first, "Inès préfère les réunions") == [FACTS[2]]


def test_a_cancelled_turn_leaves_no_memory(tmp_path: Path) -> None:
    store = SQLiteVectorStore(tmp_path / "v.db", HashingEmbedder(256))
    memory = RAGMemory(store.embedder, store, "alice", max_recent=0)
    talk(memory, FACTS[:1])
    checkpoint, before = memory.checkpoint(), [record.id for record in store.get("alice")]
    talk(memory, FACTS[1:])
    memory.restore(checkpoint)
    assert [record.id for record in store.get("alice")] == before
    store.forget("alice")
    assert_no_trace(tmp_path, *FACTS)


@pytest.mark.parametrize(
    "options", [{"k": -1}, {"max_recent": -1}, {"max_tokens": 0}, {"owner": ""}, {"k": 1.5}, {"summarize": "x"}]
)
def test_bad_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"doit|peut"):
        RAGMemory(HashingEmbedder(8), **options)
