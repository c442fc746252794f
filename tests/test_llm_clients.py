"""Le modèle distant, le repli et le routage, sur de vraies requêtes HTTP à un serveur local."""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memoire import Chatbot, ConversationBufferMemory, SimulatedLLM
from memoire.costs import Price, PriceTable, UsageLog, load_prices
from memoire.llm import (
    SETTINGS,
    Fallback,
    FallbackLLM,
    LLMError,
    MalformedReplyError,
    ModelRouter,
    OpenAICompatibleLLM,
    RateLimitedError,
    RejectedError,
    UnavailableError,
    is_complex_request,
    llm_from_env,
    read_retry_after,
)
from memoire.reply import LLM, Reply

KEY = "sk-tres-secrete-0123456789"
PATH = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Quelle est la capitale de la France ?"}]
TABLE = PriceTable(load_prices().date, "test", "€", {"fort": Price(2.0, 8.0), "secours": Price(1.0, 4.0)})

Handler = Callable[[Request], Response]


@pytest.fixture(scope="module")
def running() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", threaded=True) as server:
        yield server


@pytest.fixture
def server(running: HTTPServer) -> HTTPServer:
    running.clear()
    return running


class Service:
    """Un service à la fin d'une adresse : il répond ce qu'on a prévu, dans l'ordre, et garde ce qu'il a reçu."""

    def __init__(self, server: HTTPServer, name: str) -> None:
        self.base_url = server.url_for(f"/{name}/v1")
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answers: list[Handler] = []
        server.expect_request(f"/{name}{PATH}", method="POST").respond_with_handler(self._handle)

    def will(self, *answers: Handler) -> "Service":
        self.answers += answers
        return self

    def _handle(self, request: Request) -> Response:
        self.requests.append(request.get_json())
        self.keys.append(request.headers.get("Authorization"))
        return self.answers.pop(0)(request)

    def llm(self, model: str = "fort", **options: Any) -> OpenAICompatibleLLM:
        return OpenAICompatibleLLM(model, self.base_url, KEY, **options)


@pytest.fixture
def main(server: HTTPServer) -> Service:
    return Service(server, "principal")


@pytest.fixture
def backup(server: HTTPServer) -> Service:
    return Service(server, "secours")


def body(text: Any, **extra: Any) -> Handler:
    return lambda request: Response(text if isinstance(text, str) else json.dumps(text), mimetype="application/json")


def answer(text: str | None, usage: Any = None) -> Handler:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return body({"choices": [choice], "usage": usage or {"prompt_tokens": 40, "completion_tokens": 5}})


def failure(status: int, headers: dict[str, str] | None = None, message: str = f"clé {KEY} refusée") -> Handler:
    text = json.dumps({"error": {"message": message}})
    return lambda request: Response(text, status, headers, mimetype="application/json")


def stream(*deltas: str, end: bool = True, usage: bool = True, length: int | None = None) -> Handler:
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in deltas]
    if end:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if usage:
            chunks.append({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 5}})
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + ("data: [DONE]\n\n" if end else "")
    headers = {"Content-Length": str(length)} if length else None
    return lambda request: Response(text, headers=headers, mimetype="text/event-stream")


def waits() -> tuple[list[float], Callable[[float], None]]:
    slept: list[float] = []
    return slept, slept.append


# Le client seul


def test_the_conversation_is_sent_and_the_reply_read(main: Service) -> None:
    main.will(answer("Paris."))
    reply = main.llm().complete(QUESTION)
    assert reply == Reply("Paris.", "fort", 40, 5)
    assert main.requests == [{"messages": QUESTION, "model": "fort"}]
    assert main.keys == [f"Bearer {KEY}"]


def test_a_streamed_reply_is_the_same(main: Service) -> None:
    main.will(stream("Pa", "ris."))
    assert main.llm(stream=True).complete(QUESTION) == Reply("Paris.", "fort", 40, 5)
    assert main.requests[0]["stream"] is True


def test_missing_counts_are_estimated(main: Service) -> None:
    main.will(answer("Paris, la capitale.", {"total_tokens": 3}), stream("Paris, la ", "capitale.", usage=False))
    expected = Reply("Paris, la capitale.", "fort", len(QUESTION[0]["content"]) // 4, 4)
    assert main.llm().complete(QUESTION) == expected
    assert main.llm(stream=True).complete(QUESTION) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "86400"}, 86400.0),
        ({"Retry-After": "Wed, 01 Jan 2025 00:00:03 GMT"}, 3.0),
        ({"Retry-After": "Tue, 31 Dec 2024 00:00:00 GMT"}, 0.0),
        ({}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "bientôt".encode("latin-1").decode("latin-1")}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "1e3"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "Wed, 99 Foo 2025 00:00:03 GMT"}, None),
    ],
)
def test_retry_after_is_read_or_ignored(main: Service, headers: dict[str, str], expected: float | None) -> None:
    main.will(failure(429, headers))
    new_year = 1735689600.0
    with pytest.raises(RateLimitedError, match="429") as caught:
        main.llm(clock=lambda: new_year).complete(QUESTION)
    assert caught.value.retry_after == expected
    assert read_retry_after({k.lower(): v for k, v in headers.items()}, new_year) == expected


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (400, RejectedError, "refusé"),
        (401, RejectedError, "refusé"),
        (403, RejectedError, "refusé"),
        (404, RejectedError, "refusé"),
        (422, RejectedError, "refusé"),
        (408, UnavailableError, "délai dépassé"),
        (500, UnavailableError, "indisponible"),
        (503, UnavailableError, "indisponible"),
        (504, UnavailableError, "délai dépassé"),
    ],
)
def test_each_status_has_its_error(main: Service, status: int, kind: type[LLMError], outcome: str) -> None:
    main.will(failure(status))
    with pytest.raises(kind, match=str(status)) as caught:
        main.llm().complete(QUESTION)
    assert caught.value.outcome == outcome
    assert caught.value.model == "fort"
    assert len(main.requests) == 1, "le client ne réessaie pas de lui-même"


UNUSABLE: dict[str, Handler] = {
    "JSON invalide": body('{"choices": [{"mess'),
    "corps vide": body(""),
    "page HTML": lambda request: Response("<html>Panne</html>", mimetype="text/html"),
    "autre objet": body([1, 2]),
    "null": body("null"),
    "aucun choix": body({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 0}}),
    "choix null": body({"choices": None}),
    "message étrange": body({"choices": [{"message": "bonjour"}]}),
    "texte absent": answer(None),
    "texte vide": answer("  \n"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_reply_is_an_error_never_an_empty_answer(main: Service, case: str) -> None:
    main.will(UNUSABLE[case])
    with pytest.raises(MalformedReplyError, match="inutilisable"):
        main.llm().complete(QUESTION)


BROKEN_STREAMS: dict[str, Handler] = {
    "fin absente": stream("Par", end=False),
    "connexion coupée": stream("Par", end=False, length=5000),
    "morceau coupé": lambda r: Response('data: {"choices": [{"ind\n\n', mimetype="text/event-stream"),
    "aucun morceau": stream(end=False),
    "rien d'utile": body({"choices": []}),
}


@pytest.mark.parametrize("case", BROKEN_STREAMS)
def test_a_cut_stream_is_an_error_never_half_an_answer(main: Service, case: str) -> None:
    main.will(BROKEN_STREAMS[case])
    with pytest.raises(MalformedReplyError, match="inutilisable"):
        main.llm(stream=True).complete(QUESTION)


def test_what_a_cut_stream_has_written_is_counted(main: Service) -> None:
    main.will(stream("Paris, la capitale", end=False))
    with pytest.raises(MalformedReplyError) as caught:
        main.llm(stream=True).complete(QUESTION)
    assert (caught.value.input_tokens, caught.value.output_tokens) == (len(QUESTION[0]["content"]) // 4, 4)


@pytest.fixture
def silent() -> Iterator[Handler]:
    """Un service qui ne dit rien tant que le test n'est pas fini."""
    done = threading.Event()

    def handle(request: Request) -> Response:
        done.wait(30)
        return Response("")

    yield handle
    done.set()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_silent_service_times_out(main: Service, silent: Handler, streamed: bool) -> None:
    main.will(silent)
    with pytest.raises(UnavailableError, match="n'a rien envoyé en 0,2 s") as caught:
        main.llm(timeout=0.2, stream=streamed).complete(QUESTION)
    assert caught.value.outcome == "délai dépassé"


def test_an_unreachable_service_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="injoignable") as caught:
        OpenAICompatibleLLM("fort", "http://127.0.0.1:9/v1", KEY).complete(QUESTION)
    assert caught.value.outcome == "indisponible"


def test_a_missing_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UnavailableError, match="pip install openai"):
        OpenAICompatibleLLM("fort", "http://127.0.0.1:9/v1").complete(QUESTION)


def test_an_error_announced_in_a_stream_is_a_failure(main: Service) -> None:
    event = f"data: {json.dumps({'error': {'message': f'surcharge {KEY}'}})}\n\n"
    main.will(lambda request: Response(event, mimetype="text/event-stream"))
    with pytest.raises(UnavailableError, match="surcharge …"):
        main.llm(stream=True).complete(QUESTION)


def test_text_that_cannot_be_encoded_is_refused_before_leaving(main: Service) -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        main.llm().complete([{"role": "user", "content": "demi-codet \ud800"}])
    assert main.requests == []


# La clé


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [400, 401, 429, 503])
def test_the_key_is_in_no_error_even_when_the_service_repeats_it(main: Service, status: int, streamed: bool) -> None:
    main.will(failure(status, {"Retry-After": KEY}))
    llm = main.llm(stream=streamed)
    with pytest.raises(LLMError) as caught:
        llm.complete(QUESTION)
    error = caught.value
    assert "clé … refusée" in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = [str(error), repr(error), repr(vars(error)), repr(llm), str(vars(llm)), *traceback.format_exception(error)]
    assert not any(KEY in text for text in shown)


@pytest.mark.parametrize("case", ["JSON invalide", "aucun choix"])
def test_the_key_is_in_no_unusable_reply(main: Service, case: str) -> None:
    main.will(UNUSABLE[case])
    with pytest.raises(MalformedReplyError) as caught:
        main.llm().complete(QUESTION)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_hostile_message_from_the_service_stays_on_one_short_line(main: Service) -> None:
    main.will(failure(400, message="\x1b[2J\n" + "x" * 5000))
    with pytest.raises(RejectedError) as caught:
        main.llm().complete(QUESTION)
    assert str(caught.value).replace("\u00a0", " ").isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("key", ["clé-accentuée-secrète", "sk-secrete\nX-Autre: 1", "sk secrete"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        OpenAICompatibleLLM("fort", "http://localhost/v1", key)
    assert "secr" not in str(caught.value)


def test_the_key_of_another_program_is_never_borrowed(main: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    main.will(answer("Paris."))
    OpenAICompatibleLLM("fort", main.base_url).complete(QUESTION)
    assert main.keys == ["Bearer aucune-cle"]
    with pytest.raises(ValueError, match="api_key est nécessaire"):
        OpenAICompatibleLLM("fort")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": " "}, "model"),
        ({"model": None}, "model"),
        ({"base_url": "ftp://x/v1"}, "http"),
        ({"base_url": "localhost"}, "http"),
        ({"base_url": "http://[::1/v1"}, "http"),
        ({"base_url": "http://moi:secret@x/v1"}, "identifiants"),
        ({"base_url": "http://x/v1?key=secret"}, "paramètres"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.0}, "max_retries"),
    ],
)
def test_odd_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        OpenAICompatibleLLM(**{"model": "fort", "base_url": "http://x/v1", **options})
    assert "secret" not in str(caught.value)


# Le repli


@pytest.mark.parametrize("delay", ["0", "2", "5"])
def test_a_short_wait_is_waited_for_and_the_same_model_answers(main: Service, backup: Service, delay: str) -> None:
    main.will(failure(429, {"Retry-After": delay}), answer("Paris."))
    slept, sleep = waits()
    assert FallbackLLM([main.llm(), backup.llm("secours")], sleep=sleep).complete(QUESTION).model == "fort"
    assert slept == [float(delay)]
    assert (len(main.requests), len(backup.requests)) == (2, 0)


def test_a_model_is_waited_for_only_once(main: Service, backup: Service) -> None:
    main.will(failure(429, {"Retry-After": "1"}), failure(429, {"Retry-After": "1"}))
    backup.will(answer("Paris."))
    slept, sleep = waits()
    assert FallbackLLM([main.llm(), backup.llm("secours")], sleep=sleep).complete(QUESTION).model == "secours"
    assert slept == [1.0]


@pytest.mark.parametrize("headers", [{"Retry-After": "60"}, {}, {"Retry-After": "-1"}, {"Retry-After": "jamais"}])
def test_a_long_missing_or_absurd_wait_falls_back_at_once(
    main: Service, backup: Service, headers: dict[str, str]
) -> None:
    main.will(failure(429, headers))
    backup.will(answer("Paris."))
    slept, sleep = waits()
    assert FallbackLLM([main.llm(), backup.llm("secours")], sleep=sleep).complete(QUESTION).text == "Paris."
    assert slept == []
    assert backup.requests[0]["messages"] == QUESTION


@pytest.mark.parametrize("case", [*UNUSABLE, "503", "502"])
def test_a_broken_service_falls_back_at_once(main: Service, backup: Service, case: str) -> None:
    main.will(UNUSABLE[case] if case in UNUSABLE else failure(int(case)))
    backup.will(answer("Paris."))
    slept, sleep = waits()
    alerts: list[Fallback] = []
    llm = FallbackLLM([main.llm(), backup.llm("secours")], sleep=sleep, on_fallback=alerts.append)
    assert llm.complete(QUESTION).model == "secours"
    assert slept == []
    assert [(a.abandoned, a.following, type(a.error)) for a in alerts] == [
        ("fort", "secours", MalformedReplyError if case in UNUSABLE else UnavailableError)
    ]


def test_a_time_out_and_a_cut_stream_fall_back(main: Service, backup: Service, silent: Handler) -> None:
    backup.will(answer("Paris."), answer("Paris."))
    main.will(silent)
    assert FallbackLLM([main.llm(timeout=0.2), backup.llm("secours")]).complete(QUESTION).model == "secours"
    main.will(stream("Par", end=False))
    assert FallbackLLM([main.llm(stream=True), backup.llm("secours")]).complete(QUESTION).text == "Paris."


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refused_request_is_tried_nowhere_else(main: Service, backup: Service, status: int) -> None:
    main.will(failure(status))
    with pytest.raises(RejectedError) as caught:
        FallbackLLM([main.llm(), backup.llm("secours")]).complete(QUESTION)
    assert caught.value.status == status
    assert [(a.model, a.outcome) for a in caught.value.attempts] == [("fort", "refusé")]
    assert backup.requests == []


def test_when_every_model_fails_the_last_error_lists_the_attempts(main: Service, backup: Service) -> None:
    main.will(failure(429, {"Retry-After": "1"}), failure(503))
    backup.will(failure(429))
    with pytest.raises(RateLimitedError) as caught:
        FallbackLLM([main.llm(), backup.llm("secours")], sleep=lambda s: None).complete(QUESTION)
    text = str(caught.value)
    assert "fort (limite de débit), fort (indisponible), secours (limite de débit)" in text
    assert [a.fallback for a in caught.value.attempts] == [False, False, True]
    assert KEY not in text + repr(caught.value)


def test_a_failing_alert_does_not_cost_the_answer(
    main: Service, backup: Service, caplog: pytest.LogCaptureFixture
) -> None:
    main.will(failure(503))
    backup.will(answer("Paris."))

    def alert(fallback: Fallback) -> None:
        raise RuntimeError("messagerie en panne")

    with caplog.at_level(logging.ERROR):
        reply = FallbackLLM([main.llm(), backup.llm("secours")], on_fallback=alert).complete(QUESTION)
    assert reply.text == "Paris."
    assert "alerte" in caplog.text


def test_the_users_turn_is_stored_once_whatever_happens(main: Service, backup: Service) -> None:
    bot = Chatbot(FallbackLLM([main.llm(), backup.llm("secours")], sleep=lambda s: None), ConversationBufferMemory())
    main.will(failure(429, {"Retry-After": "1"}), failure(503))
    backup.will(answer("Paris."))
    assert bot.chat("Quelle est la capitale ?") == "Paris."
    main.will(failure(503))
    backup.will(failure(503))
    with pytest.raises(UnavailableError):
        bot.chat("Et celle de l'Italie ?")
    main.will(failure(400))
    with pytest.raises(RejectedError):
        bot.chat("Et celle de l'Italie ?")
    main.will(answer("Rome."))
    assert bot.chat("Et celle de l'Italie ?") == "Rome."
    expected = ["Quelle est la capitale ?", "Paris.", "Et celle de l'Italie ?", "Rome."]
    assert [m["content"] for m in bot.memory.get_messages()] == expected
    assert [m["content"] for m in main.requests[-1]["messages"]] == expected[:3]


class _Interrupted:
    model = "fort"

    def complete(self, messages: Any) -> Reply:
        raise KeyboardInterrupt


def test_each_attempt_is_booked_with_its_model_and_cost(main: Service, backup: Service, tmp_path: Path) -> None:
    log = UsageLog(tmp_path / "usage.jsonl", TABLE, conversation="c1", clock=lambda: 1000.0)
    ticks = iter(range(100))
    llm = FallbackLLM(
        [main.llm(stream=True), backup.llm("secours")],
        sleep=lambda s: None,
        log=log,
        timer=lambda: float(next(ticks)),
    )
    main.will(failure(429, {"Retry-After": "2"}), stream("Paris, la capitale", end=False))
    backup.will(answer("Paris."))
    llm.complete(QUESTION)
    main.will(failure(400))
    with pytest.raises(RejectedError):
        llm.complete(QUESTION)
    usages = log.read().usages
    prompt = len(QUESTION[0]["content"]) // 4
    assert [(u.model, u.outcome, u.input_tokens, u.output_tokens, u.waited, u.fallback) for u in usages] == [
        ("fort", "limite de débit", 0, 0, 0.0, False),
        ("fort", "réponse illisible", prompt, 4, 2.0, False),
        ("secours", "réponse", 40, 5, 0.0, True),
        ("fort", "refusé", 0, 0, 0.0, False),
    ]
    assert [u.cost for u in usages] == pytest.approx(
        [0, (prompt * 2 + 4 * 8) / 1e6, (40 * 1 + 5 * 4) / 1e6, 0], abs=1e-12
    )
    assert [u.latency for u in usages] == [1.0] * 4
    assert [len({u.call for u in group}) for group in (usages[:3], usages)] == [1, 2]
    raw = (tmp_path / "usage.jsonl").read_text()
    assert KEY not in raw
    assert "capitale" not in raw, "le journal ne contient aucun texte échangé"


def test_an_interrupted_attempt_is_booked_too(tmp_path: Path) -> None:
    log = UsageLog(tmp_path / "usage.jsonl", TABLE)
    with pytest.raises(KeyboardInterrupt):
        FallbackLLM([_Interrupted()], log=log).complete(QUESTION)
    assert [u.outcome for u in log.read().usages] == ["interrompu"]


@pytest.mark.parametrize("max_wait", [-1, float("inf"), float("nan"), "5", True])
def test_the_fallback_refuses_odd_settings(max_wait: Any) -> None:
    with pytest.raises(ValueError, match="max_wait"):
        FallbackLLM([SimulatedLLM()], max_wait)
    with pytest.raises(ValueError, match="au moins un modèle"):
        FallbackLLM([])


# Le choix du modèle


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("ajoute du pain", False),
        ("Ajoute une analyse de sang à ma liste", False),
        ("Supprime la réunion de lundi.", False),
        ("Quel est mon budget ?", False),
        ("", False),
        ("réorganise mes tâches de la semaine par priorité", True),
        ("REORGANISE MES TACHES", True),
        ("Pourquoi le taux de fraude a-t-il baissé ?", True),
        ("Ajoute du pain, puis planifie la semaine", True),
        ("Pouvez-vous m'expliquer ce contrat ?", True),
        ("Établis un budget", True),
        ("Qui vient ? À quelle heure ?", True),
        ("pain " * 61, True),
    ],
)
def test_simple_requests_go_to_the_light_model(request_text: str, expected: bool) -> None:
    assert is_complex_request(request_text) is expected


def test_the_router_looks_at_the_last_request_only(main: Service, backup: Service) -> None:
    router = ModelRouter(light=main.llm("léger"), strong=backup.llm("fort"))
    main.will(answer("Noté."))
    backup.will(answer("Voici."))
    history = [{"role": "user", "content": "Réorganise ma semaine"}, {"role": "assistant", "content": "Voici."}]
    assert router.complete([*history, {"role": "user", "content": "ajoute du pain"}]).model == "léger"
    assert router.complete([{"role": "user", "content": "Réorganise ma semaine par priorité"}]).model == "fort"


def test_the_rule_of_the_router_can_be_replaced(main: Service, backup: Service) -> None:
    router = ModelRouter(main.llm("léger"), backup.llm("fort"), is_complex=lambda text: "urgent" in text)
    assert router.choose([{"role": "user", "content": "urgent : ajoute du pain"}]) is router.strong
    assert router.choose([]) is router.light


# Les variables d'environnement


def test_without_any_variable_the_simulated_model_answers(tmp_path: Path) -> None:
    assert isinstance(llm_from_env({}), SimulatedLLM)
    assert isinstance(llm_from_env(dict.fromkeys(SETTINGS, " ")), SimulatedLLM)
    log = UsageLog(tmp_path / "usage.jsonl")
    llm_from_env({}, log=log).complete(QUESTION)
    assert [u.model for u in log.read().usages] == ["simulé"]


def test_the_variables_name_the_models_and_their_services(main: Service, backup: Service) -> None:
    llm: LLM = llm_from_env(
        {
            "MEMOIRE_MODEL": "fort",
            "MEMOIRE_BASE_URL": main.base_url,
            "MEMOIRE_API_KEY": KEY,
            "MEMOIRE_LIGHT_MODEL": "léger",
            "MEMOIRE_FALLBACK_MODEL": "secours",
            "MEMOIRE_FALLBACK_BASE_URL": backup.base_url,
        }
    )
    main.will(answer("Noté."), failure(503))
    backup.will(answer("Voici."))
    assert llm.complete([{"role": "user", "content": "ajoute du pain"}]).model == "léger"
    assert llm.complete([{"role": "user", "content": "Réorganise ma semaine"}]).model == "secours"
    assert [r["model"] for r in main.requests] == ["léger", "fort"]
    assert backup.keys == ["Bearer aucune-cle"], "la clé du premier service ne part pas chez le second"


def test_a_fallback_on_the_same_service_shares_its_key(main: Service) -> None:
    variables = {"MEMOIRE_MODEL": "fort", "MEMOIRE_BASE_URL": main.base_url, "MEMOIRE_API_KEY": KEY}
    main.will(failure(503), answer("Voici."))
    assert llm_from_env({**variables, "MEMOIRE_FALLBACK_MODEL": "secours"}).complete(QUESTION).model == "secours"
    assert main.keys == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"MEMOIRE_API_KEY": KEY}, "MEMOIRE_API_KEY est réglé sans MEMOIRE_MODEL"),
        ({"MEMOIRE_BASE_URL": "http://x/v1"}, "MEMOIRE_BASE_URL est réglé sans MEMOIRE_MODEL"),
        ({"MEMOIRE_FALLBACK_MODEL": "b"}, "MEMOIRE_FALLBACK_MODEL est réglé sans MEMOIRE_MODEL"),
        (
            {"MEMOIRE_MODEL": "a", "MEMOIRE_API_KEY": KEY, "MEMOIRE_FALLBACK_BASE_URL": "http://x/v1"},
            "MEMOIRE_FALLBACK_BASE_URL est réglé sans MEMOIRE_FALLBACK_MODEL",
        ),
        ({"MEMOIRE_MODEL": "a"}, "MEMOIRE_API_KEY"),
        ({"MEMOIRE_MODEL": "a", "MEMOIRE_BASE_URL": "x"}, "MEMOIRE_BASE_URL"),
        ({"MEMOIRE_MODEL": "a", "MEMOIRE_API_KEY": "clé"}, "MEMOIRE_API_KEY"),
        ({"MEMOIRE_TIMEOUT": "vite"}, "MEMOIRE_TIMEOUT"),
        ({"MEMOIRE_MAX_WAIT": "-1"}, "MEMOIRE_MAX_WAIT"),
    ],
)
def test_a_bad_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        llm_from_env(variables)
    assert KEY not in str(caught.value)
