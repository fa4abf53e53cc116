//! Sync Interests: a state vector, signed.
//!
//! ```text
//! version 1   /GROUP/201=ENTRIES/params-sha256=…   signed Interest; the vector is a name component
//! version 2   /GROUP/v=2/params-sha256=…           signed Interest; ApplicationParameters begin with the vector
//! version 3   /GROUP/v=3/params-sha256=…           ApplicationParameters begin with a signed Data, whose content
//!                                                  begins with the vector
//! ```

use core::fmt;

use xylem_packet::tlv::{self, TlvReader, types};
use xylem_packet::{
    Component, Data, DataBuilder, DecodeError, EncodeError, Interest, InterestBuilder, KeyLocator,
    Name, NameRef, SignatureInfo,
};
use xylem_trust::{CommandStamp, Signer, TrustError, Verifier};

use crate::vector::STATE_VECTOR;
use crate::{GroupMember, StateVector, VectorError};

/// An empty element after a vector that is only a part. It is our extension; other implementations skip it, since its
/// number is even.
const PART: u32 = 0x5058;

/// Versions of the protocol. All members of a group have to use the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncVersion {
    /// The version of python-ndn.
    V1,
    /// The default version of NDNts.
    V2,
    /// The version of ndnd, and of NDNts with `svs3`. The only one that distinguishes the lives of a member.
    V3,
}

impl SyncVersion {
    /// The prefix of all sync Interests of the group, which each member registers.
    pub fn prefix(self, group: &Name) -> Name {
        match self {
            SyncVersion::V1 => group.clone(),
            SyncVersion::V2 => group.child(Component::version(2)),
            SyncVersion::V3 => group.child(Component::version(3)),
        }
    }
}

impl fmt::Display for SyncVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SyncVersion::V1 => "1",
            SyncVersion::V2 => "2",
            SyncVersion::V3 => "3",
        })
    }
}

/// The name of a publication: `/MEMBER/GROUP/t=BOOT/seq=SEQUENCE` in version 3, and `/MEMBER/GROUP/SEQUENCE` with a
/// number in a generic component before. Applications may use other names.
pub fn publication_name(
    version: SyncVersion,
    group: &Name,
    member: &GroupMember,
    sequence: u64,
) -> Name {
    let mut name: Name = member.name.iter().chain(group.iter()).collect();
    let mut number = Vec::new();
    let mut push = |typ, value| {
        number.clear();
        tlv::write_number_element(&mut number, typ, value);
        // The element's value is the number, after two octets of type and length.
        if let Ok(component) = Component::new(typ, number.get(2..).unwrap_or_default()) {
            name.push(component);
        }
    };
    match version {
        SyncVersion::V1 | SyncVersion::V2 => push(types::GENERIC_COMPONENT, sequence),
        SyncVersion::V3 => {
            push(types::TIMESTAMP_COMPONENT, member.boot);
            push(types::SEQUENCE_COMPONENT, sequence);
        }
    }
    name
}

/// Decides which signers are trusted, before a vector is parsed. It need not detect replays, since a repeated vector
/// changes nothing.
pub trait SyncTrust {
    /// Checks that the signer of this Data, which carries a vector of version 3, is a member.
    ///
    /// # Errors
    /// The reason against it.
    fn data(&mut self, data: &Data<'_>) -> Result<(), TrustError>;

    /// Checks that the signer of this Interest of version 1 or 2 is a member.
    ///
    /// # Errors
    /// The reason against it.
    fn interest(&mut self, interest: &Interest<'_>) -> Result<(), TrustError>;
}

/// One key shared by all members.
impl SyncTrust for Verifier {
    fn data(&mut self, data: &Data<'_>) -> Result<(), TrustError> {
        Verifier::data(self, data)
    }

    fn interest(&mut self, interest: &Interest<'_>) -> Result<(), TrustError> {
        Verifier::interest(self, interest)
    }
}

/// Accepts every packet, signed or not: for experiments, and for groups in which no member verifies.
#[derive(Debug, Clone, Copy)]
pub struct Anyone;

impl SyncTrust for Anyone {
    fn data(&mut self, _: &Data<'_>) -> Result<(), TrustError> {
        Ok(())
    }

    fn interest(&mut self, _: &Interest<'_>) -> Result<(), TrustError> {
        Ok(())
    }
}

/// Reasons for which an Interest is no trusted sync Interest of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// Not a name of this group's sync Interests.
    #[error("not a sync Interest of this group")]
    OtherName,
    /// The vector is missing, or of another version.
    #[error("not a state vector: {0}")]
    Vector(#[from] VectorError),
    /// The signer is not trusted.
    #[error("the vector's signature: {0}")]
    Trust(#[from] TrustError),
}

impl From<DecodeError> for SyncError {
    fn from(error: DecodeError) -> Self {
        SyncError::Vector(error.into())
    }
}

/// A vector with a trusted signer.
#[derive(Debug)]
pub(crate) struct TrustedVector {
    pub(crate) vector: StateVector,
    /// Whether it is only a part: its sender may also know members that are absent.
    pub(crate) part: bool,
    /// Time of the signature, in milliseconds since 1970, if it has one.
    pub(crate) signed_ms: Option<u64>,
}

/// Parses a sync Interest of `group`.
///
/// # Errors
/// `OtherName`; `Trust`, before the vector is parsed; `Vector`.
pub(crate) fn decode(
    version: SyncVersion,
    group: &Name,
    interest: &Interest<'_>,
    believe: &mut (impl SyncTrust + ?Sized),
) -> Result<TrustedVector, SyncError> {
    let name = interest.name();
    let own = group.is_prefix_of(name) && name.len() == group.len().saturating_add(2);
    let digest = name.last().is_some_and(|last| last.typ() == types::PARAMETERS_SHA256_DIGEST);
    let (Some(component), true, true) = (name.get(group.len()), own, digest) else {
        return Err(SyncError::OtherName);
    };
    let signed_ms = interest.signature().and_then(|signature| signature.info.time_ms);
    if version == SyncVersion::V1 {
        if component.typ() != STATE_VECTOR {
            return Err(SyncError::OtherName);
        }
        believe.interest(interest)?;
        let vector = StateVector::decode_value(component.value(), version)?;
        return Ok(TrustedVector { vector, part: false, signed_ms });
    }
    if !version.prefix(group).is_prefix_of(name) {
        return Err(SyncError::OtherName);
    }
    let parameters = interest.app_parameters().ok_or(DecodeError::Truncated)?;
    if version == SyncVersion::V2 {
        believe.interest(interest)?;
        let vector = StateVector::decode(parameters, version)?;
        return Ok(TrustedVector { vector, part: is_part(parameters), signed_ms });
    }
    let first = TlvReader::new(parameters).next_element()?.ok_or(DecodeError::Truncated)?;
    let data = Data::decode(parameters.get(..first.end).unwrap_or_default())?;
    // In the specification the Data has the Interest's name without its digest. ndnd uses other names, all below the
    // group. A name of another group means that it was signed for that group.
    if !group.is_prefix_of(data.name()) {
        return Err(SyncError::OtherName);
    }
    believe.data(&data)?;
    let signed_ms = data.signature_info().time_ms;
    let vector = StateVector::decode(data.content(), version)?;
    Ok(TrustedVector { vector, part: is_part(data.content()), signed_ms })
}

/// Whether [`PART`] is among the elements after the vector.
fn is_part(wire: &[u8]) -> bool {
    let mut reader = TlvReader::new(wire);
    while let Ok(Some(element)) = reader.next_element() {
        if element.typ == PART {
            return true;
        }
    }
    false
}

/// The element of a vector. `part`: it is not the whole of what the member knows.
pub(crate) fn vector_element(version: SyncVersion, vector: &StateVector, part: bool) -> Vec<u8> {
    let mut element = Vec::new();
    vector.encode(version, &mut element);
    if part {
        tlv::write_element(&mut element, PART, b"");
    }
    element
}

/// Appends a sync Interest with the [`vector_element`] `element`. `stamp` makes it unique, so that no forwarder takes one member's repetition of a vector for
/// another's.
///
/// # Errors
/// `TooLong` if the vector, names and signature do not fit a packet; `out` is unchanged then.
pub(crate) fn encode(
    version: SyncVersion,
    group: &Name,
    mut element: Vec<u8>,
    signer: &Signer,
    stamp: CommandStamp,
    nonce: [u8; 4],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut name = version.prefix(group);
    if version == SyncVersion::V1 {
        let value = TlvReader::new(&element).next_element().ok().flatten().map(|e| e.value);
        if let Ok(component) = Component::new(STATE_VECTOR, value.unwrap_or_default()) {
            name.push(component);
        }
        element.clear();
    }
    let interest = |name| InterestBuilder::new(name).nonce(nonce).lifetime_ms(LIFETIME_MS);
    if version != SyncVersion::V3 {
        return signer.interest(interest(name.as_ref()), &element, stamp, out);
    }
    let mut data = Vec::new();
    sign_data(name.as_ref(), &element, signer, &stamp, &mut data)?;
    interest(name.as_ref()).encode_with_parameters(out, &data)
}

/// InterestLifetime of sync Interests in milliseconds. They get no answer.
const LIFETIME_MS: u64 = 1000;

/// Signs a Data with nonce and time in its SignatureInfo, as in signed Interests; other implementations ignore them.
fn sign_data(
    name: NameRef<'_>,
    content: &[u8],
    signer: &Signer,
    stamp: &CommandStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut info = SignatureInfo::new(signer.typ(), signer.key_locator().map(KeyLocator::Name));
    info.nonce = Some(&stamp.nonce);
    info.time_ms = Some(stamp.time_ms);
    DataBuilder::new(name).signature_info(info).encode(out, content, |signed, value| {
        value.extend_from_slice(signer.sign(&[signed]).as_ref());
    })
}
