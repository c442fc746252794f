"""Le résumé hiérarchique et la sélection par plongements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from memoire.compression import HierarchicalSummaryMemory, SelectionMemory, find_facts, render_tree, theme_of
from memoire.vectors import HashingEmbedder, Vectors

FACTS = [
    "Je m'appelle Alice et j'habite à Lyon.",
    "Le budget est de 10k.",
    "L'échéance est fixée au 3 mai.",
    "Le taux d'erreur est de 4 %.",
    "Je préfère les réponses courtes.",
]


def fill(memory: Any, *texts: str) -> Any:
    for text in texts:
        memory.add_message("user", text)
    return memory


# Le résumé hiérarchique


def test_old_facts_are_filed_under_themes() -> None:
    memory = fill(HierarchicalSummaryMemory(max_recent=0), *FACTS)
    assert memory.tree == {
        "session de 5 messages": {
            "identité": ["Je m'appelle Alice et j'habite à Lyon"],
            "moyens": ["Le budget est de 10k"],
            "calendrier": ["L'échéance est fixée au 3 mai"],
            "mesures": ["Le taux d'erreur est de 4 %"],
            "préférences": ["Je préfère les réponses courtes"],
        }
    }
    assert memory.get_context() == f"[résumé] {render_tree(memory.tree)}"


def test_recent_messages_stay_word_for_word_and_out_of_the_tree() -> None:
    memory = fill(HierarchicalSummaryMemory(max_recent=2), *FACTS)
    assert [m["content"] for m in memory.get_messages()[1:]] == FACTS[-2:]
    assert "réponses courtes" not in memory.summary


def test_new_value_replaces_the_old_one_in_the_tree() -> None:
    memory = fill(HierarchicalSummaryMemory(max_recent=0), "Le budget est de 10k.", "Le budget passe à 50k.")
    assert "10k" not in memory.summary
    assert "50k" in memory.summary


def test_full_theme_forgets_its_oldest_fact_only() -> None:
    memory = HierarchicalSummaryMemory(max_recent=0, max_facts=2)
    fill(memory, "Je m'appelle Alice.", *(f"La réunion {i} est à Lyon." for i in range(9)))
    (themes,) = memory.tree.values()
    assert themes["calendrier"] == ["La réunion 7 est à Lyon", "La réunion 8 est à Lyon"]
    assert themes["identité"] == ["Je m'appelle Alice"]


def test_questions_courtesies_and_answers_are_not_facts() -> None:
    memory = HierarchicalSummaryMemory(max_recent=0)
    fill(memory, "Bonjour !", "Quel est le budget de 2024 ?", "Merci beaucoup.")
    memory.add_message("assistant", "Le budget est de 99k, je crois.")
    assert memory.tree == {}
    assert memory.get_context() == ""


def test_summary_is_bounded_whatever_arrives() -> None:
    memory = HierarchicalSummaryMemory(max_recent=0, max_facts=3)
    fill(memory, "Le budget 7 " + "monte " * 20_000, "x7" * 100_000, "Voir Lyon 3. " * 5_000, "🙂7" * 5_000)
    assert len(memory.summary) < 8 * 3 * 30 * 21


def test_facts_are_limited_to_the_most_recent() -> None:
    facts = find_facts([f"La tâche {i} est à Lyon." for i in range(100)], limit=3)
    assert [fact.text for fact in facts] == [f"La tâche {i} est à Lyon" for i in (97, 98, 99)]


def test_themes_can_be_chosen() -> None:
    memory = HierarchicalSummaryMemory(0, themes={"cuisine": "recette plat", "voyage": "train avion"})
    fill(memory, "La recette demande 3 œufs.", "Je prends 2 trains.", "Le chat a 4 ans.")
    (themes,) = memory.tree.values()
    assert list(themes) == ["cuisine", "voyage", "divers"]
    assert theme_of("rien", {}) == "divers"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"max_recent": -1}, ValueError), ({"max_facts": 0}, ValueError), ({"max_facts": 1.5}, TypeError)],
)
def test_bad_parameters_of_the_tree_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="reçu"):
        HierarchicalSummaryMemory(**arguments)


# La sélection par plongements


class CountingEmbedder(HashingEmbedder):
    """Compte ses appels, et tombe en panne sur demande."""

    def __init__(self) -> None:
        super().__init__(256)
        self.calls: list[list[str]] = []
        self.broken = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise ConnectionError("en panne")
        self.calls.append(list(texts))
        return super().embed(texts)


def souvenirs(memory: SelectionMemory, query: str | None = None) -> list[str]:
    prefix = "[souvenirs] "
    return [m["content"][len(prefix) :] for m in memory.get_messages(query) if m["content"].startswith(prefix)]


def test_nearest_passages_come_back_in_chronological_order() -> None:
    memory = SelectionMemory(HashingEmbedder(), k=2, max_recent=1)
    fill(memory, "Le budget du projet est de 10k.", "Il pleut.", "Le chat dort.", "Le budget passe à 50k.", "Bien.")
    assert souvenirs(memory, "quel budget ?") == ["Le budget du projet est de 10k.", "Le budget passe à 50k."]
    assert souvenirs(memory, "le chat") == ["Le chat dort."]
    assert souvenirs(memory, "vélo") == []


def test_last_user_message_is_the_question_when_none_is_given() -> None:
    memory = fill(SelectionMemory(HashingEmbedder(), max_recent=1), "Le chat dort.", "Il pleut.", "Où est le chat ?")
    assert souvenirs(memory) == ["Le chat dort."]
    memory.add_message("assistant", "Sur le lit.")
    assert souvenirs(memory) == ["Le chat dort."]


def test_no_passage_is_shown_twice() -> None:
    memory = SelectionMemory(HashingEmbedder(), max_recent=1)
    fill(memory, "Le chat dort.", "le CHAT  dort.", "Le chat mange.", "Le chat mange.")
    assert souvenirs(memory, "chat") == ["le CHAT  dort."]


def test_questions_and_courtesies_are_not_archived() -> None:
    embedder = CountingEmbedder()
    memory = SelectionMemory(embedder, max_recent=0)
    fill(memory, "Bonjour !", "Où est le chat ?", "Le chat dort. Pourquoi ?", "")
    assert embedder.calls == [["Le chat dort."]]
    assert souvenirs(memory, "chat") == ["Le chat dort. Pourquoi ?"]


def test_tokens_are_those_of_the_context_last_supplied() -> None:
    memory = SelectionMemory(HashingEmbedder(), max_recent=1, count_tokens=len)
    fill(memory, "Le chat dort.", "Il pleut.")
    assert memory.get_total_tokens() == len("Il pleut.")
    memory.get_context("le chat")
    assert memory.get_total_tokens() == len("Le chat dort.") + len("Il pleut.")
    memory.get_context()
    assert memory.get_total_tokens() == len("Il pleut.")


def test_same_question_is_embedded_once() -> None:
    embedder = CountingEmbedder()
    memory = fill(SelectionMemory(embedder, max_recent=0), "Le chat dort.")
    for _ in range(3):
        memory.get_context("chat"), memory.get_messages("chat"), memory.get_total_tokens()
    assert embedder.calls == [["Le chat dort."], ["chat"]]


def test_archive_is_bounded() -> None:
    memory = SelectionMemory(HashingEmbedder(), k=9, max_recent=0, max_passages=3)
    fill(memory, *(f"Le chat {i} dort." for i in range(10)))
    assert souvenirs(memory, "chat") == [f"Le chat {i} dort." for i in (7, 8, 9)]


@pytest.mark.parametrize("k", [0, 1])
def test_nothing_is_searched_without_archive_or_choice(k: int) -> None:
    embedder = CountingEmbedder()
    memory = fill(SelectionMemory(embedder, k=k, max_recent=4 * k), "Le chat dort.")
    embedder.calls.clear()
    assert souvenirs(memory, "chat") == []
    assert embedder.calls == []


def test_failing_embedder_changes_nothing_and_a_retry_works() -> None:
    embedder = CountingEmbedder()
    memory = fill(SelectionMemory(embedder, max_recent=1), "Le chat dort.", "Il pleut.")
    before = memory.get_messages("chat")
    embedder.broken = True
    with pytest.raises(ConnectionError):
        memory.add_message("user", "Le chat mange.")
    with pytest.raises(ConnectionError):
        memory.get_messages("autre question")
    embedder.broken = False
    assert memory.get_messages("chat") == before
    memory.add_message("user", "Le chat mange.")
    assert [m["content"] for m in memory.get_messages("chat")] == ["[souvenirs] Le chat dort.", "Le chat mange."]


def test_wrong_number_of_vectors_is_refused() -> None:
    class Short(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return np.zeros((0, self.dimension), dtype=np.float32)

    memory = SelectionMemory(Short(), max_recent=0)
    with pytest.raises(ValueError, match="1 vecteurs"):
        memory.add_message("user", "Le chat dort.")
    assert memory.get_messages() == []


def test_a_tool_group_is_archived_whole() -> None:
    memory = SelectionMemory(HashingEmbedder(), max_recent=1)
    memory.add_message("assistant", "", tool_calls=[{"id": "c", "name": "créer", "arguments": '{"titre": "vélo"}'}])
    memory.add_message("tool", "Tâche vélo numéro 7.", tool_call_id="c")
    assert len(souvenirs(memory, "vélo")) == 2
    assert all(m["role"] == "system" for m in memory.get_messages("vélo"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"embedder": None}, TypeError),
        ({"embedder": HashingEmbedder}, TypeError),
        ({"k": -1}, ValueError),
        ({"max_recent": -1}, ValueError),
        ({"max_passages": 0}, ValueError),
    ],
)
def test_bad_parameters_of_the_selection_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="reçu"):
        SelectionMemory(**{"embedder": HashingEmbedder(), **arguments})
