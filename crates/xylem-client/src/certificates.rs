//! [`verify_with_chain`]: verifies a packet by a trusted key, or by a key that a chain of certificates leads to.
//! [`Certificates`]: serves such certificates.

use std::time::Duration;

use xylem_packet::{Data, Interest};
use xylem_trust::{CertificateChain, ChainAction, ChainError, ChainFlaw, TrustError, TrustStore};

use crate::{
    Application, ClientError, Driver, ExchangeReply, ForwarderMessage, InterestRequest,
    PacketOutbox, satisfies,
};

/// Lifetime of one Interest for a certificate.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most Interests for one certificate: a packet may be lost.
const TRIES: usize = 3;

/// Verifies that a packet is signed by a key of the store, or by one that a chain of certificates vouches for. Fetches
/// the certificates and adds them to the store. A chain has at most [`xylem_trust::MAX_CHAIN`] certificates, each
/// requested three times at most.
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
    if let Err(error) = follow(driver, store, data)? {
        return Ok(Err(error));
    }
    Ok(store.data(data, driver.now_ms()).map_err(refused))
}

/// Fetches the certificates between a packet and a trusted key into the store.
fn follow<D: Driver>(
    driver: &mut D,
    store: &mut TrustStore,
    data: &Data<'_>,
) -> Result<Result<(), ChainError>, D::Error> {
    let mut chain = match CertificateChain::of(data) {
        Ok(chain) => chain,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let asked = match chain.step(store, driver.now_ms()) {
            Ok(ChainAction::Known) => return Ok(Ok(())),
            Ok(ChainAction::Ask(asked)) => asked,
            Err(error) => return Ok(Err(error)),
        };
        let question = InterestRequest {
            can_be_prefix: asked.can_be_prefix,
            ..InterestRequest::exactly(asked.name, PATIENCE)
        };
        let Some(wire) = fetch(driver, &question)? else { return Ok(Err(chain.missing())) };
        if let Err(error) = chain.answer(&wire, driver.now_ms()) {
            return Ok(Err(error));
        }
    }
}

/// Fetches one certificate; `None` if no producer answers.
fn fetch<D: Driver>(
    driver: &mut D,
    question: &InterestRequest,
) -> Result<Option<Vec<u8>>, D::Error> {
    for _ in 0..TRIES {
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

/// Serves stored packets, such as certificates. Never done.
#[derive(Debug)]
pub struct Certificates {
    packets: Vec<Vec<u8>>,
}

impl Certificates {
    /// Serves these packets. Bytes that are no packet are never sent.
    pub fn new(packets: Vec<Vec<u8>>) -> Self {
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
            && let Some(wire) = self.packets.iter().find(fits)
        {
            outbox.packet(wire, message.pit_token);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}
