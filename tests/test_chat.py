"""La conversation au terminal, jouée comme un utilisateur : dans un tube, dans un terminal, avec des noms hostiles."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console
from werkzeug import Request, Response

from memoire.__main__ import main
from memoire.chat import COMMANDS, STRATEGIES, Place, TerminalChat, clean, context_rows, find_strategy
from memoire.costs import UsageLog
from memoire.llm import SETTINGS
from memoire.persistence import SQLiteSessionStore

ROOT = Path(__file__).parent.parent
INTRODUCTION = "Bonjour, je m'appelle Alice Morel et mon budget est de 10k."


class Talk:
    """Une conversation jouée : on donne les lignes, on lit ce qui s'affiche."""

    def __init__(self, folder: Path, user: str = "alice", strategy: str = "hybride", **options: Any) -> None:
        self.place = Place(folder, user)
        self.strategy = strategy
        self.options: dict[str, Any] = {"environ": {}, **options}
        self.status = 0

    def say(self, *lines: str | BaseException) -> str:
        output = io.StringIO()
        console = Console(file=output, width=100, markup=False, highlight=False, emoji=False)
        queue = list(lines)

        def read(prompt: str) -> str:
            line = queue.pop(0) if queue else EOFError()
            if isinstance(line, BaseException):
                raise line
            return line

        self.status = TerminalChat(self.place, self.strategy, console, read, **self.options).run()
        return output.getvalue().replace("\u00a0", " ").replace("\u202f", " ")


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


# Un tour


def test_each_turn_shows_the_context_its_tokens_the_ratio_and_the_cost(talk: Talk) -> None:
    shown = talk.say(INTRODUCTION, "Quel est mon budget ?")
    assert "10k. »" in shown
    assert re.search(r"invite système +Vous êtes un assistant concis.* 26 *\n", shown)
    assert re.search(r"utilisateur +Quel est mon budget \? +5 *\n", shown)
    balances = re.findall(
        r"(\d+) tokens, pour une conversation de (\d+) · ρ = (\S+) · coût (\S+) € ce tour, (\S+) € en tout", shown
    )
    assert [balance[2] for balance in balances] == ["1,00", "1,00"]
    assert all(balance[0] == balance[1] for balance in balances)
    first, second = (float(b[3].replace(",", ".")) for b in balances)
    assert float(balances[1][4].replace(",", ".")) == pytest.approx(first + second)
    assert "prix d'exemple" in shown
    assert talk.status == 0


def test_the_ratio_falls_when_the_window_forgets(tmp_path: Path) -> None:
    shown = Talk(tmp_path, strategy="fenêtre").say(
        *(f"La tâche numéro {n} est de ranger le lot {n}." for n in range(12))
    )
    ratios = [float(text.replace(",", ".")) for text in re.findall(r"ρ = (\d,\d\d)", shown)]
    assert ratios[0] == 1
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 0.6
    assert re.search(r"… +3 messages plus anciens", shown)


def test_brief_shows_the_balance_only(tmp_path: Path) -> None:
    shown = Talk(tmp_path, brief=True).say(INTRODUCTION)
    assert "invite système" not in shown
    assert "ρ = " in shown


def test_the_conversation_survives_a_restart(talk: Talk) -> None:
    talk.say(INTRODUCTION)
    shown = talk.say("Comment je m'appelle ?")
    assert "reprise, 3 messages" in shown
    assert "Vous vous appelez Alice Morel." in shown


def test_nothing_is_written_before_the_first_message(talk: Talk) -> None:
    assert "Au revoir.\n" in talk.say("/contexte", "/aide")
    assert b"alice" not in bytes_of(talk.place.folder)


def test_users_do_not_see_each_other(tmp_path: Path) -> None:
    Talk(tmp_path, "alice").say(INTRODUCTION)
    for other in ("Alice", "alice ", "alice'; --", "../alice", "ali"):
        assert "je ne sais pas" in Talk(tmp_path, other).say("Comment je m'appelle ?").lower()


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ("rag", "hiérarchique")])
def test_every_strategy_converses_and_restarts(tmp_path: Path, name: str) -> None:
    talk = Talk(tmp_path, strategy=name)
    talk.say(INTRODUCTION, *(f"Note {n}." for n in range(3)))
    assert "10k" in talk.say("Quel est mon budget ?").split("ρ")[0]


# Les commandes


def test_changing_strategy_replays_the_same_conversation(talk: Talk) -> None:
    shown = talk.say(INTRODUCTION, "/stratégie FENETRE", "Quel est mon budget ?", "/strategie", "/strategie zut")
    assert "Stratégie : fenêtre" in shown
    assert "10k. »" in shown
    assert "→ fenêtre" in shown
    assert "stratégie inconnue : zut" in shown


def test_the_help_names_every_command(talk: Talk) -> None:
    shown = talk.say("/aide")
    for name in (*COMMANDS, "quitter"):
        assert f"/{name} " in shown


def test_an_unknown_command_is_not_sent_to_the_model(talk: Talk) -> None:
    shown = talk.say("/effacer", "//etc est un dossier")
    assert "Commande inconnue : /effacer" in shown
    with SQLiteStore(talk) as store:
        texts = [item.message.content for item in store.load("alice", "1")]
    assert "/etc est un dossier" in texts
    assert talk.status == 1, "dans un tube, une erreur se voit au code de sortie"


class SQLiteStore:
    def __init__(self, talk: Talk) -> None:
        self.store = SQLiteSessionStore(talk.place.sessions)

    def __enter__(self) -> SQLiteSessionStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.close()


def test_the_context_command_shows_everything(talk: Talk) -> None:
    long = "Le rapport dit que " + "tout va bien et " * 20 + "que la fin est LISIBLE."
    shown = talk.say(long, "/contexte")
    assert "LISIBLE" in shown.split("> ")[-1].replace("\n", " ")


def test_the_export_is_portable_and_holds_every_session(talk: Talk, tmp_path: Path) -> None:
    target = tmp_path / "sortie" / "mes données.json"
    shown = talk.say(
        INTRODUCTION, "/nouvelle voyage", "Je pars à Nantes.", f"/exporter {target}", f"/exporter {target}"
    )
    document = json.loads(target.read_text(encoding="utf-8"))
    assert document["user"] == "alice"
    assert [session["session"] for session in document["sessions"]] == ["1", "voyage"]
    assert "Exporté : 6 messages" in shown
    assert "existe déjà" in shown
    assert target.stat().st_mode & 0o077 == 0


def test_forgetting_leaves_no_byte_of_the_user(talk: Talk) -> None:
    Talk(talk.place.folder, "bob").say("Je m'appelle Bernard Tapis.")
    shown = talk.say(INTRODUCTION, "/exporter", "/oublier", "/contexte")
    assert re.search(r"Effacé : .*1 session, 3 messages", shown)
    assert "Le contexte est vide" in shown
    left = bytes_of(talk.place.folder)
    for secret in (b"alice", b"Alice", b"Morel", b"10k"):
        assert secret not in left
    assert b"Bernard Tapis" in left
    assert "je ne sais pas" in talk.say("Comment je m'appelle ?").lower()


def test_forgetting_asks_first_when_someone_is_there(tmp_path: Path) -> None:
    talk = Talk(tmp_path, interactive=True)
    assert "Rien n'a été effacé" in talk.say(INTRODUCTION, "/oublier", "non")
    talk.say("/oublier", EOFError())
    assert "reprise, 3 messages" in talk.say()
    assert "Effacé" in talk.say("/oublier", "OUI")
    assert "nouvelle conversation" in talk.say()


def test_a_new_session_starts_empty_and_the_last_one_is_resumed(talk: Talk) -> None:
    shown = talk.say(INTRODUCTION, "/nouvelle", "Comment je m'appelle ?")
    assert "Session « 2 » (nouvelle conversation)" in shown
    assert "je ne sais pas" in shown.lower()
    assert "Session « 2 » (reprise" in talk.say()
    assert "Alice Morel" in Talk(talk.place.folder, session="1").say("Comment je m'appelle ?")


def test_the_usage_log_says_nothing_of_the_user(talk: Talk) -> None:
    talk.say(INTRODUCTION, "Quel est mon budget ?", "/nouvelle", "Bonjour")
    usages = UsageLog(talk.place.usage).read().usages
    assert [usage.model for usage in usages] == ["simulé"] * 3
    assert len({usage.conversation for usage in usages}) == 2
    raw = talk.place.usage.read_text(encoding="utf-8")
    assert "alice" not in raw.lower()
    assert "budget" not in raw


# Mémoire à recherche et mémoire hiérarchique


def test_memories_cross_sessions_and_are_forgotten(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strategy="hiérarchique")
    shown = talk.say(INTRODUCTION, "/nouvelle", "Quel est mon budget ?")
    assert "10k" in shown.split("Session « 2 »")[1]
    assert re.search(r"faits .*budget : 10k", shown.split("Session « 2 »")[1])
    talk.strategy = "rag"
    talk.say(*(f"La réunion {n} est reportée." for n in range(8)))
    assert talk.place.vectors.exists()
    shown = talk.say("/oublier")
    assert "vecteur" in shown
    left = bytes_of(tmp_path)
    for secret in (b"alice", b"Alice", b"10k", "réunion".encode()):
        assert secret not in left


# Ce qui va mal


@pytest.mark.parametrize(
    "user", ["al\x1b[31mice", "[red]alice[/red]", "a" * 500, "../../alice", "\u202ealice", "'; DROP TABLE x; --", "😀"]
)
def test_a_hostile_name_is_harmless_on_screen_and_on_disk(tmp_path: Path, user: str) -> None:
    shown = Talk(tmp_path / "data", user).say(INTRODUCTION, "Comment je m'appelle ?", "/exporter", "/oublier")
    assert "Alice Morel" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert user.encode()[:40] not in bytes_of(tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_comes_from_the_model_cannot_drive_the_terminal(talk: Talk) -> None:
    shown = talk.say("Mon budget est de 10k\x1b[2J.", "Quel est mon budget ?")
    assert "\x1b" not in shown
    assert clean("a\x07b\u202ec\ud800\n\td") == "a\ufffdb\ufffdc\ufffd\n\td"


def test_an_interruption_at_the_prompt_ends_cleanly(talk: Talk) -> None:
    assert "Au revoir. La conversation est enregistrée." in talk.say(INTRODUCTION, KeyboardInterrupt())
    assert talk.status == 130


@pytest.fixture(scope="module")
def running() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", threaded=True) as server:
        yield server


@pytest.fixture
def service(running: HTTPServer) -> Callable[..., dict[str, str]]:
    """Prépare un service et rend les variables d'environnement qui y mènent."""
    running.clear()

    def prepare(*handlers: Callable[[Request], Response], **settings: str) -> dict[str, str]:
        queue = list(handlers)
        running.expect_request("/v1/chat/completions").respond_with_handler(lambda request: queue.pop(0)(request))
        address = running.url_for("/v1")
        return {"MEMOIRE_MODEL": "fort", "MEMOIRE_BASE_URL": address, "MEMOIRE_API_KEY": "sk-secrete", **settings}

    return prepare


def answer(text: str) -> Callable[[Request], Response]:
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 5},
    }
    return lambda request: Response(json.dumps(body), mimetype="application/json")


def failure(status: int) -> Callable[[Request], Response]:
    return lambda request: Response("{}", status, mimetype="application/json")


def test_a_real_endpoint_answers_with_its_cost_unknown(tmp_path: Path, service: Callable[..., dict[str, str]]) -> None:
    shown = Talk(tmp_path, environ=service(answer("Bonjour Alice."))).say(INTRODUCTION)
    assert "fort > Bonjour Alice." in shown
    assert "coût inconnu ce tour" in shown
    assert "sk-secrete" not in shown.encode().decode() + bytes_of(tmp_path).decode("latin-1")


def test_the_price_table_of_the_user_is_used(tmp_path: Path, service: Callable[..., dict[str, str]]) -> None:
    prices = tmp_path / "prix.json"
    prices.write_text(
        json.dumps(
            {
                "date": "2025-02-01",
                "source": "contrat",
                "currency": "$",
                "models": {"fort": {"input": 10, "output": 20}},
            }
        ),
        encoding="utf-8",
    )
    environ = service(answer("Bonjour."), MEMOIRE_PRICES=str(prices))
    shown = Talk(tmp_path / "data", environ=environ).say(INTRODUCTION)
    assert "coût 0,000500 $ ce tour" in shown
    assert "(prix du 01/02/2025)" in shown


def test_a_fallback_is_shown_and_the_user_is_answered(tmp_path: Path, service: Callable[..., dict[str, str]]) -> None:
    environ = service(failure(503), answer("Bonjour."), MEMOIRE_FALLBACK_MODEL="secours")
    talk = Talk(tmp_path, environ=environ)
    shown = talk.say(INTRODUCTION)
    assert "Repli : " in shown
    assert "secours > Bonjour." in shown
    assert [usage.fallback for usage in UsageLog(talk.place.usage).read().usages] == [False, True]


def test_a_failed_turn_leaves_nothing_and_the_conversation_goes_on(
    tmp_path: Path, service: Callable[..., dict[str, str]]
) -> None:
    talk = Talk(tmp_path, environ=service(failure(503), answer("Bonjour Alice.")))
    shown = talk.say(INTRODUCTION, INTRODUCTION)
    assert "vous pouvez le renvoyer" in shown
    with SQLiteStore(talk) as store:
        roles = [item.message.role for item in store.load("alice", "1")]
    assert roles == ["system", "user", "assistant"]
    assert talk.status == 1


def test_an_interruption_during_a_turn_cancels_it_only(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [KeyboardInterrupt(), "Bonjour."]

    def complete(self: object, messages: Any) -> Any:
        from memoire.llm import Reply

        if isinstance(first := answers.pop(0), BaseException):
            raise first
        return Reply(first, "simulé", 1, 1)

    monkeypatch.setattr("memoire.simulated.SimulatedLLM.complete", complete)
    shown = talk.say(INTRODUCTION, "Bonjour")
    assert "Interrompu" in shown
    assert "simulé > Bonjour." in shown
    with SQLiteStore(talk) as store:
        assert [item.message.content for item in store.load("alice", "1")][1:] == ["Bonjour", "Bonjour."]


def test_a_damaged_database_is_announced_and_kept(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").write_bytes(b"ceci n'est pas une base" * 100)
    done = run("--data", str(tmp_path), text="bonjour\n")
    assert done.returncode == 2
    assert "n'est pas une base SQLite lisible" in done.stderr
    assert "Traceback" not in done.stderr


# La ligne de commande


def run(*arguments: str, text: str | bytes = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    clean_environ = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    data = text if isinstance(text, bytes) else text.encode()
    done = subprocess.run(
        [sys.executable, "-m", "memoire", "chat", *arguments],
        input=data,
        capture_output=True,
        cwd=ROOT,
        env={**clean_environ, "PYTHONIOENCODING": "utf-8", **environ},
        timeout=120,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_it_works_in_a_pipe(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), "--user", "alice", text=f"{INTRODUCTION}\n\nQuel est mon budget ?")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "alice > Quel est mon budget ?" in done.stdout
    assert "10k. »" in done.stdout.replace("\u00a0", " ")
    assert done.stdout.rstrip().endswith("La conversation est enregistrée.")


def test_unreadable_input_and_a_poor_output_do_not_stop_it(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), text=b"mon budget est de \xff\xfe10k\n", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "tokens" in done.stdout


def test_a_reader_that_leaves_is_not_an_error_on_screen(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memoire", "chat", "--data", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"bonjour\n" * 50)
    process.stdin.close()
    errors = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="demande un pseudo-terminal")
@pytest.mark.parametrize(("key", "status"), [(b"\x03", 130), (b"\x04", 0)], ids=["Ctrl-C", "Ctrl-D"])
def test_ctrl_c_and_ctrl_d_end_cleanly_in_a_terminal(tmp_path: Path, key: bytes, status: int) -> None:
    import pty

    pid, terminal = pty.fork()
    if pid == 0:  # l'enfant devient la conversation, devant un vrai terminal
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "memoire", "chat", "--data", str(tmp_path), "--user", "alice"])
    shown = b""

    def wait_for(text: bytes) -> None:
        nonlocal shown
        limit = time.monotonic() + 60
        while text not in shown and time.monotonic() < limit:
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # le terminal est fermé
                break
        assert text in shown, shown.decode("utf-8", "replace")

    try:
        wait_for(b"alice > ")
        os.write(terminal, b"bonjour\r")
        wait_for("ρ".encode())
        shown = shown[shown.index("ρ".encode()) :]
        wait_for(b"alice > ")
        os.write(terminal, key)
        wait_for(b"Au revoir")
    finally:
        _, code = os.waitpid(pid, 0) if b"Au revoir" in shown else (os.kill(pid, signal.SIGKILL), os.waitpid(pid, 0)[1])
        os.close(terminal)
    assert os.waitstatus_to_exitcode(code) == status
    assert b"Traceback" not in shown


ENGLISH = re.compile(
    r"\b(usage|options?:|show|this|help|message|exit|error|argument is|the|and|expected|invalid|choose)\b"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["chat", "--help"],
        [],
        ["zut"],
        ["chat", "zut"],
        ["chat", "--zut"],
        ["chat", "--user"],
        ["chat", "--user", ""],
        ["chat", "--user", "\udcff"],
        ["chat", "--brief=3"],
        ["chat", "--strategy", "zut\x1b[2J"],
    ],
)
def test_help_and_errors_of_the_command_line_are_french(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    shown = "".join(capsys.readouterr())
    assert caught.value.code == (0 if "--help" in arguments else 2)
    assert not ENGLISH.search(shown.replace("--help", "")), shown
    assert "\x1b" not in shown
    assert shown.startswith("Utilisation")
    if arguments == ["chat", "--help"]:
        for name in (*SETTINGS, *STRATEGIES, "--strategy", "--user", "--data", "--session"):
            assert name in shown


def test_a_bad_setting_is_named_and_stops_at_once(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), text="bonjour\n", MEMOIRE_API_KEY="sk-secrete")
    assert done.returncode == 2
    assert "MEMOIRE_API_KEY est réglé sans MEMOIRE_MODEL" in done.stderr
    assert "sk-secrete" not in done.stderr + done.stdout


def test_a_strategy_is_found_without_accents() -> None:
    assert find_strategy(" Resume ") == "résumé"
    with pytest.raises(ValueError, match="stratégie inconnue"):
        find_strategy("")


def test_a_note_is_shown_under_its_name() -> None:
    rows = context_rows(
        [
            {"role": "system", "content": "[consigne] Invite"},
            {"role": "system", "content": "[résumé] Alice aime le thé."},
            {"role": "user", "content": "[entre crochets] bonjour"},
        ]
    )
    assert [(row.origin, row.text) for row in rows] == [
        ("invite système", "[consigne] Invite"),
        ("résumé", "Alice aime le thé."),
        ("utilisateur", "[entre crochets] bonjour"),
    ]
