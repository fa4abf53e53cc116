//! The server that answers load: it puts each requested name before one prepared tail.

use std::time::Duration;

use xylem_packet::tlv::{self, types};
use xylem_packet::{
    Component, Data, DataBuilder, Interest, MAX_PACKET, Name, NameRef, SignatureType,
};

use super::DIGITS;
use crate::{Application, ClientError, ForwarderMessage, PacketOutbox, PacketOverflow};

/// NullSignature (NDN packet format, "Signature types").
const NULL_SIGNATURE: SignatureType = SignatureType(200);

/// Counts of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficServed {
    /// Interests answered.
    pub answered: u64,
    /// Interests for other names, and packets that could not be decoded.
    pub ignored: u64,
    /// Bytes of Data packets.
    pub bytes: u64,
}

/// Answers every Interest under a prefix.
pub struct TrafficServer {
    prefix: Name,
    tail: Vec<u8>,
    data: Vec<u8>,
    served: TrafficServed,
}

impl TrafficServer {
    /// Answers with `size` bytes of content.
    ///
    /// # Errors
    /// A size that no packet has.
    pub fn new(prefix: Name, size: usize, freshness: Duration) -> Result<Self, ClientError> {
        let tail = tail(prefix.as_ref(), size, freshness)?;
        let data = Vec::with_capacity(MAX_PACKET);
        Ok(Self { prefix, tail, data, served: TrafficServed::default() })
    }

    /// Counts of answers.
    #[must_use]
    pub fn served(&self) -> TrafficServed {
        self.served
    }
}

impl Application for TrafficServer {
    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let Some(name) = name_asked(self.prefix.as_ref(), message) else {
            self.served.ignored += 1;
            return Ok(());
        };
        let data = &mut self.data;
        data.clear();
        let body = name.encoded_len() + self.tail.len();
        tlv::write_var_number(data, u64::from(types::DATA));
        tlv::write_var_number(data, body as u64);
        name.encode(data);
        data.extend_from_slice(&self.tail);
        outbox.packet(data, message.pit_token);
        self.served.answered += 1;
        self.served.bytes += data.len() as u64;
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// The bytes that follow the name in every answer.
fn tail(prefix: NameRef<'_>, size: usize, freshness: Duration) -> Result<Vec<u8>, ClientError> {
    let freshness = u64::try_from(freshness.as_millis()).unwrap_or(u64::MAX);
    let content = vec![b'x'; size.min(MAX_PACKET)];
    let name = prefix.child(Component::generic(&[b'0'; DIGITS]));
    let mut packet = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(freshness)
        .signature(NULL_SIGNATURE, None)
        .encode(&mut packet, &content, |_, _| {})
        .map_err(PacketOverflow::Answer)?;
    let data = Data::decode(&packet).map_err(PacketOverflow::UnreadableAnswer)?;
    let after_name = data.name_range().end;
    Ok(packet[after_name..].to_vec())
}

/// The name of an Interest under `prefix`. Names longer than our generator's are skipped, so that the answer fits into
/// a packet.
fn name_asked<'a>(prefix: NameRef<'_>, message: ForwarderMessage<'a>) -> Option<NameRef<'a>> {
    if message.nack.is_some() {
        return None;
    }
    let interest = Interest::decode(message.packet).ok()?;
    let name = interest.name();
    let short = name.value().len() <= prefix.value().len() + DIGITS + 2;
    (prefix.is_prefix_of(name) && short).then_some(name)
}
