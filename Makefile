# La mémoire conversationnelle : toutes les commandes du cours. « make » ou « make help » les énumère.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
STAMP := $(VENV)/.installed
PIP := $(PY) -m pip --disable-pip-version-check

# Le premier Python >= 3.11 qui sait créer un environnement ; « make PYTHON=/chemin/python3 … » l'impose.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)

.PHONY: help
help: ## Affiche cette aide
	@echo "La mémoire conversationnelle. Commandes :"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: book
book: $(STAMP) ## Construit le livre HTML dans _build/html (n'exécute que ce qui a changé)
	@$(PY) -m tools.build

.PHONY: test
test: $(STAMP) ## Lance tous les tests : paquet, outils, notebooks, livre construit
	@$(PY) -m pytest -n auto --dist loadfile --nbmake tests notebooks

.PHONY: check
check: $(STAMP) ## Vérifie sans rien exécuter : notebooks à jour, style, types (moins de 30 s)
	@failed=0; \
	$(PY) -m tools.weave --check || failed=1; \
	$(PY) -m ruff check . || { failed=1; echo "Style : corrigez les lignes ci-dessus (« make format » règle ce qui peut l'être seul)." >&2; }; \
	$(PY) -m ruff format --check . || { failed=1; echo "Mise en forme : lancez « make format »." >&2; }; \
	$(PY) -m mypy || { failed=1; echo "Types : corrigez les lignes ci-dessus." >&2; }; \
	if [ $$failed = 1 ]; then echo "Vérification échouée : voir les messages ci-dessus." >&2; exit 1; fi; \
	echo "Tout est en ordre."

.PHONY: format
format: $(STAMP) ## Met le code en forme et corrige le style automatiquement
	@$(PY) -m ruff check --fix . ; $(PY) -m ruff format .

.PHONY: notebooks
notebooks: $(STAMP) ## Régénère notebooks/ depuis book/chapters et memoire
	@$(PY) -m tools.weave

.PHONY: lab
lab: $(STAMP) notebooks ## Ouvre les chapitres dans JupyterLab
	@$(PY) -m jupyterlab notebooks

.PHONY: bench
bench: $(VENV)/.installed-bench ## Mesure les vitesses (paquet et LangChain côte à côte)
	@$(PY) -m pytest benchmarks

.PHONY: venv
venv: $(STAMP) ## Crée ou met à jour l'environnement .venv (les autres commandes le font seules)

.PHONY: clean
clean: ## Efface le livre construit et les caches (garde .venv)
	@rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks memoire.egg-info
	@find book memoire tools tests notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf
	@echo "Effacé : _build et les caches. « rm -rf $(VENV) » efface aussi l'environnement."

# Le témoin n'est posé qu'après une installation complète : interrompue, elle reprend au prochain appel.
$(STAMP): requirements.txt constraints.txt pyproject.toml
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
		python='$(PYTHON)'; \
		if [ -z "$$python" ]; then \
			echo "Aucun Python 3.11 ou plus récent, muni du module venv, n'a été trouvé." >&2; \
			echo "Installez-le (Debian, Ubuntu : « apt install python3 python3-venv »), ou indiquez-le : make PYTHON=/chemin/python3 $(MAKECMDGOALS)" >&2; \
			exit 1; \
		fi; \
		if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
			echo "$$python ne convient pas : il faut Python 3.11 ou plus récent. Essayez : make PYTHON=/chemin/python3 $(MAKECMDGOALS)" >&2; \
			exit 1; \
		fi; \
		if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
			echo "$$python n'a pas le module venv (Debian, Ubuntu : « apt install python3-venv »)." >&2; \
			exit 1; \
		fi; \
		echo "Création de l'environnement $(VENV) avec $$python…"; \
		rm -rf $(VENV) && "$$python" -m venv $(VENV) || exit 1; \
	fi
	@echo "Installation des dépendances dans $(VENV) (quelques minutes la première fois)…"
	@$(PIP) install --root-user-action=ignore -r requirements.txt -c constraints.txt || { \
		echo "Installation interrompue : vérifiez le réseau, puis relancez la même commande, elle reprendra ici." >&2; exit 1; }
	@touch $@

$(VENV)/.installed-bench: $(STAMP) requirements-bench.txt
	@$(PIP) install --root-user-action=ignore -r requirements-bench.txt -c constraints.txt
	@touch $@
