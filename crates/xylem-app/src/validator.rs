//! [`Validator`]: whose packets are believed, with the certificates that have to be fetched for that.

use xylem_client::believe;
use xylem_engine::now_ms;
use xylem_library::reachable::Peer;
use xylem_library::{Error, Stop};
use xylem_object::PublisherId;
use xylem_packet::Data;
use xylem_trust::{PublicKey, TrustError, TrustPolicy};

use crate::Client;

/// Chains that lead to nobody who is believed; after so many no more are followed in a run, whatever the packets
/// say of their keys.
const MAX_FAILED: usize = 8;

/// Judges packets while something is fetched. Certificates come over a connection of their own, which is made when
/// the first is needed: the other waits meanwhile in the middle of a packet.
pub(crate) struct Validator {
    policy: TrustPolicy,
    forwarder: Peer,
    stop: Stop,
    certificates: Option<Client>,
    failed: usize,
    ended: Option<Error>,
}

impl Validator {
    pub(crate) fn new(policy: TrustPolicy, forwarder: &Peer, stop: &Stop) -> Self {
        let (forwarder, stop) = (forwarder.clone(), stop.clone());
        Self { policy, forwarder, stop, certificates: None, failed: 0, ended: None }
    }

    /// Whether what passes is proven to be from somebody.
    pub(crate) fn proves(&self) -> bool {
        self.policy.proves()
    }

    /// Why a packet is not believed.
    pub(crate) fn check(&mut self, data: &Data<'_>) -> Result<(), String> {
        let TrustPolicy::Anchors(store) = &mut self.policy else {
            return self.policy.judge(data, now_ms()).map(drop);
        };
        match store.data(data, now_ms()) {
            Err(TrustError::UnknownKey | TrustError::NotAllowed | TrustError::Expired)
                if self.failed < MAX_FAILED => {}
            judged => return judged.map_err(|e| e.to_string()),
        }
        let client = match &mut self.certificates {
            Some(client) => Ok(client),
            none => Client::connect_to(&self.forwarder, &self.stop).map(|new| none.insert(new)),
        };
        let judged = client.and_then(|client| believe(client, store, data).map_err(Error::from));
        match judged {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.failed += 1;
                Err(error.to_string())
            }
            Err(error) => {
                self.failed = MAX_FAILED;
                let why = error.to_string();
                self.ended = Some(error);
                Err(why)
            }
        }
    }

    /// How many packets [`Self::check_many`] is best given.
    pub(crate) fn at_once(&self) -> usize {
        self.policy.at_once()
    }

    /// [`Self::check`] of each of these packets.
    pub(crate) fn check_many(&mut self, packets: &[Data<'_>]) -> Vec<Result<(), String>> {
        if matches!(self.policy, TrustPolicy::Anchors(_)) {
            return packets.iter().map(|data| self.check(data)).collect();
        }
        let judged = self.policy.judge_many(packets, now_ms());
        judged.into_iter().map(|judged| judged.map(drop)).collect()
    }

    /// Who signed a manifest, if that is believed.
    pub(crate) fn publisher(&mut self, manifest: &Data<'_>) -> Result<PublisherId, String> {
        self.check(manifest)?;
        match &self.policy {
            TrustPolicy::Anchors(store) => match store.key_of(manifest, now_ms()) {
                Some(PublicKey::Ed25519(key)) => Ok(PublisherId(*key)),
                _ => Err("it is not signed by an Ed25519 key".to_owned()),
            },
            _ => Err("nobody is believed for it".to_owned()),
        }
    }

    /// What kept certificates from being fetched, if something did: an error that comes of it says less.
    pub(crate) fn ended(&mut self) -> Option<Error> {
        self.ended.take()
    }
}
