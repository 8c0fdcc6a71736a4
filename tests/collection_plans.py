"""The plans of all collections, by name."""

from app.database import COLLECTIONS

PLANS = {plan.name: plan for plan in COLLECTIONS}
NAMES = PLANS.keys()
