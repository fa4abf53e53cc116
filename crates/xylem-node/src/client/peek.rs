//! One Interest and what comes back, as ndnpeek has it.

use std::time::{Duration, Instant};

use xylem_client::{ClientError, Question, Reply};
use xylem_library::clock::now_ms;
use xylem_library::{Error, Stop};
use xylem_packet::{Data, KeyLocator, SignatureType};

use super::{Believe, Client, Verdict, client_error, parse_name, random_seed, refused};
use crate::uri::PeerUri;

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
    let policy = options.believe.policy()?;
    let hints = options.hints.iter().map(|hint| parse_name(hint)).collect::<Result<_, _>>()?;
    let question = Question {
        can_be_prefix: options.can_be_prefix,
        must_be_fresh: options.must_be_fresh,
        hop_limit: options.hop_limit,
        hints,
        parameters: options.parameters.clone(),
        ..Question::exactly(name.clone(), options.lifetime)
    };
    let nonce = (random_seed()? as u32).to_be_bytes();
    let interest = question.encode(nonce).map_err(client_error)?;
    let mut client = Client::connect(options.at.as_ref())?;
    let started = Instant::now();
    let packet = match client.fetch(interest, options.lifetime, stop)? {
        Reply::Data(packet) => packet,
        Reply::Nack(reason) => {
            return Err(client_error(ClientError::Nack { name, reason, discovering: false }));
        }
        Reply::Timeout => {
            return Err(client_error(ClientError::Unanswered { name, after: options.lifetime }));
        }
    };
    let took = started.elapsed();
    let data = Data::decode(&packet).map_err(|e| refused(&options.name, &e.to_string()))?;
    let verdict = policy
        .verdict(&data, now_ms())
        .map_err(|why| refused(&data.name().to_string(), &why.to_string()))?;
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

/// What a signature type is called.
fn type_name(typ: SignatureType) -> &'static str {
    match typ {
        SignatureType::DIGEST_SHA256 => "digest-sha256",
        SignatureType::RSA => "rsa",
        SignatureType::ECDSA => "ecdsa",
        SignatureType::HMAC => "hmac",
        SignatureType::ED25519 => "ed25519",
        SignatureType::DIGEST_BLAKE3 => "digest-blake3",
        SignatureType::BLAKE3_KEYED => "blake3-keyed",
        SignatureType::BLAKE3_MERKLE => "blake3-merkle",
        SignatureType::SHA256_MERKLE => "sha256-merkle",
        SignatureType(200) => "null",
        _ => "unknown",
    }
}
