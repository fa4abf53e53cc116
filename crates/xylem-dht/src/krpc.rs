//! KRPC: our queries as bytes, and the answers of nodes (BEP 5, 32, 42, 43, 44).

use core::net::SocketAddr;

use crate::address::compact_address;
use crate::bencode::{self, Dictionary, Value, put_bytes, put_integer};
use crate::id::{DhtId, ID_LEN, KEY_LEN};
use crate::item::MutableItem;

/// Length of a transaction id. Nodes that run the crate `mainline` answer only ids of four bytes.
pub(crate) const TRANSACTION_LEN: usize = 4;
/// Longest datagram that is read as an answer.
pub(crate) const MAX_ANSWER: usize = 4_096;
/// Longest token that is kept and returned.
pub(crate) const MAX_TOKEN: usize = 128;

/// The id of one query.
pub(crate) type Transaction = [u8; TRANSACTION_LEN];

/// The port under which we are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncedPort {
    /// The port from which the datagram comes, as the node sees it: a NAT's mapping of the socket that sends it.
    Implied,
    /// This port of the address that the node sees.
    Port(u16),
}

/// The ports under which we are listed, by family: a NAT maps IPv4 alone. A family without one lists nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedPorts {
    /// At nodes that IPv4 reaches.
    pub v4: Option<AnnouncedPort>,
    /// At nodes that IPv6 reaches.
    pub v6: Option<AnnouncedPort>,
}

impl AnnouncedPorts {
    /// The sending socket's ports, whatever a NAT makes of them.
    pub const IMPLIED: Self =
        Self { v4: Some(AnnouncedPort::Implied), v6: Some(AnnouncedPort::Implied) };

    /// One port for both families.
    pub const fn of(port: u16) -> Self {
        Self { v4: Some(AnnouncedPort::Port(port)), v6: Some(AnnouncedPort::Port(port)) }
    }

    pub(crate) fn for_family(self, v6: bool) -> Option<AnnouncedPort> {
        if v6 { self.v6 } else { self.v4 }
    }

    pub(crate) fn fits(self) -> bool {
        let zero = Some(AnnouncedPort::Port(0));
        (self.v4.is_some() || self.v6.is_some()) && self.v4 != zero && self.v6 != zero
    }
}

/// What a query asks.
#[derive(Debug)]
pub(crate) enum Query<'a> {
    FindNode(&'a DhtId),
    GetPeers(&'a DhtId),
    Get(&'a DhtId),
    AnnouncePeer { hash: &'a DhtId, port: AnnouncedPort, token: &'a [u8] },
    Put { item: &'a MutableItem, target: &'a DhtId, cas: Option<i64>, token: &'a [u8] },
}

impl Query<'_> {
    /// The datagram. `own`: the id that we claim. `both`: whether nodes of both families are wanted.
    pub(crate) fn encode(&self, transaction: Transaction, own: &DhtId, both: bool) -> Vec<u8> {
        let mut out = b"d1:ad".to_vec();
        if let Self::Put { cas: Some(cas), .. } = self {
            out.extend_from_slice(b"3:cas");
            put_integer(&mut out, *cas);
        }
        out.extend_from_slice(b"2:id");
        put_bytes(&mut out, &own.0);
        let name = match self {
            Self::FindNode(target) => {
                out.extend_from_slice(b"6:target");
                put_bytes(&mut out, &target.0);
                "find_node"
            }
            Self::GetPeers(hash) => {
                out.extend_from_slice(b"9:info_hash");
                put_bytes(&mut out, &hash.0);
                "get_peers"
            }
            Self::Get(target) => {
                out.extend_from_slice(b"6:target");
                put_bytes(&mut out, &target.0);
                "get"
            }
            Self::AnnouncePeer { hash, port, token } => {
                let port = match port {
                    AnnouncedPort::Implied => {
                        out.extend_from_slice(b"12:implied_porti1e");
                        // Nodes have to ignore it, and some refuse 0.
                        1
                    }
                    AnnouncedPort::Port(port) => *port,
                };
                out.extend_from_slice(b"9:info_hash");
                put_bytes(&mut out, &hash.0);
                out.extend_from_slice(b"4:port");
                put_integer(&mut out, port.into());
                out.extend_from_slice(b"5:token");
                put_bytes(&mut out, token);
                "announce_peer"
            }
            Self::Put { item, target, token, .. } => {
                out.extend_from_slice(b"1:k");
                put_bytes(&mut out, &item.key);
                if !item.salt.is_empty() {
                    out.extend_from_slice(b"4:salt");
                    put_bytes(&mut out, &item.salt);
                }
                out.extend_from_slice(b"3:seq");
                put_integer(&mut out, item.seq);
                out.extend_from_slice(b"3:sig");
                put_bytes(&mut out, &item.signature);
                // Not in BEP 44. The crate `mainline` requires it; others ignore what they do not know.
                out.extend_from_slice(b"6:target");
                put_bytes(&mut out, &target.0);
                out.extend_from_slice(b"5:token");
                put_bytes(&mut out, token);
                out.extend_from_slice(b"1:v");
                put_bytes(&mut out, &item.value);
                "put"
            }
        };
        if both && matches!(self, Self::FindNode(_) | Self::GetPeers(_) | Self::Get(_)) {
            out.extend_from_slice(b"4:wantl2:n42:n6e");
        }
        out.extend_from_slice(b"e1:q");
        put_bytes(&mut out, name.as_bytes());
        out.extend_from_slice(b"2:roi1e1:t");
        put_bytes(&mut out, &transaction);
        out.extend_from_slice(b"1:y1:qe");
        out
    }
}

/// A datagram with the form of an answer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) transaction: Transaction,
    /// Our address as the node sees it (BEP 42).
    pub(crate) seen: Option<SocketAddr>,
    pub(crate) body: AnswerBody<'a>,
}

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum AnswerBody<'a> {
    Response(Response<'a>),
    /// The number of an error; `None`: neither a valid error nor a valid response.
    Error(Option<i64>),
}

impl<'a> Answer<'a> {
    /// `None` for anything else: queries, other protocols, rubbish.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        if datagram.len() > MAX_ANSWER || datagram.first() != Some(&b'd') {
            return None;
        }
        let message = bencode::dictionary(datagram)?;
        let body = match message.bytes(b"y")? {
            b"r" => Response::read(message).map_or(AnswerBody::Error(None), AnswerBody::Response),
            b"e" => AnswerBody::Error(match message.list(b"e").next() {
                Some(Value::Integer(code)) => Some(code),
                _ => None,
            }),
            _ => return None,
        };
        let seen = message.bytes(b"ip").and_then(compact_address);
        Some(Self { transaction: message.array(b"t")?, seen, body })
    }
}

/// A response; each field beside the id is absent or foreign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'a> {
    pub(crate) id: DhtId,
    inside: Dictionary<'a>,
}

impl<'a> Response<'a> {
    fn read(message: Dictionary<'a>) -> Option<Self> {
        let inside = message.dictionary(b"r")?;
        Some(Self { id: DhtId(inside.array::<ID_LEN>(b"id")?), inside })
    }

    pub(crate) fn token(&self) -> Option<&'a [u8]> {
        self.inside.bytes(b"token").filter(|token| token.len() <= MAX_TOKEN)
    }

    /// Compact nodes of a family.
    pub(crate) fn nodes(&self, v6: bool) -> &'a [u8] {
        self.inside.bytes(if v6 { b"nodes6" } else { b"nodes" }).unwrap_or_default()
    }

    /// Addresses of peers.
    pub(crate) fn peers(&self) -> impl Iterator<Item = SocketAddr> + use<'a> {
        self.inside.list(b"values").filter_map(|value| match value {
            Value::Bytes(bytes) => compact_address(bytes),
            _ => None,
        })
    }

    /// The item, if it is the requested one and its key has signed it.
    pub(crate) fn item(&self, key: &[u8; KEY_LEN], salt: &[u8]) -> Option<MutableItem> {
        if self.inside.array::<KEY_LEN>(b"k")? != *key {
            return None;
        }
        let item = MutableItem {
            key: *key,
            salt: salt.to_vec(),
            seq: self.inside.integer(b"seq")?,
            value: self.inside.bytes(b"v")?.to_vec(),
            signature: self.inside.array(b"sig")?,
        };
        (item.fits() && item.is_signed()).then_some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: DhtId = DhtId(*b"abcdefghij0123456789");
    const HASH: DhtId = DhtId(*b"mnopqrstuvwxyz123456");

    /// The examples of BEP 5, with `ro` (BEP 43) and transactions of four bytes.
    #[test]
    fn queries_are_those_of_the_standards() {
        let text =
            |query: Query<'_>, both| String::from_utf8(query.encode(*b"aaaa", &OWN, both)).unwrap();
        assert_eq!(
            text(Query::FindNode(&HASH), false),
            "d1:ad2:id20:abcdefghij01234567896:target20:mnopqrstuvwxyz123456e1:q9:find_node2:roi1e1:t4:aaaa1:y1:qe"
        );
        assert_eq!(
            text(Query::GetPeers(&HASH), true),
            "d1:ad2:id20:abcdefghij01234567899:info_hash20:mnopqrstuvwxyz1234564:wantl2:n42:n6ee1:q9:get_peers2:roi1e1:t4:aaaa1:y1:qe"
        );
        let announced = |port| Query::AnnouncePeer { hash: &HASH, port, token: b"aoeusnth" };
        assert_eq!(
            text(announced(AnnouncedPort::Implied), true),
            "d1:ad2:id20:abcdefghij012345678912:implied_porti1e9:info_hash20:mnopqrstuvwxyz1234564:porti1e5:token8:aoeusnthe1:q13:announce_peer2:roi1e1:t4:aaaa1:y1:qe"
        );
        assert!(text(announced(AnnouncedPort::Port(6881)), true).contains("4:porti6881e"));
        let item = MutableItem {
            key: [b'k'; 32],
            salt: b"s".to_vec(),
            seq: 4,
            value: b"v".to_vec(),
            signature: [b'g'; 64],
        };
        let put = text(Query::Put { item: &item, target: &HASH, cas: Some(3), token: b"t" }, true);
        let read = bencode::dictionary(put.as_bytes()).unwrap().dictionary(b"a").unwrap();
        assert_eq!((read.integer(b"cas"), read.integer(b"seq")), (Some(3), Some(4)));
        assert_eq!((read.bytes(b"salt"), read.bytes(b"v")), (Some(&b"s"[..]), Some(&b"v"[..])));
    }

    #[test]
    fn answers_are_read_and_all_else_is_not_ours() {
        let answer = Answer::parse(
            b"d2:ip6:\x08\x08\x08\x08\x00\x051:rd2:id20:abcdefghij01234567895:token2:to6:valuesl6:axje.u6:idhtnm1:xi3eee1:t4:aaaa1:y1:re",
        )
        .unwrap();
        assert_eq!(answer.transaction, *b"aaaa");
        assert_eq!(answer.seen, Some("8.8.8.8:5".parse().unwrap()));
        let AnswerBody::Response(response) = answer.body else { panic!("{answer:?}") };
        assert_eq!((response.id, response.token()), (OWN, Some(&b"to"[..])));
        assert_eq!(response.peers().count(), 2);
        let error = Answer::parse(b"d1:eli201e6:brokene1:t4:aaaa1:y1:ee").unwrap();
        assert!(matches!(error.body, AnswerBody::Error(Some(201))));
        let broken = Answer::parse(b"d1:rd2:id3:abce1:t4:aaaa1:y1:re").unwrap();
        assert!(matches!(broken.body, AnswerBody::Error(None)));
        for other in [
            &b""[..],
            b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t4:aaaa1:y1:qe",
            b"d1:rd2:id20:abcdefghij0123456789e1:t2:aa1:y1:re",
            b"d1:rd2:id20:abcdefghij0123456789e1:y1:re",
            &[b'd'; 1_400],
        ] {
            assert!(Answer::parse(other).is_none(), "{other:?}");
        }
    }
}
