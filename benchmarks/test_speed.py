"""Vitesse des mémoires, à côté de celles de LangChain : ``make bench`` (installe ``requirements-bench.txt``)."""

import warnings
from typing import Any

import pytest

from memoire import ConversationBufferMemory, PriorityWindowMemory, SlidingWindowMemory

warnings.filterwarnings("ignore")
classic = pytest.importorskip(
    "langchain_classic.memory", reason="langchain-classic absent : voir requirements-bench.txt"
)

TEXT = "x" * 100
TURNS = 2_000
BUDGET = 250  # dix messages de 100 caractères


def converse(memory: Any, turns: int = TURNS) -> None:
    """Ajoute ``turns`` échanges à une mémoire du cours et lit le contexte à chacun."""
    for _ in range(turns):
        memory.add_message("user", TEXT)
        memory.add_message("assistant", TEXT)
        memory.get_messages()


def converse_langchain(memory: Any) -> None:
    """La même chose avec une mémoire de LangChain, qui rend elle aussi des messages."""
    for _ in range(TURNS):
        memory.save_context({"input": TEXT}, {"output": TEXT})
        memory.load_memory_variables({})


def langchain_token_buffer() -> Any:
    from langchain_core.language_models import FakeListLLM

    class CountingLLM(FakeListLLM):
        def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
            return sum(len(message.content) // 4 for message in messages)

    return classic.ConversationTokenBufferMemory(
        llm=CountingLLM(responses=[""]), max_token_limit=BUDGET, return_messages=True
    )


MEMORIES = {
    "fenêtre glissante": lambda: SlidingWindowMemory(5),
    "fenêtre à priorités": lambda: PriorityWindowMemory(BUDGET),
    "mémoire tampon": lambda: ConversationBufferMemory(BUDGET),
}
REFERENCES = {
    "LangChain, fenêtre": lambda: classic.ConversationBufferWindowMemory(k=5, return_messages=True),
    "LangChain, budget de tokens": langchain_token_buffer,
}


@pytest.mark.benchmark(group="2 000 échanges, contexte lu à chacun")
@pytest.mark.parametrize("name", MEMORIES)
def test_course_memories(benchmark: Any, name: str) -> None:
    benchmark.pedantic(converse, setup=lambda: ((MEMORIES[name](),), {}), rounds=7)


@pytest.mark.benchmark(group="2 000 échanges, contexte lu à chacun")
@pytest.mark.parametrize("name", REFERENCES)
def test_langchain_memories(benchmark: Any, name: str) -> None:
    benchmark.pedantic(converse_langchain, setup=lambda: ((REFERENCES[name](),), {}), rounds=7)


@pytest.mark.benchmark(group="temps linéaire : de 25 000 à 100 000 échanges")
@pytest.mark.parametrize("turns", [25_000, 50_000, 100_000])
@pytest.mark.parametrize("name", MEMORIES)
def test_linear_time(benchmark: Any, name: str, turns: int) -> None:
    benchmark.pedantic(converse, setup=lambda: ((MEMORIES[name](), turns), {}), rounds=1)
