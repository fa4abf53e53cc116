//! [`dissect`]: the elements of a packet, each with its place, the name of its type, and its value.

use xylem_packet::tlv::{TlvReader, read_number};
use xylem_packet::{Component, DecodeError, NameRef, SignatureType, frame_len, types};

/// Elements within elements that are opened; NDN's own formats need eight.
const MAX_DEPTH: usize = 16;

/// All elements of some bytes, in their order, an element before those that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dissection<'a> {
    /// The elements.
    pub elements: Vec<TlvElement<'a>>,
    /// The places where something else stands than an element.
    pub faults: Vec<DissectionFault>,
}

/// One type-length-value element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvElement<'a> {
    /// Elements around it.
    pub depth: usize,
    /// Where it begins, in bytes from the beginning.
    pub offset: usize,
    /// TLV-TYPE.
    pub typ: u32,
    /// The name of the type where it stands; `None` if it is not known there.
    pub name: Option<&'static str>,
    /// Octets of its value.
    pub len: usize,
    /// Its value.
    pub value: TlvValue<'a>,
}

/// The value of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlvValue<'a> {
    /// Elements, which follow.
    Elements,
    /// A name, the components of which follow.
    Name(NameRef<'a>),
    /// One component of a name.
    Component(Component<'a>),
    /// A number.
    Number(u64),
    /// A number of an assigned list, with its meaning there.
    Assigned(u64, &'static str),
    /// Text.
    Text(&'a str),
    /// Anything else.
    Octets(&'a [u8]),
}

/// Bytes that are no element, within an element whose type demands that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DissectionFault {
    /// Where they begin.
    pub offset: usize,
    /// Why they are no element.
    pub error: DecodeError,
}

/// Lists the elements of one or more packets that stand one behind the other. What is damaged is reported, and the rest
/// is listed all the same.
#[must_use]
pub fn dissect(bytes: &[u8]) -> Dissection<'_> {
    let mut found = Dissection { elements: Vec::new(), faults: Vec::new() };
    found.read(Inside::Packet, bytes, 0, 0);
    found
}

impl<'a> Dissection<'a> {
    /// Reads the elements of a value that begins at `offset`.
    fn read(&mut self, inside: Inside, value: &'a [u8], offset: usize, depth: usize) {
        let mut reader = TlvReader::new(value);
        loop {
            let start = offset.saturating_add(reader.position());
            let element = match reader.next_element() {
                Ok(Some(element)) => element,
                Ok(None) => return,
                Err(error) => return self.faults.push(DissectionFault { offset: start, error }),
            };
            let (name, form) = match inside.meaning(element.typ) {
                Some((name, form)) => (Some(name), form),
                None => (None, Form::Octets),
            };
            let found = form.read(element.typ, element.value);
            let is_opened = matches!(found, TlvValue::Elements | TlvValue::Name(_));
            let len = element.value.len();
            self.elements.push(TlvElement {
                depth,
                offset: start,
                typ: element.typ,
                name,
                len,
                value: found,
            });
            if let Some(inner) = form.inner().filter(|_| is_opened) {
                let value_start = offset.saturating_add(element.end).saturating_sub(len);
                match depth < MAX_DEPTH {
                    true => self.read(inner, element.value, value_start, depth.saturating_add(1)),
                    false => {
                        let error = DecodeError::TooLong(len as u64);
                        self.faults.push(DissectionFault { offset: value_start, error });
                    }
                }
            }
        }
    }
}

/// The element around others, which decides what their types mean.
#[derive(Clone, Copy)]
enum Inside {
    Packet,
    Interest,
    Data,
    Name,
    Names,
    MetaInfo,
    FinalBlockId,
    SignatureInfo,
    KeyLocator,
    ValidityPeriod,
    LpPacket,
    Nack,
    CachePolicy,
}

/// The kind of an element's value.
#[derive(Clone, Copy)]
enum Form {
    Elements(Inside),
    /// A packet, or a piece of one.
    Fragment,
    Component,
    Number,
    Assigned(fn(u64) -> &'static str),
    Text,
    Octets,
}

impl Form {
    /// The parent of the elements of a value.
    fn inner(self) -> Option<Inside> {
        match self {
            Self::Elements(inside) => Some(inside),
            Self::Fragment => Some(Inside::Packet),
            _ => None,
        }
    }

    /// Reads a value; one that is not as it should be is shown as octets.
    fn read(self, typ: u32, value: &[u8]) -> TlvValue<'_> {
        let read = match self {
            Self::Elements(Inside::Name) => {
                NameRef::from_value(value).ok().map(TlvValue::Name).or(Some(TlvValue::Elements))
            }
            Self::Elements(_) => Some(TlvValue::Elements),
            Self::Fragment => {
                let is_whole = frame_len(value) == Ok(Some(value.len()));
                is_whole.then_some(TlvValue::Elements)
            }
            Self::Component => Component::new(typ, value).ok().map(TlvValue::Component),
            Self::Number => read_number(value).map(TlvValue::Number),
            Self::Assigned(meaning) => {
                read_number(value).map(|number| TlvValue::Assigned(number, meaning(number)))
            }
            Self::Text => std::str::from_utf8(value).ok().map(TlvValue::Text),
            Self::Octets => None,
        };
        read.unwrap_or(TlvValue::Octets(value))
    }
}

impl Inside {
    /// The name of a type here, and the kind of its value.
    fn meaning(self, typ: u32) -> Option<(&'static str, Form)> {
        let found = match (self, typ) {
            (Self::Packet, types::INTEREST) => ("Interest", Form::Elements(Self::Interest)),
            (Self::Packet, types::DATA) => ("Data", Form::Elements(Self::Data)),
            (Self::Packet, types::LP_PACKET) => ("LpPacket", Form::Elements(Self::LpPacket)),
            (
                Self::Packet | Self::Interest | Self::Data | Self::Names | Self::KeyLocator,
                types::NAME,
            ) => ("Name", Form::Elements(Self::Name)),
            (Self::Name | Self::FinalBlockId, typ) => (component_name(typ), Form::Component),
            (Self::Interest, typ) => interest_field(typ)?,
            (Self::Data, typ) => data_field(typ)?,
            (Self::MetaInfo, types::CONTENT_TYPE) => ("ContentType", Form::Assigned(content_type)),
            (Self::MetaInfo, types::FRESHNESS_PERIOD) => ("FreshnessPeriod", Form::Number),
            (Self::MetaInfo, types::FINAL_BLOCK_ID) => {
                ("FinalBlockId", Form::Elements(Self::FinalBlockId))
            }
            (Self::SignatureInfo, typ) => signature_field(typ)?,
            (Self::KeyLocator, types::KEY_DIGEST) => ("KeyDigest", Form::Octets),
            (Self::ValidityPeriod, 254) => ("NotBefore", Form::Text),
            (Self::ValidityPeriod, 255) => ("NotAfter", Form::Text),
            (Self::LpPacket, typ) => link_field(typ)?,
            (Self::Nack, types::LP_NACK_REASON) => ("NackReason", Form::Assigned(nack_reason)),
            (Self::CachePolicy, types::LP_CACHE_POLICY_TYPE) => ("CachePolicyType", Form::Number),
            _ => return None,
        };
        Some(found)
    }
}

fn interest_field(typ: u32) -> Option<(&'static str, Form)> {
    Some(match typ {
        types::CAN_BE_PREFIX => ("CanBePrefix", Form::Octets),
        types::MUST_BE_FRESH => ("MustBeFresh", Form::Octets),
        types::FORWARDING_HINT => ("ForwardingHint", Form::Elements(Inside::Names)),
        types::NONCE => ("Nonce", Form::Octets),
        types::INTEREST_LIFETIME => ("InterestLifetime", Form::Number),
        types::HOP_LIMIT => ("HopLimit", Form::Number),
        types::APPLICATION_PARAMETERS => ("ApplicationParameters", Form::Octets),
        types::INTEREST_SIGNATURE_INFO => {
            ("InterestSignatureInfo", Form::Elements(Inside::SignatureInfo))
        }
        types::INTEREST_SIGNATURE_VALUE => ("InterestSignatureValue", Form::Octets),
        _ => return None,
    })
}

fn data_field(typ: u32) -> Option<(&'static str, Form)> {
    Some(match typ {
        types::META_INFO => ("MetaInfo", Form::Elements(Inside::MetaInfo)),
        types::CONTENT => ("Content", Form::Octets),
        types::SIGNATURE_INFO => ("SignatureInfo", Form::Elements(Inside::SignatureInfo)),
        types::SIGNATURE_VALUE => ("SignatureValue", Form::Octets),
        _ => return None,
    })
}

fn signature_field(typ: u32) -> Option<(&'static str, Form)> {
    Some(match typ {
        types::SIGNATURE_TYPE => ("SignatureType", Form::Assigned(signature_type)),
        types::KEY_LOCATOR => ("KeyLocator", Form::Elements(Inside::KeyLocator)),
        types::SIGNATURE_NONCE => ("SignatureNonce", Form::Octets),
        types::SIGNATURE_TIME => ("SignatureTime", Form::Number),
        types::SIGNATURE_SEQ_NUM => ("SignatureSeqNum", Form::Number),
        types::VALIDITY_PERIOD => ("ValidityPeriod", Form::Elements(Inside::ValidityPeriod)),
        _ => return None,
    })
}

fn link_field(typ: u32) -> Option<(&'static str, Form)> {
    Some(match typ {
        types::LP_FRAGMENT => ("Fragment", Form::Fragment),
        types::LP_SEQUENCE => ("Sequence", Form::Number),
        types::LP_FRAG_INDEX => ("FragIndex", Form::Number),
        types::LP_FRAG_COUNT => ("FragCount", Form::Number),
        types::LP_PIT_TOKEN => ("PitToken", Form::Octets),
        types::LP_NACK => ("Nack", Form::Elements(Inside::Nack)),
        types::LP_INCOMING_FACE_ID => ("IncomingFaceId", Form::Number),
        types::LP_NEXT_HOP_FACE_ID => ("NextHopFaceId", Form::Number),
        types::LP_CACHE_POLICY => ("CachePolicy", Form::Elements(Inside::CachePolicy)),
        types::LP_CONGESTION_MARK => ("CongestionMark", Form::Number),
        types::LP_ACK => ("Ack", Form::Number),
        types::LP_TX_SEQUENCE => ("TxSequence", Form::Number),
        types::LP_NON_DISCOVERY => ("NonDiscovery", Form::Octets),
        types::LP_PREFIX_ANNOUNCEMENT => ("PrefixAnnouncement", Form::Elements(Inside::Packet)),
        _ => return None,
    })
}

fn component_name(typ: u32) -> &'static str {
    match typ {
        types::GENERIC_COMPONENT => "GenericNameComponent",
        types::IMPLICIT_SHA256_DIGEST => "ImplicitSha256DigestComponent",
        types::PARAMETERS_SHA256_DIGEST => "ParametersSha256DigestComponent",
        types::KEYWORD_COMPONENT => "KeywordNameComponent",
        types::SEGMENT_COMPONENT => "SegmentNameComponent",
        types::BYTE_OFFSET_COMPONENT => "ByteOffsetNameComponent",
        types::VERSION_COMPONENT => "VersionNameComponent",
        types::TIMESTAMP_COMPONENT => "TimestampNameComponent",
        types::SEQUENCE_COMPONENT => "SequenceNumNameComponent",
        _ => "NameComponent",
    }
}

/// ContentType (packet format v0.3, "ContentType"; the registry of NDN).
fn content_type(number: u64) -> &'static str {
    match number {
        0 => "BLOB",
        1 => "LINK",
        2 => "KEY",
        3 => "NACK",
        5 => "PrefixAnn",
        9 => "secret key",
        _ => "",
    }
}

fn nack_reason(number: u64) -> &'static str {
    match number {
        0 => "None",
        50 => "Congestion",
        100 => "Duplicate",
        150 => "NoRoute",
        _ => "",
    }
}

fn signature_type(number: u64) -> &'static str {
    SignatureType(number).name().unwrap_or_default()
}
