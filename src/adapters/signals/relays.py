"""Relay messages: trusted only if the relay says that it checked the sender.

Only a sender with permission to publish can set these attributes. The relay checks GitHub's
webhooks by their HMAC, and W&B's by their bearer token or HMAC.
"""

import hashlib
import hmac

from watchkeeper.domain.values.observation.signals import Delivery

VERIFIED = frozenset({"hub-signature-256", "bearer", "wandb-signature"})
"""How a relay may have checked a sender."""


def refusal(delivery: Delivery) -> str:
    """Return why a relayed message is not trusted; empty if it is, or was not relayed."""
    around = delivery.attributes
    digest = around.get("relay-body-sha256")
    if digest is not None:
        found = hashlib.sha256(delivery.data).hexdigest()
        if not hmac.compare_digest(found.encode(), digest.strip().lower().encode()):
            return "the body is not what the relay took in: its SHA-256 differs"
    relayed = "x-github-event" in around or "relay-source" in around or digest is not None
    if relayed and around.get("relay-verified") not in VERIFIED:
        return "not verified: no relay says that it checked the sender"
    return ""
