//! [`Proof`]: the message that the key of a shown certificate signs (docs/spec/ndncert.md, "Proofs of possession").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;
use xylem_trust::PublicKey;

use crate::session::RequestId;

/// Octets of the CA's nonce.
pub const NONCE_LEN: usize = 16;
/// The prefix of every bound proof, and of no other message that a key signs.
const CONTEXT: &[u8] = b"xylem-ndncert v1 proof of possession";

/// The form of a proof of possession: the values that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The CA's nonce alone, as the protocol has it. A CA that requested such a proof can present it to another CA as
    /// its own.
    Bare,
    /// Also the request, the CA and the key to be certified: the proof is valid for those alone.
    Bound,
}

impl Proof {
    /// The name of [`Self::Bound`] in packets.
    pub const BOUND: &'static str = "bound";

    /// The form for an answer, or a request, that names these forms besides the bare one.
    pub(crate) fn strongest_of<'a>(named: impl IntoIterator<Item = &'a String>) -> Self {
        if named.into_iter().any(|name| name == Self::BOUND) { Self::Bound } else { Self::Bare }
    }

    /// The message to sign: 16 octets for a bare proof, more for a bound one. `ca` is the CA's prefix, `key` the name
    /// of the key to be certified.
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
