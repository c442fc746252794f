"""La mémoire conversationnelle : le paquet Python du cours.

Importer ``memoire`` ne charge que la bibliothèque standard ; les modules qui calculent des vecteurs, tracent
des figures ou affichent des widgets s'importent à part (``memoire.vectors``, ``memoire.figures``…).
"""

from memoire.buffer import ConversationBufferMemory
from memoire.chatbot import Chatbot, SimpleChatbot, SlidingWindowChatbot, SmartChatbot
from memoire.compression import HierarchicalSummaryMemory
from memoire.entities import EntityMemory, EntityRegister, extract_entities
from memoire.hybrid import HybridMemory
from memoire.llm import SimulatedLLM
from memoire.memory import BaseMemory, BudgetError, Memory
from memoire.messages import Message, ToolCall, count_tokens, render
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
    "HierarchicalSummaryMemory",
    "HybridMemory",
    "Memory",
    "Message",
    "PriorityWindowMemory",
    "RollingSummary",
    "SimpleChatbot",
    "SimulatedLLM",
    "SlidingWindowChatbot",
    "SlidingWindowMemory",
    "SmartChatbot",
    "SummaryMemory",
    "ToolCall",
    "count_tokens",
    "extract_entities",
    "llm_summarizer",
    "render",
    "truncating_summarizer",
]
