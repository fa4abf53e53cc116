//! [`TrustPolicy`]: whose packets are believed.

use xylem_packet::{Data, SignatureType};

use crate::{TrustError, TrustStore, Verifier};

/// Whose packets are believed: chosen before a packet is looked at.
pub enum TrustPolicy {
    /// Nobody's. A digest in a packet (types 0 and 6) still has to be right: it shows damage, and
    /// anybody can make one.
    Nobody,
    /// Those that this key signed.
    Key(Box<Verifier>),
    /// Those that a key of the store signed, under its owner's name.
    Anchors(TrustStore),
}

/// How a packet stands that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Signed by who is believed.
    Proven,
    /// Its digest is right, and nobody vouches for it.
    Undamaged,
    /// Its signature was not looked at.
    Unknown,
}

impl TrustPolicy {
    /// Whether what passes is proven to be from somebody.
    #[must_use]
    pub fn proves(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// [`Self::verdict`], or why not in words: the rule that is against it, where one is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn judge(&self, data: &Data<'_>, now_ms: u64) -> Result<Verdict, String> {
        self.verdict(data, now_ms).map_err(|why| match self {
            Self::Anchors(store) if why == TrustError::NotAllowed => {
                let refused = store.refusal_of(data, now_ms);
                refused.map_or_else(|| why.to_string(), |refused| refused.to_string())
            }
            _ => why.to_string(),
        })
    }

    /// Judges one packet at a time of day, in ms since 1970.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn verdict(&self, data: &Data<'_>, now_ms: u64) -> Result<Verdict, TrustError> {
        match self {
            Self::Key(key) => key.data(data).map(|()| Verdict::Proven),
            Self::Anchors(store) => store.data(data, now_ms).map(|()| Verdict::Proven),
            Self::Nobody => match data.signature_info().typ {
                SignatureType::DIGEST_SHA256 => {
                    Verifier::digest_sha256().data(data).map(|()| Verdict::Undamaged)
                }
                SignatureType::DIGEST_BLAKE3 => {
                    Verifier::digest_blake3().data(data).map(|()| Verdict::Undamaged)
                }
                _ => Ok(Verdict::Unknown),
            },
        }
    }
}
