//! Formats of the messages on the control stream and of datagrams outside of the link (docs/spec/reach.md, "Relay").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod datagram;

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use xylem_object::PublisherId;
use xylem_object::find::VOUCH_LEN;
use zeroize::Zeroizing;

pub use datagram::HEADER;
pub(super) use datagram::{
    DatagramHead, DatagramId, ENDS, IdEpoch, KeepAlive, KeepAliveKeys, LEAVES, PADDING, PROVE,
    SHORTEST, TOKEN, is_reset, open, padding_of, reset, restart_token, seal,
};

/// Maximum number of publishers that one registration may name.
pub const MAX_NAMES: usize = 8;

const VERSION: u8 = 1;
/// Length of type and length before each message of the stream, in bytes.
const MESSAGE_HEAD: usize = 3;
/// Length of the longest message body in bytes: a registration with all names and a proof.
const MAX_MESSAGE: usize = 43 + MAX_NAMES * (32 + VOUCH_LEN) + 32;

const REGISTER: u8 = 1;
const CONNECT: u8 = 2;
const REGISTERED: u8 = 0x81;
const CONNECTED: u8 = 0x82;
const REFUSED: u8 = 0x83;

const LISTENS: u8 = 1;
const WANTS_CODE: u8 = 2;
const HAS_PROOF: u8 = 4;

const BY_KEY: u8 = 1;
const BY_PUBLISHER: u8 = 2;
const BY_CODE: u8 = 3;

/// The stream's bytes are invalid; it cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// A message longer than any valid one.
    #[error("a relay message of {0} bytes")]
    TooLong(u16),
    /// A message of an unknown type.
    #[error("a relay message of unknown type {0}")]
    Unknown(u8),
    /// A protocol version that this program does not support.
    #[error("unsupported version {0} of the relay protocol")]
    Version(u8),
    /// A message with invalid fields.
    #[error("a malformed relay message ({0})")]
    Malformed(&'static str),
    /// A message that is not allowed at this point.
    #[error("a relay message out of order")]
    OutOfOrder,
}

/// One of the relay's two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayPort {
    /// The port for the link and all datagrams.
    First,
    /// A port that only reports the observed address. Two different answers show a symmetric NAT.
    Second,
}

/// Identifies a peer of a registration as a datagram's destination or source. Never 0. The top bit is set if the relay
/// chose the number, because the peer requested the circuit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CircuitTag(u32);

impl CircuitTag {
    const CHOSEN_BY_RELAY: u32 = 1 << 31;

    /// The tag with this number. `None` for 0.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    pub(super) fn of_relay(number: u32) -> Self {
        Self(number | Self::CHOSEN_BY_RELAY)
    }

    /// The number, which is not 0.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// True if the peer requested the circuit, false if this client did.
    #[must_use]
    pub fn is_of_relay(self) -> bool {
        self.0 & Self::CHOSEN_BY_RELAY != 0
    }
}

/// A publisher that a registration is found under, and the publisher's signature over the registered link key
/// (docs/spec/object.md, "Finding").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VouchedName {
    /// The publisher.
    pub publisher: PublisherId,
    /// The publisher's signature over the link key.
    pub vouch: [u8; VOUCH_LEN],
}

impl VouchedName {
    pub(super) fn is_vouched(&self, link_key: &[u8; 32]) -> bool {
        self.publisher.has_vouched(link_key, &self.vouch)
    }
}

/// The peer to connect to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectTarget {
    /// The client that has proven this link key to the relay.
    Key([u8; 32]),
    /// A client that this publisher vouches for.
    Publisher(PublisherId),
    /// The client to which the relay has assigned this number.
    Code(u32),
}

/// Why a relay refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RelayRefusal {
    /// No client with that key, publisher or number is registered.
    #[error("no peer with that key or code is registered at the relay")]
    NotHere,
    /// A limit for one key, address or network is reached, or requests come too fast.
    #[error("the relay's quota is used up for now")]
    Quota,
    /// A publisher does not vouch for the key.
    #[error("the publisher does not vouch for this key")]
    NotVouched,
    /// The relay refuses everything from this host for some minutes, because of earlier offences, or its operator has
    /// banned the client.
    #[error("the relay refuses all requests from this key or address for now")]
    Banned,
    /// The secret is in use with another key.
    #[error("another peer has registered with this secret")]
    Taken,
    /// The relay serves only listed keys and clients with its token.
    #[error(
        "the relay serves only its own users: name it with their token, KEY@HOST:PORT?token=TOKEN"
    )]
    NotAllowed,
    /// The relay is about to end, and takes no more clients and pairs.
    #[error("the relay is about to end")]
    Ending,
}

impl RelayRefusal {
    const ALL: [(u8, Self); 7] = [
        (1, Self::NotHere),
        (2, Self::Quota),
        (3, Self::NotVouched),
        (4, Self::Banned),
        (5, Self::Taken),
        (6, Self::NotAllowed),
        (7, Self::Ending),
    ];

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or(0, |(number, _)| *number)
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(it, _)| *it == number).map(|(_, it)| *it)
    }
}

/// The first message of a client that registers or, with the same secret, registers again.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Register {
    pub secret: Zeroizing<[u8; 32]>,
    /// Whether other clients may connect to this one.
    pub listens: bool,
    pub wants_code: bool,
    /// The first epoch of ids.
    pub epoch: u32,
    /// Keep-alives will have higher numbers than this.
    pub number: u32,
    pub names: Vec<VouchedName>,
    /// Proof that the client knows a token of the relay.
    pub proof: Option<[u8; 32]>,
}

impl Register {
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(self.listens, LISTENS)
            | flag(self.wants_code, WANTS_CODE)
            | flag(self.proof.is_some(), HAS_PROOF);
        let mut body = vec![VERSION, flags];
        body.extend_from_slice(&self.secret[..]);
        body.extend_from_slice(&self.epoch.to_be_bytes());
        body.extend_from_slice(&self.number.to_be_bytes());
        body.push(u8::try_from(self.names.len()).unwrap_or(u8::MAX));
        for name in &self.names {
            body.extend_from_slice(&name.publisher.0);
            body.extend_from_slice(&name.vouch);
        }
        body.extend(self.proof.iter().flatten());
        let message = message(REGISTER, &body);
        drop(Zeroizing::new(body));
        message
    }

    fn decode(body: &[u8]) -> Result<Self, WireError> {
        let bad = WireError::Malformed("register");
        let mut fields = RelayFieldReader(body);
        match fields.byte().ok_or(bad)? {
            VERSION => {}
            other => return Err(WireError::Version(other)),
        }
        let flags = fields.byte().ok_or(bad)?;
        if flags & !(LISTENS | WANTS_CODE | HAS_PROOF) != 0 {
            return Err(bad);
        }
        let secret = Zeroizing::new(fields.array().ok_or(bad)?);
        let epoch = u32::from_be_bytes(fields.array().ok_or(bad)?);
        let number = u32::from_be_bytes(fields.array().ok_or(bad)?);
        let count = usize::from(fields.byte().ok_or(bad)?);
        if count > MAX_NAMES {
            return Err(bad);
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let publisher = PublisherId(fields.array().ok_or(bad)?);
            let vouch = fields.array().ok_or(bad)?;
            names.push(VouchedName { publisher, vouch });
        }
        let proof = match flags & HAS_PROOF {
            0 => None,
            _ => Some(fields.array().ok_or(bad)?),
        };
        fields.end().ok_or(bad)?;
        let (listens, wants_code) = (flags & LISTENS != 0, flags & WANTS_CODE != 0);
        Ok(Self { secret, listens, wants_code, epoch, number, names, proof })
    }
}

/// A client's message on the stream.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum RelayRequest {
    Register(Register),
    Connect { tag: CircuitTag, target: ConnectTarget },
}

/// Encodes a request for a circuit.
pub(super) fn connect(tag: CircuitTag, target: ConnectTarget) -> Vec<u8> {
    let mut body = tag.number().to_be_bytes().to_vec();
    match target {
        ConnectTarget::Key(key) => {
            body.push(BY_KEY);
            body.extend_from_slice(&key);
        }
        ConnectTarget::Publisher(publisher) => {
            body.push(BY_PUBLISHER);
            body.extend_from_slice(&publisher.0);
        }
        ConnectTarget::Code(code) => {
            body.push(BY_CODE);
            body.extend_from_slice(&code.to_be_bytes());
        }
    }
    message(CONNECT, &body)
}

/// Decodes the first message from a client's bytes, and returns its length. `None`: it is incomplete.
pub(super) fn take_request(bytes: &[u8]) -> Result<Option<(RelayRequest, usize)>, WireError> {
    let Some(RelayFrame { kind, body, len }) = split(bytes)? else { return Ok(None) };
    let request = match kind {
        REGISTER => RelayRequest::Register(Register::decode(body)?),
        CONNECT => {
            let bad = WireError::Malformed("connect");
            let mut fields = RelayFieldReader(body);
            let tag = CircuitTag::new(u32::from_be_bytes(fields.array().ok_or(bad)?)).ok_or(bad)?;
            if tag.is_of_relay() {
                return Err(bad);
            }
            let target = match fields.byte().ok_or(bad)? {
                BY_KEY => ConnectTarget::Key(fields.array().ok_or(bad)?),
                BY_PUBLISHER => ConnectTarget::Publisher(PublisherId(fields.array().ok_or(bad)?)),
                BY_CODE => ConnectTarget::Code(u32::from_be_bytes(fields.array().ok_or(bad)?)),
                _ => return Err(bad),
            };
            fields.end().ok_or(bad)?;
            RelayRequest::Connect { tag, target }
        }
        other => return Err(WireError::Unknown(other)),
    };
    Ok(Some((request, len)))
}

/// A relay's message on the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RelayReply {
    Registered {
        /// Seconds that a registration lives after the last keep-alive.
        lifetime: u16,
        /// The address at which the client is observed; `None` if it came over a carrier.
        observed: Option<SocketAddr>,
        /// The second port, which also reports the observed address.
        second: Option<u16>,
        code: Option<u32>,
    },
    Connected(CircuitTag),
    /// Without a tag, the registration is refused.
    Refused(Option<CircuitTag>, RelayRefusal),
}

impl RelayReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, body) = match self {
            Self::Registered { lifetime, observed, second, code } => {
                let mut body = lifetime.to_be_bytes().to_vec();
                body.extend_from_slice(&address(*observed));
                body.extend_from_slice(&second.unwrap_or(0).to_be_bytes());
                body.extend_from_slice(&code.unwrap_or(0).to_be_bytes());
                (REGISTERED, body)
            }
            Self::Connected(tag) => (CONNECTED, tag.number().to_be_bytes().to_vec()),
            Self::Refused(tag, why) => {
                let mut body = tag.map_or(0, CircuitTag::number).to_be_bytes().to_vec();
                body.push(why.number());
                (REFUSED, body)
            }
        };
        out.extend_from_slice(&message(kind, &body));
    }
}

/// Decodes the first message from a relay's bytes, and returns its length. `None`: it is incomplete.
pub(super) fn take_reply(bytes: &[u8]) -> Result<Option<(RelayReply, usize)>, WireError> {
    let Some(RelayFrame { kind, body, len }) = split(bytes)? else { return Ok(None) };
    let mut fields = RelayFieldReader(body);
    let reply = match kind {
        REGISTERED => {
            let bad = WireError::Malformed("registered");
            let lifetime = u16::from_be_bytes(fields.array().ok_or(bad)?);
            let observed = read_address(fields.array().ok_or(bad)?).ok_or(bad)?;
            let second = u16::from_be_bytes(fields.array().ok_or(bad)?);
            let code = u32::from_be_bytes(fields.array().ok_or(bad)?);
            let (second, code) = ((second != 0).then_some(second), (code != 0).then_some(code));
            RelayReply::Registered { lifetime, observed, second, code }
        }
        CONNECTED => {
            let bad = WireError::Malformed("connected");
            let number = u32::from_be_bytes(fields.array().ok_or(bad)?);
            RelayReply::Connected(CircuitTag::new(number).ok_or(bad)?)
        }
        REFUSED => {
            let bad = WireError::Malformed("refused");
            let tag = CircuitTag::new(u32::from_be_bytes(fields.array().ok_or(bad)?));
            let why = fields.byte().and_then(RelayRefusal::from_number).ok_or(bad)?;
            RelayReply::Refused(tag, why)
        }
        other => return Err(WireError::Unknown(other)),
    };
    fields.end().ok_or(WireError::Malformed("too much"))?;
    Ok(Some((reply, len)))
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("no message of ours is so long");
    let mut out = vec![kind];
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(body);
    out
}

struct RelayFrame<'a> {
    kind: u8,
    body: &'a [u8],
    /// Length including type and length fields.
    len: usize,
}

/// The first message, if it is complete.
fn split(bytes: &[u8]) -> Result<Option<RelayFrame<'_>>, WireError> {
    let Some((&[kind, high, low], rest)) = bytes.split_first_chunk::<MESSAGE_HEAD>() else {
        return Ok(None);
    };
    let len = u16::from_be_bytes([high, low]);
    if usize::from(len) > MAX_MESSAGE {
        return Err(WireError::TooLong(len));
    }
    let body = rest.get(..usize::from(len));
    let whole = usize::from(len).saturating_add(MESSAGE_HEAD);
    Ok(body.map(|body| RelayFrame { kind, body, len: whole }))
}

struct RelayFieldReader<'a>(&'a [u8]);

impl RelayFieldReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

const ADDRESS: usize = 19;

/// `family (1): 0 none, 4, 6 | address (16), of IPv4 the first 4 | port (2)`.
fn address(of: Option<SocketAddr>) -> [u8; ADDRESS] {
    let mut out = [0; ADDRESS];
    let Some(of) = of else { return out };
    match of.ip() {
        IpAddr::V4(ip) => {
            out[0] = 4;
            out[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out[0] = 6;
            out[1..17].copy_from_slice(&ip.octets());
        }
    }
    out[17..].copy_from_slice(&of.port().to_be_bytes());
    out
}

fn read_address(bytes: [u8; ADDRESS]) -> Option<Option<SocketAddr>> {
    let mut fields = RelayFieldReader(&bytes);
    let family = fields.byte()?;
    let ip: [u8; 16] = fields.array()?;
    let port = u16::from_be_bytes(fields.array()?);
    match family {
        0 => (ip == [0; 16] && port == 0).then_some(None),
        4 => {
            let (v4, rest) = ip.split_first_chunk::<4>()?;
            let canonical = rest.iter().all(|byte| *byte == 0);
            canonical.then(|| Some(SocketAddr::new(IpAddr::from(*v4), port)))
        }
        6 => Some(Some(SocketAddr::new(Ipv6Addr::from(ip).into(), port))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
