"""The real Pub/Sub client against the emulator: what our own tests rest on."""

from typing import Any

import pytest
from google.cloud import pubsub_v1

pytestmark = pytest.mark.pubsub


def test_what_is_published_is_pulled_with_its_attributes(pubsub_project: str) -> None:
    # The client's types are partly unknown.
    publisher: Any = pubsub_v1.PublisherClient()
    subscriber: Any = pubsub_v1.SubscriberClient()
    topic = publisher.topic_path(pubsub_project, "signals")
    subscription = subscriber.subscription_path(pubsub_project, "watch")
    publisher.create_topic(name=topic)
    subscriber.create_subscription(name=subscription, topic=topic)
    publisher.publish(topic, b"body", kind="test").result(timeout=60)
    with subscriber:
        pulled = subscriber.pull(subscription=subscription, max_messages=1, timeout=10)
    (received,) = pulled.received_messages
    assert received.message.data == b"body"
    assert dict(received.message.attributes) == {"kind": "test"}
