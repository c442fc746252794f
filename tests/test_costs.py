"""Prix, journal et mesures : rien n'est compté deux fois, rien n'est perdu en silence."""

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from memoire import Chatbot, ConversationBufferMemory, SimulatedLLM
from memoire.costs import (
    EXCHANGE,
    Attempt,
    Metrics,
    Price,
    PriceTable,
    Usage,
    UsageLog,
    conversation_cost,
    cost,
    load_prices,
)
from memoire.llm import Reply
from memoire.storage import StorageError

TABLE = PriceTable(date(2025, 1, 15), "test", "€", {"fort": Price(2.0, 8.0), "léger": Price(0.5, 1.0)})
MONDAY = 1736121600.0  # le lundi 6 janvier 2025, semaine ISO 2025-W02
WEEK = 7 * 86400.0


def log_at(folder: Path, **options: Any) -> UsageLog:
    return UsageLog(folder / "usage.jsonl", TABLE, clock=lambda: MONDAY, **options)


# Les prix


def test_a_price_is_for_a_million_tokens() -> None:
    assert TABLE.cost("fort", 1_000_000, 0) == 2.0
    assert TABLE.cost("fort", 0, 500_000) == 4.0
    assert cost(Reply("", "léger", 2000, 1000), TABLE) == pytest.approx(0.002)
    assert conversation_cost([Reply("", "léger", 2000, 1000)] * 3, TABLE) == pytest.approx(0.006)
    assert conversation_cost([], TABLE) == 0


def test_the_table_of_the_course_is_dated_and_openly_illustrative() -> None:
    table = load_prices()
    assert table.date <= date.today()
    assert "exemple" in table.source
    assert set(table.models) == {"simulé", "exemple-leger", "exemple-fort"}
    bot = Chatbot(SimulatedLLM(), ConversationBufferMemory())
    bot.chat("Bonjour, je m'appelle Alice.")
    assert conversation_cost(bot.replies) > 0


def test_an_unknown_model_has_no_price() -> None:
    with pytest.raises(ValueError, match="n'est pas dans la table de prix du 2025-01-15"):
        TABLE.cost("inconnu", 1, 1)
    with pytest.raises(ValueError, match="négatif"):
        TABLE.cost("fort", -1, 1)


GOOD = {"date": "2025-01-15", "source": "contrat", "currency": "€", "models": {"m": {"input": 1, "output": 2}}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "illisible"),
        ([], "illisible"),
        ({**GOOD, "date": "hier"}, "illisible"),
        ({k: v for k, v in GOOD.items() if k != "currency"}, r"champ absent\s: 'currency'"),
        ({**GOOD, "models": {"m": {"input": 1}}}, r"champ absent\s: 'output'"),
        ({**GOOD, "models": {"m": {"input": -1, "output": 2}}}, "positif ou nul"),
        ({**GOOD, "models": {"m": {"input": "1", "output": 2}}}, "positif ou nul"),
        ({**GOOD, "models": {"m": {"input": True, "output": 2}}}, "positif ou nul"),
        ({**GOOD, "models": {"m": {"input": float("nan"), "output": 2}}}, "positif ou nul"),
        ({**GOOD, "models": ["m"]}, "illisible"),
    ],
)
def test_a_bad_price_table_is_refused(tmp_path: Path, data: Any, message: str) -> None:
    path = tmp_path / "prix.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_prices(path)


def test_a_good_or_missing_price_table(tmp_path: Path) -> None:
    path = tmp_path / "prix.json"
    with pytest.raises(ValueError, match="introuvable"):
        load_prices(path)
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    assert load_prices(path).models == {"m": Price(1.0, 2.0)}


# Le journal


def test_a_line_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    log = log_at(tmp_path, conversation="c1")
    attempt = Attempt("fort", "réponse", 1000, 100, 0.8, 0.5, True)
    written = log.append("appel", attempt)
    expected = Usage(**asdict(attempt), at=MONDAY, call="appel", conversation="c1", cost=0.0028, currency="€")
    assert written == replace(expected, cost=pytest.approx(0.0028))
    assert log.read() == ([written], [])
    assert log.path.stat().st_mode & 0o077 == 0, "le journal n'est lisible que de son propriétaire"


def test_an_unpriced_model_is_booked_without_a_cost(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    assert log.append("a", Attempt("inconnu", input_tokens=10)).cost is None
    assert Metrics.from_log(log).unpriced == 1


def test_one_log_serves_several_conversations_and_uses(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.bind("c1").append("1", Attempt("fort"))
    log.bind("c2", "résumé").append("2", Attempt("fort"))
    log.append("3", Attempt("fort"))
    assert [(u.conversation, u.kind) for u in log.read().usages] == [("c1", EXCHANGE), ("c2", "résumé"), ("", EXCHANGE)]


def _bad(**changes: Any) -> str:
    usage = Usage("fort", at=MONDAY, call="a", conversation="c", cost=0.1, currency="€")
    return json.dumps({**asdict(usage), **changes})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting"),
        ("pas du JSON", "Expecting"),
        ("[]", "un objet JSON"),
        ("{}", "champ absent"),
        (_bad(input_tokens="12"), "input_tokens"),
        (_bad(input_tokens=True), "input_tokens"),
        (_bad(input_tokens=1.5), "input_tokens"),
        (_bad(output_tokens=-1), "positif ou nul"),
        (_bad(cost=float("nan")), "positif ou nul"),
        (_bad(latency=float("inf")), "positif ou nul"),
        (_bad(fallback=1), "fallback"),
        (_bad(model=None), "model"),
        (_bad(at=1e300), ""),
        ("[" * 100_000, ""),
        ("\x00" * 20, "Expecting"),
        ("\ufeff", ""),
    ],
)
def test_a_bad_line_is_skipped_and_reported_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    log = log_at(tmp_path)
    log.append("a", Attempt("fort", input_tokens=10))
    with log.path.open("a", encoding="utf-8") as file:
        file.write(line + "\n\n")
    log.append("b", Attempt("fort", input_tokens=10))
    usages, bad_lines = log.read()
    assert [usage.call for usage in usages] == ["a", "b"]
    assert [bad.number for bad in bad_lines] == [2]
    assert reason in bad_lines[0].reason
    assert Metrics.from_log(log).skipped == 1


def test_a_line_that_is_not_utf8_is_skipped(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.path.write_bytes(b"\xff\xfe{\n")
    assert [bad.number for bad in log.read().bad_lines] == [1]


def test_a_line_cut_by_a_crash_does_not_spoil_the_next(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.append("a", Attempt("fort"))
    whole = log.path.read_bytes()
    for size in (1, len(whole) // 2, len(whole) - 1):
        log.path.write_bytes(whole + whole[:size])
        log.append("b", Attempt("fort"))
        usages, bad_lines = log.read()
        assert [usage.call for usage in usages if usage.call == "b"] == ["b"]
        assert len(usages) + len(bad_lines) == 3


def _write(path: Path, writer: int, ready: Any) -> None:
    log = UsageLog(path, TABLE, conversation=f"c{writer}")
    ready.wait()
    for number in range(300):
        log.append(f"{writer}-{number}", Attempt("fort", input_tokens=number))


def test_several_processes_share_a_log_without_losing_a_line(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(4)
    writers = [context.Process(target=_write, args=(tmp_path / "usage.jsonl", n, ready)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    usages, bad_lines = log_at(tmp_path).read()
    assert bad_lines == []
    assert len({usage.call for usage in usages}) == 1200
    for n in range(4):
        assert [u.input_tokens for u in usages if u.conversation == f"c{n}"] == list(range(300)), "l'ordre est gardé"


def test_an_unwritable_log_is_announced_at_once(tmp_path: Path) -> None:
    (tmp_path / "usage.jsonl").mkdir()
    with pytest.raises(StorageError, match="refuse l'écriture"):
        log_at(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="ce système n'a pas de /dev/full")
def test_a_full_disk_is_an_error() -> None:
    log = UsageLog("/dev/full", TABLE)
    with pytest.raises(StorageError, match="refuse l'écriture"):
        log.append("a", Attempt("fort"))


# Les mesures


def usage(call: str, conversation: str = "c", **fields: Any) -> Usage:
    return Usage(**{"model": "fort", "at": MONDAY, "call": call, "conversation": conversation, "cost": 0.01, **fields})


def test_exchanges_and_costs_are_counted_by_conversation() -> None:
    metrics = Metrics.from_usages(
        [
            usage("1", "a"),
            usage("2", "a", outcome="indisponible", cost=0.0),
            usage("2", "a", fallback=True, cost=0.002),
            usage("3", "a", kind="résumé", cost=0.005),
            usage("4", "b", outcome="refusé", cost=0.0),
        ]
    )
    assert metrics.exchanges == {"a": 2, "b": 0}
    assert metrics.costs == {"a": pytest.approx(0.017), "b": 0.0}
    assert (metrics.calls, metrics.answered, metrics.fallbacks) == (4, 3, 1)
    assert metrics.fallback_rate == 0.25
    assert metrics.mean_exchanges == 1.0
    assert metrics.mean_cost == pytest.approx(0.0085)


def test_only_more_than_ten_exchanges_is_long() -> None:
    usages = [usage(f"{name}{n}", name) for name, size in (("a", 10), ("b", 11), ("c", 1)) for n in range(size)]
    assert Metrics.from_usages(usages).long_share == pytest.approx(1 / 3)


def test_the_latency_of_a_call_adds_its_attempts_and_its_waits() -> None:
    usages = [
        usage("1", latency=0.5, outcome="limite de débit"),
        usage("1", latency=1.0, waited=2.0),
        usage("2", latency=9.0, kind="résumé"),
    ]
    assert Metrics.from_usages(usages).latencies == [3.5]


@pytest.mark.parametrize(("share", "expected"), [(0.01, 1.0), (0.5, 50.0), (0.95, 95.0), (0.951, 96.0), (1, 100.0)])
def test_a_quantile_bounds_its_share_of_the_calls(share: float, expected: float) -> None:
    usages = [usage(str(n), latency=float(n)) for n in range(100, 0, -1)]
    assert Metrics.from_usages(usages).latency(share) == expected


def test_weeks_without_fallback_count_for_zero_even_across_the_year() -> None:
    new_year = MONDAY - WEEK  # le lundi 30 décembre 2024 est dans la semaine 1 de 2025
    usages = [
        usage("1", at=new_year - WEEK, fallback=True),
        usage("2", at=MONDAY + 86400, fallback=True),
        usage("3", at=MONDAY + 6 * 86400, fallback=True),
        usage("3", at=MONDAY + 6 * 86400, fallback=True),
    ]
    assert dict(Metrics.from_usages(usages).fallbacks_per_week) == {"2024-W52": 1, "2025-W01": 0, "2025-W02": 2}


def test_the_order_of_the_lines_does_not_change_the_weeks() -> None:
    usages = [usage("1", at=MONDAY + 3 * WEEK), usage("2", at=MONDAY, fallback=True)]
    assert list(Metrics.from_usages(usages).fallbacks_per_week.values()) == [1, 0, 0, 0]


def test_an_empty_log_has_empty_metrics(tmp_path: Path) -> None:
    metrics = Metrics.from_log(log_at(tmp_path))
    assert (metrics.mean_exchanges, metrics.mean_cost, metrics.long_share, metrics.fallback_rate) == (0, 0, 0, 0)
    assert metrics.fallbacks_per_week == {}
    with pytest.raises(ValueError, match="pas de durée"):
        metrics.latency(0.5)


@pytest.mark.parametrize("share", [0, -1, 1.01, float("nan")])
def test_a_quantile_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Metrics.from_usages([usage("1")]).latency(share)


def test_two_currencies_are_not_added() -> None:
    with pytest.raises(ValueError, match=r"plusieurs monnaies\s: \$, €"):
        Metrics.from_usages([usage("1", currency="€"), usage("2", currency="$")])


# La légèreté du paquet


@pytest.mark.parametrize("module", ["memoire", "memoire.llm", "memoire.costs"])
def test_importing_loads_neither_client_nor_numpy(module: str) -> None:
    heavy = ("openai", "rich", "numpy", "matplotlib", "httpx2", "redis", "qdrant_client", "filelock")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
