from typing import Any

import pytest

from memoire import HybridMemory, RollingSummary, SummaryMemory, llm_summarizer, truncating_summarizer
from memoire.llm import Reply
from memoire.summary import SUMMARY_PROMPT

LONG = [
    "Premier message, nettement plus long que trente caractères, et même que soixante.",
    "Deuxième message, lui aussi assez long.",
]


def numbered(start: int, stop: int) -> list[tuple[str, str]]:
    return [("user" if n % 2 else "model", f"message {n}") for n in range(start, stop)]


class Recorder:
    """Un résumeur qui note ce qu'il reçoit."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[tuple[str, str]]]] = []

    def __call__(self, summary: str, old: Any) -> str:
        self.calls.append((summary, list(old)))
        return f"résumé {len(self.calls)}"


def test_truncating_summarizer_follows_its_format() -> None:
    first = truncating_summarizer("", [("user", LONG[0]), ("assistant", "Trop court pour compter."), ("user", LONG[1])])
    assert first == f"Résumé : {LONG[0][:60]}... ; {LONG[1]}..."
    assert truncating_summarizer(first, [("user", LONG[1])]) == f"{first} | {LONG[1]}..."
    assert truncating_summarizer("", [("user", "x" * 30)]) == "Résumé : "
    assert truncating_summarizer("", [("user", "x" * 31)]) == "Résumé : " + "x" * 31 + "..."


def test_summary_memory_summarises_the_two_oldest_beyond_the_threshold() -> None:
    recorder = Recorder()
    memory = SummaryMemory(4, recorder)
    for n in range(4):
        memory.add_message("user", f"message {n}")
    assert recorder.calls == []
    assert memory.summary == ""
    memory.add_message("user", "message 4")
    assert recorder.calls == [("", [("user", "message 0"), ("user", "message 1")])]
    assert memory.get_context() == "[résumé] résumé 1\n[user] message 2\n[user] message 3\n[user] message 4"
    memory.add_message("user", "message 5")
    assert len(recorder.calls) == 1
    memory.add_message("user", "message 6")
    assert recorder.calls[1] == ("résumé 1", [("user", "message 2"), ("user", "message 3")])


def test_summary_tokens_are_those_of_the_summary_and_the_messages() -> None:
    memory = SummaryMemory(2)
    for text in (*LONG, "Troisième."):
        memory.add_message("user", text)
    assert memory.get_total_tokens() == len(memory.summary) // 4 + len("Troisième.") // 4
    assert memory.get_messages()[0] == {"role": "system", "content": f"[résumé] {memory.summary}"}


def test_rolling_summary_works_in_one_batch() -> None:
    recorder = Recorder()
    rolling = RollingSummary(recorder, max_turns=4, keep_last=2)
    for role, text in numbered(1, 6):
        rolling.add(role, text)
    assert recorder.calls == [("", numbered(1, 4))]
    assert rolling.turns == numbered(4, 6)
    assert rolling.summary == "résumé 1"


def test_rolling_summary_defaults_send_seven_and_keep_six_at_the_thirteenth() -> None:
    recorder = Recorder()
    rolling = RollingSummary(recorder)
    for role, text in numbered(1, 13):
        rolling.add(role, text)
    assert recorder.calls == []
    rolling.add("user", "message 13")
    assert [len(old) for _, old in recorder.calls] == [7]
    assert len(rolling.turns) == 6


def test_rolling_summary_takes_part_through_the_common_interface() -> None:
    rolling = RollingSummary(Recorder(), 4, 2)
    rolling.add_message("user", "bonjour")
    rolling.add_message("assistant", "bonsoir")
    assert rolling.turns == [("user", "bonjour"), ("model", "bonsoir")]
    assert rolling.get_messages()[1] == {"role": "assistant", "content": "bonsoir"}


def test_summaries_wait_for_the_results_of_a_tool_call() -> None:
    for memory in (SummaryMemory(2, Recorder()), RollingSummary(Recorder(), 3, 1)):
        memory.add_message("user", "crée trois tâches")
        calls = [{"id": f"c{i}", "name": "create_task", "arguments": "{}"} for i in range(3)]
        memory.add_message("assistant", "", tool_calls=calls)
        for i in range(3):
            assert memory.summary == ""
            memory.add_message("tool", f"tâche {i}", tool_call_id=f"c{i}")
        assert memory.summary == "résumé 1"
        assert "tool" not in [m["role"] for m in memory.get_messages()[:2]]


@pytest.mark.parametrize("bad", [(12, 12), (6, 7), (0, 0), (-1, -2)])
def test_rolling_summary_refuses_impossible_sizes(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"keep_last|max_turns"):
        RollingSummary(Recorder(), *bad)


def test_rolling_summary_refuses_unknown_roles() -> None:
    with pytest.raises(ValueError, match="user, model"):
        RollingSummary(Recorder()).add("assistant", "bonjour")


@pytest.mark.parametrize("make", [SummaryMemory, HybridMemory])
def test_a_summarizer_must_be_a_function_that_returns_text(make: Any) -> None:
    with pytest.raises(TypeError, match="summarize"):
        make(2, "résume")
    memory = make(1, lambda summary, old: None)
    memory.add_message("user", "un")
    with pytest.raises(TypeError, match="texte"):
        memory.add_message("user", "deux")
    assert [m["content"] for m in memory.get_messages()] == ["un"]


def test_hybrid_memory_keeps_the_whole_conversation_aside() -> None:
    memory, reference = HybridMemory(4), SummaryMemory(4)
    for n in range(11):
        for target in (memory, reference):
            target.add_message("user", f"message numéro {n}, assez long pour être résumé")
    assert memory.get_context() == reference.get_context()
    assert len(memory.all_messages) == 11
    assert memory.recent_messages == memory.all_messages[-len(memory.recent_messages) :]
    memory.all_messages.clear()
    assert len(memory.all_messages) == 11


class ScriptedLLM:
    """Un modèle qui rend toujours la même réponse et note ce qu'il reçoit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.requests: list[Any] = []

    def complete(self, messages: Any) -> Reply:
        self.requests.append(messages)
        return Reply(self.text, "scripté", 0, 0)


def test_llm_summarizer_sends_the_prompt_the_summary_and_the_old_exchanges() -> None:
    llm = ScriptedLLM("  Alice prépare un cours.\n")
    assert llm_summarizer(llm)("Alice travaille.", [("user", "Je prépare un cours.")]) == "Alice prépare un cours."
    system, user = llm.requests[0]
    assert system == {"role": "system", "content": SUMMARY_PROMPT}
    assert "Alice travaille." in user["content"]
    assert "[user] Je prépare un cours." in user["content"]


def test_an_empty_summary_is_refused_and_nothing_is_lost() -> None:
    memory = SummaryMemory(1, llm_summarizer(ScriptedLLM("  ")))
    memory.add_message("user", "un")
    with pytest.raises(ValueError, match="vide"):
        memory.add_message("user", "deux")
    assert memory.get_context() == "[user] un"
