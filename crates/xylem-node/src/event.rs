//! [`Event`]: what a call reports while it runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use xylem_app::Registration;
use xylem_app::object::ObjectNews;
use xylem_engine::RelayNews;
use xylem_hash::Hash;
use xylem_library::mail::MailEvent;
use xylem_library::pieces::Picture;
use xylem_library::reachable::{FaceAddress, LeftOut};
use xylem_library::{LibraryEvent, json};
use xylem_link::{Level, LinkStats};
use xylem_object::ticket::Address;
use xylem_object::{PublisherId, Ticket};
use xylem_packet::Name;
use xylem_reach::kind::{Nat, Reach, Way};

use crate::code::CodeEvent;
use crate::fetch::Tried;
use xylem_library::GetSummary;

/// What happens while a call runs, in order.
///
/// As JSON it is one of docs/spec/json-events.md.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Ready to serve. The ticket is complete: give it to whoever should fetch.
    Shared {
        /// What to give away, `xylem:…`.
        #[serde(serialize_with = "json::text")]
        ticket: Box<Ticket>,
        /// Versioned NDN name.
        #[serde(serialize_with = "json::text")]
        name: Name,
        /// Root.
        #[serde(serialize_with = "json::text")]
        root: Hash,
        /// Bytes of content.
        bytes: u64,
        /// Files.
        files: u64,
        /// Who signed it, where it was fetched and is served on as it was.
        #[serde(serialize_with = "json::some_text")]
        signed_by: Option<PublisherId>,
        /// Encrypted-link addresses.
        listen: Vec<SocketAddr>,
        /// Plain NDN addresses.
        plain: Vec<SocketAddr>,
        /// Where browsers find its page.
        web: Vec<SocketAddr>,
        /// Face URIs of carriers for the encrypted link; a ticket does not name them.
        carriers: Vec<FaceAddress>,
    },
    /// Where tickets say that this share can be reached.
    Reachable {
        /// The most likely first.
        #[serde(serialize_with = "texts")]
        addresses: Vec<Address>,
        /// Addresses of interfaces that are not named.
        left_out: Vec<LeftOut>,
    },
    /// How this share, or machine, is reached from elsewhere, as far as is known; said again when more is.
    Reach(Standpoint),
    /// The router forwards a port of its own to this share.
    Mapped {
        /// Where, as the router says.
        address: SocketAddr,
        /// How it was asked: PCP, NAT-PMP or UPnP.
        by: String,
    },
    /// The DHT lists this share: everybody can find it.
    Announced {
        /// By this root.
        #[serde(serialize_with = "json::text")]
        root: Hash,
        /// Whose it is.
        #[serde(serialize_with = "json::text")]
        publisher: PublisherId,
        /// By this name of the publisher's too, if it has signed one.
        name: Option<String>,
    },
    /// A node or a share listens there.
    Listening {
        /// Where.
        uri: FaceAddress,
    },
    /// The node relays for others.
    Relaying {
        /// What others name with `--relay`, for each of its addresses.
        uris: Vec<String>,
        /// The UDP port at which clients ask a second time as what they are seen.
        second_port: Option<u16>,
    },
    /// What the node has relayed so far, if that has changed.
    Relayed {
        /// Each count by its name.
        #[serde(flatten)]
        counts: BTreeMap<&'static str, u64>,
    },
    /// A forwarder took the registration of what is shared: from now on it can be fetched there.
    Registered {
        /// The forwarder.
        forwarder: FaceAddress,
        /// The prefix.
        #[serde(serialize_with = "json::text")]
        prefix: Name,
    },
    /// Nobody has answered a fetch so far.
    Unanswered {
        /// Whom it tries to reach.
        peers: Vec<Tried>,
        /// For how long.
        seconds: f64,
    },
    /// A link came up.
    PeerConnected {
        /// Who, as an address.
        peer: FaceAddress,
    },
    /// A peer at an address that somebody typed has proven a key that is neither the ticket's nor one that
    /// the publisher vouches for. What comes from it is proven like everything else.
    OtherKey {
        /// Who.
        peer: FaceAddress,
        /// The key.
        #[serde(serialize_with = "json::hex")]
        key: [u8; 32],
    },
    /// The link to a peer goes on by another way: directly and not through a relay, say, or back.
    Moved {
        /// Who, as the address by which it was reached so far.
        peer: FaceAddress,
        /// By which it is reached now.
        to: FaceAddress,
    },
    /// A relay that this run uses has taken us or has not.
    Relay {
        /// The relay, as an address.
        relay: SocketAddr,
        /// Whether others reach us through it from now on.
        registered: bool,
        /// Whether the way to it is a TCP connection, as UDP was silent.
        over_tcp: bool,
        /// Why not, where that is so. It is tried again.
        why: Option<String>,
    },
    /// Sizes and times of the link that came up are shaped, or this side wanted it.
    Shaped {
        /// Who the peer is, as an address.
        peer: FaceAddress,
        /// The level that both sides agreed to.
        #[serde(serialize_with = "json::text")]
        level: Level,
        /// What this side wanted.
        #[serde(serialize_with = "json::text")]
        wanted: Level,
    },
    /// Everything is here, and links under cover go on for a while: how long they last shows.
    Holding {
        /// For so long, at most.
        seconds: f64,
    },
    /// A link ended.
    PeerGone {
        /// Who.
        peer: FaceAddress,
        /// Why.
        why: String,
    },
    /// A peer sent something that did not verify; it was dropped and counted.
    PeerMisbehaved {
        /// Who.
        peer: FaceAddress,
        /// What it sent.
        what: String,
    },
    /// The signed manifest verified: what is about to be fetched.
    Found {
        /// Suggested file name.
        name: String,
        /// Whether it is a directory.
        directory: bool,
        /// Root.
        #[serde(serialize_with = "json::text")]
        root: Hash,
        /// Bytes of content.
        bytes: u64,
        /// Files.
        files: u64,
    },
    /// Progress of a fetch; at most ten a second.
    Progress {
        /// Verified bytes so far, resumed ones included.
        verified: u64,
        /// Bytes in all.
        total: u64,
        /// Peers that are being asked.
        peers: usize,
        /// Of these, reached through a relay.
        relayed: usize,
        /// For people to look at.
        #[serde(skip)]
        picture: Option<Box<Picture>>,
    },
    /// What has gone over the links of those who are connected to a share; once a second at most, for people
    /// to look at, and no event of JSON.
    #[serde(skip)]
    Serving {
        /// As the address by which each is reached.
        links: Vec<(FaceAddress, LinkStats)>,
    },
    /// What a fetch has verified is served to others from now on.
    Offering {
        /// Where.
        listen: Vec<SocketAddr>,
        /// The key that links to there prove.
        #[serde(serialize_with = "json::hex")]
        key: [u8; 32],
        /// A ticket to there, where it is served for longer than the fetch takes.
        #[serde(serialize_with = "json::some_text")]
        ticket: Option<Box<Ticket>>,
    },
    /// The fetch is complete and goes on serving until it is asked to stop.
    #[serde(untagged)]
    Seeding(Box<GetSummary>),
    /// A peer says that it has fetched all of something that is shared here.
    #[serde(untagged)]
    Fetched(Fetched),
    /// Something about files of this machine.
    #[serde(untagged)]
    Library(LibraryEvent),
    /// Something happened with mail.
    #[serde(untagged)]
    Mail(MailEvent),
    /// Something happened with a code.
    #[serde(untagged)]
    Code(CodeEvent),
}

impl From<ObjectNews> for Event {
    fn from(news: ObjectNews) -> Self {
        match news {
            ObjectNews::Connected { peer } => Self::PeerConnected { peer },
            ObjectNews::Progress { verified, total } => {
                Self::Progress { verified, total, peers: 1, relayed: 0, picture: None }
            }
            ObjectNews::Refused { peer, what } => Self::PeerMisbehaved { peer, what },
        }
    }
}

/// How others reach this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Standpoint {
    /// How, in one word.
    #[serde(serialize_with = "json::text")]
    pub way: Way,
    /// Where, if that is one address.
    pub at: Option<SocketAddr>,
    /// Whether somebody from elsewhere has come that way.
    pub proven: bool,
    /// How over IPv4, where `at` is an IPv6 address.
    #[serde(serialize_with = "json::some_text")]
    pub over_ipv4: Option<Way>,
    /// What stands between.
    #[serde(serialize_with = "json::text")]
    pub nat: Nat,
    /// For people.
    pub says: String,
}

impl From<Reach> for Event {
    fn from(reach: Reach) -> Self {
        let Reach { way, at, proven, over_ipv4, nat, .. } = reach;
        Self::Reach(Standpoint { way, at, proven, over_ipv4, nat, says: reach.to_string() })
    }
}

/// That a peer has fetched all of something, as the peer says.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "fetched")]
pub struct Fetched {
    /// Who, as an address.
    pub peer: FaceAddress,
    /// Versioned NDN name of what it is.
    #[serde(serialize_with = "json::text")]
    pub name: Name,
    /// Bytes of content in all.
    pub bytes: u64,
    /// Of these, fetched in this run from anybody; the rest was there.
    pub fetched: u64,
    /// Bytes of packets that went from here to the peer.
    pub sent: u64,
    /// Since it asked first.
    #[serde(rename = "seconds", serialize_with = "json::seconds")]
    pub elapsed: Duration,
}

fn texts<S: Serializer>(all: &[Address], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

impl Event {
    /// What happened with a relay, where that is for people.
    pub(crate) fn of_relay(relay: SocketAddr, what: RelayNews) -> Option<Self> {
        Some(match what {
            RelayNews::Registered { over_tcp, .. } => {
                Self::Relay { relay, registered: true, over_tcp, why: None }
            }
            RelayNews::Failed { why } => {
                Self::Relay { relay, registered: false, over_tcp: false, why: Some(why) }
            }
            RelayNews::Observed { .. } => return None,
        })
    }

    /// Something that was wanted could not be done; the run goes on.
    pub fn warning(what: impl Into<String>) -> Self {
        Self::Library(LibraryEvent::Warning { what: what.into() })
    }
}

/// Passes on what the library tells.
pub(crate) fn from_library(on_event: &mut dyn FnMut(Event)) -> impl FnMut(LibraryEvent) + use<'_> {
    move |event| on_event(Event::Library(event))
}

/// Passes on what forwarders say to registrations.
pub(crate) fn of_registrar(on_event: &mut dyn FnMut(Event)) -> impl FnMut(Registration) + use<'_> {
    move |told| {
        on_event(match told {
            Registration::Taken { forwarder, prefix } => Event::Registered { forwarder, prefix },
            Registration::Failed(why) => Event::warning(why),
        });
    }
}
