//! [`Validator`]: verifies packets, and fetches the certificates needed for that.

use xylem_base::Stop;
use xylem_client::{CheckError, verify_with_chain};
use xylem_engine::now_ms;
use xylem_object::PublisherId;
use xylem_packet::Data;
use xylem_peers::reachable::PeerAddress;
use xylem_trust::{PacketRefusal, PublicKey, TrustError, TrustPolicy};

use crate::{Client, RunError};

/// Most certificate chains in a run that lead to no trusted key; then no more are followed, whatever keys the packets
/// name.
const MAX_FAILED: usize = 8;

/// Why a manifest has no trusted signer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPublisher {
    /// It is not trusted.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A key of another algorithm signed it.
    #[error("it is not signed by an Ed25519 key")]
    OtherAlgorithm,
    /// The policy has no store of trusted keys.
    #[error("no key is trusted for it")]
    NoKey,
}

/// Verifies packets during a fetch. Certificates come over a separate connection, made when the first is needed: the
/// main one is in the middle of a packet meanwhile.
pub(crate) struct Validator {
    policy: TrustPolicy,
    forwarder: PeerAddress,
    stop: Stop,
    certificates: Option<Client>,
    failed: usize,
    ended: Option<RunError>,
}

impl Validator {
    pub(crate) fn new(policy: TrustPolicy, forwarder: &PeerAddress, stop: &Stop) -> Self {
        let (forwarder, stop) = (forwarder.clone(), stop.clone());
        Self { policy, forwarder, stop, certificates: None, failed: 0, ended: None }
    }

    /// Whether verification proves the signer of a packet.
    pub(crate) fn proves(&self) -> bool {
        self.policy.proves()
    }

    /// Verifies a packet; an error states why it is not trusted.
    pub(crate) fn check(&mut self, data: &Data<'_>) -> Result<(), CheckError> {
        let TrustPolicy::Anchors(store) = &mut self.policy else {
            return Ok(self.policy.judge(data, now_ms()).map(drop)?);
        };
        match store.data(data, now_ms()) {
            Err(TrustError::UnknownKey | TrustError::NotAllowed | TrustError::Expired)
                if self.failed < MAX_FAILED => {}
            judged => return Ok(judged.map_err(PacketRefusal::Trust)?),
        }
        let client = match &mut self.certificates {
            Some(client) => Ok(client),
            none => Client::connect_to(&self.forwarder, &self.stop).map(|new| none.insert(new)),
        };
        let judged = client.map_err(RunError::from);
        match judged.and_then(|client| verify_with_chain(client, store, data)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.failed += 1;
                Err(error.into())
            }
            Err(error) => {
                self.failed = MAX_FAILED;
                // The packet's report has the text, and the end of the fetch the error itself.
                let text = error.to_string();
                self.ended = Some(error);
                Err(CheckError::Certificates(text.into()))
            }
        }
    }

    /// The best number of packets for [`Self::check_many`].
    pub(crate) fn at_once(&self) -> usize {
        self.policy.batch_size()
    }

    /// Runs [`Self::check`] on each of these packets.
    pub(crate) fn check_many(&mut self, packets: &[Data<'_>]) -> Vec<Result<(), CheckError>> {
        if matches!(self.policy, TrustPolicy::Anchors(_)) {
            return packets.iter().map(|data| self.check(data)).collect();
        }
        let judged = self.policy.judge_many(packets, now_ms());
        judged.into_iter().map(|judged| Ok(judged.map(drop)?)).collect()
    }

    /// The signer of a manifest, if it is trusted.
    pub(crate) fn publisher(&mut self, manifest: &Data<'_>) -> Result<PublisherId, NoPublisher> {
        self.check(manifest)?;
        match &self.policy {
            TrustPolicy::Anchors(store) => match store.key_of(manifest, now_ms()) {
                Some(PublicKey::Ed25519(key)) => Ok(PublisherId(*key)),
                _ => Err(NoPublisher::OtherAlgorithm),
            },
            _ => Err(NoPublisher::NoKey),
        }
    }

    /// The error that kept certificates from being fetched, if any. It is more specific than the errors that follow
    /// from it.
    pub(crate) fn ended(&mut self) -> Option<RunError> {
        self.ended.take()
    }
}
