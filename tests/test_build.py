"""La construction du livre : un échec est dit clairement, et seul ce qui a changé est réexécuté."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools import build
from tools.sphinx_course import join_streams

pytestmark = pytest.mark.book

HEADER = "---\njupytext:\n  format_name: myst\nkernelspec:\n  name: python3\n---\n"
COUNTING = """
# Chapitre {number}

```{{code-cell}} ipython3
from pathlib import Path
import memoire.messages

with Path("{slug}.log").open("a") as log:
    log.write("exécuté\\n")
```

```{{code-cell}} ipython3
{code}
```
"""


@pytest.fixture(scope="module")
def small_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Un livre de deux chapitres qui comptent leurs exécutions, avec la configuration et le paquet du cours."""
    root = tmp_path_factory.mktemp("livre")
    for name in ("_config.yml", "constraints.txt"):
        shutil.copy(build.ROOT / name, root / name)
    ignore = shutil.ignore_patterns("__pycache__", "vendor")
    for name in ("memoire", "tools", "book/_static"):
        shutil.copytree(build.ROOT / name, root / name, ignore=ignore)
    vendored = [build.ROOT / "book/_static/vendor", root / "book/_static/vendor"]
    shutil.copytree(*vendored)
    (root / "book/references.bib").write_text("", "utf-8")
    (root / "book/index.md").write_text("# Accueil\n", "utf-8")
    chapters = ["notebooks/01_un", "notebooks/02_deux"]
    toc = "format: jb-book\nroot: book/index\nparts:\n- caption: Essai\n  numbered: true\n  chapters:\n"
    (root / "_toc.yml").write_text(toc + "".join(f"  - file: {each}\n" for each in chapters), "utf-8")
    write_chapter(root, "01_un", "1 + 1")
    write_chapter(root, "02_deux", "2 + 2")
    return root


def write_chapter(root: Path, slug: str, code: str) -> None:
    path = root / "book/chapters" / f"{slug}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER + COUNTING.format(number=slug, slug=slug, code=code), "utf-8")


def run(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tools.build"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def executions(root: Path) -> list[int]:
    logs = [root / "notebooks" / f"{slug}.log" for slug in ("01_un", "02_deux")]
    return [len(log.read_text("utf-8").splitlines()) if log.exists() else 0 for log in logs]


def test_a_failure_is_named_again_until_it_is_corrected_and_only_changes_are_executed(small_book: Path) -> None:
    write_chapter(small_book, "02_deux", "numerator = 1\nnumerator / 0")
    for attempt in (1, 2):
        failed = run(small_book)
        assert failed.returncode == 1
        assert "Échec : notebooks/02_deux.ipynb, cellule de code n° 2" in failed.stderr
        assert "│ numerator / 0" in failed.stderr
        assert "ZeroDivisionError: division by zero" in failed.stderr
        assert "book/chapters/02_deux.md" in failed.stderr
        assert "make book" in failed.stderr
        assert "Livre construit" not in failed.stdout
        assert executions(small_book) == [1, attempt], "le chapitre réussi n'est pas réexécuté"

    write_chapter(small_book, "02_deux", "2 + 2")
    repaired = run(small_book)
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "_build/html/index.html" in repaired.stdout
    assert executions(small_book) == [1, 3]

    assert run(small_book).returncode == 0
    assert executions(small_book) == [1, 3], "sans changement, rien n'est exécuté"

    write_chapter(small_book, "01_un", "1 + 2")
    assert run(small_book).returncode == 0
    assert executions(small_book) == [2, 3], "seul le chapitre modifié est exécuté"

    style = small_book / "book/_static/css/course.css"
    style.write_text(style.read_text("utf-8") + "\n/* changé */\n", "utf-8")
    assert run(small_book).returncode == 0
    assert "/* changé */" in (small_book / "_build/html/_static/css/course.css").read_text("utf-8")
    assert executions(small_book) == [2, 3], "l'habillage a changé, pas les sorties"

    module = small_book / "memoire/messages.py"
    module.write_text(module.read_text("utf-8") + "\n# changé\n", "utf-8")
    rebuilt = run(small_book)
    assert rebuilt.returncode == 0
    assert "Le paquet memoire a changé" in rebuilt.stdout
    assert executions(small_book) == [3, 4], "le paquet a changé : tout est exécuté"


def test_a_faulty_source_stops_the_build_with_its_place(small_book: Path, tmp_path: Path) -> None:
    root = tmp_path / "livre"
    shutil.copytree(small_book, root, ignore=shutil.ignore_patterns("_build", "vendor"))
    (root / "book/chapters/01_un.md").write_text("# Sans en-tête\n", "utf-8")
    failed = run(root)
    assert failed.returncode == 1
    assert "book/chapters/01_un.md:1: en-tête absent" in failed.stderr
    assert not (root / "_build").exists()


def test_the_fingerprint_sees_code_data_and_versions(tmp_path: Path) -> None:
    (tmp_path / "memoire/data").mkdir(parents=True)
    (tmp_path / "memoire/__pycache__").mkdir()
    files = [tmp_path / name for name in ("memoire/a.py", "memoire/data/b.json", "constraints.txt")]
    for path in files:
        path.write_text("1", "utf-8")
    seen = {build.fingerprint(tmp_path, build.CODE)}
    for path in files:
        path.write_text("2", "utf-8")
        seen.add(build.fingerprint(tmp_path, build.CODE))
    files[0].rename(tmp_path / "memoire/c.py")
    seen.add(build.fingerprint(tmp_path, build.CODE))
    assert len(seen) == 5
    (tmp_path / "memoire/__pycache__/a.pyc").write_text("3", "utf-8")
    assert build.fingerprint(tmp_path, build.CODE) in seen


@pytest.mark.parametrize("page", ["notebooks/01_un.ipynb", "book/index.md"])
def test_a_cell_that_takes_too_long_is_named(tmp_path: Path, page: str) -> None:
    path = tmp_path / page
    path.parent.mkdir()
    if path.suffix == ".md":
        path.write_text(HEADER + "\n# Accueil\n\n```{code-cell}\na = 1\nb = 2\n```\n", "utf-8")
    else:
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a = 1\nb = 2")]), path)
    report = (
        "nbclient.exceptions.CellTimeoutError: A cell timed out while it was being executed, after 300 seconds.\n"
        "The message was: Cell execution timed out.\nHere is a preview of the cell contents:\n"
        "-------------------\na = 1\nb = 2\n-------------------\n"
    )
    message = str(build.read_failure(tmp_path, path.relative_to(tmp_path).with_suffix("").as_posix(), report))
    assert re.match(rf"Échec : {page}, cellule de code n° 1\n  │ a = 1\n  │ b = 2\n  La cellule dépasse", message)
    assert f"À corriger dans {page}" in message


def test_a_printed_output_is_shown_as_it_was_written() -> None:
    chunks = ["une ligne", "\n", "\n  une autre", " coupée", "\n"]
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=chunk) for chunk in chunks]
    outputs.append(nbformat.v4.new_output("stream", name="stderr", text="à part"))
    joined = join_streams(outputs)
    assert [(output["name"], output["text"]) for output in joined] == [
        ("stdout", "une ligne\n\n  une autre coupée\n"),
        ("stderr", "à part"),
    ]
    assert [output["text"] for output in outputs[:-1]] == chunks
