"""Se souvenir d'une session à l'autre, isoler les utilisateurs, oublier sur demande (chapitres 6 et 8)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from memoire.memory import BudgetError, Memory, ToolCalls
from memoire.messages import Message, ToolCall, count_tokens, create_message
from memoire.storage import (
    BUSY_SECONDS,
    Clock,
    DamagedFileError,
    Database,
    Receipt,
    StorageError,
    describe,
    require_identifier,
    require_utf8,
    safe_name,
    sync_folder,
    write_atomically,
)
from memoire.summary import Summarizer, Turn

RECENT_FACTS = 10
"""Nombre de faits que ``PersistentMemory`` place dans le contexte."""

REWRITE_SECONDS = 600.0
"""Durée laissée à un serveur Redis pour réécrire ses fichiers après un effacement."""

Value = str | int | float
"""Une valeur du profil ou des préférences."""

_Result = TypeVar("_Result")


class Revision(NamedTuple):
    """État d'une session : il change à chaque écriture, et ne revient jamais à une valeur passée.

    Attributes:
        epoch: identifie la session ; effacée ou expirée puis recréée, elle en reçoit une autre.
        number: le nombre de changements depuis sa création ; c'est aussi le rang du message qui vient d'entrer.
    """

    epoch: str
    number: int


class StoredMessage(NamedTuple):
    """Message enregistré : son rang dans la session, sa date (secondes depuis 1970), le message."""

    number: int
    at: float
    message: Message


class SessionInfo(NamedTuple):
    """Session d'un utilisateur : nom, dates (secondes depuis 1970), nombre de messages."""

    session: str
    created: float
    updated: float
    expires: float | None
    messages: int


class SessionStore(Protocol):
    """Où les conversations sont enregistrées, par utilisateur et par session."""

    def append(self, user: str, session: str, message: Message, derived: Mapping[str, str] | None = None) -> Revision:
        """Enregistre un message, et les textes qui en dérivent, d'un seul tenant ; rend son rang."""

    def load(self, user: str, session: str) -> list[StoredMessage]:
        """Donne les messages d'une session, dans l'ordre (liste vide si elle n'existe pas ou a expiré)."""

    def revision(self, user: str, session: str) -> Revision | None:
        """Donne l'état d'une session (``None`` si elle n'existe pas ou a expiré)."""

    def derived(self, user: str, session: str) -> dict[str, str]:
        """Donne les textes dérivés d'une session (résumés déjà calculés), dans l'ordre de leur enregistrement."""

    def remove(self, user: str, session: str, messages: Sequence[Revision]) -> Revision | None:
        """Retire des messages (l'annulation d'un tour qui a échoué) ; rend le nouvel état de la session."""

    def sessions(self, user: str) -> list[SessionInfo]:
        """Donne les sessions vivantes d'un utilisateur, de la plus ancienne à la plus récente."""

    def export(self, user: str) -> dict[str, Any]:
        """Donne toutes les données d'un utilisateur, prêtes pour ``json.dumps`` (RGPD, article 20)."""

    def forget(self, user: str) -> Receipt:
        """Efface physiquement toutes les données d'un utilisateur (RGPD, article 17)."""

    def forget_session(self, user: str, session: str) -> Receipt:
        """Efface physiquement une session."""

    def purge(self) -> Receipt:
        """Efface physiquement les sessions expirées."""

    def close(self) -> None:
        """Libère les ressources."""


def erase(user: str, *stores: Any, clock: Callable[[], float] = time.time) -> Receipt:
    """Efface un utilisateur de tous les supports, et en donne un seul reçu.

    Args:
        user: l'utilisateur.
        stores: des ``SessionStore``, des ``VectorStore``, et la ``PersistentMemory`` de cet utilisateur.
        clock: fonction qui donne l'heure.

    Returns:
        Le reçu, où les comptes de même nature sont ajoutés.

    Raises:
        ValueError: une ``PersistentMemory`` est celle d'un autre utilisateur ; rien n'est effacé.
        StorageError: un support a échoué ; les autres sont effacés, et l'appel peut être refait.
    """
    require_identifier("user", user)
    for store in stores:
        if isinstance(store, PersistentMemory) and store.user_id != user:
            raise ValueError(f"Cette mémoire est celle de {store.user_id!r}, non de {user!r} : rien n'a été effacé.")
    counts: Counter[str] = Counter()
    failures: list[Exception] = []
    for store in stores:
        try:
            done = store.forget() if isinstance(store, PersistentMemory) else store.forget(user)
            counts.update({"vectors": done} if isinstance(done, int) else done.counts)
        except Exception as error:
            failures.append(error)
    if failures:
        raise StorageError(
            f"Effacement inachevé ({len(failures)} support sur {len(stores)}) : {failures[0]} Rappelez erase."
        ) from failures[0]
    return Receipt(user, float(clock()), dict(counts))


def iso(at: float) -> str:
    """Donne une date au format ISO 8601, en UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def export_document(user: str, at: float, sessions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Donne le document d'export, de forme identique pour tous les supports."""
    return {"format": "memoire-export", "version": 1, "user": user, "exported_at": iso(at), "sessions": list(sessions)}


def export_session(info: SessionInfo, stored: Sequence[StoredMessage], derived: Mapping[str, str]) -> dict[str, Any]:
    """Donne la partie de l'export qui décrit une session."""
    return {
        "session": info.session,
        "created_at": iso(info.created),
        "updated_at": iso(info.updated),
        "expires_at": None if info.expires is None else iso(info.expires),
        "messages": [{**item.message.to_dict(), "at": iso(item.at)} for item in stored],
        "summaries": list(derived.values()),
    }


def check_storable(user: str, session: str, message: Message, derived: Mapping[str, str] | None) -> dict[str, str]:
    """Vérifie tout ce qui va être écrit, avant d'écrire quoi que ce soit ; rend les textes dérivés.

    Raises:
        TypeError, ValueError: identifiant vide, texte qui ne s'écrit pas en UTF-8…
    """
    require_identifier("user", user)
    require_identifier("session", session)
    if not isinstance(message, Message):
        raise TypeError(f"message doit être un Message, reçu {type(message).__name__}.")
    require_utf8("Le message", f"{message.text}{message.tool_call_id or ''}{''.join(c.id for c in message.tool_calls)}")
    texts = dict(derived or {})
    for text in (*texts, *texts.values()):
        if not isinstance(text, str):
            raise TypeError(f"Un texte dérivé doit être un texte (str), reçu {type(text).__name__}.")
        require_utf8("Le texte dérivé", text)
    return texts


def require_ttl(ttl: float | None) -> float | None:
    """Rend une durée de vie valable (secondes, strictement positive), ou ``None`` : sans limite."""
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl < float("inf")):
        raise ValueError(f"ttl doit être un nombre de secondes strictement positif, ou None, reçu {ttl!r}.")
    return ttl


def dump_calls(message: Message) -> str | None:
    """Écrit en JSON les appels d'outils d'un message (``None`` s'il n'y en a pas)."""
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    return json.dumps(calls, ensure_ascii=False) if calls else None


def read_message(role: str, content: str, calls: str | None, tool_call_id: str | None) -> Message:
    """Relit un message enregistré : il a été vérifié à l'écriture."""
    if calls is None:
        return Message(role, content, (), tool_call_id, count_tokens(content))
    tool_calls = tuple(ToolCall(*call) for call in json.loads(calls))
    return create_message(role, content, tool_calls, tool_call_id)  # type: ignore[arg-type]


class PersistentMemory:
    """Mémoire d'un utilisateur d'une session à l'autre : profil, préférences, résumés, faits, dans un fichier JSON.

    Le nom du fichier est une empreinte de l'identifiant, qui ne peut donc désigner aucun autre fichier. Chaque
    changement est écrit en entier avant que l'appel revienne ; deux programmes qui écrivent ensemble ne perdent rien.

    Args:
        user_id: l'utilisateur.
        memory_dir: le dossier des fichiers.
        clock: fonction qui donne l'heure, pour le reçu d'effacement.

    Raises:
        DamagedFileError: le fichier de cet utilisateur est illisible ; il est mis de côté, à réparer.
        StorageError: dossier inaccessible.
        TypeError, ValueError: identifiant vide ou qui n'est pas un texte.

    Source : chapitre 6.
    """

    def __init__(
        self,
        user_id: str,
        memory_dir: str | os.PathLike[str] = "data/memories",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.user_id = require_identifier("user_id", user_id)
        self.path = Path(memory_dir) / f"{safe_name(user_id)}.json"
        self._clock = clock
        self._data = self._read()

    @property
    def profile(self) -> dict[str, Value]:
        """Le profil, attribut -> valeur (une copie)."""
        return dict(self._data["profile"])

    @property
    def preferences(self) -> dict[str, Value]:
        """Les préférences (une copie)."""
        return dict(self._data["preferences"])

    @property
    def history_summaries(self) -> list[str]:
        """Les résumés des sessions passées (une copie)."""
        return list(self._data["history_summaries"])

    @property
    def facts(self) -> list[str]:
        """Les faits, du plus ancien au plus récent (une copie)."""
        return list(self._data["facts"])

    @property
    def set_aside(self) -> list[Path]:
        """Les fichiers de cet utilisateur trouvés endommagés et mis de côté, du plus ancien au plus récent."""
        return sorted(self.path.parent.glob(f"{self.path.name}.damaged-*"))

    def update_profile(self, key: str, value: Value | None) -> None:
        """Donne sa valeur à un attribut du profil ; l'ancienne est remplacée, et ``None`` l'efface."""
        self.update(profile={key: value})

    def update_preference(self, key: str, value: Value | None) -> None:
        """Donne sa valeur à une préférence ; l'ancienne est remplacée, et ``None`` l'efface."""
        self.update(preferences={key: value})

    def add_fact(self, fact: str) -> None:
        """Ajoute un fait ; déjà connu, il redevient le plus récent."""
        self.update(facts=[fact])

    def add_summary(self, summary: str) -> None:
        """Ajoute le résumé d'une session."""
        self.update(summaries=[summary])

    def save(self) -> None:
        """Réécrit le fichier (chaque changement l'a déjà fait)."""
        self.update()

    def update(
        self,
        profile: Mapping[str, Value | None] | None = None,
        preferences: Mapping[str, Value | None] | None = None,
        facts: Iterable[str] = (),
        summaries: Iterable[str] = (),
    ) -> None:
        """Fait plusieurs changements d'un seul tenant ; le fichier est relu d'abord, sous un verrou.

        Raises:
            TypeError, ValueError: une valeur ne s'écrit pas dans le fichier ; rien n'est changé.
            StorageError: écriture impossible ; rien n'est changé.
        """
        changes = {"profile": dict(profile or {}), "preferences": dict(preferences or {})}
        texts = {"facts": list(facts), "history_summaries": list(summaries)}
        for text in (*changes["profile"], *changes["preferences"], *texts["facts"], *texts["history_summaries"]):
            if not isinstance(text, str):
                raise TypeError(f"Un texte (str) est attendu, reçu {type(text).__name__}.")
            require_utf8("Le texte", text)
        for value in (*changes["profile"].values(), *changes["preferences"].values()):
            _check_value(value)
        with self._locked():
            data = self._read()
            for section, values in changes.items():
                data[section].update(values)
                data[section] = {key: value for key, value in data[section].items() if value is not None}
            data["history_summaries"] += texts["history_summaries"]
            new = list(dict.fromkeys(texts["facts"]))
            data["facts"] = [fact for fact in data["facts"] if fact not in new] + new
            write_atomically(self.path, json.dumps(data, ensure_ascii=False, indent=2).encode())
            self._data = data

    def get_context(self) -> str:
        """Donne le texte à joindre à l'invite système : le profil, puis les derniers faits (``""`` s'il n'y a rien)."""
        sections = (
            ("## Profil utilisateur :", [f"{key} : {value}" for key, value in self._data["profile"].items()]),
            ("## Faits importants :", self._data["facts"][-RECENT_FACTS:]),
        )
        return "\n\n".join("\n".join([title, *(f"- {line}" for line in lines)]) for title, lines in sections if lines)

    def export(self) -> dict[str, Any]:
        """Donne toutes les données de l'utilisateur, prêtes pour ``json.dumps``."""
        return json.loads(json.dumps(self._data))  # type: ignore[no-any-return]

    def forget(self) -> Receipt:
        """Efface les données de l'utilisateur : son fichier, et ceux qui avaient été mis de côté."""
        names = {"profile": "profile", "preferences": "preferences", "facts": "facts", "history_summaries": "summaries"}
        with self._locked():
            data = self._read()
            files = [path for path in self.path.parent.glob(f"*{self.path.name}*") if path.is_file()]
            for path in files:
                path.unlink()
            sync_folder(self.path.parent)
            self._data = self._empty()
        counts = {name: len(data[section]) for section, name in names.items()}
        return Receipt(self.user_id, float(self._clock()), {"files": len(files), **counts})

    def _empty(self) -> dict[str, Any]:
        return {"user_id": self.user_id, "profile": {}, "preferences": {}, "history_summaries": [], "facts": []}

    def _read(self) -> dict[str, Any]:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return self._empty()
        except OSError as error:
            raise StorageError(f"Lecture impossible de {self.path} : {describe(error)}.") from error
        try:
            data = json.loads(raw)
            expected = self._empty()
            if {key: type(value) for key, value in data.items()} != {k: type(v) for k, v in expected.items()}:
                raise ValueError("structure inattendue")
            if data["user_id"] != self.user_id:
                raise ValueError("ce fichier est celui d'un autre utilisateur")
        except (ValueError, AttributeError, RecursionError) as error:
            raise self._put_aside(error) from error
        return data  # type: ignore[no-any-return]

    def _put_aside(self, reason: Exception) -> DamagedFileError:
        """Renomme un fichier illisible, sans le changer, et donne l'erreur qui le signale."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        try:
            os.replace(self.path, aside)
        except OSError as error:
            return DamagedFileError(f"Le fichier {self.path} est illisible ({reason}) et reste là : {describe(error)}.")
        return DamagedFileError(
            f"Le fichier de mémoire {self.path.name} est illisible ({reason}). Il a été mis de côté, intact : {aside}."
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Réserve le dossier : un seul programme écrit à la fois."""
        from filelock import FileLock, Timeout

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.parent / ".lock", timeout=BUSY_SECONDS):
                yield
        except Timeout as error:
            raise StorageError(f"Le dossier {self.path.parent} est occupé par un autre programme.") from error
        except OSError as error:
            raise StorageError(f"Écriture impossible dans {self.path.parent} : {describe(error)}.") from error


def _check_value(value: object) -> None:
    """Refuse une valeur de profil qui ne serait pas relue telle quelle."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int, float))):
        raise TypeError(f"Une valeur doit être un texte ou un nombre, reçu {type(value).__name__}.")
    if isinstance(value, str):
        require_utf8("La valeur", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Une valeur doit être un nombre fini, reçu {value}.")


class SQLiteSessionStore:
    """Sessions dans un fichier SQLite : durables, isolées par requête paramétrée, effaçables octet par octet.

    Args:
        path: le fichier de la base.
        ttl: durée de vie d'une session, en secondes, depuis son dernier message ; ``None`` : sans limite.
        clock: fonction qui donne l'heure, en secondes depuis 1970 ; si elle recule, le temps s'arrête.
        synchronous: ``"NORMAL"`` résiste à la mort du processus, ``"FULL"`` aussi à la coupure de courant.

    Raises:
        StorageError, DamagedFileError: base inaccessible ou illisible.
        ValueError: ``ttl`` n'est pas une durée.

    Source : chapitre 8.
    """

    KIND = 0x4D53  # « MS » : mémoire, sessions
    MIGRATIONS = (
        """
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, UNIQUE (user, name)
        );
        CREATE TABLE messages (
            session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            number INTEGER NOT NULL, at REAL NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
            tool_calls TEXT, tool_call_id TEXT, PRIMARY KEY (session_id, number)
        )
        """,
        """
        ALTER TABLE sessions ADD COLUMN expires REAL;
        ALTER TABLE sessions ADD COLUMN epoch TEXT NOT NULL DEFAULT '';
        ALTER TABLE sessions ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
        UPDATE sessions SET epoch = lower(hex(randomblob(8))),
            changes = coalesce((SELECT max(number) FROM messages WHERE session_id = sessions.id), 0);
        CREATE INDEX sessions_by_expiry ON sessions (expires);
        CREATE TABLE derived (
            id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            key TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (session_id, key)
        );
        CREATE TABLE state (latest REAL NOT NULL, unscrubbed INTEGER NOT NULL);
        INSERT INTO state SELECT coalesce(max(updated), 0), 0 FROM sessions
        """,
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        ttl: float | None = None,
        clock: Callable[[], float] = time.time,
        synchronous: str = "NORMAL",
    ) -> None:
        self.ttl = require_ttl(ttl)
        self._clock = Clock(clock)
        self._database = Database(path, self.KIND, self.MIGRATIONS, synchronous)

    def append(self, user: str, session: str, message: Message, derived: Mapping[str, str] | None = None) -> Revision:
        """Enregistre un message ; il est durable quand l'appel revient.

        Returns:
            Le rang du message : les messages d'une session sont rangés dans l'ordre des acquittements.
        """
        texts = check_storable(user, session, message, derived)
        with self._database.transaction() as connection:
            now = self._now()
            connection.execute("UPDATE state SET latest = ?", (now,))
            connection.execute(
                "DELETE FROM sessions WHERE user = ? AND name = ? AND expires <= ?", (user, session, now)
            )
            session_id, epoch, number = connection.execute(
                "INSERT INTO sessions (user, name, created, updated, expires, epoch, changes) "
                "VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (user, name) DO UPDATE SET "
                "updated = excluded.updated, expires = excluded.expires, changes = changes + 1 "
                "RETURNING id, epoch, changes",
                (user, session, now, now, None if self.ttl is None else now + self.ttl, secrets.token_hex(8)),
            ).fetchone()
            connection.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session_id, number, now, message.role, message.content, dump_calls(message), message.tool_call_id),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO derived (session_id, key, value) VALUES (?, ?, ?)",
                [(session_id, *item) for item in texts.items()],
            )
        return Revision(epoch, number)

    def load(self, user: str, session: str) -> list[StoredMessage]:
        """Donne les messages d'une session, dans l'ordre."""
        rows = self._select(
            "SELECT number, at, role, content, tool_calls, tool_call_id FROM messages "
            "JOIN sessions ON id = session_id WHERE user = ? AND name = ? AND {alive} ORDER BY number",
            user,
            session,
        )
        return [StoredMessage(number, at, read_message(*fields)) for number, at, *fields in rows]

    def revision(self, user: str, session: str) -> Revision | None:
        """Donne l'état d'une session (``None`` si elle n'existe pas ou a expiré)."""
        rows = self._select(
            "SELECT epoch, changes FROM sessions WHERE user = ? AND name = ? AND {alive}", user, session
        )
        return Revision(*rows[0]) if rows else None

    def derived(self, user: str, session: str) -> dict[str, str]:
        """Donne les textes dérivés d'une session, dans l'ordre de leur enregistrement."""
        return dict(
            self._select(
                "SELECT key, value FROM derived JOIN sessions ON sessions.id = session_id "
                "WHERE user = ? AND name = ? AND {alive} ORDER BY derived.id",
                user,
                session,
            )
        )

    def remove(self, user: str, session: str, messages: Sequence[Revision]) -> Revision | None:
        """Retire des messages d'une session ; rend le nouvel état (``None`` si ce n'est plus la même session)."""
        state = None
        with self._database.transaction() as connection:
            for epoch, number in messages:
                rows = connection.execute(
                    "DELETE FROM messages WHERE number = ? AND session_id = "
                    "(SELECT id FROM sessions WHERE user = ? AND name = ? AND epoch = ?) RETURNING session_id",
                    (number, user, session, epoch),
                ).fetchall()
                for row in rows:
                    state = connection.execute(
                        "UPDATE sessions SET changes = changes + 1 WHERE id = ? RETURNING epoch, changes", row
                    ).fetchone()
        return Revision(*state) if state else None

    def sessions(self, user: str) -> list[SessionInfo]:
        """Donne les sessions vivantes d'un utilisateur, de la plus ancienne à la plus récente."""
        rows = self._select(
            "SELECT name, created, updated, expires, (SELECT count(*) FROM messages WHERE session_id = id) "
            "FROM sessions WHERE user = ? AND {alive} ORDER BY id",
            user,
        )
        return [SessionInfo(*row) for row in rows]

    def export(self, user: str) -> dict[str, Any]:
        """Donne toutes les données d'un utilisateur, prêtes pour ``json.dumps``."""
        with self._database.transaction("DEFERRED"):
            parts = [
                export_session(info, self.load(user, info.session), self.derived(user, info.session))
                for info in self.sessions(user)
            ]
        return export_document(user, self._now(), parts)

    def forget(self, user: str) -> Receipt:
        """Efface physiquement toutes les données d'un utilisateur, expirées comprises."""
        return self._delete(user, "user = ?", (require_identifier("user", user),))

    def forget_session(self, user: str, session: str) -> Receipt:
        """Efface physiquement une session."""
        identifiers = (require_identifier("user", user), require_identifier("session", session))
        return self._delete(session, "user = ? AND name = ?", identifiers)

    def purge(self) -> Receipt:
        """Efface physiquement les sessions expirées."""
        return self._delete("sessions expirées", "expires <= ?", (self._now(),))

    def close(self) -> None:
        """Ferme la base."""
        self._database.close()

    def _delete(self, subject: str, condition: str, values: tuple[Any, ...]) -> Receipt:
        """Supprime les sessions qui répondent à la condition, puis efface leurs octets.

        ``unscrubbed`` note que des octets restent à effacer : un effacement interrompu sera fini par le suivant.
        """
        chosen = f"session_id IN (SELECT id FROM sessions WHERE {condition})"
        with self._database.transaction() as connection:
            counts = {
                table: connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", values).fetchone()[0]
                for table, where in (("sessions", condition), ("messages", chosen), ("derived", chosen))
            }
            connection.execute(f"DELETE FROM sessions WHERE {condition}", values)
            now = self._now()
            unscrubbed = connection.execute(
                "UPDATE state SET latest = ?, unscrubbed = unscrubbed OR ? RETURNING unscrubbed",
                (now, counts["sessions"] > 0 or subject != "sessions expirées"),
            ).fetchone()[0]
        if unscrubbed:
            self._database.scrub()
            with self._database.transaction() as connection:
                connection.execute("UPDATE state SET unscrubbed = 0")
        return Receipt(subject, now, counts)

    def _select(self, sql: str, *identifiers: str) -> list[tuple[Any, ...]]:
        """Lit des lignes ; ``{alive}`` écarte les sessions expirées."""
        for name, value in zip(("user", "session"), identifiers, strict=False):
            require_identifier(name, value)
        alive = "(expires IS NULL OR expires > ?)"
        return self._database.rows(sql.format(alive=alive), (*identifiers, self._now()))

    def _now(self) -> float:
        """Donne l'heure, jamais antérieure à la dernière écriture."""
        return self._clock(self._database.rows("SELECT latest FROM state")[0][0])


class RedisSessionStore:
    """Sessions dans un serveur Redis : une clé par session, dont la durée de vie est posée avec les données.

    Les clés sont des empreintes : aucun identifiant ne peut nommer la clé d'un autre. Une écriture acquittée ne survit
    à la mort du serveur que s'il l'inscrit d'abord dans son journal : ``appendonly yes`` et ``appendfsync always``
    (``everysec``, son réglage d'usine, peut perdre deux secondes). Qu'il n'évince rien non plus : ``noeviction``.

    Args:
        client: l'adresse du serveur (``redis://…``) ou un client du paquet ``redis``.
        ttl: durée de vie d'une session, en secondes, depuis son dernier message ; ``None`` : sans limite.
        prefix: début de toutes les clés : lettres, chiffres, ``-``, ``_`` et ``.``.
        clock: fonction qui donne l'heure ; le serveur efface en outre les sessions expirées à sa propre heure.
        rewrite_files: après un effacement, fait réécrire au serveur ses fichiers, et attend ; ``False`` si
            l'hébergeur l'interdit et s'en charge.

    Raises:
        ValueError: ``ttl`` n'est pas une durée, ou ``prefix`` est mal formé.

    Source : chapitre 8.
    """

    _META = ("user", "session", "epoch", "changes", "created", "updated", "expires", "messages")

    def __init__(
        self,
        client: Any,
        ttl: float | None = None,
        prefix: str = "memoire",
        clock: Callable[[], float] = time.time,
        rewrite_files: bool = True,
    ) -> None:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        if not re.fullmatch(r"[\w.-]+", prefix, re.ASCII):
            raise ValueError(f"prefix n'accepte que lettres, chiffres, « - », « _ » et « . », reçu {prefix!r}.")
        self.ttl = require_ttl(ttl)
        self.prefix = prefix
        self.rewrite_files = rewrite_files
        self._clock = Clock(clock)
        self._client: Any = client
        if isinstance(client, str):
            self._client = Redis.from_url(client, socket_timeout=BUSY_SECONDS, retry=Retry(NoBackoff(), 1))

    def append(self, user: str, session: str, message: Message, derived: Mapping[str, str] | None = None) -> Revision:
        """Enregistre un message ; le serveur l'a acquitté quand l'appel revient."""
        texts = check_storable(user, session, message, derived)
        index, key = self._keys(user, session)
        token = secrets.token_hex(8)
        attempted: Revision | None = None

        def write(pipe: Any) -> Revision:
            nonlocal attempted
            if attempted and self._token(pipe.hget(key, f"m{attempted.number}")) == token:
                return attempted  # la réponse s'était perdue, non l'écriture
            meta, now = self._meta(pipe, key)
            before = pipe.pttl(index)
            attempted = Revision(meta["epoch"] or secrets.token_hex(8), int(meta["changes"] or 0) + 1)
            body = [now, message.role, message.content, dump_calls(message), message.tool_call_id, token]
            fields = {
                "user": user,
                "session": session,
                "epoch": attempted.epoch,
                "changes": attempted.number,
                "created": meta["created"] or repr(now),
                "updated": repr(now),
                "expires": "" if self.ttl is None else repr(now + self.ttl),
                "messages": int(meta["messages"] or 0) + 1,
                f"m{attempted.number}": json.dumps(body, ensure_ascii=False),
            }
            for rank, (name, text) in enumerate(texts.items()):
                fields[f"d{name}"] = json.dumps([attempted.number, rank, text], ensure_ascii=False)
            pipe.multi()
            if not meta["epoch"]:
                pipe.delete(key)
                pipe.lrem(index, 0, key)
                pipe.rpush(index, key)
            pipe.hset(key, mapping=fields)
            life = None if self.ttl is None else math.ceil(self.ttl * 1000)
            for name, left in ((key, life), (index, None if before == -1 or life is None else max(before, life))):
                if left is None:
                    pipe.persist(name)
                else:
                    pipe.pexpire(name, left)
            return attempted

        return self._transact(write, index, key)

    def load(self, user: str, session: str) -> list[StoredMessage]:
        """Donne les messages d'une session, dans l'ordre."""
        return self._messages(self._read(*self._keys(user, session)))

    def revision(self, user: str, session: str) -> Revision | None:
        """Donne l'état d'une session (``None`` si elle n'existe pas ou a expiré)."""
        with self._translated():
            meta, _ = self._meta(self._client, self._keys(user, session)[1])
        return Revision(meta["epoch"], int(meta["changes"])) if meta["epoch"] else None

    def derived(self, user: str, session: str) -> dict[str, str]:
        """Donne les textes dérivés d'une session, dans l'ordre de leur enregistrement."""
        return self._derived(self._read(*self._keys(user, session)))

    def remove(self, user: str, session: str, messages: Sequence[Revision]) -> Revision | None:
        """Retire des messages d'une session ; rend le nouvel état (``None`` si ce n'est plus la même session)."""
        key = self._keys(user, session)[1]

        def write(pipe: Any) -> Revision | None:
            meta, _ = self._meta(pipe, key)
            fields = [f"m{number}" for epoch, number in messages if epoch == meta["epoch"]]
            present = [field for field in fields if pipe.hexists(key, field)]
            pipe.multi()
            if not present:
                return None
            pipe.hdel(key, *present)
            pipe.hincrby(key, "messages", -len(present))
            pipe.hincrby(key, "changes", len(present))
            return Revision(meta["epoch"], int(meta["changes"]) + len(present))

        return self._transact(write, key)

    def sessions(self, user: str) -> list[SessionInfo]:
        """Donne les sessions vivantes d'un utilisateur, de la plus ancienne à la plus récente."""
        with self._translated():
            keys = self._client.lrange(self._keys(user)[0], 0, -1)
            metas = [self._meta(self._client, key)[0] for key in keys]
        return [self._info(meta) for meta in metas if meta["epoch"]]

    def export(self, user: str) -> dict[str, Any]:
        """Donne toutes les données d'un utilisateur, prêtes pour ``json.dumps``."""
        index = self._keys(user)[0]
        with self._translated():
            keys = self._client.lrange(index, 0, -1)
        parts = [
            export_session(self._info(fields), self._messages(fields), self._derived(fields))
            for fields in (self._read(index, key) for key in keys)
            if fields
        ]
        return export_document(user, self._clock(), parts)

    def forget(self, user: str) -> Receipt:
        """Efface physiquement toutes les données d'un utilisateur, y compris des fichiers du serveur."""
        index = self._keys(user)[0]
        counts = self._transact(
            lambda pipe: self._drop(pipe, index, [_text(key) for key in pipe.lrange(index, 0, -1)]), index
        )
        self._scrub()
        return Receipt(user, self._clock(), counts)

    def forget_session(self, user: str, session: str) -> Receipt:
        """Efface physiquement une session, y compris des fichiers du serveur."""
        index, key = self._keys(user, session)
        counts = self._transact(lambda pipe: self._drop(pipe, index, [key]), index, key)
        self._scrub()
        return Receipt(session, self._clock(), counts)

    def purge(self) -> Receipt:
        """Efface physiquement les sessions expirées.

        Le reçu compte celles que l'index connaissait encore ; le serveur en a pu effacer d'autres de lui-même.
        """

        def write(pipe: Any, index: str) -> dict[str, int]:
            keys = [_text(key) for key in pipe.lrange(index, 0, -1)]
            return self._drop(pipe, index, [key for key in keys if not self._meta(pipe, key)[0]["epoch"]])

        counts = Counter({"sessions": 0, "messages": 0, "derived": 0})
        with self._translated():
            indexes = [_text(key) for key in self._client.scan_iter(f"{self.prefix}:*}}", count=1000)]
        for index in indexes:
            counts.update(self._transact(partial(write, index=index), index))
        self._scrub()
        return Receipt("sessions expirées", self._clock(), dict(counts))

    def close(self) -> None:
        """Ferme les connexions au serveur."""
        self._client.close()

    def _keys(self, user: str, session: str | None = None) -> tuple[str, str]:
        """Donne la clé de l'index d'un utilisateur, et celle d'une de ses sessions."""
        index = f"{self.prefix}:{{{safe_name(require_identifier('user', user))}}}"
        return index, "" if session is None else f"{index}:{safe_name(require_identifier('session', session))}"

    def _meta(self, client: Any, key: Any) -> tuple[dict[str, str], float]:
        """Lit ce qui décrit une session (valeurs vides si elle n'existe pas ou a expiré), et l'heure."""
        meta = dict(zip(self._META, map(_text, client.hmget(key, self._META)), strict=True))
        now = self._clock(float(meta["updated"] or "-inf"))
        return (dict.fromkeys(self._META, "") if meta["expires"] and float(meta["expires"]) <= now else meta), now

    def _read(self, index: str, key: Any) -> dict[str, str]:
        """Lit une session d'un seul tenant (rien si elle n'existe pas ou a expiré)."""
        with self._translated():
            fields = {_text(name): _text(value) for name, value in self._client.hgetall(key).items()}
        now = self._clock(float(fields.get("updated", "-inf")))
        return {} if fields.get("expires") and float(fields["expires"]) <= now else fields

    def _messages(self, fields: Mapping[str, str]) -> list[StoredMessage]:
        numbers = (name for name in fields if name[0] == "m" and name[1:].isdigit())
        rows = sorted((int(name[1:]), json.loads(fields[name])) for name in numbers)
        return [StoredMessage(number, at, read_message(*body)) for number, (at, *body, _) in rows]

    def _derived(self, fields: Mapping[str, str]) -> dict[str, str]:
        rows = [(*json.loads(value), name[1:]) for name, value in fields.items() if name[0] == "d"]
        return {name: text for _, _, text, name in sorted(rows)}

    def _info(self, meta: Mapping[str, str]) -> SessionInfo:
        expires = float(meta["expires"]) if meta["expires"] else None
        return SessionInfo(
            meta["session"], float(meta["created"]), float(meta["updated"]), expires, int(meta["messages"])
        )

    def _token(self, body: Any) -> str | None:
        return None if body is None else json.loads(body)[-1]

    def _drop(self, pipe: Any, index: str, keys: Sequence[str]) -> dict[str, int]:
        """Supprime des sessions et les retire de l'index ; compte ce qui disparaît."""
        if keys:
            pipe.watch(*keys)
        messages = [int(pipe.hget(key, "messages") or 0) for key in keys]
        lengths = [pipe.hlen(key) for key in keys]
        derived = sum(length - len(self._META) - n for length, n in zip(lengths, messages, strict=True) if length)
        known = sum(1 for key in set(map(_text, pipe.lrange(index, 0, -1))) if key in keys)
        pipe.multi()
        for key in keys:
            pipe.delete(key)
            pipe.lrem(index, 0, key)
        return {"sessions": known, "messages": sum(messages), "derived": derived}

    def _transact(self, write: Callable[[Any], _Result], *keys: str) -> _Result:
        """Lit, puis écrit d'un seul tenant (WATCH, MULTI, EXEC) ; recommence si une clé a changé entre-temps."""
        from redis.exceptions import WatchError

        deadline = time.monotonic() + BUSY_SECONDS
        with self._translated(), self._client.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(*keys)
                    result = write(pipe)
                    pipe.execute()
                    return result
                except WatchError as error:
                    if time.monotonic() > deadline:
                        raise StorageError("Redis est trop occupé : l'écriture n'est pas confirmée.") from error

    def _scrub(self) -> None:
        """Fait réécrire au serveur ses fichiers, où restent les valeurs supprimées, et attend que ce soit fini."""
        if not self.rewrite_files:
            return
        with self._translated():
            self._client.slowlog_reset()  # il garde le début des commandes lentes, textes compris
            state = self._client.info("persistence")
            if state.get("aof_enabled"):
                self._rewrite(self._client.bgrewriteaof, "aof_last_bgrewrite_status")
            if self._saves_snapshots(state):
                self._rewrite(self._client.bgsave, "rdb_last_bgsave_status")

    def _saves_snapshots(self, state: Mapping[str, Any]) -> bool:
        """Dit si le serveur écrit des instantanés ; dans le doute, oui."""
        from redis.exceptions import ResponseError

        try:
            configured = self._client.config_get("save").get("save", "")
        except ResponseError:  # l'hébergeur cache sa configuration
            return True
        return bool(configured) or int(state.get("rdb_saves", 0)) > 0

    def _rewrite(self, start: Callable[[], Any], status: str) -> None:
        """Lance une réécriture après la fin de celles qui ont commencé avant l'effacement, puis attend."""
        from redis.exceptions import ResponseError

        deadline = time.monotonic() + REWRITE_SECONDS
        busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
        started = False
        while time.monotonic() < deadline:
            state = self._client.info("persistence")
            if any(int(state.get(name, 0)) for name in busy):
                time.sleep(0.02)
            elif started:
                if state.get(status) != "ok":
                    raise StorageError("Effacement inachevé : Redis n'a pas pu réécrire ses fichiers.")
                return
            else:
                try:
                    start()
                    started = True
                except ResponseError as error:
                    if "in progress" not in str(error):  # un autre programme vient d'en lancer une
                        raise
        raise StorageError("Effacement inachevé : la réécriture des fichiers de Redis n'en finit pas.")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Traduit les erreurs de Redis."""
        from redis.exceptions import RedisError, WatchError

        try:
            yield
        except WatchError:
            raise
        except RedisError as error:
            raise StorageError(
                f"Redis ne répond pas, ou refuse : l'opération n'est pas confirmée ({type(error).__name__} : {error})."
            ) from error


def _text(value: Any) -> str:
    """Rend en texte une valeur lue dans Redis (``""`` si elle est absente)."""
    return value.decode() if isinstance(value, bytes) else (value or "")


class _MemoizedSummarizer:
    """Résumeur qui ne recalcule pas un résumé déjà enregistré."""

    def __init__(self, summarize: Summarizer) -> None:
        self.summarize = summarize
        self.known: dict[str, str] = {}
        self.new: dict[str, str] = {}

    def __call__(self, summary: str, old: Sequence[Turn]) -> str:
        key = hashlib.sha256(json.dumps([summary, list(old)]).encode()).hexdigest()
        text = self.known.get(key, self.new.get(key))
        if text is None:
            self.new[key] = text = self.summarize(summary, old)
        return text


class SessionMemory:
    """Attache une mémoire, quelle que soit sa stratégie, à une session enregistrée.

    À l'ouverture, les messages enregistrés repassent par la stratégie, qui retrouve le même contexte ; les résumés
    déjà calculés sont relus, non recalculés. Un message est durable quand ``add_message`` revient. Si un autre
    programme écrit dans la même session, la stratégie est reconstruite à la lecture suivante.

    Args:
        memory: la stratégie, qui sera vidée puis remplie par la session.
        store: le support.
        user: l'utilisateur.
        session: la session.

    Attributes:
        skipped: nombre de messages enregistrés que la stratégie a refusés à la relecture (plus grands que son
            budget, ou résultats d'outil séparés de leur appel par un autre programme).

    Source : chapitre 8.
    """

    def __init__(self, memory: Memory, store: SessionStore, user: str, session: str) -> None:
        self.memory = memory
        self.store = store
        self.user = require_identifier("user", user)
        self.session = require_identifier("session", session)
        self._memo: _MemoizedSummarizer | None = None
        if callable(summarize := getattr(memory, "summarize", None)):
            self._memo = _MemoizedSummarizer(summarize)
            memory.summarize = self._memo  # type: ignore[attr-defined]
        self._system: str | None = None  # l'invite système enregistrée
        self._revision: Revision | None = None  # l'état du support auquel répond la stratégie
        self._mine: list[Revision] = []  # les messages ajoutés par cet objet
        self._cancelled: list[Revision] = []  # ceux qu'il reste à retirer du support
        self._rebuild()

    def add_message(
        self, role: str, content: str, *, tool_calls: ToolCalls | None = None, tool_call_id: str | None = None
    ) -> None:
        """Ajoute un message à la stratégie, puis l'enregistre ; en cas d'échec, ni l'un ni l'autre.

        Une invite système identique à celle de la session n'est pas enregistrée de nouveau.

        Raises:
            ValueError, TypeError: message refusé par la stratégie.
            StorageError: enregistrement impossible.
        """
        memory = self._current()
        if role == "system" and content == self._system:
            return
        message = create_message(role, content, tool_calls, tool_call_id)
        memory.add_message(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id)
        before, self._stale = self._revision, True  # la stratégie est en avance sur le support
        done = self.store.append(self.user, self.session, message, self._memo.new if self._memo else None)
        self._mine.append(done)
        self._system = content if role == "system" else self._system
        self._follow(before, done)
        if self._memo:
            self._memo.new = {}

    def get_messages(self, query: str | None = None) -> list[dict[str, Any]]:
        """Donne le contexte, prêt pour une API *chat completions*."""
        return self._current().get_messages(query)

    def get_context(self, query: str | None = None) -> str:
        """Donne le contexte en texte."""
        return self._current().get_context(query)

    def get_total_tokens(self) -> int:
        """Donne la taille du contexte fourni, en tokens."""
        return self._current().get_total_tokens()

    def reset(self) -> None:
        """Oublie tout : la session est effacée du support."""
        self._stale = True
        self.store.forget_session(self.user, self.session)
        self._rebuild()

    def checkpoint(self) -> dict[str, Any]:
        """Photographie l'état, pour ``restore``."""
        memory = self._current()
        return {
            "memory": memory.checkpoint(),
            "revision": self._revision,
            "system": self._system,
            "mine": len(self._mine),
        }

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Revient à l'état photographié : les messages ajoutés depuis par cet objet sont retirés du support."""
        added = self._mine[checkpoint["mine"] :]
        del self._mine[checkpoint["mine"] :]
        start: Revision | None = checkpoint["revision"]
        alone = not self._stale and start is not None and self._revision == (start.epoch, start.number + len(added))
        self._stale = True
        self._cancelled += added
        done = self._withdraw()
        if alone and added:
            self.memory.restore(checkpoint["memory"])
            self._system = checkpoint["system"]
            self._follow(self._revision, done, len(added))

    def _follow(self, before: Revision | None, done: Revision | None, changes: int = 1) -> None:
        """Note que la stratégie suit le support, si personne d'autre n'y a écrit depuis ``before``."""
        if done and done.number == changes + (before.number if before else 0) and (not before or before[0] == done[0]):
            self._revision, self._stale = done, False

    def _withdraw(self) -> Revision | None:
        """Retire du support les messages annulés ; s'il est en panne, ce sera fait à la prochaine lecture."""
        done = self.store.remove(self.user, self.session, self._cancelled) if self._cancelled else None
        self._cancelled = []
        return done

    def _current(self) -> Memory:
        """Donne la stratégie, à jour de ce que contient le support."""
        self._withdraw()
        if self._stale or self._revision != self.store.revision(self.user, self.session):
            self._rebuild()
        return self.memory

    def _rebuild(self) -> None:
        """Repasse les messages enregistrés par la stratégie."""
        self._stale = True
        revision = self.store.revision(self.user, self.session)
        stored = self.store.load(self.user, self.session)
        if self._memo:
            self._memo.known, self._memo.new = self.store.derived(self.user, self.session), {}
        self.memory.reset()
        self._system = None
        self.skipped = 0
        for _, _, message in stored:
            calls: Any = message.tool_calls or None
            try:
                self.memory.add_message(
                    message.role, message.content, tool_calls=calls, tool_call_id=message.tool_call_id
                )
                self._system = message.content if message.role == "system" else self._system
            except BudgetError:
                self.skipped += 1
            except ValueError:
                if message.role != "tool":
                    raise
                self.skipped += 1
        if self._memo:
            self._memo.known, self._memo.new = {}, {}
        self._revision, self._stale = revision, False
