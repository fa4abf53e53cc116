//! [`verify_with_chain`]: verifies a packet by a trusted key, or by a key that a chain of certificates leads to.
//! [`Certificates`]: serves such certificates.

use std::time::Duration;

use xylem_packet::{Data, Interest};
use xylem_trust::{
    Certificate, CertificateChain, ChainAction, ChainError, ChainFlaw, TrustError, TrustStore,
    key_name_of,
};

use crate::{
    Application, ClientError, Driver, ExchangeReply, ForwarderMessage, InterestRequest,
    PacketOutbox, satisfies,
};

/// Lifetime of one Interest for a certificate.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most Interests for one certificate: a packet may be lost.
const TRIES: usize = 3;
/// Most Interests for another certificate in place of one that is missing or of no use.
const TRIES_FOR_OTHERS: usize = 2;

/// Verifies that a packet is signed by a key of the store, or by one that a chain of certificates vouches for. Fetches
/// the certificates and adds them to the store. A chain has at most [`xylem_trust::MAX_CHAIN`] certificates, each
/// requested three times at most. A missing certificate, or one that doesn't lead to a trusted key, may be old: others of
/// its key are requested as well, [`xylem_trust::MAX_QUERIES`] in all.
///
/// # Errors
/// Any that ends the run. The inner error states which certificate or packet is not trusted, and by which rule.
pub fn verify_with_chain<D: Driver>(
    driver: &mut D,
    store: &mut TrustStore,
    data: &Data<'_>,
) -> Result<Result<(), ChainError>, D::Error> {
    let refused = |e| ChainError { name: data.name().to_name(), flaw: ChainFlaw::Trust(e) };
    match store.data(data, driver.now_ms()) {
        Err(TrustError::UnknownKey | TrustError::NotAllowed | TrustError::Expired) => {}
        judged => return Ok(judged.map_err(refused)),
    }
    let mut chain = match CertificateChain::of(data) {
        Ok(chain) => chain,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        if let Err(error) = follow(driver, store, &mut chain)? {
            return Ok(Err(error));
        }
        match store.data(data, driver.now_ms()) {
            Ok(()) => return Ok(Ok(())),
            Err(flaw) => {
                if let Err(error) = chain.refuse_packet(flaw) {
                    return Ok(Err(error));
                }
            }
        }
    }
}

/// Fetches the certificates between a packet and a trusted key into the store.
fn follow<D: Driver>(
    driver: &mut D,
    store: &mut TrustStore,
    chain: &mut CertificateChain,
) -> Result<Result<(), ChainError>, D::Error> {
    loop {
        let asked = match chain.step(store, driver.now_ms()) {
            Ok(ChainAction::Known) => return Ok(Ok(())),
            Ok(ChainAction::Ask(asked)) => asked,
            Err(error) => return Ok(Err(error)),
        };
        let question = InterestRequest {
            can_be_prefix: asked.can_be_prefix,
            must_be_fresh: asked.must_be_fresh,
            ..InterestRequest::exactly(asked.name, PATIENCE)
        };
        let tries = if asked.must_be_fresh { TRIES_FOR_OTHERS } else { TRIES };
        let taken = match fetch(driver, &question, tries)? {
            Some(wire) => chain.answer(&wire, driver.now_ms()),
            None => chain.missing(),
        };
        if let Err(error) = taken {
            return Ok(Err(error));
        }
    }
}

/// Fetches one certificate; `None` if no producer answers.
fn fetch<D: Driver>(
    driver: &mut D,
    question: &InterestRequest,
    tries: usize,
) -> Result<Option<Vec<u8>>, D::Error> {
    for _ in 0..tries {
        let interest = question.encode(driver.nonce()?)?;
        match driver.fetch(interest, PATIENCE)? {
            ExchangeReply::Data(wire) => return Ok(Some(wire)),
            // There is no producer; another request would not change that.
            ExchangeReply::Nack(_) => return Ok(None),
            ExchangeReply::Timeout => {}
        }
    }
    Ok(None)
}

/// Serves stored packets, such as certificates: of several that satisfy an Interest, the newest certificate that another
/// key has issued, else the newest. Never done.
#[derive(Debug)]
pub struct Certificates {
    packets: Vec<Vec<u8>>,
}

impl Certificates {
    /// Serves these packets. Bytes that are no packet are never sent.
    pub fn new(packets: Vec<Vec<u8>>) -> Self {
        let mut packets = packets;
        packets.sort_by_cached_key(|wire| {
            let name = Data::decode(wire).ok().map(|data| data.name().to_name());
            let certificate = Certificate::decode(wire).ok();
            let is_issued = certificate.as_ref().is_some_and(|found| {
                found.signer().and_then(key_name_of) != Some(found.key_name())
            });
            let version =
                name.as_ref().and_then(|name| name.iter().last().map(|c| c.value().to_vec()));
            (is_issued, version.as_ref().map(Vec::len), version, name)
        });
        Certificates { packets }
    }
}

impl Application for Certificates {
    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let Ok(asked) = Interest::decode(message.packet) else { return Ok(()) };
        let fits = |wire: &&Vec<u8>| Data::decode(wire).is_ok_and(|data| satisfies(&data, &asked));
        if message.nack.is_none()
            && let Some(wire) = self.packets.iter().rev().find(fits)
        {
            outbox.packet(wire, message.pit_token);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;
    use xylem_packet::{Component, Packet};
    use xylem_trust::{Issue, Signer, ValidityPeriod, self_signed};

    #[test]
    fn the_newest_of_several_certificates_is_served() {
        let signer = Signer::ed25519(&[1; 32], "/a/KEY/1".parse().unwrap());
        let valid = ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };
        let of = |version| self_signed(&signer, version, valid).unwrap();
        let org = Signer::ed25519(&[2; 32], "/KEY/1".parse().unwrap());
        let issued = |issuer: &str, version| {
            let key_name: xylem_packet::Name = "/a/KEY/1".parse().unwrap();
            let issue = Issue {
                key_name: key_name.as_ref(),
                issuer_id: Component::generic(issuer.as_bytes()),
                version,
                public_key: &signer.public().unwrap(),
                validity: valid,
            };
            let mut wire = Vec::new();
            issue.sign(&org, &mut wire).unwrap();
            wire
        };
        let no_packet = b"no packet".to_vec();
        // The canonical order of names has shorter components first, whatever the version.
        let with_issued = vec![issued("org", 5), of(300), issued("longer", 4), no_packet.clone()];
        let only_own = vec![of(2), of(300), no_packet, of(1)];
        for (packets, name, expected) in [
            (&only_own, "/a/KEY/1", Some(of(300))),
            (&only_own, "/a/KEY/1/self/v=2", Some(of(2))),
            (&only_own, "/b", None),
            (&with_issued, "/a/KEY/1", Some(issued("org", 5))),
            (&with_issued, "/a/KEY/1/self", Some(of(300))),
        ] {
            let mut served = Certificates::new(packets.clone());
            let request = InterestRequest {
                can_be_prefix: true,
                ..InterestRequest::exactly(name.parse().unwrap(), PATIENCE)
            };
            let packet = &request.encode([0; 4]).unwrap()[..];
            let mut connection = Connection::new(xylem_packet::MAX_PACKET, true, 0);
            let message =
                ForwarderMessage { packet, pit_token: None, nack: None, congested: false };
            served
                .handle_message(Duration::ZERO, message, &mut connection.outbox(Duration::ZERO))
                .unwrap();
            let mut sent = Vec::new();
            connection.queue().drain_datagrams(|frame| sent.push(frame.to_vec()));
            let sent = sent.first().map(|frame| match Packet::decode(frame).unwrap() {
                Packet::Data(data) => data.wire().to_vec(),
                other => panic!("{other:?}"),
            });
            assert_eq!(sent, expected, "{name}");
        }
    }
}
