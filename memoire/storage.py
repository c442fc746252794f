"""Écrire sur disque sans rien perdre, et effacer sans rien laisser : fichiers et SQLite (chapitres 6 et 8)."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUSY_SECONDS = 10.0
"""Durée pendant laquelle on attend qu'un autre programme libère un fichier ou une base."""


class StorageError(RuntimeError):
    """Le support refuse : dossier interdit, disque plein, base occupée, serveur absent."""


class DamagedFileError(StorageError):
    """Un fichier est illisible : il est laissé ou mis de côté, jamais pris pour un fichier vide."""


@dataclass(frozen=True)
class Receipt:
    """Reçu d'un effacement : ce qui a été supprimé, et quand.

    Attributes:
        subject: l'utilisateur (ou la session) dont les données ont été effacées.
        at: la date, en secondes depuis 1970.
        counts: le nombre d'éléments effacés, par nature (``messages``, ``sessions``, ``vectors``…).
    """

    subject: str
    at: float
    counts: Mapping[str, int] = field(default_factory=dict)


def require_identifier(name: str, value: object) -> str:
    """Rend ``value`` si c'est un identifiant : un texte non vide, encodable en UTF-8.

    Raises:
        TypeError, ValueError: sinon.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} doit être un texte (str), reçu {type(value).__name__}.")
    if not value:
        raise ValueError(f"{name} ne peut pas être vide.")
    require_utf8(name, value)
    return value


def require_utf8(name: str, text: str) -> None:
    """Lève ValueError si le texte n'est pas encodable en UTF-8 (demi-codet isolé)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} contient un caractère qui ne s'écrit pas en UTF-8, position {error.start}.") from None


def safe_name(identifier: str) -> str:
    """Donne un nom de fichier ou de clé propre à un identifiant, quels que soient ses caractères.

    Deux identifiants différents, même par la casse seule, ont des noms différents ; aucun ne désigne un autre chemin.

    Returns:
        Les 64 chiffres hexadécimaux du SHA-256 de l'identifiant.
    """
    return hashlib.sha256(identifier.encode()).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Écrit un fichier en entier ou pas du tout : fichier temporaire, ``fsync``, remplacement.

    Le nom du fichier temporaire est toujours le même : celui qu'une panne a laissé est repris, et deux programmes
    qui écrivent le même fichier doivent s'exclure par un verrou.

    Raises:
        StorageError: le dossier ou le disque refuse ; l'ancien fichier est intact.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(f"Écriture impossible dans {path.parent} : {describe(error)}.") from error


def sync_folder(folder: Path) -> None:
    """Rend durable le contenu d'un dossier (noms créés, remplacés, effacés), là où le système le permet."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def describe(error: OSError) -> str:
    """Dit en français pourquoi le système refuse une opération sur un fichier."""
    reasons = {
        errno.EACCES: "accès interdit",
        errno.EPERM: "accès interdit",
        errno.EROFS: "support en lecture seule",
        errno.ENOSPC: "disque plein",
        errno.EDQUOT: "quota de disque atteint",
        errno.EFBIG: "fichier trop grand",
        errno.ENOTDIR: "un fichier occupe la place d'un dossier",
        errno.EEXIST: "un fichier occupe la place d'un dossier",
        errno.EISDIR: "un dossier occupe la place du fichier",
    }
    return reasons.get(error.errno or 0) or str(error.strerror or error)


_REASONS = {
    sqlite3.SQLITE_BUSY: "elle est occupée par un autre programme",
    sqlite3.SQLITE_LOCKED: "elle est occupée par un autre programme",
    sqlite3.SQLITE_READONLY: "le fichier ou son dossier est en lecture seule",
    sqlite3.SQLITE_IOERR: "le disque renvoie une erreur",
    sqlite3.SQLITE_FULL: "le disque est plein",
    sqlite3.SQLITE_CANTOPEN: "le fichier ne peut pas être ouvert à cet endroit",
}


class Database:
    """Base SQLite durable : journal WAL, clés étrangères, transactions immédiates, schéma versionné.

    Utilisable de plusieurs fils (un verrou) et de plusieurs processus (attente de ``BUSY_SECONDS``). Une écriture
    acquittée survit à la mort du processus ; ``synchronous="FULL"`` la protège aussi d'une coupure de courant.

    Args:
        path: le fichier.
        kind: la nature des données, un entier inscrit dans le fichier : une base d'une autre nature est refusée.
        migrations: les scripts SQL qui mènent d'une version du schéma à la suivante, depuis la base vide.
        synchronous: ``"NORMAL"`` ou ``"FULL"``.

    Raises:
        DamagedFileError: le fichier n'est pas une base SQLite lisible ; il n'est pas touché.
        StorageError: fichier impossible à ouvrir, base d'une autre nature, schéma plus récent que ce programme.
    """

    _HEADER = ("application_id", "user_version")

    def __init__(
        self, path: str | os.PathLike[str], kind: int, migrations: Sequence[str], synchronous: str = "NORMAL"
    ) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError(f"synchronous doit valoir NORMAL ou FULL, reçu {synchronous!r}.")
        self.path = Path(path)
        self._lock = threading.RLock()
        with self._translated():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._refuse_emptied_file()
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._use_wal()
                for pragma in (
                    f"synchronous={synchronous}",
                    "foreign_keys=ON",
                    "secure_delete=ON",
                    "temp_store=MEMORY",
                ):
                    self._connection.execute(f"PRAGMA {pragma}")
                if self._header() != (kind, len(migrations)):
                    self._migrate(kind, migrations)
        except BaseException:
            self._connection.close()
            raise

    def _refuse_emptied_file(self) -> None:
        """Refuse un fichier vide à côté d'un journal plein : SQLite jetterait le journal et lirait une base vide."""
        journal = self.path.with_name(f"{self.path.name}-wal")
        if self.path.exists() and not self.path.stat().st_size and journal.exists() and journal.stat().st_size:
            raise DamagedFileError(
                f"{self.path} est vide, mais son journal ne l'est pas : le fichier a été tronqué. Rien n'a été modifié."
            )

    def _use_wal(self) -> None:
        """Passe en mode WAL ; à la création, plusieurs processus peuvent le demander au même instant."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _migrate(self, kind: int, migrations: Sequence[str]) -> None:
        with self.transaction() as connection:
            found, version = self._header()
            if found != kind and (found or connection.execute("SELECT 1 FROM sqlite_master").fetchone()):
                raise StorageError(f"{self.path} contient déjà d'autres données : donnez un autre fichier.")
            if version > len(migrations):
                raise StorageError(
                    f"{self.path} a un schéma de version {version}, plus récent que ce programme ({len(migrations)})."
                )
            for script in migrations[version:]:
                for statement in filter(str.strip, script.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id={kind}")
            connection.execute(f"PRAGMA user_version={len(migrations)}")

    def _header(self) -> tuple[int, int]:
        """Lit dans l'en-tête du fichier la nature des données et la version du schéma."""
        numbers = [
            self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        ]
        return int(numbers[0]), int(numbers[1])

    @contextmanager
    def transaction(self, mode: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Ouvre une transaction : tout est écrit à la sortie, ou rien si une erreur survient.

        Args:
            mode: ``"IMMEDIATE"`` pour écrire ; ``"DEFERRED"`` pour lire un état d'un seul tenant.
        """
        with self._lock, self._translated():
            self._connection.execute(f"BEGIN {mode}")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Lit toutes les lignes d'une requête."""
        with self._lock, self._translated():
            return self._connection.execute(sql, parameters).fetchall()

    def scrub(self) -> None:
        """Réécrit la base et vide son journal : rien de ce qui a été supprimé ne reste dans les fichiers.

        ``secure_delete`` ne suffit pas : SQLite laisse dans ses pages des copies de lignes déplacées. Le coût est
        celui d'une réécriture complète, qui passe par la mémoire vive.

        Raises:
            StorageError: une lecture trop longue, ailleurs, a empêché de finir ; il faut rappeler ``scrub``.
        """
        with self._lock, self._translated():
            self._connection.execute("VACUUM")
            deadline = time.monotonic() + BUSY_SECONDS
            while self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline:
                    raise StorageError(f"Effacement inachevé dans {self.path} : une lecture est en cours ailleurs.")
                time.sleep(0.02)

    def close(self) -> None:
        """Ferme la base."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Traduit les erreurs de SQLite et du système."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"La base {self.path} est inaccessible : {describe(error)}.") from error
        except sqlite3.ProgrammingError as error:
            raise StorageError(f"La base {self.path} est fermée : {error}") from error
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise DamagedFileError(
                    f"{self.path} n'est pas une base SQLite lisible ({error}). Le fichier n'a pas été modifié : "
                    f"mettez-le de côté et restaurez une sauvegarde."
                ) from error
            reason = _REASONS.get(code, str(error))
            raise StorageError(f"La base {self.path} refuse l'opération : {reason}. Rien n'a été écrit.") from error


class Clock:
    """Horloge qui ne recule jamais : l'heure rendue est la plus grande vue jusqu'ici.

    Args:
        now: fonction qui donne l'heure, en secondes depuis 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._latest = float("-inf")
        self._lock = threading.Lock()

    def __call__(self, at_least: float = float("-inf")) -> float:
        """Donne l'heure, au moins ``at_least``."""
        now = float(self._now())
        with self._lock:
            self._latest = max(self._latest, at_least, now)
            return self._latest
