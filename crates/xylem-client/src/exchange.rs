//! [`Exchange`]: one Interest and its answer.

use std::time::Duration;

use xylem_packet::{Data, Interest, InterestBuilder, NackReason, Name, NameRef, Packet};

use crate::{Application, ClientError, ForwarderMessage, NameFlaw, PacketOutbox};

/// Names in a forwarding hint.
const MAX_HINTS: usize = 16;

/// The outcome of one Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeReply {
    /// The Data packet.
    Data(Vec<u8>),
    /// The forwarder refused it.
    Nack(NackReason),
    /// No answer came in time.
    Timeout,
}

/// The fields of one Interest.
#[derive(Clone, Debug)]
pub struct InterestRequest {
    /// The name.
    pub name: Name,
    /// Whether the Data's name may be longer.
    pub can_be_prefix: bool,
    /// Whether stale Data is refused.
    pub must_be_fresh: bool,
    /// InterestLifetime.
    pub lifetime: Duration,
    /// HopLimit.
    pub hop_limit: Option<u8>,
    /// ForwardingHint, best first; names beyond sixteen are left out.
    pub hints: Vec<Name>,
    /// ApplicationParameters.
    pub parameters: Option<Vec<u8>>,
}

impl InterestRequest {
    /// A request for exactly this name.
    #[must_use]
    pub fn exactly(name: Name, lifetime: Duration) -> Self {
        let (can_be_prefix, must_be_fresh, hop_limit) = (false, false, None);
        let (hints, parameters) = (Vec::new(), None);
        Self { name, can_be_prefix, must_be_fresh, lifetime, hop_limit, hints, parameters }
    }

    /// Encodes the packet.
    ///
    /// # Errors
    /// A name that makes no Interest.
    pub fn encode(&self, nonce: [u8; 4]) -> Result<Vec<u8>, ClientError> {
        let hints: Vec<NameRef<'_>> = self.hints.iter().take(MAX_HINTS).map(Name::as_ref).collect();
        let lifetime = u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX);
        let mut builder = InterestBuilder::new(self.name.as_ref())
            .can_be_prefix(self.can_be_prefix)
            .must_be_fresh(self.must_be_fresh)
            .forwarding_hint(&hints)
            .nonce(nonce)
            .lifetime_ms(lifetime.max(1));
        if let Some(hops) = self.hop_limit {
            builder = builder.hop_limit(hops);
        }
        let mut packet = Vec::new();
        match &self.parameters {
            None => builder.encode(&mut packet),
            Some(parameters) => builder.encode_with_parameters(&mut packet, parameters),
        }
        .map_err(|e| ClientError::bad_name(&self.name, e))?;
        Ok(packet)
    }
}

/// Sends one Interest and waits for its answer.
pub struct Exchange {
    interest: Vec<u8>,
    patience: Duration,
    asked_at: Option<Duration>,
    took: Duration,
    reply: Option<ExchangeReply>,
}

impl Exchange {
    /// Sends `interest`, and waits for its answer until `patience` has passed.
    ///
    /// # Errors
    /// Bytes that are no Interest.
    pub fn new(interest: Vec<u8>, patience: Duration) -> Result<Self, ClientError> {
        Interest::decode(&interest).map_err(|e| ClientError::bad_name("an Interest", e))?;
        Ok(Self { interest, patience, asked_at: None, took: Duration::ZERO, reply: None })
    }

    /// Time from the Interest to its answer.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// The outcome; [`ExchangeReply::Timeout`] if there is none yet.
    #[must_use]
    pub fn into_reply(self) -> ExchangeReply {
        self.reply.unwrap_or(ExchangeReply::Timeout)
    }
}

impl Application for Exchange {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        match self.asked_at {
            None => {
                outbox.packet(&self.interest, None);
                self.asked_at = Some(now);
            }
            Some(at) if now >= at + self.patience && self.reply.is_none() => {
                self.reply = Some(ExchangeReply::Timeout);
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if self.reply.is_none()
            && let Ok(asked) = Interest::decode(&self.interest)
        {
            self.reply = answer(&asked, message);
            self.took = now.saturating_sub(self.asked_at.unwrap_or(now));
        }
        Ok(())
    }

    fn poll_timeout(&self, _now: Duration) -> Option<Duration> {
        self.asked_at.map(|at| at + self.patience)
    }

    fn is_done(&self) -> bool {
        self.reply.is_some()
    }
}

/// The answer in `message` to the Interest, if it is one.
fn answer(asked: &Interest<'_>, message: ForwarderMessage<'_>) -> Option<ExchangeReply> {
    match (Packet::decode(message.packet).ok()?, message.nack) {
        (Packet::Data(data), None) if satisfies(&data, asked) => {
            Some(ExchangeReply::Data(message.packet.to_vec()))
        }
        (Packet::Interest(returned), Some(reason)) if returned.name() == asked.name() => {
            Some(ExchangeReply::Nack(reason))
        }
        _ => None,
    }
}

/// Whether the Data's name satisfies the Interest; a full name does by its implicit digest. Freshness is the caches'
/// concern: the producer of a packet decides what it answers.
#[must_use]
pub fn satisfies(data: &Data<'_>, asked: &Interest<'_>) -> bool {
    let (name, wanted) = (data.name(), asked.name());
    let digest = wanted.last().filter(|c| c.typ() == xylem_packet::types::IMPLICIT_SHA256_DIGEST);
    if let Some(digest) = digest {
        return wanted.parent() == name && data.implicit_digest() == digest.value();
    }
    wanted == name || (asked.can_be_prefix() && wanted.is_prefix_of(name))
}

/// Parses a name.
///
/// # Errors
/// Text that is no name, and the empty name.
pub fn parse_name(uri: &str) -> Result<Name, ClientError> {
    let name = Name::from_uri(uri).map_err(|e| ClientError::bad_name(uri, e))?;
    match name.is_empty() {
        true => Err(ClientError::bad_name(uri, NameFlaw::Empty)),
        false => Ok(name),
    }
}
