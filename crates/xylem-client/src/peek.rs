//! [`peek`]: one Interest and its answer, as in ndnpeek.

use std::time::Duration;

use xylem_packet::{ContentType, Data, KeyLocator, SignatureType};
use xylem_trust::{TrustPolicy, TrustVerdict};

use crate::{
    CheckError, ClientError, Driver, Exchange, ExchangeReply, InterestRequest, verify_with_chain,
};

/// A Data packet that arrived and was verified.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The packet's bytes.
    pub packet: Vec<u8>,
    /// Its name, as an NDN URI.
    pub name: String,
    /// ContentType.
    pub content_type: u64,
    /// FreshnessPeriod in milliseconds.
    pub freshness_ms: u64,
    /// FinalBlockId.
    pub final_block_id: Option<String>,
    /// Name and number of its signature type.
    pub signature: (&'static str, u64),
    /// The name of its key, or the digest in hexadecimal.
    pub key: Option<String>,
    /// The result of verification.
    pub verdict: TrustVerdict,
    /// Time from Interest to Data.
    pub took: Duration,
}

impl Peeked {
    /// The content.
    pub fn content(&self) -> &[u8] {
        // It was decoded before, so this succeeds.
        Data::decode(&self.packet).map_or(&[], |data| data.content())
    }
}

/// Requests one packet. `interest` is `question`, encoded.
///
/// # Errors
/// No answer, a refusal by the forwarder, a packet that does not verify, and any error that ends the run.
pub fn peek<D: Driver>(
    driver: &mut D,
    question: InterestRequest,
    interest: Vec<u8>,
    policy: &mut TrustPolicy,
) -> Result<Peeked, D::Error> {
    let InterestRequest { name, lifetime, .. } = question;
    let mut exchange = Exchange::new(interest, lifetime)?;
    driver.finish(&mut exchange)?;
    let took = exchange.took();
    let packet = match exchange.into_reply() {
        ExchangeReply::Data(packet) => packet,
        ExchangeReply::Nack(reason) => {
            return Err(ClientError::Nack { name, reason }.into());
        }
        ExchangeReply::Timeout => {
            return Err(ClientError::Unanswered { name, after: lifetime }.into());
        }
    };
    let data = Data::decode(&packet).map_err(|e| ClientError::not_believed(name.to_string(), e))?;
    let verdict = match policy {
        TrustPolicy::Anchors(store) => verify_with_chain(driver, store, &data)?
            .map(|()| TrustVerdict::Proven)
            .map_err(CheckError::Chain),
        policy => policy.judge(&data, driver.now_ms()).map_err(CheckError::Refused),
    };
    let verdict = verdict.map_err(|why| ClientError::not_believed(data.name().to_string(), why))?;
    if data.meta().content_type == ContentType::NACK {
        return Err(ClientError::NoPacket { name }.into());
    }
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
        signature: (type_name(info.typ), info.typ.number()),
        key,
        verdict,
        took,
        packet,
    })
}

/// Name of a signature type.
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
