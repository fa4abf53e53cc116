//! One Interest and what comes back, as ndnpeek has it.

use std::time::{Duration, Instant};

use xylem_packet::{Data, InterestBuilder, KeyLocator, Name, NameRef};

use super::trust::{Believe, Trust, Verdict, refused, type_name};
use super::{Client, Reply, parse_name, random_seed};
use crate::failure;
use crate::uri::PeerUri;
use xylem_library::{Blame, Error, Stop};

/// Names in a forwarding hint.
const MAX_HINTS: usize = 16;

/// What to ask.
#[derive(Clone, Debug)]
pub struct PeekOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The name, as an NDN URI.
    pub name: String,
    /// Whose packets are believed.
    pub believe: Believe,
    /// Let the Data's name be longer.
    pub can_be_prefix: bool,
    /// Refuse stale Data.
    pub must_be_fresh: bool,
    /// InterestLifetime, and how long to wait.
    pub lifetime: Duration,
    /// HopLimit.
    pub hop_limit: Option<u8>,
    /// ForwardingHint, best first.
    pub hints: Vec<String>,
    /// ApplicationParameters.
    pub parameters: Option<Vec<u8>>,
}

/// A Data packet that came and passed.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// All of it.
    pub packet: Vec<u8>,
    /// Its name, as an NDN URI.
    pub name: String,
    /// ContentType.
    pub content_type: u64,
    /// FreshnessPeriod in milliseconds.
    pub freshness_ms: u64,
    /// FinalBlockId.
    pub final_block_id: Option<String>,
    /// What its signature type is called, and its number.
    pub signature: (&'static str, u64),
    /// The name of its key, or the digest in hexadecimal.
    pub key: Option<String>,
    /// How it stands.
    pub verdict: Verdict,
    /// From Interest to Data.
    pub took: Duration,
}

impl Peeked {
    /// The content.
    pub fn content(&self) -> &[u8] {
        // It was decoded before.
        Data::decode(&self.packet).map_or(&[], |data| data.content())
    }
}

/// Asks for one packet.
///
/// # Errors
/// [`Blame::Network`] if nobody answers or the forwarder refuses, [`Blame::Data`] if what comes is
/// not believed, [`Blame::Usage`], [`Blame::Interrupted`].
pub fn peek(options: &PeekOptions, stop: &Stop) -> Result<Peeked, Error> {
    let name = parse_name(&options.name)?;
    let trust = Trust::open(&options.believe)?;
    let interest = interest(&name, options)?;
    let mut client = Client::connect(options.at.as_ref())?;
    let started = Instant::now();
    let network = |message| Error { blame: Blame::Network, message };
    let packet = match client.fetch(&interest, options.lifetime, stop)? {
        Reply::Data(packet) => packet,
        Reply::Nack(reason) => {
            return Err(network(format!("{name}: the forwarder refused it (Nack {})", reason.0)));
        }
        Reply::Timeout => {
            let seconds = options.lifetime.as_secs_f64();
            return Err(network(format!("{name}: nobody answered within {seconds} s")));
        }
    };
    let took = started.elapsed();
    let data = Data::decode(&packet).map_err(|e| refused(&options.name, &e.to_string()))?;
    let verdict = trust.verdict(&data).map_err(|why| refused(&data.name().to_string(), &why))?;
    let (meta, info) = (data.meta(), data.signature_info());
    let key = info.key_locator.map(|locator| match locator {
        KeyLocator::Name(name) => name.to_string(),
        KeyLocator::Digest(digest) => digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    });
    Ok(Peeked {
        name: data.name().to_string(),
        content_type: meta.content_type.0,
        freshness_ms: meta.freshness_ms,
        final_block_id: meta.final_block_id.map(|c| c.to_string()),
        signature: (type_name(info.typ), info.typ.0),
        key,
        verdict,
        took,
        packet,
    })
}

fn interest(name: &Name, options: &PeekOptions) -> Result<Vec<u8>, Error> {
    let hints: Vec<Name> = options
        .hints
        .iter()
        .take(MAX_HINTS)
        .map(|hint| parse_name(hint))
        .collect::<Result<_, _>>()?;
    let hints: Vec<NameRef<'_>> = hints.iter().map(Name::as_ref).collect();
    let mut builder = InterestBuilder::new(name.as_ref())
        .can_be_prefix(options.can_be_prefix)
        .must_be_fresh(options.must_be_fresh)
        .forwarding_hint(&hints)
        .nonce((random_seed()? as u32).to_be_bytes())
        .lifetime_ms(u64::try_from(options.lifetime.as_millis()).unwrap_or(u64::MAX));
    if let Some(hops) = options.hop_limit {
        builder = builder.hop_limit(hops);
    }
    let mut packet = Vec::new();
    match &options.parameters {
        None => builder.encode(&mut packet),
        Some(parameters) => builder.encode_with_parameters(&mut packet, parameters),
    }
    .map_err(|e| failure::usage(format!("{name}: {e}")))?;
    Ok(packet)
}
