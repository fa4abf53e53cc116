//! [`Card`]: one line with all that a sender needs to write to its owner. The publisher's key signs it, so no attacker
//! can combine another's keys with a prekey or address of its own. Whether the publisher is the intended person is for
//! the user to verify.
//!
//! `xylem-peer:` and, in base32, `version (1) | publisher (32) | link key (32) | prekey's number (4) | prekey (32) |
//! made, in seconds since 1970 (8) | addresses | [relay] | signature (64) | checksum (4)`. The version is 2 if there is
//! a relay, else 1.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

use xylem_link::PeerKey;
use xylem_object::PublisherKey;
use xylem_object::ticket::{CHECKSUM_LEN, MAX_ADDRESSES, RelayContact, base32, checksum};
use xylem_object::ticket::{read_addresses, read_relay, write_addresses, write_relay};

use crate::fields::FieldReader;
use crate::identity::Party;
use crate::kdf::label;
use crate::prekeys::Prekey;

/// Prefix of every card.
pub const SCHEME: &str = "xylem-peer:";
/// Greatest length of a text that is parsed; the longest card has 1,658 characters.
const MAX_TEXT: usize = 2_048;
const VERSION: u8 = 1;
/// Version of a card that names a relay.
const WITH_RELAY: u8 = 2;
const SIGNATURE_LEN: usize = 64;

/// A card with a verified signature; the signer need not be the intended person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// The owner's keys.
    pub party: Party,
    /// The prekey's number, by which its owner finds the secret.
    pub prekey_number: u32,
    /// X25519 prekey, which is replaced from time to time.
    pub prekey: PeerKey,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// Addresses at which its owner's link may listen, best first.
    pub addresses: Vec<SocketAddr>,
    /// The relay with which its owner is registered, for senders that cannot reach the addresses.
    pub relay: Option<RelayContact>,
    signature: [u8; SIGNATURE_LEN],
}

/// Why a text is no card, in one line for the user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CardError {
    /// Another scheme, or none.
    #[error("not a card: a card begins with \"xylem-peer:\"")]
    NotACard,
    /// Longer than any card.
    #[error("card is too long ({0} characters): paste one card only")]
    TooLong(usize),
    /// Characters are wrong, missing or too many.
    #[error("card is damaged (checksum): copy it again as a whole")]
    Checksum,
    /// A layout that this program does not know.
    #[error(
        "card has version {0}, this xylem reads versions {VERSION} and {WITH_RELAY}: update xylem"
    )]
    UnknownVersion(u8),
    /// The checksum is right, but a field is not.
    #[error("card is malformed: ask for a new one")]
    Malformed,
    /// Its publisher has not signed it.
    #[error("card is not signed by the key that it names: do not use it")]
    Signature,
}

impl Card {
    pub(crate) fn sign(
        party: Party,
        prekey: &Prekey,
        made: u64,
        addresses: &[SocketAddr],
        relay: Option<&RelayContact>,
        by: &PublisherKey,
    ) -> Self {
        let addresses = addresses[..addresses.len().min(MAX_ADDRESSES)].to_vec();
        let mut card = Self {
            party,
            prekey_number: prekey.number,
            prekey: prekey.key.public(),
            made,
            addresses,
            relay: relay.filter(|relay| !relay.addresses.is_empty()).cloned(),
            signature: [0; SIGNATURE_LEN],
        };
        let signature = by.signer().sign(&[label::CARD, &card.signed()]);
        card.signature.copy_from_slice(signature.as_ref());
        card
    }

    /// Returns the bytes that the signature covers.
    fn signed(&self) -> Vec<u8> {
        let mut out = vec![if self.relay.is_some() { WITH_RELAY } else { VERSION }];
        out.extend_from_slice(&self.party.to_bytes());
        out.extend_from_slice(&self.prekey_number.to_be_bytes());
        out.extend_from_slice(&self.prekey.0);
        out.extend_from_slice(&self.made.to_be_bytes());
        write_addresses(&mut out, &self.addresses);
        self.relay.iter().for_each(|relay| write_relay(&mut out, relay));
        out
    }

    /// Encodes the card without its checksum, as messages contain it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.signed();
        out.extend_from_slice(&self.signature);
        out
    }

    /// Parses what [`Card::to_bytes`] made, and verifies the signature.
    ///
    /// # Errors
    /// [`CardError::UnknownVersion`] and those after it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CardError> {
        let mut fields = FieldReader(bytes);
        let with_relay = match fields.byte().ok_or(CardError::Malformed)? {
            VERSION => false,
            WITH_RELAY => true,
            other => return Err(CardError::UnknownVersion(other)),
        };
        let card = Self::fields(&mut fields, with_relay).ok_or(CardError::Malformed)?;
        let message = [label::CARD, &card.signed()].concat();
        if !card.party.publisher.verifies(&message, &card.signature) {
            return Err(CardError::Signature);
        }
        Ok(card)
    }

    fn fields(fields: &mut FieldReader<'_>, with_relay: bool) -> Option<Self> {
        let party = Party::from_bytes(fields.array()?, fields.array()?);
        let prekey_number = fields.u32()?;
        let prekey = PeerKey(fields.array()?);
        let made = fields.u64()?;
        let (addresses, rest) = read_addresses(fields.0).ok()?;
        let (relay, rest) = match with_relay {
            true => read_relay(rest).map(|(relay, rest)| (Some(relay), rest)).ok()?,
            false => (None, rest),
        };
        let signature = rest.try_into().ok()?;
        Some(Self { party, prekey_number, prekey, made, addresses, relay, signature })
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.to_bytes();
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
        write!(f, "{SCHEME}{}", base32::encode(&bytes))
    }
}

impl FromStr for Card {
    type Err = CardError;

    /// Accepts either case, and white space around the card.
    fn from_str(text: &str) -> Result<Self, CardError> {
        let text = text.trim();
        if text.len() > MAX_TEXT {
            return Err(CardError::TooLong(text.len()));
        }
        let scheme = text.get(..SCHEME.len()).ok_or(CardError::NotACard)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(CardError::NotACard);
        }
        let bytes = base32::decode(&text[SCHEME.len()..]).map_err(|_| CardError::Checksum)?;
        let split = bytes.len().checked_sub(CHECKSUM_LEN).ok_or(CardError::Checksum)?;
        let (card, sum) = bytes.split_at(split);
        if checksum(card) != sum {
            return Err(CardError::Checksum);
        }
        Self::from_bytes(card)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MailIdentity, Prekeys};
    use xylem_link::StaticKey;

    fn card_with(relay: Option<&RelayContact>) -> Card {
        let us =
            MailIdentity::new(PublisherKey::from_bytes(&[1; 32]), StaticKey::generate([2; 32]));
        let addresses = ["192.0.2.1:7348".parse().unwrap(), "[2001:db8::1]:7".parse().unwrap()];
        us.card_at(Prekeys::new(0, [3; 32]).current(), 1_700_000_000, &addresses, relay)
    }

    fn card() -> Card {
        card_with(None)
    }

    fn relayed() -> Card {
        let addresses = vec!["relay.example.org:7".parse().unwrap()];
        card_with(Some(&RelayContact { key: [9; 32], addresses }))
    }

    #[test]
    fn a_card_can_be_typed_in_upper_case() {
        for card in [card(), relayed()] {
            let text = card.to_string();
            assert!(text.starts_with(SCHEME) && !text.contains(char::is_whitespace));
            assert_eq!(format!(" {} \n", text.to_uppercase()).parse(), Ok(card));
        }
    }

    /// Programs without relays read version 1, and report version 2 as newer.
    #[test]
    fn a_card_without_a_relay_keeps_version_1() {
        let (bytes, other) = (card().to_bytes(), relayed().to_bytes());
        assert_eq!((bytes[0], other[0]), (VERSION, WITH_RELAY));
        // Both addresses, and nothing between them and the signature.
        assert_eq!(bytes.len(), 1 + 64 + 4 + 32 + 8 + 1 + 7 + 19 + SIGNATURE_LEN);
        let none = RelayContact { key: [9; 32], addresses: vec![] };
        assert_eq!(card_with(Some(&none)), card());
    }

    /// The clock was set back. Receivers keep the newest card, which has to be the one with the newest prekey.
    #[test]
    fn no_card_is_older_than_its_prekey() {
        let us =
            MailIdentity::new(PublisherKey::from_bytes(&[1; 32]), StaticKey::generate([2; 32]));
        let prekeys = Prekeys::new(1_000_000, [3; 32]);
        assert_eq!(us.card(prekeys.current(), 900_000, &[]).made, 1_000_000);
        assert_eq!(us.card(prekeys.current(), 1_100_000, &[]).made, 1_100_000);
    }

    #[test]
    fn the_longest_card_is_read() {
        let host = format!("{}:9", [&*"a".repeat(60); 4].join("."));
        let relay = RelayContact { key: [9; 32], addresses: vec![host.parse().unwrap(); 2] };
        let us =
            MailIdentity::new(PublisherKey::from_bytes(&[1; 32]), StaticKey::generate([2; 32]));
        let addresses = ["[2001:db8::1]:7".parse().unwrap(); MAX_ADDRESSES];
        let card = us.card_at(Prekeys::new(0, [3; 32]).current(), 1, &addresses, Some(&relay));
        assert_eq!(card.to_string().parse(), Ok(card));
    }

    #[test]
    fn every_changed_or_missing_character_is_noticed() {
        let text = relayed().to_string();
        for at in SCHEME.len()..text.len() {
            let other = if text.as_bytes()[at] == b'a' { "b" } else { "a" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(changed.parse::<Card>().is_err(), "character {at}");
            assert!(text[..at].parse::<Card>().is_err());
        }
        for odd in ["", "xylem:abc", "xylem-peer", "xylem-peer:", "é".repeat(12).as_str()] {
            assert!(odd.parse::<Card>().is_err(), "{odd}");
        }
        assert_eq!("x".repeat(3_000).parse::<Card>(), Err(CardError::TooLong(3_000)));
    }

    /// No key or address can be replaced under a signature.
    #[test]
    fn every_bit_is_signed() {
        for bytes in [card().to_bytes(), relayed().to_bytes()] {
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(Card::from_bytes(&changed).is_err(), "bit {bit}");
            }
        }
    }
}
