"""Budget messages of Cloud Billing: sent many times a day, hours late."""

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
    state = read_as(_Budget, message.body)
    budget = message.attributes.get("budgetId")
    if not budget or not state.cost_interval_start:
        return Poison("a budget without budgetId or costIntervalStart")
    passed = state.alert_threshold_exceeded or state.forecast_threshold_exceeded
    forecast = "forecast " if passed and not state.alert_threshold_exceeded else ""
    threshold = f"{forecast}{passed or ''}"
    name = state.budget_display_name or budget
    said = Said(
        source=SOURCE,
        key=(budget, state.cost_interval_start, threshold),
        kind=SignalKind.BUDGET,
        subject=budget,
        summary=f"{name}: {state.cost_amount} of {state.budget_amount} {state.currency_code or ''} "
        + (f"spent, {threshold} passed" if passed else "spent"),
        at=message.published_at,
        clues=[("budget", budget), ("budget", state.budget_display_name)],
        facts={"cost": state.cost_amount, "budget": state.budget_amount, "threshold": threshold},
    )
    return (signal_of(message, said),)
