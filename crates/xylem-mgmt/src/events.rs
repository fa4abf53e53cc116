//! The notification stream faces/events: Data with rising numbers. The last few are kept for subscribers that ask a
//! moment late (NFD wiki, "Notification").

use core::time::Duration;
use std::collections::VecDeque;

use xylem_packet::tlv::types;
use xylem_packet::{Component, DataBuilder, Interest, Name};
use xylem_trust::Signer;

use crate::FaceEvent;

/// Number of notifications kept.
const MAX_NOTIFICATIONS: usize = 64;
/// How long the last notification answers Interests for the newest one.
const NEWEST_FRESHNESS: Duration = Duration::from_secs(1);

/// The stream of one forwarder.
pub(crate) struct Events {
    stream: Name,
    next: u64,
    kept: VecDeque<(u64, Duration, Vec<u8>)>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let stream = ["localhost", "nfd", "faces", "events"]
            .iter()
            .fold(Name::new(), |name, text| name.child(Component::generic(text.as_bytes())));
        Events { stream, next: 0, kept: VecDeque::new() }
    }

    /// Makes the next notification; the forwarder sends it to every subscriber with a pending Interest.
    pub(crate) fn publish(
        &mut self,
        now: Duration,
        event: &FaceEvent,
        signer: &Signer,
    ) -> Option<Vec<u8>> {
        let name = self.stream.child(Component::sequence(self.next));
        let builder =
            DataBuilder::new(name.as_ref()).freshness_ms(NEWEST_FRESHNESS.as_millis() as u64);
        let mut wire = Vec::new();
        signer.data(builder, &event.encode(), &mut wire).ok()?;
        self.kept.push_back((self.next, now, wire.clone()));
        self.next += 1;
        if self.kept.len() > MAX_NOTIFICATIONS {
            self.kept.pop_front();
        }
        Some(wire)
    }

    /// A kept notification that answers this Interest.
    pub(crate) fn find(&self, now: Duration, interest: &Interest<'_>) -> Option<&[u8]> {
        let name = interest.name();
        if name == self.stream.as_ref() {
            let (_, at, wire) = self.kept.back()?;
            return (interest.can_be_prefix() && *at + NEWEST_FRESHNESS > now).then_some(wire);
        }
        let wanted = name.last()?.as_number_of(types::SEQUENCE_COMPONENT)?;
        if name.parent() != self.stream.as_ref() {
            return None;
        }
        self.kept.iter().find(|(number, ..)| *number == wanted).map(|(.., wire)| wire.as_slice())
    }
}
