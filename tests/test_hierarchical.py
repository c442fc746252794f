"""La mémoire hiérarchique : de travail, épisodique, sémantique, et le passage de l'une aux autres."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from memoire.hierarchical import HierarchicalMemory, LocalFacts
from memoire.persistence import PersistentMemory, SessionMemory, SQLiteSessionStore, erase
from memoire.vectors import HashingEmbedder, InMemoryVectorStore, SQLiteVectorStore
from tests.storage_tools import assert_no_trace, failing

EMBEDDER = HashingEmbedder(256)


def talk(memory: Any, *texts: str) -> None:
    for text in texts:
        memory.add_message("user", text)
        memory.add_message("assistant", "D'accord.")


def lines(memory: Any, label: str, query: str | None = None) -> list[str]:
    return [line for line in memory.get_context(query).splitlines() if line.startswith(f"[{label}] ")]


@pytest.fixture
def facts(tmp_path: Path) -> PersistentMemory:
    return PersistentMemory("alice", tmp_path / "memoires")


@pytest.fixture
def episodes(tmp_path: Path) -> Any:
    return SQLiteVectorStore(tmp_path / "episodes.db", EMBEDDER)


def make(episodes: Any, facts: Any, **options: Any) -> HierarchicalMemory:
    return HierarchicalMemory("alice", EMBEDDER, episodes, facts, **options)


def test_working_memory_keeps_the_last_exchanges_and_summarizes_the_others() -> None:
    memory = HierarchicalMemory("alice", EMBEDDER, window_size=2)
    talk(memory, "Mon budget est de 10k euros.", "Le projet vise la fraude.", "Nous livrons en mai.")
    recent = [m["content"] for m in memory.get_messages() if m["role"] == "user"]
    assert recent == ["Le projet vise la fraude.", "Nous livrons en mai."]
    assert "10k" in memory.summary


def test_a_session_becomes_an_episode_and_facts(episodes: Any, facts: PersistentMemory) -> None:
    memory = make(episodes, facts)
    memory.add_message("system", "Soyez bref.")
    talk(memory, "Je m'appelle Alice et j'habite à Lyon.", "Mon budget est de 10k euros.")
    episode = memory.end_session()
    assert "budget" in episode
    assert memory.get_messages()[0] == {"role": "system", "content": "Soyez bref."}
    assert not [m for m in memory.get_messages() if m["role"] in ("user", "assistant")]
    assert memory.summary == ""
    assert [record.text for record in episodes.get("alice")] == [episode]
    again = make(episodes, PersistentMemory("alice", facts.path.parent))
    assert again.attributes["prénom"] == "Alice"
    assert lines(again, "souvenirs", "Quel est mon budget ?") == [f"[souvenirs] {episode}"]
    assert "ville : Lyon" in lines(again, "faits")[0]


def test_a_fact_is_updated_not_duplicated_and_keeps_its_history(episodes: Any, facts: PersistentMemory) -> None:
    memory = make(episodes, facts)
    talk(memory, "Mon budget est de 10k.")
    memory.end_session()
    talk(memory, "Mon budget est passé de 10k à 50k.")
    assert memory.attributes["budget"] == "50k"
    assert [value for _, value in memory.history("budget")] == ["10k", "50k"]
    assert "10k" not in lines(memory, "faits")[0]
    assert facts.profile["budget"] == "10k", "un fait n'est écrit qu'à la fin de la session"
    memory.end_session()
    assert facts.profile["budget"] == "50k"


def test_a_fact_that_ended_is_erased(episodes: Any, facts: PersistentMemory) -> None:
    memory = make(episodes, facts)
    talk(memory, "Je travaille chez Banque Durand.")
    memory.end_session()
    assert facts.profile["employeur"] == "Banque Durand"
    talk(memory, "Je ne travaille plus chez Banque Durand.")
    memory.end_session()
    assert "employeur" not in facts.profile


def test_facts_written_meanwhile_by_another_session_are_kept(episodes: Any, facts: PersistentMemory) -> None:
    first, second = (make(episodes, PersistentMemory("alice", facts.path.parent)) for _ in range(2))
    talk(first, "Je m'appelle Alice.")
    talk(second, "Mon budget est de 10k.")
    first.end_session()
    second.end_session()
    profile = PersistentMemory("alice", facts.path.parent).profile
    assert profile["prénom"] == "Alice"
    assert profile["budget"] == "10k"


def test_the_episodes_nearest_to_the_question_come_back_in_order(episodes: Any) -> None:
    memory = make(episodes, LocalFacts(), k=2)
    for text in ("Le serveur de paiement est à Nantes.", "Le chat dort.", "Le serveur de secours est à Brest."):
        talk(memory, text)
        memory.end_session()
    found = lines(memory, "souvenirs", "Où est le serveur de secours ?")
    assert ["Nantes" in found[0], "Brest" in found[1], len(found)] == [True, True, 2]
    assert lines(memory, "souvenirs", "") == []


def test_ending_an_empty_session_stores_nothing(episodes: Any, facts: PersistentMemory) -> None:
    assert make(episodes, facts).end_session() == ""
    assert episodes.count("alice") == 0
    assert not facts.path.exists()


@pytest.mark.parametrize("part", ["summarize", "embedder", "episodes", "facts"])
def test_a_failed_end_of_session_keeps_nothing_and_may_be_tried_again(
    part: str, facts: PersistentMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder(256)
    episodes = SQLiteVectorStore(tmp_path / "e.db", embedder)
    memory = HierarchicalMemory("alice", embedder, episodes, facts, window_size=1)
    talk(memory, "Je m'appelle Alice.", "Mon budget est de 10k.")
    before = memory.get_messages()
    broken = {"summarize": (memory, "summarize"), "embedder": (embedder, "embed"), "episodes": (episodes, "add")}
    with monkeypatch.context() as patch:
        patch.setattr(*broken.get(part, (facts, "update")), failing)
        with pytest.raises(ConnectionError):
            memory.end_session()
    assert episodes.count("alice") == 0
    assert facts.profile == {}
    assert memory.get_messages() == before
    memory.end_session()
    assert episodes.count("alice") == 1
    assert facts.profile["budget"] == "10k"


def test_a_failure_does_not_remove_an_episode_already_known(
    episodes: Any, facts: PersistentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make(episodes, facts)
    talk(memory, "Le budget du projet est de 10k.")
    memory.end_session()
    talk(memory, "Le budget du projet est de 10k.")
    memory._register.add(memory.extract("Je m'appelle Alice."), 9)
    with monkeypatch.context() as patch:
        patch.setattr(facts, "update", failing)
        with pytest.raises(ConnectionError):
            memory.end_session()
    assert episodes.count("alice") == 1


def test_a_failing_extractor_leaves_the_state_untouched() -> None:
    memory = HierarchicalMemory("alice", EMBEDDER, window_size=1)
    talk(memory, "Mon budget est de 10k.", "Je m'appelle Alice.")
    before = memory.get_messages()
    memory.extract, extract = failing, memory.extract
    with pytest.raises(ConnectionError):
        memory.add_message("user", "Mon budget est de 50k.")
    assert memory.get_messages() == before
    memory.extract = extract
    memory.add_message("user", "Mon budget est de 50k.")
    assert memory.attributes["budget"] == "50k"


def test_only_the_user_feeds_the_facts() -> None:
    memory = HierarchicalMemory("alice", EMBEDDER)
    memory.add_message("assistant", "Je m'appelle Bob et mon budget est de 99k.")
    assert memory.attributes == {}


def test_users_do_not_share_episodes(episodes: Any) -> None:
    for user in ("alice", "bob"):
        memory = HierarchicalMemory(user, EMBEDDER, episodes)
        talk(memory, f"Le secret de {user} est bien gardé dans le coffre.")
        memory.end_session()
    found = lines(HierarchicalMemory("alice", EMBEDDER, episodes), "souvenirs", "Quel secret dans le coffre ?")
    assert len(found) == 1
    assert "alice" in found[0]


def test_a_restart_in_the_middle_of_a_session_loses_nothing(
    episodes: Any, facts: PersistentMemory, tmp_path: Path
) -> None:
    store = SQLiteSessionStore(tmp_path / "sessions.db")
    memory = SessionMemory(make(episodes, facts, window_size=1), store, "alice", "s1")
    talk(memory, "Je m'appelle Alice.", "Mon budget est de 10k.", "Nous livrons en mai.")
    restarted = make(episodes, PersistentMemory("alice", facts.path.parent), window_size=1)
    assert SessionMemory(restarted, store, "alice", "s1").get_context("budget") == memory.get_context("budget")
    restarted.end_session()
    assert PersistentMemory("alice", facts.path.parent).profile["budget"] == "10k"


def test_everything_can_be_erased(episodes: Any, facts: PersistentMemory, tmp_path: Path) -> None:
    memory = make(episodes, facts)
    talk(memory, "Je m'appelle Zénobie et mon budget est de 12345 euros.")
    memory.end_session()
    receipt = erase("alice", episodes, facts)
    assert receipt.counts["vectors"] == 1
    assert receipt.counts["files"] == 1
    assert_no_trace(tmp_path, "Zénobie", "12345")


def test_working_memory_is_bounded() -> None:
    memory = HierarchicalMemory("alice", EMBEDDER, window_size=2, summarize=lambda summary, old: old[-1][1][:50])

    def feed_until(first: int, last: int) -> int:
        for turn in range(first, last):
            memory.add_message("user", f"{turn:06d} le projet avance bien, rien de neuf")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        assert feed_until(300, 900) < feed_until(0, 300) + 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("options", [{"window_size": -1}, {"k": -1}, {"k": "3"}, {"summarize": 3}])
def test_bad_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="doit"):
        HierarchicalMemory("alice", EMBEDDER, **options)
    with pytest.raises(ValueError, match="owner"):
        HierarchicalMemory("", EMBEDDER)


def test_default_parts_live_in_memory() -> None:
    memory = HierarchicalMemory("alice", EMBEDDER)
    assert isinstance(memory.store, InMemoryVectorStore)
    talk(memory, "Mon budget est de 10k.")
    memory.end_session()
    assert memory.facts.profile == {"budget": "10k"}
