//! Errors of decoding and of building packets.

use core::convert::Infallible;

/// Why bytes are no packet. The sender is at fault for each of these; none depends on the receiver's state.
///
/// `inside` and `typ` are TLV-TYPE numbers of [`crate::tlv::types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// An element claims more bytes than its parent or the buffer has.
    #[error("an element extends past the end of its parent")]
    Truncated,
    /// More bytes follow the packet's end.
    #[error("{0} bytes follow the packet's end")]
    TrailingBytes(usize),
    /// A type or length number is not in its shortest form (packet format v0.3, section 1.1).
    #[error("a type or length number is not in its shortest form")]
    NotShortest,
    /// A type number is 0 or above 2^32 - 1.
    #[error("{0} is not a TLV type number")]
    TypeNumber(u64),
    /// An element of another type was required here.
    #[error("element {found} stands where element {expected} belongs")]
    WrongType {
        /// The required type.
        expected: u32,
        /// The type found.
        found: u32,
    },
    /// The outermost element is not a packet of this format.
    #[error("element {0} is not a packet")]
    NotAPacket(u32),
    /// Longer than this crate's limits ([`crate::MAX_PACKET`], [`crate::MAX_FRAME`]).
    #[error("a packet of {0} bytes is longer than allowed")]
    TooLong(u64),
    /// An unknown element is critical, so it cannot be skipped.
    #[error("critical element {typ} in element {inside} is unknown")]
    UnknownCritical {
        /// The parent.
        inside: u32,
        /// The unknown element.
        typ: u32,
    },
    /// A critical element follows one that it must precede.
    #[error("element {typ} in element {inside} is out of order")]
    OutOfOrder {
        /// The parent.
        inside: u32,
        /// The misplaced element.
        typ: u32,
    },
    /// An element occurs twice that may occur only once.
    #[error("element {typ} in element {inside} is repeated")]
    Repeated {
        /// The parent.
        inside: u32,
        /// The repeated element.
        typ: u32,
    },
    /// A required element is absent.
    #[error("element {inside} lacks element {typ}")]
    Missing {
        /// The parent.
        inside: u32,
        /// The absent element.
        typ: u32,
    },
    /// An element's value has a length that its definition does not allow.
    #[error("element {typ} cannot be {len} bytes long")]
    BadLength {
        /// The element.
        typ: u32,
        /// Its length.
        len: usize,
    },
    /// A name component's type is outside 1..=65535.
    #[error("{0} is not a name component type")]
    ComponentType(u32),
    /// An Interest without a name component.
    #[error("an Interest's name is empty")]
    EmptyName,
    /// ApplicationParameters without exactly one parameters digest in the name, or a signed Interest with a name that
    /// does not end with the digest.
    #[error("the parameters digest is absent from the name, repeated in it or misplaced")]
    ParametersDigestPlace,
    /// A Data packet of this ContentType is no link object.
    #[error("content type {0} is not that of a link object")]
    NotALink(u64),
    /// The parameters digest in the name is not that of the parameters.
    #[error("the parameters digest does not match the parameters")]
    ParametersDigestMismatch,
}

/// Why a packet cannot be built. `E` is the error of the caller's content source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError<E = Infallible> {
    /// The packet would exceed [`crate::MAX_PACKET`].
    #[error("the packet would be {0} bytes long, over the limit")]
    TooLong(usize),
    /// An Interest needs at least one name component.
    #[error("an Interest's name cannot be empty")]
    EmptyName,
    /// The packet, or the name, does not fit into the output slice.
    #[error("the packet does not fit into its buffer")]
    NoRoom,
    /// The content could not be written.
    #[error("content: {0}")]
    Content(E),
}
