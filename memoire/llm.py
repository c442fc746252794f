"""Les modèles de langage : simulé, distant, avec repli, choisi selon la demande (chapitres 1 et 8)."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from memoire.costs import Attempt, Recorder
from memoire.french import fold
from memoire.messages import count_tokens
from memoire.reply import LLM, Reply
from memoire.simulated import UNKNOWN, SimulatedLLM, is_abstention

if TYPE_CHECKING:
    import openai

__all__ = [
    "LLM",
    "SETTINGS",
    "UNKNOWN",
    "Fallback",
    "FallbackLLM",
    "LLMError",
    "MalformedReplyError",
    "ModelRouter",
    "OpenAICompatibleLLM",
    "RateLimitedError",
    "RejectedError",
    "Reply",
    "SimulatedLLM",
    "UnavailableError",
    "is_abstention",
    "is_complex_request",
    "llm_from_env",
]

OFFICIAL_URL = "https://api.openai.com/v1"
NO_KEY = "aucune-cle"  # le client ``openai`` en exige une
MAX_DETAIL = 200  # caractères du message d'un serveur repris dans une erreur


# Ce qui peut échouer


class LLMError(Exception):
    """Un modèle n'a pas répondu.

    Attributes:
        model: le modèle.
        outcome: le motif, tel qu'il est inscrit au journal.
        input_tokens: tokens lus par le modèle malgré l'échec, et sans doute facturés.
        output_tokens: tokens écrits malgré l'échec.
        attempts: toutes les tentatives de l'appel, quand plusieurs ont été faites.
    """

    outcome = "erreur"

    def __init__(self, message: str, model: str = "", input_tokens: int = 0, output_tokens: int = 0) -> None:
        super().__init__(message)
        self.model = model
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.attempts: tuple[Attempt, ...] = ()

    def __str__(self) -> str:
        """Donne le message, suivi des tentatives s'il y en a eu plusieurs."""
        if len(self.attempts) < 2:
            return str(self.args[0])
        done = ", ".join(f"{attempt.model} ({attempt.outcome})" for attempt in self.attempts)
        return f"{self.args[0]} Tentatives : {done}."


class RateLimitedError(LLMError):
    """Trop de demandes (429). ``retry_after`` : l'attente demandée en secondes, ou ``None`` si elle est inconnue."""

    outcome = "limite de débit"

    def __init__(self, message: str, model: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, model)
        self.retry_after = retry_after


class UnavailableError(LLMError):
    """Le service ne répond pas : panne (5xx), connexion impossible, délai dépassé."""

    outcome = "indisponible"

    def __init__(self, message: str, model: str = "", *, timed_out: bool = False) -> None:
        super().__init__(message, model)
        if timed_out:
            self.outcome = "délai dépassé"


class RejectedError(LLMError):
    """La demande est refusée (400, 401, 404…) : la répéter telle quelle ne servirait à rien."""

    outcome = "refusé"

    def __init__(self, message: str, model: str = "", status: int = 400) -> None:
        super().__init__(message, model)
        self.status = status


class MalformedReplyError(LLMError):
    """La réponse est inutilisable : JSON invalide, aucun choix, texte vide, flux coupé."""

    outcome = "réponse illisible"


# Le client


class OpenAICompatibleLLM:
    """Modèle distant, par toute API compatible avec celle d'OpenAI (OpenRouter, Mistral, Ollama, vLLM…).

    La clé n'est lue nulle part ailleurs que dans ``api_key``, et n'apparaît dans aucun message d'erreur. Ce client ne
    réessaie pas de lui-même : c'est le rôle de ``FallbackLLM``, et deux mécanismes se multiplieraient. Si le service
    n'indique pas les tokens, ils sont estimés par ``len // 4``.

    Args:
        model: le nom du modèle, tel que le service le connaît.
        base_url: l'adresse du service ; par défaut, celle d'OpenAI.
        api_key: la clé ; un service local s'en passe.
        timeout: durée maximale d'un silence du service, en secondes.
        max_retries: nouvelles tentatives du client ``openai`` lui-même.
        stream: recevoir la réponse par morceaux ; le silence toléré se compte alors entre deux morceaux.
        clock: fonction qui donne l'heure, pour lire un ``Retry-After`` donné sous forme de date.

    Raises:
        ValueError, TypeError: paramètre hors de son domaine.

    Source : chapitre 8.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
        max_retries: int = 0,
        stream: bool = False,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"model doit être un nom de modèle, reçu {model!r}.")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
            raise ValueError(f"timeout doit être un nombre de secondes strictement positif, reçu {timeout!r}.")
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ValueError(f"max_retries doit être un entier positif ou nul, reçu {max_retries!r}.")
        self.model = model
        self.base_url = _require_url(base_url or OFFICIAL_URL)
        self.timeout = timeout
        self.stream = stream
        self._clock = clock
        key = _require_key(api_key, needed=base_url is None)

        @cache
        def connect() -> openai.OpenAI:
            import openai

            return openai.OpenAI(api_key=key, base_url=self.base_url, timeout=timeout, max_retries=max_retries)

        self._connect = connect  # la clé reste dans cette fonction : elle n'est dans aucun attribut
        self._hide: Callable[[str], str] = lambda text: text.replace(key, "…")

    def __repr__(self) -> str:
        """Nomme le modèle et l'adresse, jamais la clé."""
        return f"OpenAICompatibleLLM(model={self.model!r}, base_url={self.base_url!r})"

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        """Envoie la conversation au service et rend sa réponse.

        Raises:
            RateLimitedError, UnavailableError, RejectedError, MalformedReplyError: le service n'a pas répondu.
        """
        partial: list[str] = []
        try:
            return self._stream(messages, partial) if self.stream else self._complete(messages)
        except Exception as error:
            failure = self._translate(error, messages, "".join(partial))
        failure.__cause__ = failure.__context__ = None  # l'erreur d'origine peut citer la clé
        raise failure

    def _complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        create: Any = self._connect().chat.completions.create
        response = create(model=self.model, messages=list(messages))
        with self._reading(messages, getattr(response, "usage", None)):
            text = response.choices[0].message.content
        return self._reply(messages, text, response.usage)

    def _stream(self, messages: Sequence[Mapping[str, Any]], partial: list[str]) -> Reply:
        create: Any = self._connect().chat.completions.create
        usage, finished = None, False
        options = {"include_usage": True}
        with create(model=self.model, messages=list(messages), stream=True, stream_options=options) as chunks:
            for chunk in chunks:
                with self._reading(messages, usage, partial):
                    usage = chunk.usage or usage
                    for choice in chunk.choices[:1]:
                        partial.append(choice.delta.content or "")
                        finished = finished or choice.finish_reason is not None
        if not finished:
            raise self._malformed("le flux s'est interrompu avant la fin", messages, usage, "".join(partial))
        return self._reply(messages, "".join(partial), usage)

    def _reply(self, messages: Sequence[Mapping[str, Any]], text: object, usage: Any) -> Reply:
        if not isinstance(text, str) or not text.strip():
            raise self._malformed("elle ne contient pas de texte", messages, usage)
        return Reply(text, self.model, *_tokens(messages, text, usage))

    @contextmanager
    def _reading(
        self, messages: Sequence[Mapping[str, Any]], usage: Any, partial: Sequence[str] = ()
    ) -> Iterator[None]:
        """Signale une réponse dont la forme n'est pas celle d'une API *chat completions*."""
        try:
            yield
        except (AttributeError, LookupError, TypeError) as error:
            raise self._malformed("sa forme est inattendue", messages, usage, "".join(partial)) from error

    def _malformed(
        self, reason: str, messages: Sequence[Mapping[str, Any]], usage: Any = None, text: str = ""
    ) -> MalformedReplyError:
        message = f"La réponse du modèle {self.model} est inutilisable : {reason}."
        return MalformedReplyError(message, self.model, *_tokens(messages, text, usage))

    def _translate(self, error: Exception, messages: Sequence[Mapping[str, Any]], partial: str) -> Exception:
        """Traduit une erreur du client ``openai`` dans la hiérarchie du cours."""
        if isinstance(error, ImportError):
            return UnavailableError("Le paquet openai n'est pas installé : pip install openai.", self.model)
        import openai

        if isinstance(error, MalformedReplyError):
            return error
        if isinstance(error, openai.APIStatusError):
            return self._refused(error)
        if isinstance(error, openai.APITimeoutError) and not partial:
            silence = f"{self.timeout:g}".replace(".", ",")
            message = f"Le modèle {self.model} n'a rien envoyé en {silence} s ({self.base_url})."
            return UnavailableError(message, self.model, timed_out=True)
        if partial:
            return self._malformed("le flux s'est interrompu avant la fin", messages, None, partial)
        if isinstance(error, openai.APIConnectionError):
            return UnavailableError(f"Le modèle {self.model} est injoignable ({self.base_url}).", self.model)
        if isinstance(error, openai.APIError):  # erreur annoncée dans un flux
            return UnavailableError(f"Le modèle {self.model} a échoué{self._detail(error)}.", self.model)
        if isinstance(error, UnicodeEncodeError):
            return ValueError("La conversation contient un caractère qui ne s'écrit pas en UTF-8, et n'est pas partie.")
        if isinstance(error, ValueError):
            return self._malformed("ce n'est pas du JSON valide", messages)
        if type(error).__module__.startswith(("httpx", "httpcore")):
            return UnavailableError(f"La connexion au modèle {self.model} s'est interrompue.", self.model)
        return error

    def _refused(self, error: openai.APIStatusError) -> LLMError:
        status, about = error.status_code, f"{self._detail(error)}."
        if status == 429:
            delay = read_retry_after(error.response.headers, self._clock())
            return RateLimitedError(f"Le modèle {self.model} reçoit trop de demandes (429){about}", self.model, delay)
        if status in (401, 403):
            message = f"Le modèle {self.model} refuse l'accès ({status}) : vérifiez la clé et ses droits{about}"
            return RejectedError(message, self.model, status)
        if status == 408 or not 400 <= status < 500:
            message = f"Le modèle {self.model} est indisponible ({status}){about}"
            return UnavailableError(message, self.model, timed_out=status in (408, 504))
        return RejectedError(f"Le modèle {self.model} refuse la demande ({status}){about}", self.model, status)

    def _detail(self, error: openai.APIError) -> str:
        """Donne le message du service, sans la clé, sur une ligne."""
        body = error.body if isinstance(error.body, dict) else {}
        detail = body.get("message") if isinstance(body.get("message"), str) else ""
        text = " ".join("".join(c if c.isprintable() else " " for c in self._hide(detail or "")).split())
        return f" ; le service dit : « {text[:MAX_DETAIL]} »" if text else ""


def _require_url(url: str) -> str:
    """Rend une adresse http ou https, sans identifiants (ils paraîtraient dans les messages)."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url doit être une adresse http:// ou https://, comme http://localhost:11434/v1.")
    if "@" in parts.netloc or parts.query:
        raise ValueError("base_url ne doit contenir ni identifiants ni paramètres : la clé se donne par api_key.")
    return url


def _require_key(key: str | None, needed: bool) -> str:
    """Rend la clé, ou un texte convenu pour un service local ; aucune erreur ne la cite."""
    if not key:
        if needed:
            raise ValueError("api_key est nécessaire pour le service d'OpenAI ; un service local demande base_url.")
        return NO_KEY
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("api_key contient un caractère qu'une clé ne peut pas avoir (espace, accent, saut de ligne).")
    return key


def _tokens(messages: Sequence[Mapping[str, Any]], text: str, usage: Any) -> tuple[int, int]:
    """Donne les tokens lus et écrits : ceux que le service annonce, sinon une estimation."""
    read, written = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if not isinstance(read, int) or read < 0:
        read = sum(count_tokens(str(message.get("content") or "")) for message in messages)
    if not isinstance(written, int) or written < 0:
        written = count_tokens(text)
    return read, written


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Lit l'attente demandée par un service : ``Retry-After``, en secondes ou à une date.

    Args:
        headers: les en-têtes de la réponse.
        now: l'heure, en secondes depuis 1970.

    Returns:
        L'attente en secondes, ou ``None`` si elle manque, est illisible, négative ou infinie.
    """
    text = headers.get("retry-after", "").strip()
    try:
        delay = float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII) else max(0.0, _date(text) - now)
    except (ValueError, TypeError, OverflowError):
        return None
    return delay if 0 <= delay < math.inf else None


def _date(text: str) -> float:
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(text).timestamp()


# Le repli


class Fallback(NamedTuple):
    """Un repli : le modèle abandonné, le suivant, l'erreur qui l'a causé."""

    abandoned: str
    following: str
    error: LLMError


class FallbackLLM:
    """Modèle avec repli : si un modèle ne répond pas, le suivant prend la relève, et l'utilisateur a sa réponse.

    - 429 avec une attente courte (``max_wait`` au plus) : on attend et on réessaie, une seule fois ; sinon, repli.
    - 503, délai dépassé, réponse illisible : repli immédiat.
    - Autre 4xx : la demande elle-même est en cause, l'erreur remonte aussitôt.

    Args:
        models: les modèles, dans l'ordre de préférence.
        max_wait: la plus longue attente acceptée, en secondes.
        sleep: fonction qui attend un nombre de secondes.
        on_fallback: appelée à chaque repli (une alerte) ; si elle échoue, l'échec est journalisé, l'appel continue.
        log: le journal où chaque tentative est inscrite.
        timer: chronomètre, en secondes.

    Raises:
        ValueError, TypeError: aucun modèle, attente négative.

    Source : chapitre 8.
    """

    def __init__(
        self,
        models: Sequence[LLM],
        max_wait: float = 5.0,
        sleep: Callable[[float], object] = time.sleep,
        on_fallback: Callable[[Fallback], object] | None = None,
        log: Recorder | None = None,
        *,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.models = list(models)
        if not self.models:
            raise ValueError("models doit contenir au moins un modèle.")
        if isinstance(max_wait, bool) or not isinstance(max_wait, (int, float)) or not 0 <= max_wait < math.inf:
            raise ValueError(f"max_wait doit être un nombre de secondes positif ou nul, reçu {max_wait!r}.")
        self.max_wait = max_wait
        self.on_fallback = on_fallback
        self.log = log
        self._sleep = sleep
        self._timer = timer

    def complete(self, messages: Sequence[dict[str, Any]]) -> Reply:
        """Répond avec le premier modèle qui le peut.

        Raises:
            RejectedError: la demande est refusée.
            LLMError: aucun modèle n'a répondu ; c'est la dernière erreur, avec toutes les tentatives.
        """
        call, attempts = os.urandom(8).hex(), list[Attempt]()
        for rank, model in enumerate(self.models):
            waited = 0.0
            for is_last_chance in (False, True):
                try:
                    return self._attempt(model, messages, call, attempts, rank > 0, waited)
                except RejectedError as error:
                    error.attempts = tuple(attempts)
                    raise
                except LLMError as error:
                    failure = error
                delay = failure.retry_after if isinstance(failure, RateLimitedError) else None
                if is_last_chance or delay is None or delay > self.max_wait:
                    break
                self._sleep(delay)
                waited = delay
            if rank + 1 < len(self.models):
                self._alert(Fallback(_name(model, failure), _name(self.models[rank + 1]), failure))
        failure.attempts = tuple(attempts)
        raise failure

    def _attempt(
        self,
        model: LLM,
        messages: Sequence[dict[str, Any]],
        call: str,
        attempts: list[Attempt],
        fallback: bool,
        waited: float,
    ) -> Reply:
        """Interroge un modèle et inscrit la tentative, quelle qu'en soit l'issue."""
        start = self._timer()
        name, outcome, tokens = _name(model), "interrompu", (0, 0)
        try:
            reply = model.complete(messages)
            name, outcome, tokens = reply.model, "réponse", (reply.input_tokens, reply.output_tokens)
            return reply
        except LLMError as error:
            name, outcome, tokens = _name(model, error), error.outcome, (error.input_tokens, error.output_tokens)
            raise
        finally:
            attempts.append(Attempt(name, outcome, *tokens, self._timer() - start, waited, fallback))
            if self.log is not None:
                self.log.append(call, attempts[-1])

    def _alert(self, fallback: Fallback) -> None:
        if self.on_fallback is not None:
            try:
                self.on_fallback(fallback)
            except Exception:
                import logging

                logging.getLogger(__name__).exception("L'alerte de repli a échoué ; l'appel continue.")


def _name(model: LLM, error: LLMError | None = None) -> str:
    return (error.model if error else "") or str(getattr(model, "model", type(model).__name__))


# Le choix du modèle


_COMPLEX_VERB = re.compile(
    r"(?:reorganis|organis|planifi|structur|prioris|hierarchis|optimis|analys|compar|argument|synthetis|critiqu|calcul"
    r"|evalu|estim|justifi|diagnostiqu|redig|resum|expliqu|arbitr|debogu)(?:e|es|ez|er)"
    r"|(?:demontr|traduis|concev|concois|repartiss|etabliss)(?:e|es|ez|er|oir)?|conc(?:ois|evez|evoir)"
    r"|reparti[rs]|etabli[rs]|resou(?:s|dre)|resolvez|traduire"
)
_COMPLEX_PHRASE = re.compile(
    r"\bpourquoi\b|\bpar (?:priorite|ordre|importance|urgence)\b|\bavantages?\b.*\binconvenients?\b|\betape par etape\b"
    r"|\bplan (?:d'action|detaille)\b|\bmeilleure? (?:facon|maniere|strategie)\b|\ben fonction de\b|```"
)
_DETERMINERS = re.compile(r"une?|l[ea]?s?|du|des?|d|[mts](?:on|a|es)|[nv]o(?:s|tre)|ce(?:s|t|tte)?|aux?")
MAX_SIMPLE_WORDS = 60


def is_complex_request(text: str) -> bool:
    """Dit si une demande réclame un modèle fort, par des règles simples sur le français.

    Une demande est complexe si elle demande de raisonner (« réorganise », « compare », « pourquoi »…), si elle compte
    au moins deux questions, ou plus de ``MAX_SIMPLE_WORDS`` mots.
    """
    plain = fold(text)
    words = re.findall(r"\w+|[?]", plain)
    pairs = pairwise(["", *words])
    return (  # « une analyse » n'est pas une demande d'analyse
        any(_COMPLEX_VERB.fullmatch(word) and not _DETERMINERS.fullmatch(before) for before, word in pairs)
        or _COMPLEX_PHRASE.search(plain) is not None
        or words.count("?") > 1
        or len(words) - words.count("?") > MAX_SIMPLE_WORDS
    )


class ModelRouter:
    """Modèle choisi selon la demande : le léger pour les demandes simples, le fort pour les autres.

    Args:
        light: le modèle léger, rapide et peu coûteux.
        strong: le modèle fort.
        is_complex: fonction qui dit si une demande réclame le modèle fort.

    Source : chapitre 8.
    """

    def __init__(self, light: LLM, strong: LLM, is_complex: Callable[[str], bool] = is_complex_request) -> None:
        self.light = light
        self.strong = strong
        self.is_complex = is_complex

    def choose(self, messages: Sequence[Mapping[str, Any]]) -> LLM:
        """Donne le modèle qui répondra : seul le dernier message de l'utilisateur compte."""
        request = next((m.get("content") for m in reversed(messages) if m.get("role") == "user"), None)
        return self.strong if self.is_complex(str(request or "")) else self.light

    def complete(self, messages: Sequence[dict[str, Any]]) -> Reply:
        """Fait répondre le modèle choisi."""
        return self.choose(messages).complete(messages)


# Les réglages

SETTINGS = {
    "MEMOIRE_MODEL": "nom du modèle ; sans lui, le modèle simulé répond",
    "MEMOIRE_BASE_URL": "adresse d'un service compatible avec l'API d'OpenAI ; par défaut, celui d'OpenAI",
    "MEMOIRE_API_KEY": "clé du service ; inutile pour un service local",
    "MEMOIRE_LIGHT_MODEL": "modèle des demandes simples, sur le même service ; par défaut, aucun",
    "MEMOIRE_FALLBACK_MODEL": "modèle de repli ; par défaut, aucun",
    "MEMOIRE_FALLBACK_BASE_URL": "adresse de son service ; par défaut, la même",
    "MEMOIRE_FALLBACK_API_KEY": "sa clé ; par défaut, la même si l'adresse est la même, aucune sinon",
    "MEMOIRE_TIMEOUT": "silence toléré d'un service, en secondes ; 30 par défaut",
    "MEMOIRE_MAX_WAIT": "attente acceptée après un 429, en secondes ; 5 par défaut",
    "MEMOIRE_PRICES": "fichier de la table de prix ; par défaut, les prix d'exemple du cours",
}
"""Les variables d'environnement, et ce que chacune règle."""


def llm_from_env(
    environ: Mapping[str, str] | None = None,
    *,
    log: Recorder | None = None,
    on_fallback: Callable[[Fallback], object] | None = None,
) -> LLM:
    """Donne le modèle que règlent les variables d'environnement de ``SETTINGS`` ; sans elles, le modèle simulé.

    Args:
        environ: les variables ; par défaut, celles du processus. Une variable vide vaut une variable absente.
        log: le journal où inscrire chaque tentative.
        on_fallback: alerte appelée à chaque repli.

    Raises:
        ValueError: réglage illisible, ou donné sans le modèle qu'il concerne.
    """
    given = os.environ if environ is None else environ
    values = {name: text for name in SETTINGS if (text := given.get(name, "").strip())}
    for name, needed in _NEEDS.items():
        if name in values and needed not in values:
            raise ValueError(f"{name} est réglé sans {needed}, qui nomme le modèle.")
    timeout, max_wait = _seconds(values, "MEMOIRE_TIMEOUT", 30.0), _seconds(values, "MEMOIRE_MAX_WAIT", 5.0)
    if "MEMOIRE_MODEL" not in values:
        return SimulatedLLM() if log is None else FallbackLLM([SimulatedLLM()], log=log)
    url, key = values.get("MEMOIRE_BASE_URL"), values.get("MEMOIRE_API_KEY")
    models = [_client(values["MEMOIRE_MODEL"], url, key, timeout, "MEMOIRE")]
    if light := values.get("MEMOIRE_LIGHT_MODEL"):
        models = [ModelRouter(_client(light, url, key, timeout, "MEMOIRE"), models[0])]
    if second := values.get("MEMOIRE_FALLBACK_MODEL"):
        other = values.get("MEMOIRE_FALLBACK_BASE_URL", url)
        own = values.get("MEMOIRE_FALLBACK_API_KEY", key if other == url else None)  # une clé reste chez son service
        models.append(_client(second, other, own, timeout, "MEMOIRE_FALLBACK"))
    return FallbackLLM(models, max_wait, on_fallback=on_fallback, log=log)


_NEEDS = {
    "MEMOIRE_BASE_URL": "MEMOIRE_MODEL",
    "MEMOIRE_API_KEY": "MEMOIRE_MODEL",
    "MEMOIRE_LIGHT_MODEL": "MEMOIRE_MODEL",
    "MEMOIRE_FALLBACK_MODEL": "MEMOIRE_MODEL",
    "MEMOIRE_FALLBACK_BASE_URL": "MEMOIRE_FALLBACK_MODEL",
    "MEMOIRE_FALLBACK_API_KEY": "MEMOIRE_FALLBACK_MODEL",
}


def _client(model: str, url: str | None, key: str | None, timeout: float, prefix: str) -> LLM:
    try:
        return OpenAICompatibleLLM(model, url, key, timeout)
    except ValueError as error:
        raise ValueError(f"Réglages {prefix}_MODEL, {prefix}_BASE_URL, {prefix}_API_KEY : {error}") from None


def _seconds(values: Mapping[str, str], name: str, default: float) -> float:
    text = values.get(name)
    try:
        seconds = default if text is None else float(text.replace(",", "."))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{name} : un nombre de secondes est attendu, reçu {text!r}.")
    return seconds
