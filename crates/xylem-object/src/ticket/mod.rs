//! The ticket: one line that a person can paste, enough to fetch and to verify.
//!
//! The publisher makes it, any channel carries it, and the getter reads it. It states which signature counts
//! (publisher), what to fetch (root) and where to try (addresses). It may omit what the first exchange with a peer
//! supplies ([`crate::find`]): name, size, and the link key of the peer, for which the publisher vouches. A ticket
//! needs no signature and no secrecy: an altered ticket is merely a ticket to something else. The checksum at its end
//! only detects typos and truncated pastes. Layout: docs/spec/object.md, "Ticket".
//!
//! ```
//! use xylem_object::{PublicationKind, PublisherKey, Ticket};
//!
//! let ticket = Ticket {
//!     publisher: PublisherKey::from_bytes(&[7; 32]).public(),
//!     root: xylem_hash::hash(b"the cat's bytes"),
//!     name: None,
//!     link_key: None,
//!     size: None,
//!     kind: Some(PublicationKind::File),
//!     addresses: vec!["192.0.2.1:7348".parse().unwrap()],
//!     relays: Vec::new(),
//! };
//! let text = ticket.to_string();
//! assert!(text.starts_with("xylem:") && text.len() == 128);
//! assert_eq!(text.parse::<Ticket>().unwrap(), ticket);
//! assert_eq!(
//!     text[..text.len() - 1].parse::<Ticket>().unwrap_err().to_string(),
//!     "ticket is damaged (checksum): copy it again as a whole"
//! );
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod address;
pub mod base32;
mod versions;

pub use address::{
    Address, AddressError, HostName, LINK_PORT, MAX_ADDRESSES, MAX_RELAY_ADDRESSES, read_addresses,
    write_addresses,
};
pub use versions::{MAX_LIST, MAX_VERSIONS, MirrorVersions, VersionsError};

use core::fmt;
use core::str::FromStr;

use xylem_hash::Hash;
use xylem_packet::{Name, NameRef, tlv};

use crate::keys::PublisherId;
use crate::manifest::PublicationKind;
use crate::naming;
use base32::Base32Error;

/// Prefix of every ticket's text.
pub const SCHEME: &str = "xylem:";
/// The newest version of the layout, as in the payload's first byte. Only tickets with several relays use it.
pub const VERSION: u8 = 3;
/// The version of all other tickets, so that earlier programs can read them.
const VERSION_2: u8 = 2;
/// The first version, which is only read.
const VERSION_1: u8 = 1;
/// Most relays in a ticket.
pub const MAX_RELAYS: usize = 4;
/// Longest text that is parsed. The longest ticket is far shorter, unless its addresses are long names.
pub const MAX_TEXT: usize = 8192;

/// Bytes of the checksum at a ticket's end.
pub const CHECKSUM_LEN: usize = 4;

/// Flags of versions 2 and 3: the kind, 0 if the ticket does not state it, and which fields follow.
const KIND: u8 = 3;
const KIND_FILE: u8 = 1;
const KIND_DIRECTORY: u8 = 2;
const HAS_NAME: u8 = 4;
const HAS_LINK_KEY: u8 = 8;
const HAS_SIZE: u8 = 16;
const HAS_RELAY: u8 = 32;

/// Flags of version 1.
const V1_DIRECTORY: u8 = 1;
const V1_LINK_KEY: u8 = 2;

/// The root to fetch, the addresses to fetch it from, and the publisher's key. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The publisher that must have signed the manifest.
    pub publisher: PublisherId,
    /// Root of the file, or of a directory's listing.
    pub root: Hash,
    /// The versioned prefix P (see [`naming`]). If it is `None`, the first peer over an encrypted link supplies it. A
    /// getter at an NDN forwarder needs it.
    pub name: Option<Name>,
    /// X25519 key that the peers at `addresses` must prove. If it is `None`, a peer there must show that the publisher
    /// vouches for its key.
    pub link_key: Option<[u8; 32]>,
    /// Bytes of the file, or of a directory's listing.
    pub size: Option<u64>,
    /// Whether it is a file or a directory.
    pub kind: Option<PublicationKind>,
    /// Addresses to try, best first. The encoding keeps the first [`MAX_ADDRESSES`] and drops scope ids.
    pub addresses: Vec<Address>,
    /// The relays with which the publisher stays registered, for getters that cannot reach the addresses. The encoding
    /// keeps the first [`MAX_RELAYS`] that have an address.
    pub relays: Vec<RelayContact>,
}

/// A relay and its addresses (docs/spec/reach.md).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelayContact {
    /// X25519 key that the relay must prove.
    pub key: [u8; 32],
    /// Addresses at which it listens, best first: by UDP, or by TCP if UDP gets no answer. A ticket keeps the first
    /// [`MAX_RELAY_ADDRESSES`], and omits a relay without any.
    pub addresses: Vec<Address>,
}

/// Why a text is not a ticket. The message is one line for the person that pasted it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Another scheme, or none.
    #[error("not a ticket: a ticket begins with \"xylem:\"")]
    NotATicket,
    /// Longer than [`MAX_TEXT`].
    #[error("ticket is too long ({0} characters): paste one ticket only")]
    TooLong(usize),
    /// A character outside base32.
    #[error("ticket is damaged: {character:?} at character {position} cannot be part of it")]
    Character {
        /// The character.
        character: char,
        /// Its position, from 1, in the ticket without white space and quotes.
        position: usize,
    },
    /// Characters are wrong, missing or too many.
    #[error("ticket is damaged (checksum): copy it again as a whole")]
    Checksum,
    /// A version of the layout that this program does not know.
    #[error("ticket has version {0}, this xylem reads versions up to {VERSION}: update xylem")]
    UnknownVersion(u8),
    /// The checksum is right but a field is not: the program that made the ticket is at fault.
    #[error("ticket is malformed ({0}): ask the sharer for a new one")]
    Malformed(&'static str),
}

impl Ticket {
    /// The payload and its checksum as bytes; the text is their base32.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut flags = match self.kind {
            None => 0,
            Some(PublicationKind::File) => KIND_FILE,
            Some(PublicationKind::Directory) => KIND_DIRECTORY,
        };
        let relays = self.relays.iter().filter(|relay| !relay.addresses.is_empty());
        let relays: Vec<&RelayContact> = relays.take(MAX_RELAYS).collect();
        let fields = [
            (HAS_NAME, self.name.is_some()),
            (HAS_LINK_KEY, self.link_key.is_some()),
            (HAS_SIZE, self.size.is_some()),
            (HAS_RELAY, !relays.is_empty()),
        ];
        fields.iter().filter(|(_, is_there)| *is_there).for_each(|(flag, _)| flags |= flag);
        let version = if relays.len() > 1 { VERSION } else { VERSION_2 };
        let mut out = vec![version, flags];
        out.extend_from_slice(&self.publisher.0);
        out.extend_from_slice(self.root.as_bytes());
        if let Some(name) = &self.name {
            let name = name.as_ref().value();
            tlv::write_var_number(&mut out, name.len() as u64);
            out.extend_from_slice(name);
        }
        out.extend_from_slice(self.link_key.as_ref().map_or(&[][..], |key| key));
        if let Some(size) = self.size {
            tlv::write_var_number(&mut out, size);
        }
        address::write_short(&mut out, &self.addresses, MAX_ADDRESSES);
        if version == VERSION {
            out.extend(u8::try_from(relays.len()));
        }
        relays.into_iter().for_each(|relay| write_relay(&mut out, relay));
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Reads what [`Ticket::to_bytes`] wrote, in any version.
    ///
    /// # Errors
    /// [`TicketError::Checksum`] and the variants after it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        let split = bytes.len().checked_sub(CHECKSUM_LEN).ok_or(TicketError::Checksum)?;
        let (payload, sum) = bytes.split_at(split);
        if checksum(payload) != sum {
            return Err(TicketError::Checksum);
        }
        let mut fields = TicketFields(payload);
        let ticket = match fields.byte()? {
            VERSION_1 => fields.version_1()?,
            version @ (VERSION_2 | VERSION) => fields.version_2(version)?,
            other => return Err(TicketError::UnknownVersion(other)),
        };
        match fields.0.is_empty() {
            true => Ok(ticket),
            false => Err(TicketError::Malformed("bytes at the end")),
        }
    }
}

/// `KEY@HOST:PORT`, with the first address.
impl fmt::Display for RelayContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        self.addresses.first().map_or(Ok(()), |at| write!(f, "@{at}"))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        f.write_str(&base32::encode(&self.to_bytes()))
    }
}

/// Serializes the text form.
#[cfg(feature = "serde")]
impl serde::Serialize for Ticket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Accepts either case, and skips what people and programs put around and between a ticket's characters: white
    /// space, line ends, quotes, angle brackets.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > MAX_TEXT {
            return Err(TicketError::TooLong(text.len()));
        }
        let text: String = text.chars().filter(|c| !is_wrapping(*c)).collect();
        let scheme = text.get(..SCHEME.len()).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(TicketError::NotATicket);
        }
        let bytes = base32::decode(&text[SCHEME.len()..]).map_err(|error| match error {
            Base32Error::Character(character, at) => {
                let position = SCHEME.len().saturating_add(at).saturating_add(1);
                TicketError::Character { character, position }
            }
            Base32Error::Length => TicketError::Checksum,
        })?;
        Self::from_bytes(&bytes)
    }
}

/// Returns whether a character is no part of a ticket and may stand anywhere in its text. Mail, chat and terminals wrap
/// long words, and people quote them.
fn is_wrapping(character: char) -> bool {
    let invisible = ['\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}'];
    let quotes = ['<', '>', '"', '\'', '`', '“', '”', '„', '‘', '’', '«', '»', '‹', '›'];
    character.is_whitespace() || invisible.contains(&character) || quotes.contains(&character)
}

/// Appends a relay in the encoding of version 2 tickets; it must have an address.
pub fn write_relay(out: &mut Vec<u8>, relay: &RelayContact) {
    out.extend_from_slice(&relay.key);
    address::write_short(out, &relay.addresses, MAX_RELAY_ADDRESSES);
}

/// Reads what [`write_relay`] wrote. Returns it with the remaining bytes.
///
/// # Errors
/// [`TicketError::Malformed`].
pub fn read_relay(bytes: &[u8]) -> Result<(RelayContact, &[u8]), TicketError> {
    let mut fields = TicketFields(bytes);
    Ok((fields.relay()?, fields.0))
}

/// First bytes of the payload's BLAKE3 hash; detects typos and truncated pastes.
#[must_use]
pub fn checksum(payload: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&xylem_hash::hash(payload).as_bytes()[..CHECKSUM_LEN]);
    sum
}

/// The unread rest of a payload.
struct TicketFields<'a>(&'a [u8]);

impl<'a> TicketFields<'a> {
    const SHORT: TicketError = TicketError::Malformed("too short");

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], TicketError> {
        let (field, rest) = self.0.split_at_checked(len).ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TicketError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(*field)
    }

    fn byte(&mut self) -> Result<u8, TicketError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn var_number(&mut self) -> Result<u64, TicketError> {
        let read = tlv::read_var_number(self.0).map_err(|_| TicketError::Malformed("number"));
        let (number, len) = read?;
        self.bytes(len)?;
        Ok(number)
    }

    fn name(&mut self) -> Result<Name, TicketError> {
        let len = self.var_number()?;
        let name = self.bytes(usize::try_from(len).unwrap_or(usize::MAX))?;
        let name = NameRef::from_value(name).map_err(|_| TicketError::Malformed("name"))?;
        naming::check_prefix(name).map_err(|_| TicketError::Malformed("name"))?;
        Ok(name.to_name())
    }

    fn size(&mut self) -> Result<u64, TicketError> {
        let size = self.var_number()?;
        if size > crate::MAX_SIZE { Err(TicketError::Malformed("size")) } else { Ok(size) }
    }

    fn relay(&mut self) -> Result<RelayContact, TicketError> {
        let (key, addresses) = (self.array()?, self.short_addresses(MAX_RELAY_ADDRESSES)?);
        match addresses.is_empty() {
            true => Err(TicketError::Malformed("a relay without an address")),
            false => Ok(RelayContact { key, addresses }),
        }
    }

    /// Reads relays. Version 3 has at least two, as a single one is written in version 2.
    fn relays(&mut self, version: u8) -> Result<Vec<RelayContact>, TicketError> {
        if version == VERSION_2 {
            return Ok(vec![self.relay()?]);
        }
        match usize::from(self.byte()?) {
            count @ 2..=MAX_RELAYS => (0..count).map(|_| self.relay()).collect(),
            _ => Err(TicketError::Malformed("number of relays")),
        }
    }

    /// Reads what follows the version, 2 or 3.
    fn version_2(&mut self, version: u8) -> Result<Ticket, TicketError> {
        let flags = self.byte()?;
        let kind = match flags & KIND {
            0 => None,
            KIND_FILE => Some(PublicationKind::File),
            KIND_DIRECTORY => Some(PublicationKind::Directory),
            _ => return Err(TicketError::Malformed("kind")),
        };
        if flags & !(KIND | HAS_NAME | HAS_LINK_KEY | HAS_SIZE | HAS_RELAY) != 0 {
            return Err(TicketError::Malformed("unknown flags"));
        }
        let has = |flag| flags & flag != 0;
        if version == VERSION && !has(HAS_RELAY) {
            return Err(TicketError::Malformed("number of relays"));
        }
        Ok(Ticket {
            publisher: PublisherId(self.array()?),
            root: Hash::from_bytes(self.array()?),
            name: has(HAS_NAME).then(|| self.name()).transpose()?,
            link_key: has(HAS_LINK_KEY).then(|| self.array()).transpose()?,
            size: has(HAS_SIZE).then(|| self.size()).transpose()?,
            kind,
            addresses: self.short_addresses(MAX_ADDRESSES)?,
            relays: if has(HAS_RELAY) { self.relays(version)? } else { Vec::new() },
        })
    }

    /// Reads what follows version 1. All fields but the link key are always present.
    fn version_1(&mut self) -> Result<Ticket, TicketError> {
        let flags = self.byte()?;
        if flags & !(V1_DIRECTORY | V1_LINK_KEY) != 0 {
            return Err(TicketError::Malformed("unknown flags"));
        }
        let name = Some(self.name()?);
        let root = Hash::from_bytes(self.array()?);
        let size = Some(self.size()?);
        let publisher = PublisherId(self.array()?);
        let link_key = (flags & V1_LINK_KEY != 0).then(|| self.array()).transpose()?;
        let addresses = self.addresses()?.into_iter().map(Address::Ip).collect();
        let directory = flags & V1_DIRECTORY != 0;
        let kind = Some(if directory { PublicationKind::Directory } else { PublicationKind::File });
        Ok(Ticket { publisher, root, name, link_key, size, kind, addresses, relays: Vec::new() })
    }
}
