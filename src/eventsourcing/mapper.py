"""The library's mapper on watchkeeper's envelope."""

from collections.abc import Mapping

from eventsourcing import persistence as library
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import MapperDeserialisationError, ProgrammingError, StoredEvent

from watchkeeper.domain.run.envelope import Event, Undecodable, decode
from watchkeeper.domain.run.registry import UPCASTS, Upcast
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.services.ledger.scrub_and_encode import scrubbed_bytes


class Mapper(library.Mapper[str]):
    """Reads stored bytes as they are, and makes them as the ledger does.

    Topics come from a closed registry, so nothing is imported by a name in the data. Bytes are
    hashed as they are stored, so there is neither a cipher nor a compressor.

    Args:
        scrubber: Removes secrets from what is to be stored.
        upcasts: Conversions from retired topics to current ones.
    """

    def __init__(self, scrubber: Scrubber, upcasts: Mapping[str, Upcast] = UPCASTS) -> None:
        """Map with the registry."""
        super().__init__(library.JSONTranscoder())
        self._scrubber = scrubber
        self._upcasts = upcasts

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        """Return an event with the bytes to store, without secrets.

        Raises:
            ProgrammingError: It is no event of watchkeeper.
        """
        if not isinstance(domain_event, Event):
            raise ProgrammingError(
                f"{type(domain_event).__qualname__} is no event of watchkeeper: a ledger takes "
                "`watchkeeper.domain.run.envelope.Event`"
            )
        topic, state = scrubbed_bytes(self._scrubber, domain_event.envelope)
        return StoredEvent(domain_event.stream, domain_event.version, topic, state)

    def to_domain_event(self, stored_event: StoredEvent) -> Event:
        """Return the event that stored bytes hold, in today's version of its topic.

        Raises:
            MapperDeserialisationError: Its topic is unknown or newer, or the bytes do not fit it.
        """
        stream, version = str(stored_event.originator_id), stored_event.originator_version
        try:
            return decode(stream, version, stored_event.topic, stored_event.state, self._upcasts)
        except Undecodable as error:
            raise MapperDeserialisationError(f"event {version} of {stream}: {error}") from error
