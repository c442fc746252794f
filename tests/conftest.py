"""Réglages communs des tests."""

from hypothesis import HealthCheck, settings

# Des exemples reproductibles, et aucune limite de temps : une machine chargée n'est pas une erreur.
settings.register_profile(
    "cours", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cours")
