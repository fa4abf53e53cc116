//! Who answers load: one prepared tail behind every name that is asked for.

use std::time::Duration;

use xylem_packet::tlv::{self, types};
use xylem_packet::{Component, Data, DataBuilder, Interest, MAX_PACKET, NameRef, SignatureType};

use super::DIGITS;
use crate::client::{Client, GLANCE, Message, parse_name};
use crate::failure;
use crate::uri::PeerUri;
use xylem_library::{Error, Stop};

/// NullSignature (NDN packet format, "Signature types").
const NULL_SIGNATURE: SignatureType = SignatureType(200);

/// How to answer load.
#[derive(Clone, Debug)]
pub struct TrafficServeOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// Which names to answer, as an NDN URI.
    pub prefix: String,
    /// Bytes of content in each Data.
    pub size: usize,
    /// FreshnessPeriod of each Data.
    pub freshness: Duration,
    /// Ask the forwarder for the prefix's Interests; false where a route leads here already.
    pub register: bool,
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficServed {
    /// Interests answered.
    pub answered: u64,
    /// Interests for other names, and what could not be read.
    pub ignored: u64,
    /// Bytes of Data packets.
    pub bytes: u64,
}

/// Answers every Interest under a prefix until `stop` is raised. `ready` is called once Interests
/// can come.
///
/// # Errors
/// [`crate::Blame::Usage`] for a name or size that no packet can have, [`crate::Blame::Network`] if
/// the forwarder refuses the prefix or goes away.
pub fn serve(
    options: &TrafficServeOptions,
    stop: &Stop,
    ready: &mut dyn FnMut(),
) -> Result<TrafficServed, Error> {
    let prefix = parse_name(&options.prefix)?;
    let tail = tail(prefix.as_ref(), options)?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(prefix.as_ref(), stop)?;
    }
    ready();
    let mut served = TrafficServed::default();
    let mut data = Vec::with_capacity(MAX_PACKET);
    while !stop.raised() {
        client.receive(GLANCE, &mut |message, outbox| {
            let Some(name) = name_asked(prefix.as_ref(), message) else {
                served.ignored += 1;
                return;
            };
            data.clear();
            let body = name.encoded_len() + tail.len();
            tlv::write_var_number(&mut data, u64::from(types::DATA));
            tlv::write_var_number(&mut data, body as u64);
            name.encode(&mut data);
            data.extend_from_slice(&tail);
            outbox.packet(&data, message.pit_token);
            served.answered += 1;
            served.bytes += data.len() as u64;
        })?;
    }
    Ok(served)
}

/// What follows the name in every answer.
fn tail(prefix: NameRef<'_>, options: &TrafficServeOptions) -> Result<Vec<u8>, Error> {
    let freshness = u64::try_from(options.freshness.as_millis()).unwrap_or(u64::MAX);
    let content = vec![b'x'; options.size.min(MAX_PACKET)];
    let name = prefix.child(Component::generic(&[b'0'; DIGITS]));
    let mut packet = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(freshness)
        .signature(NULL_SIGNATURE, None)
        .encode(&mut packet, &content, |_, _| {})
        .map_err(|e| failure::usage(format!("no packet can be that large: {e}")))?;
    let data = Data::decode(&packet).map_err(|e| failure::usage(e.to_string()))?;
    let after_name = data.name_range().end;
    Ok(packet[after_name..].to_vec())
}

/// The name of an Interest under `prefix`; it is short enough for an answer to it to be a packet
/// as long as it is one that a generator like ours made.
fn name_asked<'a>(prefix: NameRef<'_>, message: Message<'a>) -> Option<NameRef<'a>> {
    if message.nack.is_some() {
        return None;
    }
    let interest = Interest::decode(message.packet).ok()?;
    let name = interest.name();
    let short = name.value().len() <= prefix.value().len() + DIGITS + 2;
    (prefix.is_prefix_of(name) && short).then_some(name)
}
