"""Figures du cours : des fonctions qui prennent des données et rendent `(figure, axes)`.

Chaque chapitre appelle d'abord `use_style()`, puis les fonctions dont il a besoin ; toutes acceptent
`title=`. Un module par famille : `foundations` (chapitres 1 et 2), `windows` (3), `summaries` (4 et 5),
`production` (6 et 8), `comparison` (9), `course` (accueil), sur le style commun de `style`.
"""

from memoire.figures.comparison import (
    accuracy_against_tokens,
    cumulated_cost,
    retention_bars,
    retention_heatmap,
    theoretical_tokens,
    tokens_by_turn,
    tradeoff_table,
)
from memoire.figures.course import course_map
from memoire.figures.foundations import (
    compression_ratio_curves,
    context_growth,
    cost_per_call,
    crossing_turn,
    cumulated_call_cost,
    stateless_calls,
    token_rule_error,
    truncation_strip,
)
from memoire.figures.production import dashboard, fallback_flow, hierarchical_flow
from memoire.figures.style import (
    STATUSES,
    STRATEGIES,
    STRATEGY_COLORS,
    StrategyStyle,
    french_number,
    plural,
    strategy_style,
    use_style,
)
from memoire.figures.summaries import (
    break_even,
    break_even_call,
    compression_family,
    entity_timeline,
    rolling_sawtooth,
    selection_bars,
    summary_tree,
)
from memoire.figures.windows import fact_loss, priority_budget, voice_pipeline, window_strip, window_tokens

__all__ = [
    "STATUSES",
    "STRATEGIES",
    "STRATEGY_COLORS",
    "StrategyStyle",
    "accuracy_against_tokens",
    "break_even",
    "break_even_call",
    "compression_family",
    "compression_ratio_curves",
    "context_growth",
    "cost_per_call",
    "course_map",
    "crossing_turn",
    "cumulated_call_cost",
    "cumulated_cost",
    "dashboard",
    "entity_timeline",
    "fact_loss",
    "fallback_flow",
    "french_number",
    "hierarchical_flow",
    "plural",
    "priority_budget",
    "retention_bars",
    "retention_heatmap",
    "rolling_sawtooth",
    "selection_bars",
    "stateless_calls",
    "strategy_style",
    "summary_tree",
    "theoretical_tokens",
    "token_rule_error",
    "tokens_by_turn",
    "tradeoff_table",
    "truncation_strip",
    "use_style",
    "voice_pipeline",
    "window_strip",
    "window_tokens",
]
