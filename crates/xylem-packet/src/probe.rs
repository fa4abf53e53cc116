//! A probe of whether a peer is alive: an Interest with a random name, which only a receiver of the probe can return. A
//! forwarder returns it as a Nack, without recognizing it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// Random bytes in the probe's name.
pub const SECRET_LEN: usize = 8;
/// Length of a probe in bytes.
pub const PROBE_LEN: usize = HEAD.len() + SECRET_LEN + TAIL.len();

/// An Interest under `/localhop`, which forwarders do not forward.
const HEAD: [u8; 16] = *b"\x05\x1f\x07\x14\x08\x08localhop\x08\x08";
/// A fixed nonce, as no two names are the same, and a hop limit of 1.
const TAIL: [u8; 9] = *b"\x0a\x04ping\x22\x01\x01";

/// The probe with this secret in its name.
#[must_use]
pub fn encode(secret: [u8; SECRET_LEN]) -> [u8; PROBE_LEN] {
    let mut wire = [0; PROBE_LEN];
    let (head, rest) = wire.split_at_mut(HEAD.len());
    let (name, tail) = rest.split_at_mut(SECRET_LEN);
    head.copy_from_slice(&HEAD);
    name.copy_from_slice(&secret);
    tail.copy_from_slice(&TAIL);
    wire
}

/// Returns whether a packet is a probe.
#[must_use]
pub fn is_probe(packet: &[u8]) -> bool {
    packet.len() == PROBE_LEN && packet.starts_with(&HEAD) && packet.ends_with(&TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_an_interest_for_one_hop() {
        let wire = encode(*b"secret!!");
        let interest = crate::Interest::decode(&wire).expect("an Interest");
        assert_eq!(interest.hop_limit(), Some(1));
        assert_eq!(interest.name().value(), b"\x08\x08localhop\x08\x08secret!!");
        assert!(is_probe(&wire) && !is_probe(&wire[..32]) && !is_probe(&[5; PROBE_LEN]));
    }
}
