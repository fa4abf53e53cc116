//! Exchange of peers: peers inform each other about others that fetch or share a publication.
//!
//! A question is an Interest named `P/32=peers/<8 random bytes>[/<announcement>]`. The random bytes give each question
//! its own name, so that no forwarder aggregates or caches the answers of different peers. The announcement gives the
//! addresses at which the asking peer can be reached. The answer's content is a list of [`PeerHint`]s
//! (docs/spec/peers.md). All of them are hints, and nothing here proves anything: the tree proves data from a hinted
//! peer, and the link key proves a dialled peer. The caller decides which peers to inform, to believe and to dial.
//!
//! ```
//! use xylem_object::peers::{self, Announcement};
//! use xylem_packet::Name;
//!
//! let prefix = Name::from_uri("/alice/model/v=7").unwrap();
//! let mine = Announcement { key: [9; 32], port: 4000, addresses: vec![] };
//! let name = peers::question(prefix.as_ref(), [1; 8], Some(&mine));
//! let asked = peers::parse_question(prefix.as_ref(), name.as_ref()).unwrap();
//! assert_eq!(asked.announced, Some(mine));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::net::SocketAddr;

use xylem_packet::tlv::types::GENERIC_COMPONENT;
use xylem_packet::{Component, EncodeError, Name, NameRef};
use xylem_trust::Signer;

use crate::packets::sign_data;
use crate::ticket::{read_addresses, write_addresses};

/// Most addresses in an announcement, besides the one from which the peer is seen.
pub const MAX_OWN_ADDRESSES: usize = 4;
/// Most addresses of one peer in a list: the one from which it was seen, and its own.
pub const MAX_PEER_ADDRESSES: usize = 1 + MAX_OWN_ADDRESSES;
/// Most peers in one answer.
pub const MAX_PEERS: usize = 16;

const PEERS: &[u8] = b"peers";
const NONCE_LEN: usize = 8;
const KEY_LEN: usize = 32;
const PORT_LEN: usize = 2;

/// Where the asking peer can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The X25519 key that it proves on a link.
    pub key: [u8; 32],
    /// UDP port at the address from which the peer is seen; never 0.
    pub port: u16,
    /// Further addresses of its own, at most [`MAX_OWN_ADDRESSES`].
    pub addresses: Vec<SocketAddr>,
}

/// A parsed question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersQuestion {
    /// Random bytes that give the question its own name.
    pub nonce: [u8; 8],
    /// The asking peer's announcement, if it sent one.
    pub announced: Option<Announcement>,
}

/// A peer that may have segments of the publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHint {
    /// The X25519 key that it must prove on a link.
    pub key: [u8; 32],
    /// Addresses at which it may listen: 1 to [`MAX_PEER_ADDRESSES`].
    pub addresses: Vec<SocketAddr>,
}

/// The bytes are no valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of peers")]
pub struct PeersError;

/// The name of a question about the publication at `prefix`.
pub fn question(prefix: NameRef<'_>, nonce: [u8; 8], announced: Option<&Announcement>) -> Name {
    let mut name = prefix.to_name();
    name.push(Component::keyword(PEERS)).push(Component::generic(&nonce));
    if let Some(announced) = announced {
        let mut bytes = announced.key.to_vec();
        bytes.extend_from_slice(&announced.port.to_be_bytes());
        let own = announced.addresses.len().min(MAX_OWN_ADDRESSES);
        write_addresses(&mut bytes, &announced.addresses[..own]);
        name.push(Component::generic(&bytes));
    }
    name
}

/// Parses a question about the publication at `prefix`; `None` if `name` is none or its announcement is invalid.
pub fn parse_question(prefix: NameRef<'_>, name: NameRef<'_>) -> Option<PeersQuestion> {
    let mut rest = name.strip_prefix(prefix)?.iter();
    if rest.next()? != Component::keyword(PEERS) {
        return None;
    }
    let nonce = <[u8; NONCE_LEN]>::try_from(generic(&rest.next()?)?).ok()?;
    let announced = match rest.next() {
        None => None,
        Some(component) => Some(parse_announcement(generic(&component)?)?),
    };
    rest.next().is_none().then_some(PeersQuestion { nonce, announced })
}

fn generic<'c>(component: &'c Component<'_>) -> Option<&'c [u8]> {
    (component.typ() == GENERIC_COMPONENT).then_some(component.value())
}

fn parse_announcement(bytes: &[u8]) -> Option<Announcement> {
    let (key, bytes) = bytes.split_first_chunk::<KEY_LEN>()?;
    let (port, bytes) = bytes.split_first_chunk::<PORT_LEN>()?;
    let (addresses, rest) = read_addresses(bytes).ok()?;
    let port = u16::from_be_bytes(*port);
    let right = port != 0 && addresses.len() <= MAX_OWN_ADDRESSES && rest.is_empty();
    right.then_some(Announcement { key: *key, port, addresses })
}

/// The content of an answer: the first [`MAX_PEERS`] of `peers` that have an address, with the first
/// [`MAX_PEER_ADDRESSES`] addresses of each.
pub fn encode_list(peers: &[PeerHint]) -> Vec<u8> {
    let mut out = vec![0u8];
    for peer in peers.iter().filter(|p| !p.addresses.is_empty()).take(MAX_PEERS) {
        out[0] = out[0].saturating_add(1);
        out.extend_from_slice(&peer.key);
        let addresses = peer.addresses.len().min(MAX_PEER_ADDRESSES);
        write_addresses(&mut out, &peer.addresses[..addresses]);
    }
    out
}

/// Reads what [`encode_list`] wrote.
///
/// # Errors
/// [`PeersError`] for anything else: too many peers, a peer without an address, missing or trailing bytes.
pub fn decode_list(bytes: &[u8]) -> Result<Vec<PeerHint>, PeersError> {
    let (&count, mut rest) = bytes.split_first().ok_or(PeersError)?;
    if usize::from(count) > MAX_PEERS {
        return Err(PeersError);
    }
    let mut peers = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (key, behind) = rest.split_first_chunk::<KEY_LEN>().ok_or(PeersError)?;
        let (addresses, behind) = read_addresses(behind).map_err(|_| PeersError)?;
        if !(1..=MAX_PEER_ADDRESSES).contains(&addresses.len()) {
            return Err(PeersError);
        }
        peers.push(PeerHint { key: *key, addresses });
        rest = behind;
    }
    if rest.is_empty() { Ok(peers) } else { Err(PeersError) }
}

/// The Data packet that answers the question `name`. Its signature is a digest: it is a hint.
///
/// # Errors
/// [`EncodeError::TooLong`] for a name of thousands of bytes.
pub fn answer(name: NameRef<'_>, peers: &[PeerHint]) -> Result<Vec<u8>, EncodeError> {
    sign_data(name, &encode_list(peers), 0, None, &Signer::digest_sha256())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> Name {
        Name::from_uri("/alice/model/v=7").unwrap()
    }

    fn addresses(n: u8) -> Vec<SocketAddr> {
        (0..n).map(|i| SocketAddr::from(([192, 0, 2, i], 4000))).collect()
    }

    #[test]
    fn questions_round_trip() {
        let prefix = prefix();
        for announced in [
            None,
            Some(Announcement { key: [3; 32], port: 1, addresses: vec![] }),
            Some(Announcement { key: [4; 32], port: 65_535, addresses: addresses(4) }),
        ] {
            let name = question(prefix.as_ref(), *b"12345678", announced.as_ref());
            let asked = parse_question(prefix.as_ref(), name.as_ref()).unwrap();
            assert_eq!((asked.nonce, asked.announced), (*b"12345678", announced));
            assert_eq!(crate::naming::parse(prefix.as_ref(), name.as_ref()), None);
        }
    }

    #[test]
    fn other_names_are_no_questions() {
        let prefix = prefix();
        let keyword = || prefix.as_ref().child(Component::keyword(PEERS));
        let with = |parts: &[&[u8]]| {
            let mut name = keyword();
            for part in parts {
                name.push(Component::generic(part));
            }
            name
        };
        let mut good = [7; 32].to_vec();
        good.extend_from_slice(&[0, 1, 0]);
        assert!(parse_question(prefix.as_ref(), with(&[&[0; 8], &good]).as_ref()).is_some());
        let mut five = [7; 32].to_vec();
        five.extend_from_slice(&[0, 1]);
        write_addresses(&mut five, &addresses(5));
        let port_zero = [&[7; 32][..], &[0, 0, 0]].concat();
        let longer = [&good[..], &[0]].concat();
        let nonce = &[0; 8][..];
        let bad: [&[&[u8]]; 9] = [
            &[],
            &[&[0; 7]],
            &[&[0; 9]],
            &[nonce, &[]],
            &[nonce, &good[..34]],
            &[nonce, &longer],
            &[nonce, &port_zero],
            &[nonce, &five],
            &[nonce, &good, &good],
        ];
        for parts in bad {
            assert_eq!(parse_question(prefix.as_ref(), with(parts).as_ref()), None, "{parts:?}");
        }
        let mut number = keyword();
        number.push(Component::segment(1));
        assert_eq!(parse_question(prefix.as_ref(), number.as_ref()), None);
        let elsewhere = Name::from_uri("/alice/model/v=8").unwrap();
        assert_eq!(parse_question(elsewhere.as_ref(), with(&[&[0; 8]]).as_ref()), None);
    }

    #[test]
    fn peer_lists_round_trip_and_others_are_refused() {
        for n in [0, 1, 16] {
            let peers: Vec<_> = (0..n)
                .map(|i| PeerHint { key: [i; 32], addresses: addresses(1 + i % 5) })
                .collect();
            let bytes = encode_list(&peers);
            assert!(bytes.len() < 2_100);
            assert_eq!(decode_list(&bytes), Ok(peers));
            assert_eq!(decode_list(&[&bytes[..], &[0]].concat()), Err(PeersError));
            for cut in 0..bytes.len() {
                assert_eq!(decode_list(&bytes[..cut]), Err(PeersError), "{n} cut at {cut}");
            }
        }
        let none = PeerHint { key: [1; 32], addresses: vec![] };
        assert_eq!(encode_list(&[none]), [0]);
        let mut nowhere = vec![1];
        nowhere.extend_from_slice(&[1; 32]);
        nowhere.push(0);
        assert_eq!(decode_list(&nowhere), Err(PeersError));
        assert_eq!(decode_list(&[17]), Err(PeersError));
        assert_eq!(decode_list(&[]), Err(PeersError));
    }

    #[test]
    fn more_than_fits_is_left_out() {
        let many: Vec<_> =
            (0..40).map(|i| PeerHint { key: [i; 32], addresses: addresses(9) }).collect();
        let read = decode_list(&encode_list(&many)).unwrap();
        assert_eq!(read.len(), MAX_PEERS);
        assert!(read.iter().all(|p| p.addresses.len() == MAX_PEER_ADDRESSES));
    }
}
