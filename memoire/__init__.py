"""La mémoire conversationnelle : le paquet Python du cours.

Importer ``memoire`` ne charge que la bibliothèque standard ; les modules qui calculent des vecteurs, tracent
des figures ou affichent des widgets s'importent à part (``memoire.vectors``, ``memoire.figures``…).
"""

from memoire.buffer import ConversationBufferMemory
from memoire.chatbot import Chatbot, SimpleChatbot, SlidingWindowChatbot, SmartChatbot
from memoire.compression import HierarchicalSummaryMemory
from memoire.entities import EntityMemory, EntityRegister, extract_entities
from memoire.hierarchical import HierarchicalMemory
from memoire.hybrid import HybridMemory
from memoire.llm import FallbackLLM, ModelRouter, OpenAICompatibleLLM, SimulatedLLM, llm_from_env
from memoire.memory import BaseMemory, BudgetError, Memory
from memoire.messages import Message, ToolCall, count_tokens, render
from memoire.persistence import (
    PersistentMemory,
    RedisSessionStore,
    SessionMemory,
    SQLiteSessionStore,
    erase,
)
from memoire.rag import RAGMemory
from memoire.storage import Receipt
from memoire.summary import (
    SUMMARY_PROMPT,
    ExtractiveSummarizer,
    RollingSummary,
    SummaryMemory,
    llm_summarizer,
    truncating_summarizer,
)
from memoire.window import PriorityWindowMemory, SlidingWindowMemory

__all__ = [
    "SUMMARY_PROMPT",
    "BaseMemory",
    "BudgetError",
    "Chatbot",
    "ConversationBufferMemory",
    "EntityMemory",
    "EntityRegister",
    "ExtractiveSummarizer",
    "FallbackLLM",
    "HierarchicalMemory",
    "HierarchicalSummaryMemory",
    "HybridMemory",
    "Memory",
    "Message",
    "ModelRouter",
    "OpenAICompatibleLLM",
    "PersistentMemory",
    "PriorityWindowMemory",
    "RAGMemory",
    "Receipt",
    "RedisSessionStore",
    "RollingSummary",
    "SQLiteSessionStore",
    "SessionMemory",
    "SimpleChatbot",
    "SimulatedLLM",
    "SlidingWindowChatbot",
    "SlidingWindowMemory",
    "SmartChatbot",
    "SummaryMemory",
    "ToolCall",
    "count_tokens",
    "erase",
    "extract_entities",
    "llm_from_env",
    "llm_summarizer",
    "render",
    "truncating_summarizer",
]
