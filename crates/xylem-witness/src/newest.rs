//! [`NewestQuery`]: asks for the newest version of an object, as its publisher has signed it.

use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Blame, Failure, NoRandomness};
use xylem_object::PublisherId;
use xylem_object::growing::{pointer_name, pointer_target};
use xylem_object::naming::{self, PrefixError, PublicationRequest};
use xylem_packet::{DecodeError, EncodeError, InterestBuilder, Name, Packet};

/// Lifetime of an Interest for the newest version, and the time between two of them while the publisher is silent.
pub const ASK_EVERY: Duration = Duration::from_secs(1);
/// Lifetime of an Interest for the pointer to the next checkpoint.
pub const POINTER_LIFETIME: Duration = Duration::from_secs(4);

/// Why nothing can be asked about an object's versions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// No version can have the name.
    #[error(transparent)]
    Name(#[from] PrefixError),
    /// The name is too long for a packet.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// The Interest is larger than peers accept.
    #[error(transparent)]
    TooLarge(#[from] DecodeError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

impl Failure for QuestionError {
    fn blame(&self) -> Blame {
        match self {
            Self::Name(_) | Self::TooLong(_) | Self::TooLarge(_) => Blame::Usage,
            Self::Randomness(e) => e.blame(),
        }
    }
}

/// Makes Interests for the newest version of an object, and verifies the answers.
pub struct NewestQuery {
    object: Name,
    verifier: Option<xylem_trust::Verifier>,
}

impl NewestQuery {
    /// Asks for `object` by this publisher.
    #[must_use]
    pub fn of(object: Name, publisher: PublisherId) -> Self {
        Self { object, verifier: publisher.verifier() }
    }

    /// Makes the Interest for the newest version, or for the pointer to checkpoint `number`.
    ///
    /// # Errors
    /// See [`QuestionError`].
    pub fn question(&self, number: Option<u64>) -> Result<Vec<u8>, QuestionError> {
        let object = self.object.as_ref();
        let (name, discovers, lifetime) = match number {
            None => {
                let prefix = naming::versioned(object, 0)?;
                (naming::encode(prefix.as_ref(), &PublicationRequest::Metadata), true, ASK_EVERY)
            }
            Some(number) => (pointer_name(object, number), false, POINTER_LIFETIME),
        };
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .can_be_prefix(discovers)
            .must_be_fresh(discovers)
            .nonce(xylem_base::random()?)
            .lifetime_ms(lifetime.as_millis() as u64)
            .encode(&mut interest)?;
        Ok(interest)
    }

    /// Returns the version that a metadata packet or a pointer names, if the publisher signed it.
    #[must_use]
    pub fn pointed_to(&self, packet: &Bytes) -> Option<u64> {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return None };
        self.verifier.as_ref()?.data(&data).ok()?;
        pointer_target(self.object.as_ref(), data.content()).map(|(_, version)| version)
    }
}
