from collections.abc import Sequence
from typing import Any

import pytest

from memoire import Chatbot, SimpleChatbot, SlidingWindowChatbot, SlidingWindowMemory, SmartChatbot
from memoire.llm import Reply


class EchoLLM:
    """Un modèle qui numérote ses réponses, garde ce qu'on lui envoie et tombe en panne sur demande."""

    def __init__(self) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.down = False

    def complete(self, messages: Sequence[dict[str, Any]]) -> Reply:
        if self.down:
            raise TimeoutError("le modèle ne répond pas")
        self.requests.append(list(messages))
        return Reply(f"réponse {len(self.requests)}", "écho", sum(len(m["content"]) // 4 for m in messages), 2)


def test_the_whole_history_is_sent_again_at_each_call() -> None:
    llm = EchoLLM()
    bot = SimpleChatbot(llm, "Vous êtes concis.")
    assert [bot.chat(f"question {n}") for n in range(3)] == ["réponse 1", "réponse 2", "réponse 3"]
    assert [len(request) for request in llm.requests] == [2, 4, 6]
    costs = [reply.input_tokens for reply in bot.replies]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_the_window_chatbot_sends_at_most_its_messages_and_the_system_prompt() -> None:
    llm = EchoLLM()
    bot = SlidingWindowChatbot(llm, "Invite", max_messages=4)
    for n in range(6):
        bot.chat(f"question {n}")
    sent = [m["content"] for m in llm.requests[-1]]
    assert sent == ["Invite", "réponse 4", "question 4", "réponse 5", "question 5"]


def test_the_smart_chatbot_never_overwrites_its_summary_unread() -> None:
    read: list[str] = []

    def summarize(summary: str, old: Any) -> str:
        read.append(summary)
        return f"résumé {len(read)}"

    llm = EchoLLM()
    bot = SmartChatbot(llm, "Vous êtes concis.", max_recent=4, summary_threshold=6, summarize=summarize)
    for n in range(12):
        bot.chat(f"question {n}")
    assert read[:3] == ["", "résumé 1", "résumé 2"]
    system = llm.requests[-1][0]
    assert system["role"] == "system"
    assert system["content"].startswith("Vous êtes concis.\n\n## Résumé de la conversation précédente\nrésumé ")
    assert [m["role"] for m in llm.requests[-1]].count("system") == 1


def test_a_failing_model_leaves_the_conversation_as_it_was() -> None:
    llm = EchoLLM()
    for bot in (SimpleChatbot(llm, "Invite"), Chatbot(llm, SlidingWindowMemory(2)), SmartChatbot(llm)):
        bot.chat("bonjour")
        before = bot.memory.get_messages()
        llm.down = True
        with pytest.raises(TimeoutError):
            bot.chat("question")
        assert bot.memory.get_messages() == before
        assert len(bot.replies) == 1
        llm.down = False
        bot.chat("question")
        assert [m["content"] for m in bot.memory.get_messages()].count("question") == 1


def test_reset_starts_again_with_the_same_system_prompt() -> None:
    bot = SimpleChatbot(EchoLLM(), "Invite")
    bot.chat("bonjour")
    bot.reset()
    assert bot.memory.get_messages() == [{"role": "system", "content": "Invite"}]
    assert bot.replies == []


@pytest.mark.parametrize("max_messages", [0, 3, -2, 2.0, "20"])
def test_the_window_chatbot_refuses_odd_sizes(max_messages: Any) -> None:
    with pytest.raises(ValueError, match="max_messages"):
        SlidingWindowChatbot(EchoLLM(), "", max_messages)
