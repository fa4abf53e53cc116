//! Cookies: a responder under load has a dialer prove its address, without keeping state for it.
//!
//! `time (8, milliseconds) | MAC (16)`. The MAC covers the time, the dialer's address, the id that it chose and its
//! first message, so a cookie is valid for one handshake. An invalid cookie counts as none and changes nothing.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use zeroize::Zeroizing;

use crate::header::ConnectionId;
use crate::kdf::{derive, label};
use crate::message::{COOKIE_LEN, NoiseOneHead};

/// How long a cookie is valid.
const LIFETIME: Duration = Duration::from_secs(10);

pub(crate) struct CookieKey(Zeroizing<[u8; 32]>);

impl CookieKey {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self(Zeroizing::new(derive(label::COOKIE, &[seed])))
    }

    pub(crate) fn make(
        &self,
        now: Duration,
        from: SocketAddr,
        id: ConnectionId,
        head: &NoiseOneHead<'_>,
    ) -> [u8; COOKIE_LEN] {
        let time = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).to_be_bytes();
        let mut hasher = Hasher::new_keyed(&self.0);
        hasher.update(&time).update(&address(from)).update(&id.0);
        for part in head.parts() {
            hasher.update(part);
        }
        let mut cookie = [0; COOKIE_LEN];
        cookie[..8].copy_from_slice(&time);
        cookie[8..].copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        cookie
    }

    pub(crate) fn is_good(
        &self,
        now: Duration,
        from: SocketAddr,
        id: ConnectionId,
        head: &NoiseOneHead<'_>,
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let Some(time) = cookie.first_chunk::<8>() else { return false };
        let made = Duration::from_millis(u64::from_be_bytes(*time));
        // `make` rounds both sides of the comparison down to milliseconds.
        let fresh = made <= now && now.saturating_sub(made) <= LIFETIME;
        fresh && constant_time_eq_n(cookie, &self.make(made, from, id, head))
    }
}

/// Encodes an address: IPv6 or mapped IPv4 (16 bytes), port (2).
pub(crate) fn address(of: SocketAddr) -> [u8; 18] {
    let ip = match of.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut out = [0; 18];
    out[..16].copy_from_slice(&ip.octets());
    out[16..].copy_from_slice(&of.port().to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{CHECK_LEN, KemKeyPart, NOISE_1_LEN, PART_LEN};

    #[test]
    fn a_cookie_is_valid_for_its_address_id_message_and_time() {
        let key = CookieKey::new(&[1; 32]);
        let from: SocketAddr = "10.0.0.1:5".parse().unwrap();
        let (now, id) = (Duration::from_micros(5_000_500), ConnectionId([4; 8]));
        let noise = [2; NOISE_1_LEN];
        let plain = NoiseOneHead { noise: &noise, part: None };
        let part = |check, part| Some(KemKeyPart { check, part });
        let hybrid = NoiseOneHead { part: part(&[3; CHECK_LEN], &[4; PART_LEN]), ..plain };
        for head in [plain, hybrid] {
            let cookie = key.make(now, from, id, &head);
            let good =
                |now, from, id, head: &NoiseOneHead<'_>| key.is_good(now, from, id, head, &cookie);
            assert!(good(now, from, id, &head));
            assert!(good(now + LIFETIME / 2, from, id, &head));
            assert!(!good(now + LIFETIME + Duration::from_millis(1), from, id, &head));
            assert!(!good(now - Duration::from_millis(1), from, id, &head));
            for other in ["10.0.0.2:5", "10.0.0.1:6", "[::1]:5"] {
                assert!(!good(now, other.parse().unwrap(), id, &head));
            }
            assert!(!good(now, from, ConnectionId([5; 8]), &head));
            for other in [
                NoiseOneHead { noise: &[3; NOISE_1_LEN], ..head },
                NoiseOneHead { part: part(&[4; CHECK_LEN], &[4; PART_LEN]), ..plain },
                NoiseOneHead { part: part(&[3; CHECK_LEN], &[5; PART_LEN]), ..plain },
            ] {
                assert!(!good(now, from, id, &other));
            }
            assert!(!CookieKey::new(&[2; 32]).is_good(now, from, id, &head, &cookie));
            assert!(!key.is_good(now, from, id, &head, &[0; COOKIE_LEN]));
            for bit in 0..COOKIE_LEN * 8 {
                let mut forged = cookie;
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.is_good(now, from, id, &head, &forged), "bit {bit}");
            }
        }
    }
}
