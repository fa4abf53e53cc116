//! The other side: commands to build, answers and datasets to read. Sending is the caller's.
//!
//! ```
//! use xylem_mgmt::{CommandScope, ControlParameters, client};
//! use xylem_packet::{Interest, Name};
//! use xylem_trust::{Signer, CommandStamp};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let prefix = Name::from_uri("/alice")?;
//! let parameters = ControlParameters { name: Some(prefix), ..Default::default() };
//! let stamp = CommandStamp::new([7; 8], 1_700_000_000_000);
//! let signer = Signer::digest_sha256();
//! let (scope, nonce) = (CommandScope::Localhost, [1, 2, 3, 4]);
//! let wire = client::command(scope, "rib", "register", &parameters, &signer, stamp, nonce)?;
//! assert!(Interest::decode(&wire)?.name().to_string().starts_with("/localhost/nfd/rib/register/"));
//! # Ok(()) }
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, EncodeError, Interest, InterestBuilder, Name};
use xylem_trust::{CommandStamp, Signer};

use crate::{
    CodecError, CommandScope, ControlParameters, ControlResponse, FaceQueryFilter, FaceUri,
};

/// InterestLifetime of commands and queries, in milliseconds.
const LIFETIME_MS: u64 = 4000;
/// Limit of segments of one dataset; with the segments of other forwarders this is tens of MB.
const MAX_SEGMENTS: u64 = 16_384;

/// `/localhost/nfd`, or `/localhop/nfd` for a forwarder on another machine, with module and verb.
fn name(scope: CommandScope, module: &str, verb: &str) -> Name {
    let reach: &[u8] = match scope {
        CommandScope::Localhost => b"localhost",
        CommandScope::Localhop => b"localhop",
    };
    [reach, b"nfd", module.as_bytes(), verb.as_bytes()]
        .iter()
        .fold(Name::new(), |name, component| name.child(Component::generic(component)))
}

/// Whether a forwarder that is reached by `uri` counts this program as local. Unix sockets and the machine's own
/// addresses do, except over UDP.
fn is_local(uri: &FaceUri) -> bool {
    let loopback = |at: &crate::UriAuthority| match &at.host {
        crate::UriHost::Ip(address) => address.is_loopback(),
        crate::UriHost::Name(name) => name == "localhost",
        crate::UriHost::Zoned(..) => false,
    };
    match uri {
        FaceUri::Unix(_) | FaceUri::Internal => true,
        FaceUri::Tcp(endpoint)
        | FaceUri::WebSocket(endpoint)
        | FaceUri::SecureWebSocket(endpoint) => loopback(endpoint),
        _ => false,
    }
}

impl CommandScope {
    /// The scope of commands to a forwarder that is reached by `uri`.
    pub fn of(uri: &FaceUri) -> Self {
        if is_local(uri) { Self::Localhost } else { Self::Localhop }
    }
}

/// A command Interest (signed Interest v0.3, with the parameters in the name). `stamp` has to be new for every command,
/// and `nonce` random for every Interest.
///
/// # Errors
/// `TooLong` above the packet limit.
pub fn command(
    scope: CommandScope,
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
    signer: &Signer,
    stamp: CommandStamp,
    nonce: [u8; 4],
) -> Result<Vec<u8>, EncodeError> {
    let name = name(scope, module, verb).child(Component::generic(&parameters.encode()));
    signed(&name, &[], signer, stamp, nonce)
}

/// The command rib/announce for a [`crate::PrefixAnnouncement`]. Its route leads to the face that the command comes
/// over.
///
/// # Errors
/// `TooLong` above the packet limit.
pub fn announce(
    scope: CommandScope,
    announcement: &[u8],
    signer: &Signer,
    stamp: CommandStamp,
    nonce: [u8; 4],
) -> Result<Vec<u8>, EncodeError> {
    signed(&name(scope, "rib", "announce"), announcement, signer, stamp, nonce)
}

/// A rib/register or rib/unregister command to a routing daemon of this machine, which accepts them under
/// `/localhost/nlsr`.
pub(crate) fn readvertise(
    verb: &str,
    parameters: &ControlParameters,
    signer: &Signer,
    stamp: CommandStamp,
    nonce: [u8; 4],
) -> Result<Vec<u8>, EncodeError> {
    let name = [b"localhost".as_slice(), b"nlsr", b"rib", verb.as_bytes(), &parameters.encode()]
        .iter()
        .fold(Name::new(), |name, component| name.child(Component::generic(component)));
    signed(&name, &[], signer, stamp, nonce)
}

fn signed(
    name: &Name,
    parameters: &[u8],
    signer: &Signer,
    stamp: CommandStamp,
    nonce: [u8; 4],
) -> Result<Vec<u8>, EncodeError> {
    let builder = InterestBuilder::new(name.as_ref())
        .must_be_fresh(true)
        .nonce(nonce)
        .lifetime_ms(LIFETIME_MS);
    let mut wire = Vec::new();
    signer.interest(builder, parameters, stamp, &mut wire)?;
    Ok(wire)
}

/// Parses the answer to a command, which has to have the command's own name.
///
/// # Errors
/// See [`CodecError`]; `Missing` if the Data is no answer to this command.
pub fn response(command: &Interest<'_>, data: &Data<'_>) -> Result<ControlResponse, CodecError> {
    if data.name() != command.name() {
        return Err(CodecError::Missing(crate::types::CONTROL_RESPONSE));
    }
    ControlResponse::decode(data.content())
}

/// Assembles a dataset: [`Dataset::interest`] makes the next Interest, [`Dataset::data`] takes each answer. The first
/// answer gives version and last segment. The caller checks signatures.
///
/// ```text
/// Interest /localhost/nfd/fib/list, CanBePrefix, MustBeFresh → …/v=7/seg=0
/// Interest /localhost/nfd/fib/list/v=7/seg=1                 → …/v=7/seg=1, FinalBlockId
/// ```
#[derive(Debug, Clone)]
pub struct Dataset {
    name: Name,
    version: Option<Name>,
    next: u64,
    content: Vec<u8>,
}

/// Reasons for which a Data is no part of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The Data does not answer the Interest.
    #[error("the answer has another name")]
    Name,
    /// Longer than our own limit.
    #[error("the dataset has more than {MAX_SEGMENTS} segments")]
    TooLong,
}

impl Dataset {
    /// A dataset of the forwarder, such as `faces`, `list`.
    pub fn new(scope: CommandScope, module: &str, verb: &str) -> Self {
        Self::of(name(scope, module, verb))
    }

    /// The dataset of faces that match a filter.
    pub fn faces(scope: CommandScope, filter: &FaceQueryFilter) -> Self {
        Self::of(name(scope, "faces", "query").child(Component::generic(&filter.encode())))
    }

    fn of(name: Name) -> Self {
        Dataset { name, version: None, next: 0, content: Vec::new() }
    }

    /// The next Interest to send.
    ///
    /// # Errors
    /// `TooLong` above the packet limit.
    pub fn interest(&self, nonce: [u8; 4]) -> Result<Vec<u8>, EncodeError> {
        let mut wire = Vec::new();
        match &self.version {
            None => InterestBuilder::new(self.name.as_ref())
                .can_be_prefix(true)
                .must_be_fresh(true)
                .nonce(nonce)
                .lifetime_ms(LIFETIME_MS)
                .encode(&mut wire)?,
            Some(version) => {
                let segment = version.child(Component::segment(self.next));
                InterestBuilder::new(segment.as_ref())
                    .nonce(nonce)
                    .lifetime_ms(LIFETIME_MS)
                    .encode(&mut wire)?;
            }
        }
        Ok(wire)
    }

    /// Takes an answer; returns the whole content after the last one. An answer to the first Interest may be any
    /// segment; the next Interest then asks for the first segment.
    ///
    /// # Errors
    /// See [`DatasetError`]; the same Interest can then be sent again.
    pub fn data(&mut self, data: &Data<'_>) -> Result<Option<Vec<u8>>, DatasetError> {
        let name = data.name();
        let segment = name
            .last()
            .and_then(|last| last.as_number_of(types::SEGMENT_COMPONENT))
            .ok_or(DatasetError::Name)?;
        match &self.version {
            Some(version) if version.as_ref() == name.parent() && segment == self.next => {}
            Some(_) => return Err(DatasetError::Name),
            None => {
                let version = name.parent();
                let versioned = version.last().is_some_and(|c| c.typ() == types::VERSION_COMPONENT);
                if !versioned || version.parent() != self.name.as_ref() {
                    return Err(DatasetError::Name);
                }
                self.version = Some(version.to_name());
                if segment != 0 {
                    return Ok(None);
                }
            }
        }
        self.content.extend_from_slice(data.content());
        self.next = self.next.saturating_add(1);
        // Without FinalBlockId no further segment is expected.
        let last = data.meta().final_block_id;
        let is_last = last.is_none_or(|last| last == Component::segment(segment));
        if is_last {
            return Ok(Some(core::mem::take(&mut self.content)));
        }
        if self.next >= MAX_SEGMENTS { Err(DatasetError::TooLong) } else { Ok(None) }
    }
}
