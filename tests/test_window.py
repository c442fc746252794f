import json
from typing import Any

import pytest

from memoire import BudgetError, PriorityWindowMemory, SlidingWindowMemory, truncating_summarizer
from memoire.memory import BaseMemory


def contents(memory: BaseMemory) -> list[str]:
    return [message["content"] for message in memory.get_messages()]


def exchange(memory: BaseMemory, number: int) -> None:
    memory.add_message("user", f"question {number}")
    memory.add_message("assistant", f"réponse {number}")


def call_tool(memory: BaseMemory, call_id: str, results: int = 1) -> None:
    calls = [{"id": f"{call_id}{i}", "name": "create_task", "arguments": "{}"} for i in range(results)]
    memory.add_message("assistant", "", tool_calls=calls)
    for i in range(results):
        memory.add_message("tool", f"résultat {call_id}{i}", tool_call_id=f"{call_id}{i}")


def test_only_the_last_exchanges_are_kept() -> None:
    memory = SlidingWindowMemory(window_size=2)
    for number in range(5):
        exchange(memory, number)
    assert contents(memory) == ["question 3", "réponse 3", "question 4", "réponse 4"]
    assert memory.get_lost_count() == 6


def test_a_window_of_zero_is_legal_and_empty() -> None:
    memory = SlidingWindowMemory(0)
    exchange(memory, 1)
    assert contents(memory) == []
    assert memory.get_total_tokens() == 0
    assert memory.get_lost_count() == 2


def test_a_tool_call_leaves_the_window_with_all_its_results() -> None:
    memory = SlidingWindowMemory(2)
    call_tool(memory, "a", results=2)
    memory.add_message("assistant", "fait")
    assert len(memory.get_messages()) == 4
    memory.add_message("user", "merci")
    assert contents(memory) == ["fait", "merci"]
    assert memory.get_lost_count() == 3


def test_a_group_larger_than_the_window_leaves_whole() -> None:
    memory = SlidingWindowMemory(1)
    call_tool(memory, "a", results=4)
    assert contents(memory) == []
    exchange(memory, 1)
    assert contents(memory) == ["question 1", "réponse 1"]
    assert memory.get_lost_count() == 5


def test_reset_clears_the_lost_count() -> None:
    memory = SlidingWindowMemory(1)
    for number in range(3):
        exchange(memory, number)
    memory.reset()
    assert memory.get_lost_count() == 0


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (2.0, TypeError), (True, TypeError), (None, TypeError)])
def test_bad_window_size_is_refused(size: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="window_size"):
        SlidingWindowMemory(size)  # type: ignore[arg-type]


# Fenêtre à priorités : chaque message ci-dessous pèse autant de tokens que de caractères


def test_old_plain_messages_leave_before_old_tool_calls() -> None:
    memory = PriorityWindowMemory(100, count_tokens=len)
    memory.add_message("user", "crée la tâche pain")
    call_tool(memory, "a")
    memory.add_message("assistant", "c'est créé")
    for number in range(3):
        exchange(memory, number)
    kept = contents(memory)
    assert "résultat a0" in kept
    assert "crée la tâche pain" not in kept
    assert kept[-4:] == ["question 1", "réponse 1", "question 2", "réponse 2"]


def test_tool_calls_leave_before_the_last_two_exchanges() -> None:
    memory = PriorityWindowMemory(40, count_tokens=len)
    call_tool(memory, "a")
    exchange(memory, 1)
    exchange(memory, 2)
    assert contents(memory) == ["question 1", "réponse 1", "question 2", "réponse 2"]


def test_when_even_the_last_exchanges_do_not_fit_the_latest_message_stays() -> None:
    memory = PriorityWindowMemory(25, count_tokens=len)
    for number in range(3):
        exchange(memory, number)
    assert contents(memory) == ["question 2", "réponse 2"]
    memory.add_message("user", "x" * 25)
    assert contents(memory) == ["x" * 25]


def test_the_order_stays_chronological() -> None:
    memory = PriorityWindowMemory(65, count_tokens=len)
    exchange(memory, 0)
    call_tool(memory, "a")
    exchange(memory, 1)
    exchange(memory, 2)
    assert contents(memory) == ["", "résultat a0", "question 1", "réponse 1", "question 2", "réponse 2"]


def test_a_message_that_cannot_fit_is_refused_and_nothing_changes() -> None:
    memory = PriorityWindowMemory(30, count_tokens=len)
    memory.add_message("system", "invite")
    exchange(memory, 1)
    before = memory.get_messages()
    with pytest.raises(BudgetError, match="30 tokens"):
        memory.add_message("user", "x" * 25)
    with pytest.raises(BudgetError):
        memory.add_message("system", "x" * 31)
    assert memory.get_messages() == before
    memory.add_message("user", "x" * 24)
    assert contents(memory) == ["invite", "x" * 24]


def test_a_tool_result_that_cannot_fit_can_be_sent_again_shorter() -> None:
    memory = PriorityWindowMemory(40, count_tokens=len)
    memory.add_message("assistant", "", tool_calls=[{"id": "a", "name": "f", "arguments": "{}"}])
    with pytest.raises(BudgetError):
        memory.add_message("tool", "x" * 100, tool_call_id="a")
    memory.add_message("tool", "x" * 30, tool_call_id="a")
    assert contents(memory) == ["", "x" * 30]


def test_what_leaves_is_summarised_within_its_share_of_the_budget() -> None:
    memory = PriorityWindowMemory(200, summarize=truncating_summarizer, summary_tokens=60, count_tokens=len)
    for number in range(12):
        memory.add_message("user", f"question {number} assez longue pour entrer dans le résumé")
        assert memory.get_total_tokens() <= 200
        assert len(memory.summary) <= 60
    assert memory.summary.startswith("…")
    assert "question 9" in memory.summary


def test_the_task_created_long_ago_can_still_be_updated() -> None:
    memory = PriorityWindowMemory(80)
    memory.add_message("system", "Vous gérez les tâches.")
    memory.add_message("user", "Ajoute une tâche : appeler le dentiste")
    call = {"id": "c1", "name": "create_task", "arguments": json.dumps({"titre": "appeler le dentiste"})}
    memory.add_message("assistant", "", tool_calls=[call])
    memory.add_message("tool", '{"task_id": 42}', tool_call_id="c1")
    for number in range(8):
        memory.add_message("user", f"Autre sujet {number}, sans rapport avec la tâche.")
        memory.add_message("assistant", f"Réponse {number}, sans rapport non plus.")
    memory.add_message("user", "Mets-la pour demain")
    assert '{"task_id": 42}' in contents(memory)


def test_a_conversation_that_is_too_long_is_signalled() -> None:
    memory = PriorityWindowMemory(4096, max_exchanges=3)
    for number in range(2):
        exchange(memory, number)
    assert not memory.is_full
    exchange(memory, 2)
    assert memory.is_full
    assert memory.exchange_count == 3


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_tokens": 0},
        {"keep_exchanges": 0},
        {"max_exchanges": 0},
        {"summary_tokens": -1, "summarize": truncating_summarizer},
        {"summary_tokens": 4097, "summarize": truncating_summarizer},
    ],
)
def test_bad_priority_window_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        PriorityWindowMemory(**arguments)
