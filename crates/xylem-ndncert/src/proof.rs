//! [`Proof`]: what the key of a certificate that is shown signs (docs/spec/ndncert.md, "Proofs of possession").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;
use xylem_trust::PublicKey;

use crate::session::RequestId;

/// Octets of the CA's nonce.
pub const NONCE_LEN: usize = 16;
/// What every bound proof begins with, and nothing else that a key signs.
const CONTEXT: &[u8] = b"xylem-ndncert v1 proof of possession";

/// What a proof of possession is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The CA's nonce alone, as the protocol has it: whichever CA asked can show it to another as its own.
    Bare,
    /// Also the request, the CA and the key that is to be certified: good there alone.
    Bound,
}

impl Proof {
    /// What the extension calls [`Self::Bound`].
    pub const BOUND: &'static str = "bound";

    /// Of an answer, or a request, that names these forms beside the bare one.
    pub(crate) fn among<'a>(named: impl IntoIterator<Item = &'a String>) -> Self {
        if named.into_iter().any(|name| name == Self::BOUND) { Self::Bound } else { Self::Bare }
    }

    /// What is signed: 16 octets, or more than those. `ca` is the CA's prefix, `key` the one that is to be certified.
    pub fn message(
        self,
        nonce: &[u8; NONCE_LEN],
        id: RequestId,
        ca: &Name,
        key: &PublicKey,
    ) -> Vec<u8> {
        let mut message = Vec::new();
        match self {
            Self::Bare => message.extend_from_slice(nonce),
            Self::Bound => {
                message.extend_from_slice(CONTEXT);
                message.extend_from_slice(nonce);
                message.extend_from_slice(&id.0);
                ca.encode(&mut message);
                message.extend_from_slice(&key.digest());
            }
        }
        message
    }
}
