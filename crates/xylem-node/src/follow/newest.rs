//! [`Newest`]: which version of an object is the newest, as its publisher has signed it.

use std::time::Duration;

use bytes::Bytes;
use xylem_object::PublisherId;
use xylem_object::growing::{pointed_to, pointer_name};
use xylem_packet::{Component, InterestBuilder, Name, Packet};

use crate::fetch::Fetch;
use xylem_library::Error;
use xylem_library::keys;

/// How long a question for the newest version waits; and a quiet publisher is asked again so often.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long a question for the next checkpoint's pointer stays with the publisher.
pub(crate) const POINTER_LIFETIME: Duration = Duration::from_secs(4);

/// See the module's documentation.
pub(crate) struct Newest {
    object: Name,
    verifier: Option<xylem_trust::Verifier>,
}

impl Newest {
    /// Of what this publisher calls `object`.
    pub(crate) fn of(object: Name, publisher: PublisherId) -> Self {
        Self { object, verifier: publisher.verifier() }
    }

    /// Asks everybody who is here for the newest version, or for the pointer to checkpoint `number`. False if
    /// nobody is here.
    pub(crate) fn ask(&self, fetch: &mut Fetch, number: Option<u64>) -> Result<bool, Error> {
        let (name, discovers, lifetime) = match number {
            None => {
                (self.object.child(Component::keyword(xylem_client::METADATA)), true, ASK_EVERY)
            }
            Some(number) => (pointer_name(self.object.as_ref(), number), false, POINTER_LIFETIME),
        };
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .can_be_prefix(discovers)
            .must_be_fresh(discovers)
            .nonce(keys::random()?)
            .lifetime_ms(lifetime.as_millis() as u64)
            .encode(&mut interest)
            .map_err(|e| Error::usage(e.to_string()))?;
        Ok(fetch.ask_all(&interest))
    }

    /// The version that a metadata packet or a pointer names, if its publisher signed it.
    pub(crate) fn pointed_to(&self, packet: &Bytes) -> Option<u64> {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return None };
        self.verifier.as_ref()?.data(&data).ok()?;
        pointed_to(self.object.as_ref(), data.content()).map(|(_, version)| version)
    }
}
