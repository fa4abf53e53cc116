//! The ticket: one line that a person can paste, enough to fetch and to verify.
//!
//! It is made by who publishes, travels by any way at all, and is read by who fetches. It says what
//! (name, root, size, kind), whose signature counts (publisher), and where to try (addresses, and
//! the key that the link's other end must prove). A ticket is not secret and needs no signature:
//! whoever alters one has made a ticket to something else. The checksum at its end is against typos
//! and cut-off pastes only. Layout: docs/spec/object.md, "Ticket".
//!
//! ```
//! use xylem_object::{Kind, PublisherKey, Ticket, naming};
//!
//! let publisher = PublisherKey::from_bytes(&[7; 32]).public();
//! let name = naming::default_name(&publisher, b"cat.jpg");
//! let ticket = Ticket {
//!     name: naming::versioned(name.as_ref(), 1_700_000_000_000_000)?,
//!     root: xylem_hash::hash(b"the cat's bytes"),
//!     size: 15,
//!     kind: Kind::File,
//!     publisher,
//!     link_key: None,
//!     addresses: vec!["192.0.2.1:6363".parse().unwrap()],
//! };
//! let text = ticket.to_string();
//! assert!(text.starts_with("xylem:"));
//! assert_eq!(text.parse::<Ticket>().unwrap(), ticket);
//! assert_eq!(
//!     text[..text.len() - 1].parse::<Ticket>().unwrap_err().to_string(),
//!     "ticket is damaged (checksum): copy it again as a whole"
//! );
//! # Ok::<(), naming::PrefixError>(())
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

pub mod base32;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use xylem_hash::Hash;
use xylem_packet::{Name, NameRef, tlv};

use crate::keys::PublisherId;
use crate::manifest::Kind;
use crate::naming;
use base32::Base32Error;

/// What every ticket begins with.
pub const SCHEME: &str = "xylem:";
/// The version of the layout, the payload's first byte.
pub const VERSION: u8 = 1;
/// Most addresses a ticket carries.
pub const MAX_ADDRESSES: usize = 16;
/// Longest text that is looked at. The longest ticket of version 1 is shorter than half of this.
pub const MAX_TEXT: usize = 4096;

/// Bytes of the checksum at a ticket's end.
pub const CHECKSUM_LEN: usize = 4;
const FLAG_DIRECTORY: u8 = 1;
const FLAG_LINK_KEY: u8 = 2;
const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;

/// What to fetch, from whom, and how to know that it is right. See the module's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The versioned prefix P (see [`naming`]).
    pub name: Name,
    /// Root of the file, or of a directory's listing.
    pub root: Hash,
    /// Bytes of the file, or of a directory's listing.
    pub size: u64,
    /// Whether it is a file or a directory.
    pub kind: Kind,
    /// Whose signature the manifest must have.
    pub publisher: PublisherId,
    /// X25519 key that the peers at `addresses` must prove; `None`: plain NDN only.
    pub link_key: Option<[u8; 32]>,
    /// Where to try, best first. The first [`MAX_ADDRESSES`] travel; scope ids do not.
    pub addresses: Vec<SocketAddr>,
}

/// A text that is not a ticket, in one line for who pasted it.
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
        /// Its place in the trimmed text, from 1.
        position: usize,
    },
    /// Characters are wrong, missing or too many.
    #[error("ticket is damaged (checksum): copy it again as a whole")]
    Checksum,
    /// A layout that this program does not know.
    #[error("ticket has version {0}, this xylem reads version {VERSION}: update xylem")]
    UnknownVersion(u8),
    /// The checksum is right and a field is not: whoever wrote it is at fault.
    #[error("ticket was written wrongly ({0}): ask for a new one")]
    Malformed(&'static str),
}

impl Ticket {
    /// The payload and its checksum, as bytes (what the text is the base32 of).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let directory = if self.kind == Kind::Directory { FLAG_DIRECTORY } else { 0 };
        let link_key = if self.link_key.is_some() { FLAG_LINK_KEY } else { 0 };
        out.push(directory | link_key);
        let name = self.name.as_ref().value();
        tlv::write_var_number(&mut out, name.len() as u64);
        out.extend_from_slice(name);
        out.extend_from_slice(self.root.as_bytes());
        tlv::write_var_number(&mut out, self.size);
        out.extend_from_slice(&self.publisher.0);
        out.extend_from_slice(self.link_key.as_ref().map_or(&[][..], |key| key));
        write_addresses(&mut out, &self.addresses);
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Reads what [`Ticket::to_bytes`] wrote.
    ///
    /// # Errors
    /// From [`TicketError::Checksum`] on.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        let split = bytes.len().checked_sub(CHECKSUM_LEN).ok_or(TicketError::Checksum)?;
        let (payload, sum) = bytes.split_at(split);
        if checksum(payload) != sum {
            return Err(TicketError::Checksum);
        }
        let mut fields = Fields(payload);
        match fields.byte()? {
            VERSION => {}
            other => return Err(TicketError::UnknownVersion(other)),
        }
        let flags = fields.byte()?;
        if flags & !(FLAG_DIRECTORY | FLAG_LINK_KEY) != 0 {
            return Err(TicketError::Malformed("unknown flags"));
        }
        let name_len = fields.var_number()?;
        let name = fields.bytes(usize::try_from(name_len).unwrap_or(usize::MAX))?;
        let name = NameRef::from_value(name).map_err(|_| TicketError::Malformed("name"))?;
        naming::check_prefix(name).map_err(|_| TicketError::Malformed("name"))?;
        let root = Hash::from_bytes(fields.array()?);
        let size = fields.var_number()?;
        if size > crate::MAX_SIZE {
            return Err(TicketError::Malformed("size"));
        }
        let publisher = PublisherId(fields.array()?);
        let link_key = match flags & FLAG_LINK_KEY {
            0 => None,
            _ => Some(fields.array()?),
        };
        let addresses = fields.addresses()?;
        if !fields.0.is_empty() {
            return Err(TicketError::Malformed("bytes at the end"));
        }
        let kind = if flags & FLAG_DIRECTORY != 0 { Kind::Directory } else { Kind::File };
        Ok(Self { name: name.to_name(), root, size, kind, publisher, link_key, addresses })
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        f.write_str(&base32::encode(&self.to_bytes()))
    }
}

/// As its text.
#[cfg(feature = "serde")]
impl serde::Serialize for Ticket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Takes either case, and white space around the ticket.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        if text.len() > MAX_TEXT {
            return Err(TicketError::TooLong(text.len()));
        }
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

/// Appends the first [`MAX_ADDRESSES`] of these in the ticket's form: their number, and of each its
/// family, address and port.
#[expect(clippy::cast_possible_truncation, reason = "at most 16")]
pub fn write_addresses(out: &mut Vec<u8>, addresses: &[SocketAddr]) {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    out.push(addresses.len() as u8);
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.push(FAMILY_V4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(FAMILY_V6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&address.port().to_be_bytes());
    }
}

/// Reads what [`write_addresses`] wrote, and gives what is behind it.
///
/// # Errors
/// [`TicketError::Malformed`].
pub fn read_addresses(bytes: &[u8]) -> Result<(Vec<SocketAddr>, &[u8]), TicketError> {
    let mut fields = Fields(bytes);
    Ok((fields.addresses()?, fields.0))
}

/// First bytes of the payload's BLAKE3 hash, against typos and cut-off pastes.
#[must_use]
pub fn checksum(payload: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&xylem_hash::hash(payload).as_bytes()[..CHECKSUM_LEN]);
    sum
}

/// What is left of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
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

    fn addresses(&mut self) -> Result<Vec<SocketAddr>, TicketError> {
        let count = usize::from(self.byte()?);
        if count > MAX_ADDRESSES {
            return Err(TicketError::Malformed("too many addresses"));
        }
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            let ip = match self.byte()? {
                FAMILY_V4 => IpAddr::from(Ipv4Addr::from(self.array::<4>()?)),
                FAMILY_V6 => IpAddr::from(Ipv6Addr::from(self.array::<16>()?)),
                _ => return Err(TicketError::Malformed("kind of address")),
            };
            addresses.push(SocketAddr::new(ip, u16::from_be_bytes(self.array()?)));
        }
        Ok(addresses)
    }
}
