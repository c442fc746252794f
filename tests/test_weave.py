"""Le tissage : même source, mêmes octets ; et toute source fautive est refusée avec son fichier et sa ligne."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from memoire.messages import count_tokens
from tools import weave

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""
CHAPTER = (
    HEADER
    + """
# Un chapitre

:::{prf:definition} Mémoire
:label: def-memoire
Une définition.
:::

```{code-cell} ipython3
:source: memoire.messages.count_tokens
```

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-cout
---
count_tokens("bonjour")
```
"""
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / weave.CHAPTERS).mkdir(parents=True)
    write(tmp_path, "01_essai", CHAPTER)
    return tmp_path


def write(root: Path, slug: str, text: str) -> None:
    (root / weave.CHAPTERS / f"{slug}.md").write_text(text, "utf-8")


def notebook(root: Path, slug: str = "01_essai") -> Path:
    return root / weave.NOTEBOOKS / f"{slug}.ipynb"


def problems(root: Path) -> list[str]:
    with pytest.raises(weave.WeaveError) as caught:
        weave.weave(root)
    return [str(problem) for problem in caught.value.problems]


def line_of(text: str, content: str) -> int:
    return text[: text.index(content)].count("\n") + 1


def test_a_source_cell_holds_the_exact_text_of_the_package(root: Path) -> None:
    weave.update(root)
    cells = nbformat.read(notebook(root), as_version=4).cells
    namespace: dict[str, object] = {}
    exec("from __future__ import annotations\n" + cells[1].source, namespace)
    assert cells[1].source.startswith("def count_tokens(")
    assert namespace["count_tokens"]("bonjour") == count_tokens("bonjour")  # type: ignore[operator]


def test_the_other_cells_are_copied(root: Path) -> None:
    weave.update(root)
    cells = nbformat.read(notebook(root), as_version=4).cells
    assert cells[0].source.startswith("# Un chapitre")
    assert cells[2].source == 'count_tokens("bonjour")'
    assert cells[2].metadata["mystnb"]["figure"]["name"] == "fig-cout"


def test_the_notebook_is_neutral_and_names_its_source(root: Path) -> None:
    weave.update(root)
    raw = notebook(root).read_bytes()
    document = json.loads(raw)
    assert document["metadata"]["weave"] == {
        "generated_by": "tools/weave.py",
        "source": "book/chapters/01_essai.md",
    }
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    assert "jupytext" not in document["metadata"]
    assert [cell["id"] for cell in document["cells"]] == ["01_essai-000", "01_essai-001", "01_essai-002"]
    assert all(not cell.get("outputs") for cell in document["cells"])
    assert b"\r" not in raw
    assert raw.endswith(b"}\n")


def test_two_runs_give_the_same_bytes_and_write_nothing_twice(root: Path) -> None:
    assert weave.update(root) == ["écrit   notebooks/01_essai.ipynb"]
    before = (notebook(root).read_bytes(), notebook(root).stat().st_mtime_ns)
    assert weave.update(root) == []
    assert (notebook(root).read_bytes(), notebook(root).stat().st_mtime_ns) == before


def test_only_the_changed_chapter_is_rewritten(root: Path) -> None:
    write(root, "02_autre", HEADER + "\n# Autre\n")
    weave.update(root)
    write(root, "02_autre", HEADER + "\n# Autre, changé\n")
    assert weave.update(root) == ["écrit   notebooks/02_autre.ipynb"]


def test_a_drifted_notebook_is_reported_with_the_source_to_edit(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weave.update(root)
    assert weave.drift(root) == []
    path = notebook(root)
    path.write_text(path.read_text("utf-8").replace("bonjour", "bonsoir"), "utf-8")
    drifted = path.read_bytes()
    assert weave.main(["--check", "--root", str(root)]) == 1
    assert "book/chapters/01_essai.md" in capsys.readouterr().err
    assert path.read_bytes() == drifted, "--check ne doit rien écrire"


def test_a_missing_notebook_is_reported(root: Path) -> None:
    assert weave.drift(root) == ["notebooks/01_essai.ipynb manque : il se génère depuis book/chapters/01_essai.md."]


def test_a_notebook_without_source_is_reported_then_removed(root: Path) -> None:
    weave.update(root)
    stale = notebook(root, "02_disparu")
    shutil.copy(notebook(root), stale)
    assert weave.drift(root) == ["notebooks/02_disparu.ipynb n'a plus de source."]
    weave.update(root)
    assert not stale.exists()


@pytest.mark.parametrize("content", ['{"cells": [], "metadata": {}}', "pas du JSON", "[]"])
def test_a_notebook_made_by_hand_is_never_removed(root: Path, content: str) -> None:
    weave.update(root)
    personal = notebook(root, "brouillon")
    personal.write_text(content, "utf-8")
    weave.update(root)
    assert personal.read_text("utf-8") == content


def test_one_faulty_source_leaves_every_notebook_untouched(root: Path) -> None:
    weave.update(root)
    before = notebook(root).read_bytes()
    write(root, "01_essai", CHAPTER.replace("bonjour", "bonsoir"))
    write(root, "02_autre", "# Sans en-tête\n")
    with pytest.raises(weave.WeaveError):
        weave.update(root)
    assert notebook(root).read_bytes() == before


def test_an_interrupted_write_leaves_the_old_file_and_no_trace(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weave.update(root)
    before = notebook(root).read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(weave.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        weave.write_atomically(notebook(root), b"{")
    assert notebook(root).read_bytes() == before
    assert [path.name for path in notebook(root).parent.iterdir()] == ["01_essai.ipynb"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("memoire.messages.Inconnu", "objet inconnu « memoire.messages.Inconnu »"),
        ("memoire.nulle_part.Objet", "objet inconnu « memoire.nulle_part.Objet »"),
        ("nulle_part.Objet", "objet inconnu « nulle_part.Objet »"),
        ("memoire.messages.ROLES", "n'est ni une classe ni une fonction"),
        ("messages", "source « messages » invalide"),
        ("[1, 2]", "invalide"),
    ],
)
def test_an_unusable_source_is_refused(root: Path, target: str, message: str) -> None:
    text = CHAPTER.replace("memoire.messages.count_tokens", target)
    write(root, "01_essai", text)
    (problem,) = problems(root)
    line = line_of(text, "```{code-cell}")
    assert problem.startswith(f"book/chapters/01_essai.md:{line}: ")
    assert message in problem


def test_a_source_cell_with_a_body_is_refused(root: Path) -> None:
    write(root, "01_essai", CHAPTER.replace("count_tokens\n```", "count_tokens\n\nx = 1\n```"))
    (problem,) = problems(root)
    assert "doit être vide" in problem


@pytest.mark.parametrize("kind", ["SOLUTION", "HIDDEN TESTS"])
@pytest.mark.parametrize(
    ("lines", "wrong", "message"),
    [
        (["### BEGIN {}", "x = 1"], 0, "sans « ### END {} »"),
        (["x = 1", "### END {}"], 1, "sans « ### BEGIN {} » avant lui"),
        (["### BEGIN {}", "### BEGIN {}", "### END {}"], 1, "n'est pas fermé"),
        (["### END {}", "### BEGIN {}"], 0, "sans « ### BEGIN {} » avant lui"),
    ],
)
def test_unbalanced_markers_are_refused(root: Path, kind: str, lines: list[str], wrong: int, message: str) -> None:
    body = "\n".join(lines).format(*[kind] * 3)
    text = f"{CHAPTER}\n```{{code-cell}} ipython3\n{body}\n```\n"
    write(root, "01_essai", text)
    first = problems(root)[0]
    line = line_of(text, f"ipython3\n{lines[0].format(kind)}") + 1 + wrong
    assert first.startswith(f"book/chapters/01_essai.md:{line}: ")
    assert message.format(kind) in first


def test_crossed_and_unknown_markers_are_refused(root: Path) -> None:
    write(root, "01_essai", CHAPTER + "\n```{code-cell}\n### BEGIN SOLUTION\n### END HIDDEN TESTS\n```\n")
    assert any("« ### END HIDDEN TESTS » sans" in problem for problem in problems(root))
    write(root, "01_essai", CHAPTER + "\n```{code-cell}\n### BEGIN SOLUTON\n### END SOLUTON\n```\n")
    assert "marqueur inconnu « ### BEGIN SOLUTON »" in problems(root)[0]


def test_balanced_markers_are_accepted(root: Path) -> None:
    body = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n### BEGIN HIDDEN TESTS\nassert x\n### END HIDDEN TESTS"
    write(root, "01_essai", f"{CHAPTER}\n```{{code-cell}}\n{body}\n```\n")
    assert weave.weave(root)


@pytest.mark.parametrize(
    "addition",
    [
        ":::{prf:remark}\n:label: def-memoire\nEncore.\n:::\n",
        "(def-memoire)=\n## Section\n",
        "$$ x $$ (def-memoire)\n",
        "```{figure} image.png\n:name: fig-cout\n```\n",
        "```{code-cell} ipython3\n---\nmystnb:\n  figure:\n    name: fig-cout\n---\n1\n```\n",
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_duplicate_label_is_refused_with_both_places(root: Path, addition: str, elsewhere: bool) -> None:
    slug = "02_autre" if elsewhere else "01_essai"
    text = f"{HEADER}\n\n# Autre\n\n{addition}" if elsewhere else f"{CHAPTER}\n{addition}"
    write(root, slug, text)
    (problem,) = problems(root)
    line = line_of(text, addition) + (addition.startswith((":", "```{figure")))
    original = line_of(CHAPTER, ":label: def" if "def-memoire" in addition else "```{code-cell} ipython3\n---")
    assert problem.startswith(f"book/chapters/{slug}.md:{line}: étiquette ")
    assert problem.endswith(f"déjà définie en book/chapters/01_essai.md:{original}.")


def test_a_label_shown_in_a_literal_block_is_not_a_label(root: Path) -> None:
    shown = "````md\n:::{prf:definition}\n:label: def-memoire\n```python\n```\n(def-memoire)=\n:::\n````\n"
    code = '```{code-cell} ipython3\nprint("""\n:label: def-memoire\n""")\n```\n'
    write(root, "01_essai", f"{CHAPTER}\n{shown}\n{code}")
    assert weave.weave(root)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("# Un titre\n", 1, "en-tête absent"),
        ("", 1, "en-tête absent"),
        ("---\ntitle: x\n---\n# Un titre\n", 1, "en-tête incomplet"),
        (HEADER.replace("name: python3", "name: julia"), 1, "« name: python3 »"),
        ("---\njupytext: [\n---\n", 3, "en-tête illisible"),
        (HEADER + "\n```{code-cell} ipython3\n---\na: [\n---\n1\n```\n", 12, "options de cellule illisibles"),
        (HEADER + "\n```{code-cell} ipython3\n:tags: [a\n1\n```\n", 12, "options de cellule illisibles"),
        (HEADER + "\n```{code-cell} ipython3\n---\n- a\n---\n1\n```\n", 12, "options de cellule illisibles"),
        (HEADER + "\n```{code-cell} ipython3\n:tags: 3\n1\n```\n", 12, "options de cellule illisibles"),
        (HEADER + "\n# Un\n\n+++ {a}\n\nDeux\n", 14, "options de cellule illisibles"),
    ],
)
def test_an_unreadable_chapter_is_refused(root: Path, text: str, line: int, message: str) -> None:
    write(root, "01_essai", text)
    (problem,) = problems(root)
    assert problem.startswith(f"book/chapters/01_essai.md:{line}: ")
    assert message in problem


def test_a_chapter_that_is_not_utf8_is_refused(root: Path) -> None:
    (root / weave.CHAPTERS / "01_essai.md").write_bytes(CHAPTER.encode("latin-1"))
    assert "n'est pas en UTF-8" in problems(root)[0]


def test_every_problem_is_reported_at_once(root: Path) -> None:
    write(root, "01_essai", CHAPTER.replace("messages.count_tokens", "messages.Inconnu"))
    write(root, "02_autre", "# Sans en-tête\n")
    assert len(problems(root)) == 2


def test_the_notebooks_of_the_course_match_their_sources() -> None:
    assert weave.drift(weave.ROOT) == [], "lancez « make notebooks »"
