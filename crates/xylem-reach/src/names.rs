//! Names under which publications and peers are found in mDNS and the mainline DHT, and the one value stored there: the
//! current root of a publisher's name.
//!
//! Every name is derived from values that only those know that may find the publication: a root, a publisher's key, a
//! name. This module sends nothing. Layout: docs/spec/reach.md, "LAN" and "DHT".
//!
//! ```
//! use xylem_reach::names::NewestRoot;
//!
//! let newest = NewestRoot { root: xylem_hash::hash(b"hello"), version: 7 };
//! assert_eq!(NewestRoot::decode(7, &newest.encode()), Some(newest));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_object::{PublisherId, PublisherKey};

/// Length of a [`LanTag`] in bytes.
pub const TAG_LEN: usize = 8;
/// Length of a DHT key in bytes.
pub const DHT_KEY_LEN: usize = 20;
/// Length of an encoded [`NewestRoot`] in bytes.
pub const NEWEST_LEN: usize = 41;
/// Seconds after which a [`LanTag`] changes.
pub const TAG_LIFE: u64 = 86_400;

const LAN: &str = "xylem v1 present on this LAN with a publication";
const CODE: &str = "xylem v1 shows a code on this LAN";
const DHT: &str = "xylem v1 key in the DHT of a root";
const KNOCK: &str = "xylem v1 knock of who found a root in the DHT";
const OF_GETTERS: &str = "xylem v1 key in the DHT of the getters of a root";
const PUNCH: &str = "xylem v1 punch between holders of a root";
const OF_SHARERS: &str = "xylem v1 sharers' name at volunteer relays";
const OF_VOLUNTEERS: &str = "xylem v1 key in the DHT of volunteer relays";
const SALT: &str = "xylem v1 salt in the DHT of a name";
const VERSION: u8 = 1;

/// Tag under which a sharer is announced and looked for on a LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LanTag(pub [u8; TAG_LEN]);

impl LanTag {
    /// The tag of a publication with this root and publisher, on this day (number of [`TAG_LIFE`] since 1970). It
    /// changes daily, so that a machine that moves between networks cannot be followed by it for longer.
    pub fn new(root: &Hash, publisher: &PublisherId, day: u64) -> Self {
        let mut material = [0; 72];
        material[..32].copy_from_slice(root.as_bytes());
        material[32..64].copy_from_slice(&publisher.0);
        material[64..].copy_from_slice(&day.to_be_bytes());
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&xylem_hash::derive_key(LAN, &material)[..TAG_LEN]);
        Self(tag)
    }

    /// The tag of a peer that shows a code with this number.
    pub fn of_code(number: u32) -> Self {
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&xylem_hash::derive_key(CODE, &number.to_be_bytes())[..TAG_LEN]);
        Self(tag)
    }

    /// The tag as a DNS-SD service: two letters and 13 characters of base32, the longest that such names may be.
    pub fn service(&self) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let bits = u128::from(u64::from_be_bytes(self.0)) << 1;
        let digits = (0..13_u32).rev().map(|i| {
            let five = bits.checked_shr(i.saturating_mul(5)).unwrap_or(0) & 31;
            char::from(LETTERS[usize::try_from(five).unwrap_or(0)])
        });
        let name: String = digits.collect();
        format!("_xy{name}._udp.local.")
    }

    /// The tags to look for. There are three, because the clocks of two machines may be a day apart.
    pub fn around(root: &Hash, publisher: &PublisherId, seconds: u64) -> [Self; 3] {
        let day = seconds / TAG_LIFE;
        [day, day.saturating_sub(1), day.saturating_add(1)]
            .map(|day| Self::new(root, publisher, day))
    }
}

/// The key under which the DHT lists peers that have content with this root.
pub fn dht_key(root: &Hash) -> [u8; DHT_KEY_LEN] {
    let mut key = [0; DHT_KEY_LEN];
    key.copy_from_slice(&xylem_hash::derive_key(DHT, root.as_bytes())[..DHT_KEY_LEN]);
    key
}

/// The knock with which peers listed in the DHT are dialled. A dialer that does not know the root gets no answer.
pub fn dht_knock(root: &Hash) -> [u8; 32] {
    xylem_hash::derive_key(KNOCK, root.as_bytes())
}

/// How public sharers and getters of one root meet in the DHT. Without the root, which a ticket has, none of it can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootMeeting {
    /// The key under which the DHT lists sharers ([`dht_key`]).
    pub sharers: [u8; DHT_KEY_LEN],
    /// The key under which it lists getters that no sharer has answered.
    pub getters: [u8; DHT_KEY_LEN],
    /// The key of the datagrams by which the two open their NATs.
    pub punch: [u8; 32],
}

impl RootMeeting {
    /// The meeting for content with this root.
    pub fn new(root: &Hash) -> Self {
        let mut getters = [0; DHT_KEY_LEN];
        getters
            .copy_from_slice(&xylem_hash::derive_key(OF_GETTERS, root.as_bytes())[..DHT_KEY_LEN]);
        let punch = xylem_hash::derive_key(PUNCH, root.as_bytes());
        Self { sharers: dht_key(root), getters, punch }
    }
}

/// The publisher as which sharers of content with this root register at volunteer relays, so that a getter that knows
/// nothing but the root can ask for them there. Every holder of the root can compute it: it authenticates nothing.
pub fn sharers_publisher(root: &Hash) -> PublisherKey {
    PublisherKey::from_bytes(&xylem_hash::derive_key(OF_SHARERS, root.as_bytes()))
}

/// Number of keys under which each volunteer relay is listed. An asker looks up one of them.
pub const VOLUNTEER_SHARDS: u8 = 16;

/// One of the keys under which the DHT lists volunteer relays (docs/spec/reach.md, "Volunteers").
pub fn volunteers_key(shard: u8) -> [u8; DHT_KEY_LEN] {
    let mut key = [0; DHT_KEY_LEN];
    key.copy_from_slice(&xylem_hash::derive_key(OF_VOLUNTEERS, &[shard])[..DHT_KEY_LEN]);
    key
}

/// The salt of a publisher's DHT item about this name.
pub fn item_salt(name: &str) -> [u8; 32] {
    xylem_hash::derive_key(SALT, name.as_bytes())
}

/// The current root of a publisher's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestRoot {
    /// The root.
    pub root: Hash,
    /// The publication's version, which is also the item's sequence number.
    pub version: u64,
}

impl NewestRoot {
    /// Encodes the item's value.
    pub fn encode(&self) -> [u8; NEWEST_LEN] {
        let mut out = [VERSION; NEWEST_LEN];
        out[1..33].copy_from_slice(self.root.as_bytes());
        out[33..].copy_from_slice(&self.version.to_be_bytes());
        out
    }

    /// Signs the item as the publisher, as in BEP 44. No packet, vouch or card begins like the signed bytes.
    pub fn sign(&self, key: &PublisherKey, salt: &[u8; 32]) -> [u8; 64] {
        let (head, seq) = (b"4:salt32:", format!("3:seqi{}e1:v{NEWEST_LEN}:", self.version));
        let signature = key.signer().sign(&[head, salt, seq.as_bytes(), &self.encode()]);
        signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }

    /// Decodes the output of [`NewestRoot::encode`] from an item with this sequence number. Returns `None` for anything
    /// else.
    pub fn decode(seq: i64, value: &[u8]) -> Option<Self> {
        let value: &[u8; NEWEST_LEN] = value.try_into().ok()?;
        let (&version, rest) = value.split_first()?;
        let (root, number) = rest.split_first_chunk::<32>()?;
        let newest = Self {
            root: Hash::from_bytes(*root),
            version: u64::from_be_bytes(number.try_into().ok()?),
        };
        (version == VERSION && u64::try_from(seq).ok()? == newest.version).then_some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: [u8; 32] = [3; 32];
    const PUBLISHER: PublisherId = PublisherId([9; 32]);

    #[test]
    fn sharers_and_getters_meet_by_the_root_alone() {
        let (root, other) = (Hash::from_bytes(ROOT), Hash::from_bytes([4; 32]));
        let (meeting, other) = (RootMeeting::new(&root), RootMeeting::new(&other));
        assert_eq!(meeting, RootMeeting::new(&root));
        assert_eq!(meeting.sharers, dht_key(&root), "where `get b3:` looks for them, too");
        let mut keys = [meeting, other].map(|it| [it.sharers, it.getters]).concat();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 4);
        assert_ne!(other.punch, meeting.punch);
    }

    #[test]
    fn a_tag_changes_with_the_day_and_the_publication() {
        let root = Hash::from_bytes(ROOT);
        let today = LanTag::new(&root, &PUBLISHER, 20_000);
        assert_ne!(today, LanTag::new(&root, &PUBLISHER, 20_001));
        assert_ne!(today, LanTag::new(&Hash::from_bytes([4; 32]), &PUBLISHER, 20_000));
        assert_ne!(today, LanTag::new(&root, &PublisherId([8; 32]), 20_000));
        for skew in [-1_i64, 0, 1] {
            let at = (20_000_i64 + skew) as u64 * TAG_LIFE + 5;
            assert!(LanTag::around(&root, &PUBLISHER, at).contains(&today), "{skew}");
        }
        assert!(!LanTag::around(&root, &PUBLISHER, 20_002 * TAG_LIFE).contains(&today));
        let _ = LanTag::around(&root, &PUBLISHER, u64::MAX);
        assert_eq!(LanTag([0; 8]).service(), "_xyaaaaaaaaaaaaa._udp.local.");
        assert_eq!(LanTag([255; 8]).service(), "_xy7777777777776._udp.local.");
    }

    #[test]
    fn dht_key_and_knock_of_one_root_are_unrelated() {
        let root = Hash::from_bytes(ROOT);
        let (key, knock) = (dht_key(&root), dht_knock(&root));
        assert_ne!(key[..], knock[..DHT_KEY_LEN]);
        assert_ne!(key[..], ROOT[..DHT_KEY_LEN]);
        assert_ne!(item_salt("a"), item_salt("b"));
    }

    #[test]
    fn only_one_encoding_of_an_item_decodes() {
        let newest = NewestRoot { root: Hash::from_bytes(ROOT), version: 5 };
        let value = newest.encode();
        assert_eq!(NewestRoot::decode(5, &value), Some(newest));
        // A sequence number that is not the signed version, and other lengths and format versions.
        assert_eq!(NewestRoot::decode(6, &value), None);
        assert_eq!(NewestRoot::decode(-5, &value), None);
        assert_eq!(NewestRoot::decode(5, &value[..40]), None);
        assert_eq!(NewestRoot::decode(5, &[&value[..], b"x"].concat()), None);
        assert_eq!(NewestRoot::decode(5, &[2; NEWEST_LEN]), None);
        assert_eq!(NewestRoot::decode(5, b""), None);
    }

    /// Any bytes that decode encode to the same bytes.
    #[test]
    fn decoded_items_are_canonical() {
        let mut state = 1_u64;
        for round in 0..20_000_usize {
            let mut bytes = [0; 48];
            for byte in &mut bytes {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            let mut value = bytes[..round % 48].to_vec();
            if let [first, ..] = &mut value[..] {
                *first = VERSION;
            }
            let tail = value.len().checked_sub(8).map(|at| value[at..].try_into().unwrap());
            let seq = tail.map_or(0, |tail| u64::from_be_bytes(tail) as i64);
            if let Some(newest) = NewestRoot::decode(seq, &value) {
                assert_eq!(newest.encode()[..], value);
            } else {
                assert!(value.len() != NEWEST_LEN || seq < 0);
            }
        }
    }
}
