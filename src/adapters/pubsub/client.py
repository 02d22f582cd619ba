"""Imports Google's client in one place, for callers that load it lazily."""

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import pubsub_v1

__all__ = ["GoogleAPICallError", "pubsub_v1"]
