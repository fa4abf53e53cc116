//! Cookies: how a responder under load has a dialer prove its address without remembering it.
//!
//! `time (8, milliseconds) | MAC (16)` over the time, the dialer's address and its first Noise
//! message. A bad cookie is as good as none; it changes nothing.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use zeroize::Zeroizing;

use crate::kdf::{derive, label};
use crate::message::{COOKIE_LEN, NOISE_1_LEN};

/// A cookie is good for this long.
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
        noise: &[u8; NOISE_1_LEN],
    ) -> [u8; COOKIE_LEN] {
        let time = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).to_be_bytes();
        let mut hasher = Hasher::new_keyed(&self.0);
        hasher.update(&time).update(&address(from)).update(noise);
        let mut cookie = [0; COOKIE_LEN];
        cookie[..8].copy_from_slice(&time);
        cookie[8..].copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        cookie
    }

    pub(crate) fn is_good(
        &self,
        now: Duration,
        from: SocketAddr,
        noise: &[u8; NOISE_1_LEN],
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let Some(time) = cookie.first_chunk::<8>() else { return false };
        let made = Duration::from_millis(u64::from_be_bytes(*time));
        // Both sides of the comparison are cut to milliseconds in `make`.
        let fresh = made <= now && now.saturating_sub(made) <= LIFETIME;
        fresh && constant_time_eq_n(cookie, &self.make(made, from, noise))
    }
}

/// IPv6 or mapped IPv4 address (16), port (2).
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

    #[test]
    fn is_good_for_its_address_message_and_time_only() {
        let key = CookieKey::new(&[1; 32]);
        let from: SocketAddr = "10.0.0.1:5".parse().unwrap();
        let now = Duration::from_micros(5_000_500);
        let noise = [2; NOISE_1_LEN];
        let cookie = key.make(now, from, &noise);
        assert!(key.is_good(now, from, &noise, &cookie));
        assert!(key.is_good(now + LIFETIME / 2, from, &noise, &cookie));
        assert!(!key.is_good(now + LIFETIME + Duration::from_millis(1), from, &noise, &cookie));
        assert!(!key.is_good(now - Duration::from_millis(1), from, &noise, &cookie));
        for other in ["10.0.0.2:5", "10.0.0.1:6", "[::1]:5"] {
            assert!(!key.is_good(now, other.parse().unwrap(), &noise, &cookie));
        }
        assert!(!key.is_good(now, from, &[3; NOISE_1_LEN], &cookie));
        assert!(!CookieKey::new(&[2; 32]).is_good(now, from, &noise, &cookie));
        assert!(!key.is_good(now, from, &noise, &[0; COOKIE_LEN]));
        for bit in 0..COOKIE_LEN * 8 {
            let mut forged = cookie;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.is_good(now, from, &noise, &forged), "bit {bit}");
        }
    }
}
