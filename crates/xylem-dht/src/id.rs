//! [`DhtId`]: 160 bits that name nodes and what is looked for, and how they are bound to addresses (BEP 42).

use core::fmt;
use core::net::IpAddr;

use sha1::{Digest as _, Sha1};
use xylem_reach::kind::is_global;

/// Length of a [`DhtId`] in bytes.
pub const ID_LEN: usize = 20;
/// Length of the public key of an item in bytes.
pub const KEY_LEN: usize = 32;

/// The id of a node, or a target: a torrent's info-hash, or where an item is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DhtId(pub [u8; ID_LEN]);

impl DhtId {
    /// Where an item of this key and salt is stored (BEP 44).
    pub fn of_item(key: &[u8; KEY_LEN], salt: &[u8]) -> Self {
        Self(Sha1::new().chain_update(key).chain_update(salt).finalize().into())
    }

    /// The bits in which two ids differ; the smaller as a number, the closer they are.
    pub(crate) fn distance(&self, other: &Self) -> [u8; ID_LEN] {
        let mut distance = self.0;
        for (byte, other) in distance.iter_mut().zip(other.0) {
            *byte ^= other;
        }
        distance
    }

    /// Whether a node at this address may choose the id by BEP 42: an attacker with few addresses has few ids. Outside
    /// of the internet any id is right.
    pub(crate) fn is_bound_to(&self, ip: IpAddr) -> bool {
        if !is_global(ip) {
            return true;
        }
        let random = self.0[ID_LEN - 1];
        let crc = bound_prefix(ip, random & 7);
        self.0[..2] == crc[..2] && self.0[2] & 0xf8 == crc[2] & 0xf8
    }
}

impl fmt::Debug for DhtId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first bytes of ids at this address, of which 21 bits count.
pub(crate) fn bound_prefix(ip: IpAddr, random: u8) -> [u8; 4] {
    const V4: [u8; 4] = [0x03, 0x0f, 0x3f, 0xff];
    const V6: [u8; 8] = [0x01, 0x03, 0x07, 0x0f, 0x1f, 0x3f, 0x7f, 0xff];
    let mut masked: Vec<u8> = match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().iter().zip(V4).map(|(byte, mask)| byte & mask).collect(),
        IpAddr::V6(ip) => ip.octets().iter().zip(V6).map(|(byte, mask)| byte & mask).collect(),
    };
    if let Some(first) = masked.first_mut() {
        *first |= random << 5;
    }
    crc32c(&masked).to_be_bytes()
}

/// CRC-32C (Castagnoli) of four or eight bytes, for which a table would not pay.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            crc = (crc >> 1) ^ carry;
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bound_to_addresses_as_bep_42_has_it() {
        for (ip, random, prefix) in [
            ("124.31.75.21", 1, [0x5f, 0xbf, 0xbf]),
            ("21.75.31.124", 86, [0x5a, 0x3c, 0xe9]),
            ("65.23.51.170", 22, [0xa5, 0xd4, 0x32]),
            ("84.124.73.14", 65, [0x1b, 0x03, 0x21]),
            ("43.213.53.83", 90, [0xe5, 0x6f, 0x6c]),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            let mut id = DhtId([0; ID_LEN]);
            id.0[..3].copy_from_slice(&prefix);
            id.0[19] = random;
            assert!(id.is_bound_to(ip), "{ip}");
            id.0[0] ^= 1;
            assert!(!id.is_bound_to(ip));
            assert!(id.is_bound_to("10.0.0.1".parse().unwrap()));
        }
    }

    #[test]
    fn targets_of_items_are_those_of_bep_44() {
        let key = "77ff84905a91936367c01360803104f92432fcd904a43511876df5cdf3e7e548";
        let key: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&key[i * 2..i * 2 + 2], 16).unwrap()).collect();
        let key = key.try_into().unwrap();
        let hex = |id: DhtId| format!("{id:?}");
        assert_eq!(hex(DhtId::of_item(&key, b"")), "4a533d47ec9c7d95b1ad75f576cffc641853b750");
        assert_eq!(
            hex(DhtId::of_item(&key, b"foobar")),
            "411eba73b6f087ca51a3795d9c8c938d365e32c1"
        );
    }
}
