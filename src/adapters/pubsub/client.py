"""Google's client in one place, for those who load it only when they need it."""

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import pubsub_v1

__all__ = ["GoogleAPICallError", "pubsub_v1"]
