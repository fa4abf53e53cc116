//! Datagrams outside of the link: the header of each, and keep-alives.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::SocketAddr;

use xylem_hash::Hasher;
use zeroize::Zeroizing;

use super::{CircuitTag, RelayFieldReader, address, read_address};

/// Length of the header before an inner datagram, in bytes: id and tag.
pub const HEADER: usize = ID + 4;

const ID: usize = 8;
const MAC: usize = 16;
/// Length of the fields of a keep-alive, and of its answer, in bytes: the shortest body of both.
const BODY: usize = 40;
/// Exclusive bound on the padding of a keep-alive, in bytes. Its answer has the same length.
pub(in crate::relay) const PADDING: u8 = 64;
/// Length of the shortest control datagram in bytes.
pub(in crate::relay) const SHORTEST: usize = HEADER + MAC + BODY;
const LONGEST: usize = SHORTEST + PADDING as usize;

const EPOCH: &str = "xylem v1 relay: ids and masks of an epoch";
const KEYS: &str = "xylem v1 relay: keys of keep-alives";
const BACK: &str = "xylem v1 relay: what one that is back says";

/// The first bytes of a datagram. They identify the registration, the direction and the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::relay) struct DatagramId(pub [u8; ID]);

impl DatagramId {
    #[inline]
    pub(in crate::relay) fn of(datagram: &[u8]) -> Option<Self> {
        (datagram.len() >= HEADER).then_some(Self(*datagram.first_chunk()?))
    }
}

/// Makes the headers of all datagrams of one direction and epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::relay) struct DatagramHead {
    pub id: DatagramId,
    mask: u32,
}

impl DatagramHead {
    /// The header of a datagram for this tag. `None`: a control datagram.
    #[inline]
    pub(in crate::relay) fn header(self, tag: Option<CircuitTag>) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..ID].copy_from_slice(&self.id.0);
        let tag = tag.map_or(0, CircuitTag::number) ^ self.mask;
        out[ID..].copy_from_slice(&tag.to_be_bytes());
        out
    }

    /// The number of the tag in a datagram with this id. 0: a control datagram.
    #[inline]
    pub(in crate::relay) fn tag(self, datagram: &[u8]) -> u32 {
        let bytes = datagram.get(ID..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes) ^ self.mask)
    }
}

/// The two heads of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::relay) struct IdEpoch {
    /// From client to relay.
    pub up: DatagramHead,
    /// From relay to client.
    pub down: DatagramHead,
}

impl IdEpoch {
    pub(in crate::relay) fn new(secret: &[u8; 32], number: u32) -> Self {
        let mut material = Zeroizing::new([0; 36]);
        material[..32].copy_from_slice(secret);
        material[32..].copy_from_slice(&number.to_be_bytes());
        let derived = xylem_hash::derive_key(EPOCH, &material[..]);
        let mut fields = RelayFieldReader(&derived);
        let mut head = || {
            let id = fields.array().expect("32 bytes are enough");
            DatagramHead {
                id: DatagramId(id),
                mask: u32::from_be_bytes(fields.array().expect("likewise")),
            }
        };
        Self { up: head(), down: head() }
    }
}

/// The keys of control datagrams.
pub(in crate::relay) struct KeepAliveKeys {
    pub up: Zeroizing<[u8; 32]>,
    pub down: Zeroizing<[u8; 32]>,
}

impl KeepAliveKeys {
    pub(in crate::relay) fn new(secret: &[u8; 32]) -> Self {
        let of = |direction| {
            let mut material = Zeroizing::new([direction; 33]);
            material[..32].copy_from_slice(secret);
            Zeroizing::new(xylem_hash::derive_key(KEYS, &material[..]))
        };
        Self { up: of(0), down: of(1) }
    }
}

pub(in crate::relay) const TOKEN: usize = 8;
/// Flag of a keep-alive: it ends the registration.
pub(in crate::relay) const LEAVES: u8 = 1;
/// Flag of an answer: the address is not proven, and the token has to be returned from it.
pub(in crate::relay) const PROVE: u8 = 1;
/// Flag of a datagram that answers nothing: the relay ends and has lost all registrations.
pub(in crate::relay) const ENDS: u8 = 2;
/// Length of a reset in bytes: shorter than every keep-alive, so that no answer is as long as what it answers.
const RESET: core::ops::Range<usize> = 37..64;

/// Contents of a keep-alive. Its answer has the same number and epoch, and the relay's flags and token.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::relay) struct KeepAlive {
    pub flags: u8,
    /// Higher than all earlier ones. 0 in a datagram that answers nothing.
    pub number: u32,
    /// The client accepts ids of this epoch from now on.
    pub epoch: u32,
    /// The token that the relay sent to this address, or zeros. In an answer without [`PROVE`]: the token of a reset
    /// that answers ids of this epoch from this address, or zeros.
    pub token: [u8; TOKEN],
    /// In the answer: which of the relay's ports answers.
    pub second: bool,
    /// In the answer: the address at which the client is observed.
    pub observed: Option<SocketAddr>,
}

/// Encrypts a control datagram, with `padding` bytes more than the shortest body.
///
/// The MAC serves as the nonce of the stream cipher that hides the body. Only equal bodies would encrypt equally, and
/// the number in each body prevents equal ones.
pub(in crate::relay) fn seal(
    key: &[u8; 32],
    head: DatagramHead,
    keep: &KeepAlive,
    padding: u8,
) -> Vec<u8> {
    let header = head.header(None);
    let mut body = vec![keep.flags];
    body.extend_from_slice(&keep.number.to_be_bytes());
    body.extend_from_slice(&keep.epoch.to_be_bytes());
    body.extend_from_slice(&keep.token);
    body.push(u8::from(keep.second));
    body.extend_from_slice(&address(keep.observed));
    let padding = usize::from(padding.min(PADDING.saturating_sub(1)));
    body.resize(BODY.saturating_add(padding), 0);
    let mac = mac(key, &header, &body);
    xor_keystream(key, &mac, &mut body);
    let mut out = header.to_vec();
    out.extend_from_slice(&mac);
    out.extend_from_slice(&body);
    out
}

/// Decrypts the output of [`seal`]. Returns `None` for anything else.
pub(in crate::relay) fn open(key: &[u8; 32], datagram: &[u8]) -> Option<KeepAlive> {
    if !(SHORTEST..LONGEST).contains(&datagram.len()) {
        return None;
    }
    let (header, rest) = datagram.split_first_chunk::<HEADER>()?;
    let (sent, hidden) = rest.split_first_chunk::<MAC>()?;
    let mut body = hidden.to_vec();
    xor_keystream(key, sent, &mut body);
    if !constant_time_eq::constant_time_eq(&mac(key, header, &body), sent) {
        return None;
    }
    let mut fields = RelayFieldReader(&body);
    let flags = fields.byte()?;
    let number = u32::from_be_bytes(fields.array()?);
    let epoch = u32::from_be_bytes(fields.array()?);
    let token = fields.array()?;
    let second = fields.byte()? == 1;
    let observed = read_address(fields.array()?)?;
    Some(KeepAlive { flags, number, epoch, token, second, observed })
}

/// A reset, which states that the id of a datagram is unknown: random bytes, then the token that the owner of the id
/// has received before.
pub(in crate::relay) fn reset(random: &[u8; 64], token: [u8; TOKEN]) -> Vec<u8> {
    let [drawn, bytes @ ..] = random;
    let more = usize::from(*drawn).checked_rem(RESET.len()).unwrap_or(0);
    let len = RESET.start.saturating_add(more).saturating_sub(TOKEN);
    let mut out = bytes.get(..len).unwrap_or_default().to_vec();
    out.extend_from_slice(&token);
    out
}

/// The token with which a relay that was killed and started again notifies a client that registered in this epoch. The
/// message has the form of a [`reset`]. Only the client and the relay know the token.
pub(in crate::relay) fn restart_token(secret: &[u8; 32], epoch: u32) -> [u8; TOKEN] {
    let mut material = Zeroizing::new([0; 36]);
    material[..32].copy_from_slice(secret);
    material[32..].copy_from_slice(&epoch.to_be_bytes());
    let derived = xylem_hash::derive_key(BACK, &material[..]);
    *derived.first_chunk().expect("32 bytes are more")
}

/// Whether a datagram is a reset with this token.
pub(in crate::relay) fn is_reset(datagram: &[u8], token: &[u8; TOKEN]) -> bool {
    RESET.contains(&datagram.len())
        && datagram
            .last_chunk()
            .is_some_and(|last: &[u8; TOKEN]| constant_time_eq::constant_time_eq(last, token))
}

/// The padding of a control datagram of this length.
pub(in crate::relay) fn padding_of(len: usize) -> u8 {
    u8::try_from(len.saturating_sub(SHORTEST)).unwrap_or(0)
}

fn mac(key: &[u8; 32], header: &[u8; HEADER], body: &[u8]) -> [u8; MAC] {
    let mut hasher = Hasher::new_keyed(key);
    hasher.update(&[0]).update(header).update(body);
    *hasher.finalize().as_bytes().first_chunk().expect("32 bytes are more")
}

fn xor_keystream(key: &[u8; 32], mac: &[u8; MAC], body: &mut [u8]) {
    let mut stream = [0; LONGEST];
    let stream = &mut stream[..body.len().min(LONGEST)];
    Hasher::new_keyed(key).update(&[1]).update(mac).finalize_xof().fill(stream);
    body.iter_mut().zip(stream).for_each(|(byte, with)| *byte ^= *with);
}
