//! Files of the mail store beside the sessions: received messages ([`Letter`]) and outgoing envelopes ([`Parcel`]).
//! Numbers are big-endian.

use std::net::SocketAddr;

use xylem_link::PeerKey;
use xylem_mail::{EnvelopeId, MAX_BODY, MAX_ENVELOPE, MailBody, Party, SessionId};
use xylem_object::PublisherId;
use xylem_object::ticket::{
    RelayContact, read_addresses, read_relay, write_addresses, write_relay,
};
use zeroize::Zeroizing;

const VERSION: u8 = 1;
/// Version of parcels; those of version 1 have neither state nor body.
const PARCEL_VERSION: u8 = 2;
const STORED: u8 = 1;
const AGAIN: u8 = 2;
/// Most bytes of a file of either kind.
pub(super) const MAX_FILE: usize = MAX_ENVELOPE + MAX_BODY + 4_096;

/// A received message: `version (1) | accepted (1) | received, ms since 1970 (8) | envelope's id (16) | session (16) |
/// publisher (32) | link key (32) | body`.
#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    /// Its content was accepted.
    pub accepted: bool,
    /// When it arrived, in milliseconds since 1970.
    pub received_ms: u64,
    /// The envelope in which it arrived.
    pub envelope: EnvelopeId,
    /// Its session.
    pub session: SessionId,
    /// Its author.
    pub from: Party,
    /// Its content.
    pub body: MailBody,
}

impl Letter {
    pub(super) fn encode(&self) -> Option<Zeroizing<Vec<u8>>> {
        let body = self.body.encode().ok()?;
        let mut out = Zeroizing::new(Vec::with_capacity(106 + body.len()));
        out.extend_from_slice(&[VERSION, u8::from(self.accepted)]);
        out.extend_from_slice(&self.received_ms.to_be_bytes());
        out.extend_from_slice(&self.envelope.0);
        out.extend_from_slice(&self.session.0);
        out.extend_from_slice(&self.from.publisher.0);
        out.extend_from_slice(&self.from.link.0);
        out.extend_from_slice(&body);
        Some(out)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<2>()?;
        let (received, rest) = rest.split_first_chunk()?;
        let (envelope, rest) = rest.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (publisher, rest) = rest.split_first_chunk()?;
        let (link, body) = rest.split_first_chunk()?;
        (head[0] == VERSION && head[1] < 2).then_some(())?;
        Some(Self {
            accepted: head[1] == 1,
            received_ms: u64::from_be_bytes(*received),
            envelope: EnvelopeId(*envelope),
            session: SessionId(*session),
            from: Party { publisher: PublisherId(*publisher), link: PeerKey(*link) },
            body: MailBody::decode(body).ok()?,
        })
    }
}

/// Where an envelope is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MailRoute {
    /// To the receiver itself, at one of these addresses.
    Direct(Vec<SocketAddr>),
    /// To the receiver itself, at one of these addresses or by this relay.
    AtRelay(RelayContact, Vec<SocketAddr>),
    /// To a node that keeps it for the receiver: the node's key, if known, and its addresses.
    Via(Option<[u8; 32]>, Vec<SocketAddr>),
}

/// An envelope that its receiver is not known to have: `version = 2 (1) | route (1: 0 direct, 1 node, 2 node with a
/// key, 3 direct or at a relay) | queued, ms since 1970 (8) | session (16) | publisher (32) | link key (32) | [node's
/// key (32)] | addresses | [relay] | name's length (1) | name | state (1: 1 at the node, 2 sent again) | body's length
/// (4) | body | envelope`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// When it was queued, in milliseconds since 1970.
    pub queued: u64,
    /// Its session.
    pub session: SessionId,
    /// The receiver.
    pub to: Party,
    /// Where it is delivered.
    pub route: MailRoute,
    /// The receiver's local name.
    pub name: String,
    /// The node has it; its receiver has not confirmed it yet.
    pub stored: bool,
    /// It was sent before, and could not be read.
    pub again: bool,
    /// The message, so that it can be sent again.
    pub body: Option<Box<MailBody>>,
    /// The envelope to deliver.
    pub envelope: Vec<u8>,
}

impl Parcel {
    /// Returns the id of the envelope.
    pub fn id(&self) -> EnvelopeId {
        EnvelopeId::of(&self.envelope)
    }

    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let body = self.body.as_ref().and_then(|body| body.encode().ok()).unwrap_or_default();
        let mut out = Zeroizing::new(Vec::with_capacity(1_024 + body.len() + self.envelope.len()));
        let (kind, key, addresses): (u8, &[u8], _) = match &self.route {
            MailRoute::Direct(addresses) => (0, &[], addresses),
            MailRoute::AtRelay(_, addresses) => (3, &[], addresses),
            MailRoute::Via(None, addresses) => (1, &[], addresses),
            MailRoute::Via(Some(key), addresses) => (2, key, addresses),
        };
        out.extend_from_slice(&[PARCEL_VERSION, kind]);
        out.extend_from_slice(&self.queued.to_be_bytes());
        out.extend_from_slice(&self.session.0);
        out.extend_from_slice(&self.to.publisher.0);
        out.extend_from_slice(&self.to.link.0);
        out.extend_from_slice(key);
        write_addresses(&mut out, addresses);
        if let MailRoute::AtRelay(relay, _) = &self.route {
            write_relay(&mut out, relay);
        }
        let name = &self.name.as_bytes()[..self.name.len().min(255)];
        out.push(name.len() as u8);
        out.extend_from_slice(name);
        out.push(u8::from(self.stored) * STORED + u8::from(self.again) * AGAIN);
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(&body);
        out.extend_from_slice(&self.envelope);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<2>()?;
        let (queued, rest) = rest.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (publisher, rest) = rest.split_first_chunk()?;
        let (link, rest) = rest.split_first_chunk()?;
        (matches!(head[0], VERSION | PARCEL_VERSION) && head[1] < 4).then_some(())?;
        let (key, rest) = match head[1] {
            2 => rest.split_first_chunk().map(|(key, rest)| (Some(*key), rest))?,
            _ => (None, rest),
        };
        let (addresses, rest) = read_addresses(rest).ok()?;
        let (route, rest) = match head[1] {
            0 => (MailRoute::Direct(addresses), rest),
            3 => {
                let (relay, rest) = read_relay(rest).ok()?;
                (MailRoute::AtRelay(relay, addresses), rest)
            }
            _ => (MailRoute::Via(key, addresses), rest),
        };
        let (len, rest) = rest.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*len))?;
        let (state, body, envelope) = match head[0] {
            VERSION => (0, &[][..], rest),
            _ => {
                let (state, rest) = rest.split_first()?;
                let (len, rest) = rest.split_first_chunk()?;
                let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
                let (body, envelope) = rest.split_at_checked(len)?;
                (*state, body, envelope)
            }
        };
        Some(Self {
            queued: u64::from_be_bytes(*queued),
            session: SessionId(*session),
            to: Party { publisher: PublisherId(*publisher), link: PeerKey(*link) },
            route,
            name: String::from_utf8_lossy(name).into_owned(),
            stored: state & STORED != 0,
            again: state & AGAIN != 0,
            body: (!body.is_empty()).then(|| MailBody::decode(body).ok().map(Box::new)).flatten(),
            envelope: envelope.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_mail::MailContent;

    #[test]
    fn letters_and_parcels_survive_encoding_and_truncation_fails() {
        let party = Party { publisher: PublisherId([1; 32]), link: PeerKey([2; 32]) };
        let content = MailContent::Note("x".into());
        let body = MailBody { content, name: "n".into(), size: 1, sent_ms: 2 };
        let letter = Letter {
            accepted: true,
            received_ms: 5,
            envelope: EnvelopeId([3; 16]),
            session: SessionId([4; 16]),
            from: party,
            body,
        };
        let bytes = letter.encode().unwrap();
        let body = Some(Box::new(letter.body.clone()));
        assert_eq!(Letter::decode(&bytes), Some(letter));
        assert!((0..bytes.len()).all(|len| Letter::decode(&bytes[..len]).is_none()));
        let at = vec!["192.0.2.1:7".parse().unwrap()];
        let relay = RelayContact { key: [8; 32], addresses: vec!["r.example:7".parse().unwrap()] };
        for route in [
            MailRoute::Direct(at.clone()),
            MailRoute::Via(None, at.clone()),
            MailRoute::Via(Some([9; 32]), at.clone()),
            MailRoute::AtRelay(relay.clone(), at.clone()),
        ] {
            let parcel = Parcel {
                queued: 1,
                session: SessionId([2; 16]),
                to: party,
                route,
                name: "ann".into(),
                stored: true,
                again: false,
                body: body.clone(),
                envelope: vec![7; 100],
            };
            let bytes = parcel.encode();
            assert_eq!(Parcel::decode(&bytes), Some(parcel.clone()));
            // A parcel of version 1, without state and body.
            let bare = Parcel { stored: false, body: None, ..parcel };
            let mut old = bare.encode().to_vec();
            let at = old.len() - 105;
            old.drain(at..at + 5);
            old[0] = VERSION;
            assert_eq!(Parcel::decode(&old), Some(bare));
            assert!((0..bytes.len() - 100).all(|len| Parcel::decode(&bytes[..len]).is_none()));
        }
    }
}
