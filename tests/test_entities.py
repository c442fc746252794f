"""L'extraction d'entités, le registre et son histoire, la mémoire à entités."""

import json
import time
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoire import EntityMemory, EntityRegister, extract_entities
from memoire.entities import CATEGORIES, Extraction, Fact, drop_repetitions, keep_current
from memoire.extraction import Reader
from memoire.french import value_key

NONE: dict[str, list[str]] = {}

# phrase, entités attendues, attributs attendus (None : non vérifiés)
TABLE: list[tuple[str, dict[str, list[str]], dict[str, str] | None]] = [
    (
        "Bonjour, je m'appelle Alice et je travaille chez Banque Durand sur la détection de fraude",
        {"personnes": ["Alice"], "organisations": ["Banque Durand"], "sujets": ["détection de fraude"]},
        {"prénom": "Alice", "employeur": "Banque Durand"},
    ),
    ("moi c'est Karim", {"personnes": ["Karim"]}, {"prénom": "Karim"}),
    (
        "je suis Léa, data scientist chez Airbus",
        {"personnes": ["Léa"], "organisations": ["Airbus"]},
        {"prénom": "Léa", "poste": "data scientist", "employeur": "Airbus"},
    ),
    ("mon collègue Paul a fini", {"personnes": ["Paul"]}, {}),
    ("Mme Lefèvre arrive", {"personnes": ["Mme Lefèvre"]}, {}),
    ("J'ai vu M. Dupont et le docteur Nguyen.", {"personnes": ["M. Dupont", "docteur Nguyen"]}, {}),
    ("la société Véolia Eau nous livre", {"organisations": ["Véolia Eau"]}, {}),
    ("j'habite à Lyon", {"lieux": ["Lyon"]}, {"ville": "Lyon"}),
    ("nous sommes basés à Saint-Denis", {"lieux": ["Saint-Denis"]}, {}),
    ("je suis à Nantes", {"lieux": ["Nantes"]}, {}),
    ("Chez nous, tout va bien.", NONE, {}),
    ("Je vais chez le médecin.", NONE, {}),
    ("Cette Phrase Commence Bien.", NONE, {}),
    ("Bonjour ! Merci d'avance.", NONE, {}),
    ("L’entreprise d’à côté ferme.", NONE, {}),
    ("Je m’appelle Zoé et j’habite à Aix-en-Provence.", {"personnes": ["Zoé"], "lieux": ["Aix-en-Provence"]}, None),
    ("Les ingénieurs d’Airbus sont là.", {"organisations": ["Airbus"]}, {}),
    ("Jean de La Fontaine écrit des fables.", {"personnes": ["Jean de La Fontaine"]}, {}),
    ("Je m'appelle Marie-Claire.", {"personnes": ["Marie-Claire"]}, {"prénom": "Marie-Claire"}),
    ("je m'appelle alice", {"personnes": ["Alice"]}, {"prénom": "Alice"}),
    ("je m'appelle", NONE, {}),
    ("JE M'APPELLE ALICE ET JE TRAVAILLE CHEZ EDF", {"personnes": ["Alice"], "organisations": ["EDF"]}, None),
    ("Je travaille à la SNCF.", {"organisations": ["SNCF"]}, {"employeur": "SNCF"}),
    ("Je travaille à la mairie de Rennes.", {"organisations": ["mairie de Rennes"]}, None),
    ("je travaille maintenant chez Thales", {"organisations": ["Thales"]}, {"employeur": "Thales"}),
    ("Mon frère travaille chez Airbus.", {"organisations": ["Airbus"]}, {}),
    ("je ne travaille plus chez Airbus", NONE, {}),
    ("je ne travaille plus chez Airbus, je travaille chez Thales", {"organisations": ["Thales"]}, None),
    ("mon budget est passé de 10k à 50k", NONE, {"budget": "50k"}),
    ("le budget est de 10k", NONE, {"budget": "10k"}),
    ("finalement le budget sera 40\u202f000\u00a0€", NONE, {"budget": "40\u202f000\u00a0€"}),
    ("Le budget n'est pas de 20k mais de 25k.", NONE, {"budget": "25k"}),
    ("Le budget était de 10k, il est maintenant de 50k.", NONE, {"budget": "50k"}),
    ("Si le budget passe à 100k, nous recruterons.", NONE, {}),
    ("Est-ce que mon budget est de 10k ?", NONE, {}),
    ("Mon budget est de 10k, c'est suffisant ?", NONE, {"budget": "10k"}),
    ("Quel est mon budget ?", NONE, {}),
    ("Le budget est serré.", NONE, {}),
    ("l'échéance est la fin du mois", NONE, {"échéance": "fin du mois"}),
    ("l'échéance est repoussée au 15 mars", NONE, {"échéance": "15 mars"}),
    ("La date limite est repoussée d'une semaine.", NONE, {}),
    ("je change d'équipe : je rejoins l'équipe Risques", NONE, {"équipe": "Risques"}),
    ("Mon poste est chef de projet.", NONE, {"poste": "chef de projet"}),
    ("Réponds-moi toujours en anglais.", NONE, {"langue": "anglais"}),
    ("Notre budget GPU est limité à 400 € par mois.", NONE, {"budget GPU": "400 € par mois"}),
    ("Le taux de fraude n'est que de 0,1 %.", NONE, {"taux de fraude": "0,1 %"}),
    ("Le rappel du modèle atteint 0,85.", NONE, {"rappel": "0,85"}),
    ("Le modèle est déployé sur des lambdas AWS.", NONE, {"déploiement": "lambdas AWS"}),
    ("Le numéro de la tâche est T-1042.", NONE, None),
]


def filled(extraction: Extraction) -> dict[str, list[str]]:
    return {category: values for category, values in extraction.categories.items() if values}


@pytest.mark.parametrize(("text", "entities", "attributes"), TABLE, ids=[row[0][:40] for row in TABLE])
def test_extraction_of_a_sentence(text: str, entities: dict[str, list[str]], attributes: dict[str, str] | None) -> None:
    extraction = extract_entities(text)
    assert tuple(extraction.categories) == CATEGORIES
    assert filled(extraction) == entities
    if attributes is not None:
        assert dict(extraction.attributes) == attributes


def test_extraction_reads_decomposed_accents_and_curly_apostrophes_alike() -> None:
    composed = "J'habite à Orléans et je m'appelle Zoé"
    variant = "J’habite a\u0300 Orle\u0301ans et je m’appelle Zoe\u0301"
    assert filled(extract_entities(variant)) == filled(extract_entities(composed))


def test_rules_generalise_to_sentences_they_were_not_written_for() -> None:
    data = json.loads((Path(__file__).parent / "data" / "entities_heldout.json").read_text(encoding="utf-8"))
    found: Counter[tuple[int, str]] = Counter()
    for row in data["phrases"]:
        extraction, series = extract_entities(row["texte"]), row["série"]
        for category, values in row["entités"].items():
            expected = set(map(value_key, values))
            obtained = set(map(value_key, extraction.categories[category]))
            found[series, "justes"] += len(expected & obtained)
            found[series, "fausses"] += len(obtained - expected)
            found[series, "manquées"] += len(expected - obtained)
        for name, value in row["attributs"].items():
            found[series, "attributs"] += value_key(extraction.attributes.get(name, "")) == value_key(value)
    for series in (1, 2, 3):
        right = found[series, "justes"]
        assert right / (right + found[series, "fausses"]) >= 0.95
        assert right / (right + found[series, "manquées"]) >= 0.85
    assert sum(found[series, "attributs"] for series in (1, 2, 3)) >= 36


@given(st.text(max_size=200))
def test_any_text_gives_a_well_formed_extraction(text: str) -> None:
    register = EntityRegister()
    register.add(extract_entities(text), 1)
    assert set(register.categories) == set(CATEGORIES)


REPEATED = [
    "A a. ",
    "je m'appelle ",
    "le budget est de ",
    "10 000 ",
    "Jean de ",
    "de la ",
    "si le taux de ",
    "A-",
    "Aa ",
]


@pytest.mark.parametrize("pattern", [*REPEATED, "e\u0327\u0301"])
def test_hostile_megabyte_is_read_in_bounded_time(pattern: str) -> None:
    start = time.process_time()
    extract_entities(pattern * (10**6 // len(pattern)))
    assert time.process_time() - start < 15


# Le registre


def test_register_keeps_the_first_spelling() -> None:
    register = EntityRegister()
    for turn, name in enumerate(["Émilie", "emilie", "ÉMILIE"], start=1):
        register.add(Extraction({"personnes": [name]}), turn)
    assert register.categories["personnes"] == ["Émilie"]


def test_register_does_not_repeat_a_first_name_known_with_its_surname() -> None:
    register = EntityRegister()
    register.add(Extraction({"personnes": ["Salomé Briand"]}), 1)
    register.add(Extraction({"personnes": ["Salomé", "Sal"]}), 2)
    assert register.categories["personnes"] == ["Salomé Briand", "Sal"]


def test_register_tracks_an_attribute_and_its_history() -> None:
    register = EntityRegister()
    register.add(extract_entities("Le budget est de 10k."), 2)
    register.add(extract_entities("Le budget est de 10k."), 3)
    register.add(extract_entities("Mon budget est passé de 10k à 50k."), 7)
    assert register.attributes == {"budget": "50k"}
    assert register.history("budget") == [(2, "10k"), (7, "50k")]
    assert register.history("inconnu") == []


def test_register_learns_an_old_value_from_the_change_itself() -> None:
    register = EntityRegister()
    register.add(extract_entities("mon budget est passé de 10k à 50k"), 4)
    assert register.history("budget") == [(4, "10k"), (4, "50k")]
    assert "10k" not in register.render()


def test_short_name_updates_the_only_longer_attribute() -> None:
    register = EntityRegister()
    register.add(extract_entities("L'échéance de livraison est la fin du mois."), 1)
    register.add(extract_entities("L'échéance est repoussée au 15 mars."), 2)
    assert register.attributes == {"échéance de livraison": "15 mars"}


def test_superseded_employer_and_city_leave_the_current_entities() -> None:
    register = EntityRegister()
    register.add(extract_entities("Je travaille chez Airbus et j'habite à Lyon."), 1)
    register.add(extract_entities("Je ne travaille plus chez Airbus."), 3)
    assert register.categories["organisations"] == []
    assert "employeur" not in register.attributes
    register.add(extract_entities("Je travaille maintenant chez Thales."), 5)
    register.add(extract_entities("J'ai déménagé à Nantes."), 6)
    assert register.categories["organisations"] == ["Thales"]
    assert register.categories["lieux"] == ["Nantes"]
    assert register.history("employeur") == [(1, "Airbus"), (5, "Thales")]
    assert "Airbus" not in register.render()
    assert "Lyon" not in register.render()


def test_render_is_deterministic_and_follows_changes() -> None:
    register = EntityRegister()
    assert register.render() == ""
    register.add(Extraction({"lieux": ["Lyon"], "personnes": ["Alice", "Karim"]}, {"budget": "10k"}), 1)
    assert register.render() == "personnes\u00a0: Alice, Karim\u00a0; lieux\u00a0: Lyon\u00a0; budget\u00a0: 10k"
    assert register.render() is register.render(), "le texte n'est composé qu'une fois"
    register.add(Extraction({}, {"budget": "50k"}), 2)
    assert register.render() == "personnes\u00a0: Alice, Karim\u00a0; lieux\u00a0: Lyon\u00a0; budget\u00a0: 50k"


def test_copy_of_a_register_is_independent() -> None:
    register = EntityRegister(7)
    register.add(Extraction({"lieux": ["Lyon"]}, {"budget": "10k"}), 1)
    twin = copy(register)
    assert (twin.categories, twin.attributes, twin.render()) == (
        register.categories,
        register.attributes,
        register.render(),
    )
    twin.add(Extraction({"lieux": ["Nantes"]}, {"budget": "50k"}), 2)
    assert twin.max_values == 7
    assert register.categories["lieux"] == ["Lyon"]
    assert register.history("budget") == [(1, "10k")]
    register.categories["lieux"].append("Paris")
    register.attributes.clear()
    register.history("budget").clear()
    assert register.render() == "lieux\u00a0: Lyon\u00a0; budget\u00a0: 10k"


def test_register_is_bounded_and_forgets_the_oldest() -> None:
    register = EntityRegister(max_values=3)
    for turn in range(10):
        register.add(Extraction({"lieux": [f"Ville {turn}"]}, {f"attribut {turn}": "a", "budget": f"{turn}k"}), turn)
    assert register.categories["lieux"] == ["Ville 7", "Ville 8", "Ville 9"]
    assert register.attributes == {"attribut 8": "a", "attribut 9": "a", "budget": "9k"}
    assert register.history("budget") == [(7, "7k"), (8, "8k"), (9, "9k")]


def test_long_values_are_cut() -> None:
    register = EntityRegister()
    register.add(Extraction({"sujets": ["x" * 10**6]}, {"budget": "1  \n 000" + "0" * 500}), 1)
    assert len(register.render()) < 200
    assert "\n" not in register.render()


MALFORMED: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "NoneType"),
    ({"personnes": ["Alice"]}, TypeError, "dict"),
    (Extraction({"produits": ["X"]}), ValueError, "produits"),
    (Extraction({"personnes": "Alice"}), TypeError, "Alice"),  # type: ignore[dict-item]
    (Extraction({"personnes": [3]}), TypeError, "3"),  # type: ignore[list-item]
    (Extraction([("personnes", [])]), TypeError, "personnes"),  # type: ignore[arg-type]
    (Extraction({}, {"budget": 3}), TypeError, "3"),  # type: ignore[dict-item]
    (Extraction({}, {}, {"budget": None}), TypeError, "None"),  # type: ignore[dict-item]
    (Extraction({}, ended=[None]), TypeError, "None"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("extraction", "error", "received"), MALFORMED)
def test_malformed_extraction_is_refused_and_changes_nothing(
    extraction: Any, error: type[Exception], received: str
) -> None:
    answers = [Extraction({"personnes": ["Alice"]}), extraction]
    memory = EntityMemory(extract=lambda text: answers.pop(0))
    memory.add_message("user", "premier")
    before = (memory.get_messages(), memory.entities, memory.get_total_tokens())
    with pytest.raises(error, match=received):
        memory.add_message("user", "deuxième")
    assert (memory.get_messages(), memory.entities, memory.get_total_tokens()) == before


# La mémoire à entités


def test_memory_shows_entities_before_recent_messages() -> None:
    memory = EntityMemory(max_recent=2)
    memory.add_message("system", "Invite")
    memory.add_message("user", "Je m'appelle Alice.")
    memory.add_message("assistant", "Bonjour Alice.")
    memory.add_message("user", "Mon budget est de 10k.")
    note = "personnes\u00a0: Alice\u00a0; prénom\u00a0: Alice\u00a0; budget\u00a0: 10k"
    assert memory.get_context().split("\n") == [
        "[system] Invite",
        f"[entités] {note}",
        "[assistant] Bonjour Alice.",
        "[user] Mon budget est de 10k.",
    ]
    assert memory.get_total_tokens() == sum(
        len(t) // 4 for t in ["Invite", note, "Bonjour Alice.", "Mon budget est de 10k."]
    )


def test_only_the_user_feeds_the_register() -> None:
    memory = EntityMemory()
    memory.add_message("assistant", "Je m'appelle Karim.", tool_calls=[{"id": "c", "name": "f", "arguments": "{}"}])
    memory.add_message("tool", "Le budget est de 10k.", tool_call_id="c")
    assert not any(memory.entities.values())
    assert memory.attributes == {}


def test_memory_tracks_history_by_user_turn() -> None:
    memory = EntityMemory(max_recent=0)
    for text in ("Le budget est de 10k.", "Bonjour", "Mon budget est passé de 10k à 50k."):
        memory.add_message("user", text)
        memory.add_message("assistant", "Bien.")
    assert memory.history("budget") == [(1, "10k"), (3, "50k")]
    assert memory.attributes == {"budget": "50k"}
    assert memory.get_context() == "[entités] budget\u00a0: 50k"


def test_failed_extraction_does_not_count_as_a_turn() -> None:
    broken = True

    def extract(text: str) -> Extraction:
        if broken:
            raise ConnectionError("en panne")
        return extract_entities(text)

    memory = EntityMemory(extract=extract)
    with pytest.raises(ConnectionError):
        memory.add_message("user", "Le budget est de 10k.")
    broken = False
    memory.add_message("user", "Le budget est de 10k.")
    assert memory.history("budget") == [(1, "10k")]
    assert len(memory.get_messages()) == 2


def test_what_memory_returns_is_a_copy() -> None:
    memory = EntityMemory()
    memory.add_message("user", "Je m'appelle Alice, mon budget est de 10k.")
    memory.entities["personnes"].clear()
    memory.attributes.clear()
    memory.history("budget").clear()
    assert memory.entities["personnes"] == ["Alice"]
    assert memory.history("budget") == [(1, "10k")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_recent": -1}, ValueError),
        ({"max_recent": "4"}, TypeError),
        ({"max_values": 0}, ValueError),
        ({"extract": "règles"}, TypeError),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="reçu"):
        EntityMemory(**arguments)
    if "max_values" in arguments:
        with pytest.raises(error, match="reçu"):
            EntityRegister(arguments["max_values"])


# Les faits remplacés


def current(*sentences: str) -> list[str]:
    return [fact.text for fact in keep_current(map(Fact.read, sentences))]


def test_newer_value_replaces_the_older_sentence() -> None:
    assert current("Le budget est de 10k.", "Il fait beau.", "Le budget passe à 50k.") == [
        "Il fait beau.",
        "Le budget passe à 50k.",
    ]


def test_only_the_outdated_clause_leaves() -> None:
    kept = current("Je m'appelle Alice et mon budget est de 10k.", "Mon budget est passé à 50k.")
    assert kept == ["Je m'appelle Alice.", "Mon budget est passé à 50k."]


def test_short_name_outdates_the_longer_one() -> None:
    assert current("L'échéance de livraison est fixée au 3 mai.", "L'échéance est repoussée au 12 mai.") == [
        "L'échéance est repoussée au 12 mai."
    ]


def test_ended_job_outdates_its_announcement() -> None:
    assert current("Je travaille chez Airbus.", "Je ne travaille plus chez Airbus.") == [
        "Je ne travaille plus chez Airbus."
    ]


def test_same_value_is_not_outdated() -> None:
    assert len(current("Le budget est de 10k.", "Le budget est bien de 10 k, oui.", "Le budget reste à 10k.")) >= 2


def test_repetitions_leave_the_most_recent_wording() -> None:
    facts = [Fact.read(s) for s in ("Le budget est de 10k.", "Je cours.", "Oui, le budget est bien de 10k.")]
    assert [fact.text for fact in drop_repetitions(facts)] == ["Je cours.", "Oui, le budget est bien de 10k."]


def test_reader_and_register_share_their_categories() -> None:
    assert tuple(Reader().categories) == CATEGORIES
