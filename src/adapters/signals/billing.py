"""Budgets of Cloud Billing: sent many times a day whatever happens, hours behind."""

from watchkeeper.adapters.signals.fields import Moment, Outside, Text, read_as
from watchkeeper.adapters.signals.making import Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison, SignalKind

SOURCE = "billing"


class _Budget(Outside):
    budget_display_name: Text = None
    cost_amount: Text = None
    cost_interval_start: Moment = None
    budget_amount: Text = None
    alert_threshold_exceeded: Text = None
    forecast_threshold_exceeded: Text = None
    currency_code: Text = None


def parse(message: Message) -> Parsed:
    """Read a budget's state: one signal for each threshold that is passed in an interval."""
    told = read_as(_Budget, message.body)
    budget = message.attributes.get("budgetId")
    if not budget or not told.cost_interval_start:
        return Poison("a budget without budgetId or costIntervalStart")
    passed = told.alert_threshold_exceeded or told.forecast_threshold_exceeded
    forecast = "forecast " if passed and not told.alert_threshold_exceeded else ""
    threshold = f"{forecast}{passed or ''}"
    name = told.budget_display_name or budget
    said = Said(
        source=SOURCE,
        key=(budget, told.cost_interval_start, threshold),
        kind=SignalKind.BUDGET,
        subject=budget,
        summary=f"{name}: {told.cost_amount} of {told.budget_amount} {told.currency_code or ''} "
        + (f"spent, {threshold} passed" if passed else "spent"),
        at=message.published_at,
        clues=[("budget", budget), ("budget", told.budget_display_name)],
        facts={"cost": told.cost_amount, "budget": told.budget_amount, "threshold": threshold},
    )
    return (signal_of(message, said),)
