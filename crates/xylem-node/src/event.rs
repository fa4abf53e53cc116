//! [`Event`]: what a call reports while it runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use xylem_app::RegistrationNews;
use xylem_app::object::ObjectNews;
use xylem_base::json;
use xylem_engine::RelayNotice;
use xylem_files::LibraryEvent;
use xylem_hash::Hash;
use xylem_link::{Level, LinkStats};
use xylem_mailbox::MailEvent;
use xylem_object::ticket::Address;
use xylem_object::{PublisherId, Ticket};
use xylem_packet::Name;
use xylem_peers::reachable::{FaceAddress, LeftOut, Relay, WayTaken};
use xylem_reach::kind::{NatKind, ReachWay, Reachability};
use xylem_sink::GetSummary;
use xylem_sink::pieces::ProgressSnapshot;

use crate::code::CodeEvent;
use crate::fetch::TriedPeer;

/// The effect of a repository's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepositoryChange {
    /// None: the repository was opened.
    Opened,
    /// Packets were inserted.
    Inserted,
    /// Packets were removed.
    Removed,
    /// None: the command was refused.
    Refused,
}

/// An event of a running call; events are reported in order.
///
/// The JSON form is defined in docs/spec/json-events.md.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Ready to serve. The ticket is complete and can be given to getters.
    Shared {
        /// The ticket, `xylem:…`.
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
        /// The signer, if the publication was fetched and is served again unchanged.
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
    /// How this share or machine is reached from elsewhere, as far as is known. Repeated when more becomes known.
    Reach(ReachStatus),
    /// The router forwards a port of its own to this share.
    Mapped {
        /// The mapped address, as the router reported it.
        address: SocketAddr,
        /// Protocol of the request: PCP, NAT-PMP or UPnP.
        by: String,
    },
    /// The DHT is searched for the sharer of a ticket from now on: its nodes learn this machine's address.
    TicketInDht,
    /// No sharer that the DHT lists under a root has answered: from now on it lists this machine as a getter, so that the NATs
    /// between the two open.
    RootInDht,
    /// No direct way to the other side of a code, or to a sharer or getter, was found. Relays of strangers, volunteers that
    /// the DHT lists, pass the encrypted datagrams from now on.
    #[serde(rename = "volunteer_relays")]
    Volunteers {
        /// The relays.
        #[serde(serialize_with = "texts")]
        relays: Vec<Relay>,
    },
    /// The DHT lists this share: any peer can find it.
    Announced {
        /// By this root.
        #[serde(serialize_with = "json::text")]
        root: Hash,
        /// The publisher.
        #[serde(serialize_with = "json::text")]
        publisher: PublisherId,
        /// The publisher's name for it, listed as well, if one was signed.
        name: Option<String>,
    },
    /// A node or a share listens there.
    Listening {
        /// Where.
        uri: FaceAddress,
    },
    /// The node relays for others.
    Relaying {
        /// Relay addresses that other peers pass to `--relay`, one for each address of the node.
        uris: Vec<String>,
        /// The same addresses without the key, which peers pass to `--relay` as well, if the node answers dialers without its key.
        hosts: Vec<String>,
        /// UDP port at which clients send a second request, to learn what address they appear to have.
        second_port: Option<u16>,
    },
    /// The DHT lists this relay under all keys of volunteers: any peer can find it.
    Volunteering,
    /// Counts of what the node has relayed so far, if they have changed.
    Relayed {
        /// Each count by its name.
        #[serde(flatten)]
        counts: BTreeMap<&'static str, u64>,
    },
    /// The node's repository was opened, or a command of it took effect or was refused.
    Repository {
        /// What it did.
        change: RepositoryChange,
        /// The packet, or the prefix of segments; of a refused command the command's own name, and of an opened
        /// repository its own.
        #[serde(serialize_with = "json::text")]
        name: Name,
        /// Packets that it inserted or removed.
        packets: u64,
        /// The reason why it was refused or is not complete.
        failed: Option<String>,
        /// Counts of the whole repository by their names.
        #[serde(flatten)]
        counts: BTreeMap<&'static str, u64>,
    },
    /// Counts of what the node has forwarded so far, if they have changed and the caller wants them. For display only: it
    /// has no JSON event.
    #[serde(skip)]
    Forwarded {
        /// Each count by its name.
        counts: BTreeMap<&'static str, u64>,
    },
    /// A forwarder accepted the registration of what is shared: from now on it can be fetched there.
    Registered {
        /// The forwarder.
        forwarder: FaceAddress,
        /// The prefix.
        #[serde(serialize_with = "json::text")]
        prefix: Name,
    },
    /// No peer has answered a fetch so far.
    Unanswered {
        /// The peers that the fetch tries to reach.
        peers: Vec<TriedPeer>,
        /// Seconds since the fetch began to try.
        seconds: f64,
    },
    /// A link came up.
    PeerConnected {
        /// The peer's address.
        peer: FaceAddress,
    },
    /// A peer at an address that the user named has proven a key that is neither the ticket's nor one that the
    /// publisher vouches for. Data from it is verified like all other data.
    OtherKey {
        /// The peer's address.
        peer: FaceAddress,
        /// The key.
        #[serde(serialize_with = "json::hex")]
        key: [u8; 32],
    },
    /// The link to a peer changed its path, for example from a relay to a direct path, or back.
    Moved {
        /// The address by which the peer was reached so far.
        peer: FaceAddress,
        /// The address by which it is reached now.
        to: FaceAddress,
    },
    /// A relay that this run uses accepted or refused our registration.
    Relay {
        /// The relay, as an address.
        relay: SocketAddr,
        /// Whether peers can reach us through it from now on.
        registered: bool,
        /// Whether the connection to the relay uses TCP, because UDP got no answer.
        over_tcp: bool,
        /// Reason of a failure. The registration is tried again.
        why: Option<String>,
    },
    /// Shaping is active on the link that came up, or this side requested it.
    Shaped {
        /// The peer's address.
        peer: FaceAddress,
        /// The level that both sides agreed to.
        #[serde(serialize_with = "json::text")]
        level: Level,
        /// The level that this side requested.
        #[serde(serialize_with = "json::text")]
        wanted: Level,
    },
    /// The fetch is complete, and shaped links stay open for a while so that their duration shows less.
    Holding {
        /// Seconds at most.
        seconds: f64,
    },
    /// A link ended.
    PeerGone {
        /// The peer's address.
        peer: FaceAddress,
        /// The text of a [`xylem_engine::FaceEnd`]: the peer's reason, the system's, or why this end has dropped it.
        why: String,
    },
    /// A peer sent something that did not verify; it was dropped and counted.
    PeerMisbehaved {
        /// The peer's address.
        peer: FaceAddress,
        /// A description of the packet.
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
        /// Number of these peers that are reached through a relay.
        relayed: usize,
        /// A picture of the progress for display to people.
        #[serde(skip)]
        picture: Option<Box<ProgressSnapshot>>,
    },
    /// Link statistics of the peers that are connected to a share, at most once a second. For display only: it has no
    /// JSON event.
    #[serde(skip)]
    Serving {
        /// Statistics by the address by which each peer is reached.
        links: Vec<(FaceAddress, LinkStats)>,
    },
    /// The fetch serves its verified content to other peers from now on.
    Offering {
        /// Addresses.
        listen: Vec<SocketAddr>,
        /// The key that links to these addresses prove.
        #[serde(serialize_with = "json::hex")]
        key: [u8; 32],
        /// A ticket for these addresses, if serving continues after the fetch.
        #[serde(serialize_with = "json::some_text")]
        ticket: Option<Box<Ticket>>,
    },
    /// The fetch is complete and goes on serving until it is asked to stop.
    #[serde(untagged)]
    Seeding(Box<GetSummary>),
    /// A peer reports that it has fetched all of a publication shared here.
    #[serde(untagged)]
    Fetched(FetchReport),
    /// A getter of a publication shared here began, was sent more (at most once a second), or ended.
    #[serde(untagged)]
    Getter(GetterReport),
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

/// How other peers reach this machine.
#[derive(Clone, Debug, Serialize)]
pub struct ReachStatus {
    /// How, in one word.
    #[serde(serialize_with = "json::text")]
    pub way: ReachWay,
    /// The address, if there is a single one.
    pub at: Option<SocketAddr>,
    /// Whether a peer from elsewhere has arrived that way.
    pub proven: bool,
    /// How over IPv4, if `at` is an IPv6 address.
    #[serde(serialize_with = "json::some_text")]
    pub over_ipv4: Option<ReachWay>,
    /// The kind of NAT in between.
    #[serde(serialize_with = "json::text")]
    pub nat: NatKind,
    /// The same as text for people.
    pub says: String,
}

impl From<Reachability> for ReachStatus {
    fn from(reach: Reachability) -> Self {
        let Reachability { way, at, proven, over_ipv4, nat, .. } = reach;
        Self { way, at, proven, over_ipv4, nat, says: reach.to_string() }
    }
}

impl From<Reachability> for Event {
    fn from(reach: Reachability) -> Self {
        Self::Reach(reach.into())
    }
}

/// A peer's report that it has fetched all of a publication.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "fetched")]
pub struct FetchReport {
    /// The peer's address.
    pub peer: FaceAddress,
    /// Versioned NDN name of the publication.
    #[serde(serialize_with = "json::text")]
    pub name: Name,
    /// Bytes of content in all.
    pub bytes: u64,
    /// Bytes that the peer fetched in this run, from any peer. It had the rest already.
    pub fetched: u64,
    /// Bytes of packets sent from here to the peer.
    pub sent: u64,
    /// Time since the peer's first request.
    #[serde(rename = "seconds", serialize_with = "json::seconds")]
    pub elapsed: Duration,
}

/// What one getter was sent of a publication.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "getter")]
pub struct GetterReport {
    /// Number of the getter, the same from its beginning to its end. A peer is a getter of each publication.
    pub number: u64,
    /// What has changed.
    pub state: GetterState,
    /// The peer's present address.
    pub peer: FaceAddress,
    /// How it is reached.
    pub way: WayTaken,
    /// Versioned NDN name of the publication.
    #[serde(serialize_with = "json::text")]
    pub name: Name,
    /// Bytes of content in all.
    pub bytes: u64,
    /// Bytes of packets sent from here to the peer so far, proofs included.
    pub sent: u64,
    /// Whether the peer has reported that it has all of it.
    pub complete: bool,
    /// Time since the peer's first request.
    #[serde(rename = "seconds", serialize_with = "json::seconds")]
    pub elapsed: Duration,
}

/// What a [`GetterReport`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GetterState {
    /// The first answer was sent.
    Began,
    /// More was sent.
    Continues,
    /// The connection to the peer has ended, or the publication is shared no more.
    Ended,
}

fn texts<S: Serializer>(all: &[impl ToString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

impl Event {
    /// The event for a relay's report, if it is of interest to people.
    pub(crate) fn of_relay(relay: SocketAddr, what: RelayNotice) -> Option<Self> {
        Some(match what {
            RelayNotice::Registered { over_tcp, .. } => {
                Self::Relay { relay, registered: true, over_tcp, why: None }
            }
            RelayNotice::Failed { why } => {
                Self::Relay { relay, registered: false, over_tcp: false, why: Some(why) }
            }
            RelayNotice::Observed { .. } => return None,
        })
    }

    /// A warning: something requested could not be done, and the run goes on.
    pub fn warning(what: impl Into<String>) -> Self {
        Self::Library(LibraryEvent::Warning { what: what.into() })
    }
}

/// Passes on the library's events.
pub(crate) fn from_library(on_event: &mut dyn FnMut(Event)) -> impl FnMut(LibraryEvent) + use<'_> {
    move |event| on_event(Event::Library(event))
}

/// Passes on forwarders' answers to registrations.
pub(crate) fn of_registrar(
    on_event: &mut dyn FnMut(Event),
) -> impl FnMut(RegistrationNews) + use<'_> {
    move |told| {
        on_event(match told {
            RegistrationNews::Taken { forwarder, prefix } => {
                Event::Registered { forwarder, prefix }
            }
            RegistrationNews::Failed(why) => Event::warning(why),
        });
    }
}
