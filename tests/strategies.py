"""Les stratégies soumises au contrat commun : une nouvelle stratégie s'y ajoute par une ligne."""

from collections.abc import Callable
from typing import Any

from memoire import (
    ConversationBufferMemory,
    EntityMemory,
    HybridMemory,
    PriorityWindowMemory,
    RollingSummary,
    SlidingWindowMemory,
    SummaryMemory,
    truncating_summarizer,
)
from memoire.compression import HierarchicalSummaryMemory, SelectionMemory
from memoire.hierarchical import HierarchicalMemory
from memoire.memory import BaseMemory
from memoire.rag import RAGMemory
from memoire.summary import ExtractiveSummarizer
from memoire.vectors import HashingEmbedder

STRATEGIES: dict[str, Callable[..., BaseMemory]] = {
    "tampon": lambda **kw: ConversationBufferMemory(100_000, **kw),
    "fenêtre": lambda **kw: SlidingWindowMemory(3, **kw),
    "priorités": lambda **kw: PriorityWindowMemory(100_000, **kw),
    "résumé": lambda **kw: SummaryMemory(4, **kw),
    "résumé extractif": lambda **kw: SummaryMemory(4, ExtractiveSummarizer(40), **kw),
    "résumé glissant": lambda **kw: RollingSummary(truncating_summarizer, 6, 3, **kw),
    "hybride": lambda **kw: HybridMemory(6, **kw),
    "entités": lambda **kw: EntityMemory(4, **kw),
    "résumé hiérarchique": lambda **kw: HierarchicalSummaryMemory(**kw),
    "sélection": lambda **kw: SelectionMemory(HashingEmbedder(64), **kw),
    "RAG": lambda **kw: RAGMemory(HashingEmbedder(64), **kw),
    "RAG et résumé": lambda **kw: RAGMemory(HashingEmbedder(64), max_recent=3, summarize=truncating_summarizer, **kw),
    "hiérarchique": lambda **kw: HierarchicalMemory("alice", HashingEmbedder(64), window_size=2, **kw),
}
"""Toutes les stratégies, larges : ``STRATEGIES[nom](count_tokens=…)``."""

BUDGETED: dict[str, Callable[..., Any]] = {
    "tampon": lambda budget, **kw: ConversationBufferMemory(budget, **kw),
    "priorités": lambda budget, **kw: PriorityWindowMemory(budget, **kw),
    "priorités et résumé": lambda budget, **kw: PriorityWindowMemory(budget, summarize=truncating_summarizer, **kw),
    "RAG": lambda budget, **kw: RAGMemory(
        HashingEmbedder(16), max_tokens=budget, summarize=lambda summary, old: (summary + old[-1][1])[-40:], **kw
    ),
}
"""Celles qui déclarent un budget : ``BUDGETED[nom](budget, count_tokens=…)``."""

BOUNDED = ("fenêtre", "résumé extractif", "entités", "résumé hiérarchique", "sélection")
"""Celles dont la mémoire occupée ne doit pas grandir avec la conversation."""

INJECTED: dict[str, Callable[[Callable[..., Any]], BaseMemory]] = {
    "résumé": lambda f: SummaryMemory(2, f),
    "résumé glissant": lambda f: RollingSummary(f, 3, 1),
    "hybride": lambda f: HybridMemory(2, f),
    "priorités": lambda f: PriorityWindowMemory(40, summarize=f),
    "entités": lambda f: EntityMemory(2, f),
    "RAG": lambda f: RAGMemory(HashingEmbedder(16), max_recent=2, summarize=f),
    "hiérarchique": lambda f: HierarchicalMemory("alice", HashingEmbedder(16), window_size=1, summarize=f),
}
"""Celles qui appellent une fonction injectée ``f`` à l'ajout d'un message."""
