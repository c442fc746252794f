"""Le chatbot : un modèle sans état, une mémoire, une invite système (chapitres 2 à 4)."""

from __future__ import annotations

from typing import Any

from memoire.buffer import ConversationBufferMemory
from memoire.llm import LLM, Reply
from memoire.memory import Memory
from memoire.summary import RollingSummary, Summarizer, truncating_summarizer
from memoire.window import SlidingWindowMemory


class Chatbot:
    """Chatbot : à chaque tour, la mémoire fournit le contexte que l'application envoie au modèle.

    Args:
        llm: le modèle, sans état.
        memory: la mémoire, vide ou non ; le chatbot y place son invite système.
        system_prompt: l'invite système (``""`` pour ne pas en mettre).

    Source : chapitre 2.
    """

    def __init__(self, llm: LLM, memory: Memory, system_prompt: str = "") -> None:
        self.llm = llm
        self.memory = memory
        self.system_prompt = system_prompt
        self.replies: list[Reply] = []
        if system_prompt:
            memory.add_message("system", system_prompt)

    def reset(self) -> None:
        """Commence une nouvelle conversation, avec la même invite système."""
        self.memory.reset()
        self.replies = []
        if self.system_prompt:
            self.memory.add_message("system", self.system_prompt)

    def chat(self, text: str) -> str:
        """Envoie un message de l'utilisateur et rend la réponse du modèle.

        Si le modèle ou la mémoire échoue, la conversation est telle qu'avant l'appel : on peut réessayer.

        Args:
            text: le message de l'utilisateur.

        Returns:
            La réponse ; ``replies`` garde son coût en tokens.
        """
        before = self.memory.checkpoint()
        try:
            self.memory.add_message("user", text)
            reply = self.llm.complete(self.request(text))
            self.memory.add_message("assistant", reply.text)
        except BaseException:
            self.memory.restore(before)
            raise
        self.replies.append(reply)
        return reply.text

    def request(self, text: str) -> list[dict[str, Any]]:
        """Donne les messages envoyés au modèle pour répondre à ``text``."""
        return self.memory.get_messages(query=text)


class SimpleChatbot(Chatbot):
    """Chatbot à mémoire tampon : tout l'historique est renvoyé à chaque appel (chapitre 2)."""

    def __init__(self, llm: LLM, system_prompt: str = "", max_tokens: int = 100_000) -> None:
        super().__init__(llm, ConversationBufferMemory(max_tokens), system_prompt)


class SlidingWindowChatbot(Chatbot):
    """Chatbot à fenêtre glissante : les ``max_messages`` derniers messages sont renvoyés (chapitre 3)."""

    def __init__(self, llm: LLM, system_prompt: str = "", max_messages: int = 20) -> None:
        if not isinstance(max_messages, int) or max_messages < 2 or max_messages % 2:
            raise ValueError(f"max_messages doit être un entier pair d'au moins 2, reçu {max_messages!r}.")
        super().__init__(llm, SlidingWindowMemory(max_messages // 2), system_prompt)


class SmartChatbot(Chatbot):
    """Chatbot à résumé : au-delà de ``summary_threshold`` messages, seuls ``max_recent`` restent mot pour mot.

    Le résumé précédent est toujours relu avant d'être remplacé ; il est joint à l'invite système (chapitre 4).
    """

    def __init__(
        self,
        llm: LLM,
        system_prompt: str = "",
        max_recent: int = 10,
        summary_threshold: int = 15,
        summarize: Summarizer = truncating_summarizer,
    ) -> None:
        self.rolling = RollingSummary(summarize, max_turns=summary_threshold, keep_last=max_recent)
        super().__init__(llm, self.rolling, system_prompt)

    def request(self, text: str) -> list[dict[str, Any]]:
        """Donne les messages envoyés : l'invite système augmentée du résumé, puis les messages récents."""
        messages = [m for m in self.memory.get_messages(query=text) if m["role"] != "system"]
        summary = self.rolling.summary
        parts = [self.system_prompt, f"## Résumé de la conversation précédente\n{summary}" if summary else ""]
        if head := "\n\n".join(part for part in parts if part):
            messages.insert(0, {"role": "system", "content": head})
        return messages
