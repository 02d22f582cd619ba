"""Launch rules on the command and the final step (L1, L7)."""

from watchkeeper.domain.rules.launch.gate.base import (
    Gate,
    LaunchRule,
    blocked,
    inferred,
    missing,
    passed,
)
from watchkeeper.domain.rules.launch.gate.configured import config_silence, is_key_missing
from watchkeeper.domain.rules.shared.rule import HERO, LOOP
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.options import (
    is_guessed,
    is_progress_bar,
    is_reference,
    option_value,
)
from watchkeeper.domain.values.contract.plan import GateFinding
from watchkeeper.domain.values.secrets.scrubbing import find_secrets, has_mark, sensitive_name


def secret_places(contract: Contract) -> tuple[str, ...]:
    """Return each place of a contract with a literal secret, such as `command[3]`."""
    texts = {f"command[{n}]": text for n, text in enumerate(contract.command)}
    texts |= {f"env.{name}": value for name, value in contract.env.items()}
    texts |= {
        "orchestrator.address": contract.orchestrator.address,
        "code.remote": contract.code.remote,
        "code.container": contract.code.container,
        "logbook.remote": contract.logbook.remote,
        "tracker.url": contract.tracker.url,
        "tracker.base_url": contract.tracker.base_url,
        "output_root": contract.output_root,
        "initialize_from": contract.initialize_from,
        "issue": contract.issue,
        **{f"ancestors[{n}]": root for n, root in enumerate(contract.ancestors)},
    }
    found = [place for place, text in texts.items() if find_secrets(text) or has_mark(text)]
    # A secret may follow a name that reveals it: `--api-key abc`, or API_KEY: abc.
    for name, value in contract.env.items():
        if sensitive_name(name) and value and not is_reference(value):
            found.append(f"env.{name}")
    whole = " ".join(contract.command)
    if find_secrets(whole) and not any(place.startswith("command") for place in found):
        found.append("command")
    return tuple(dict.fromkeys(found))


def l1(gate: Gate) -> GateFinding:
    """L1: the exact command is stated and contains no secret."""
    if not gate.plan.command or not "".join(gate.plan.command).strip():
        fix = "state the exact command line under `command`"
        return missing(gate, "L1", "command", "no command line", fix)
    places = secret_places(gate.contract)
    if places:
        fix = "name the variable under env_from instead; watchkeeper does not store its value"
        return blocked("L1", "secrets", f"a literal secret is in {', '.join(places)}", fix)
    if gate.facts.env_missing:
        names = ", ".join(gate.facts.env_missing)
        says = f"not set where the submit happens: {names}"
        fix = f"export {names} where the watch runs, or here without a watch"
        return blocked("L1", "environment", says, fix)
    return passed("L1", "command", "exact command line, no literal secret")


def l7(gate: Gate) -> GateFinding:
    """L7: the final step is resolved from config or code, and all sources of it agree."""
    final = gate.contract.final_step
    if not final.source:
        fix = "state final_step.source: the config key or code that says so"
        return missing(gate, "L7", "final step", f"{final.value}, source unknown", fix)
    if is_progress_bar(final.source):
        fix = "resolve it from the launched config or code; progress bars round"
        return blocked("L7", "final step", f"{final.value} is taken from a progress bar", fix)
    in_command = option_value(gate.contract.command, final.source)
    if in_command is not None and in_command != str(final.value):
        fix = "make the command and final_step.value agree"
        says = f"the contract says {final.value}, {final.source} in the command says {in_command}"
        return blocked("L7", "final step", says, fix)
    no_config = config_silence(gate)
    if no_config and in_command is None:
        fix = "try again when the configuration can be read"
        return missing(gate, "L7", "final step", no_config, fix)
    in_config = gate.facts.config.get(final.source)
    if in_config is not None and in_config != str(final.value):
        fix = "make the configuration and final_step.value agree"
        says = (
            f"the contract says {final.value}, {final.source} in the configuration says {in_config}"
        )
        return blocked("L7", "final step", says, fix)
    if is_key_missing(gate.contract, gate.facts.config, final.source):
        fix = "name the configuration's own key, or the line of code that says so"
        says = f"{final.value}, from {final.source}, which no configuration that was read holds"
        return inferred(gate, "L7", "final step", says, fix)
    if is_guessed(final.source):
        fix = "name the config key or the line of code that says so"
        return inferred(gate, "L7", "final step", f"{final.value}, from {final.source}", fix)
    return passed("L7", "final step", f"{final.value}, from {final.source}")


L1 = LaunchRule(
    id="L1",
    title="command and secrets",
    when=(
        "The contract states the exact command line. Command, environment and addresses contain no "
        "literal secret. Secrets are named under `env_from`, and each of these variables is set "
        "where the job is submitted."
    ),
    then=(
        "A missing command, a missing variable or a secret blocks. The finding names the place, "
        "never the secret."
    ),
    where=__name__,
    source=f"{HERO}, Launch",
    test=l1,
)

L7 = LaunchRule(
    id="L7",
    title="final step",
    when=(
        "The final step comes from the configuration or code, not from a progress bar. If the "
        "command or the configuration names a final step, it is the same number."
    ),
    then=(
        "Anything else blocks. A source key that the configuration does not contain counts as "
        "inferred."
    ),
    where=__name__,
    source=f"{HERO}, Launch; {LOOP}, Report Progress",
    test=l7,
)
