//! [`NodeConfig`]: a node's settings. The command reads settings files, not this crate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::time::Duration;

use crate::shaping::LinkOptions;
use xylem_base::FileMedium;
use xylem_forward::{ForwardingStrategy, LinkType, UnsolicitedPolicy};
use xylem_mailbox::MailboxConfig;
use xylem_packet::Name;
use xylem_peers::admission::{Prove, UNPROVEN_BYTES};
use xylem_peers::reachable::{LINK_PORT, NDN_PORT, PeerUri, WEB_SOCKET_PORT};

use super::error::NodeError;
use super::relay::RelayOptions;
use super::repo::RepoOptions;

/// Multicast group and port for NDN over IPv6, on one link; those of NFD.
pub const MULTICAST_GROUP_V6: SocketAddrV6 =
    SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234), 56_363, 0, 0);

/// Multicast group and port for NDN, assigned by the IANA.
pub const MULTICAST_GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 23, 170), 56_363);

/// A node's settings. [`NodeConfig::new`] gives the defaults, for use without a settings file.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// What the node does, which determines the usual addresses.
    pub role: NodeRole,
    /// Where to listen; `None`: the usual addresses.
    pub listen: Option<Vec<PeerUri>>,
    /// Faces that are made at the start and kept up.
    pub connect: Vec<PeerUri>,
    /// Multicast group and port over IPv4; `None`: no such multicast.
    pub multicast: Option<SocketAddrV4>,
    /// Multicast group and port over IPv6; `None`: no such multicast.
    pub multicast_v6: Option<SocketAddrV6>,
    /// Addresses of the interfaces that take part; empty: all but loopback.
    pub multicast_interfaces: Vec<IpAddr>,
    /// Whether all neighbours in a group receive each other (`MultiAccess`) or not (`AdHoc`: an Interest may go back
    /// to where it came from).
    pub multicast_link: LinkType,
    /// Interfaces for NDN over Ethernet: a face to NDN's group on each, and one for each neighbour that sends Interests.
    pub ethernet: Vec<String>,
    /// As `multicast_link`, of those groups.
    pub ethernet_link: LinkType,
    /// Permanent routes.
    pub routes: Vec<NodeRoute>,
    /// Strategies by prefix.
    pub strategies: Vec<(Name, ForwardingStrategy)>,
    /// Names of the node's region. Where a forwarding hint leads here, the Interest is forwarded by its own name.
    pub regions: Vec<Name>,
    /// Most pending Interests.
    pub pit_capacity: usize,
    /// Most routes, by the operator, by commands and by announcements together. One takes some 850 bytes.
    pub max_routes: usize,
    /// Most cached packets.
    pub cs_packets: usize,
    /// Most bytes of cached packets.
    pub cs_bytes: usize,
    /// What becomes of Data for which no Interest is pending.
    pub unsolicited: UnsolicitedPolicy,
    /// The HopLimit that Interests without one get as they are forwarded; `None`: they stay without.
    pub default_hop_limit: Option<NonZeroU8>,
    /// Directory for cached packets that do not fit in memory; `None`: they are dropped.
    pub cs_directory: Option<PathBuf>,
    /// Most bytes in that directory.
    pub cs_directory_bytes: u64,
    /// Where that directory, and that of a repository, is.
    pub cs_medium: FileMedium,
    /// Most faces.
    pub max_faces: usize,
    /// Drop the face that a UDP peer's first packet made after this long without a packet from it.
    pub idle: Duration,
    /// UDP peers that have to prove that they receive at their address.
    pub prove: Prove,
    /// Bytes beyond three for one for each address that has not been proven, and again over 20 minutes; 0: none.
    pub unproven_bytes: u32,
    /// Most Interests a second from each face; more are dropped.
    pub interests_per_second: Option<u32>,
    /// Most pending Interests of each face. One more drops the face's oldest. `None`: a sixteenth of the capacity.
    pub pit_quota: Option<usize>,
    /// Whether to accept prefix registrations from other machines if a trusted key signed them.
    pub localhop: bool,
    /// PEM files of the certificate chain and the key for carriers over TLS. `None`: a certificate made for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether to announce prefixes that programs register here to a routing daemon of this machine
    /// (`/localhost/nlsr`).
    pub readvertise: bool,
    /// Certificates of keys that may sign management commands. Empty: every local application may command.
    pub anchors: Vec<PathBuf>,
    /// Certificates signed by the anchors' keys, or by keys of certificates listed before them. Their keys may command
    /// as well.
    pub certificates: Vec<PathBuf>,
    /// Trust schema: what those keys, and keys that they certify, may command. `None`: everything.
    pub schema: Option<PathBuf>,
    /// Unix sockets to which management may create faces. The settings' own need not be listed.
    pub unix_sockets: Vec<PathBuf>,
    /// Storage of mail for other peers until they fetch it; `None`: no storage.
    pub mailbox: Option<MailboxConfig>,
    /// A repository of packets that commands insert; `None`: no repository.
    pub repo: Option<RepoOptions>,
    /// Options for relaying datagrams between other peers; `None`: no relaying.
    pub relay: Option<RelayOptions>,
    /// Interval of [`crate::Event::Forwarded`]; `None`: none is reported.
    pub count_every: Option<Duration>,
    /// Options of encrypted links.
    pub links: LinkOptions,
    /// Whether to answer peers that dial without the node's key.
    pub accept_open: bool,
    /// Directory of the node's identity, the key of its encrypted links.
    pub store: PathBuf,
}

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRole {
    /// Forwards Interests and Data, for this machine's programs too.
    #[default]
    Forwarder,
    /// Relays datagrams between its clients, and opens the ports for that alone.
    Relay,
}

/// A route of the settings.
#[derive(Clone, Debug)]
pub struct NodeRoute {
    /// The prefix that is reached there.
    pub prefix: Name,
    /// Next hop. The node makes a face to it and keeps it up.
    pub to: PeerUri,
    /// Lower costs are tried first.
    pub cost: u32,
}

impl NodeConfig {
    /// Defaults, for use without a settings file.
    pub fn new(store: PathBuf) -> Self {
        Self {
            role: NodeRole::default(),
            listen: None,
            connect: Vec::new(),
            multicast: Some(MULTICAST_GROUP),
            multicast_v6: None,
            multicast_link: LinkType::MultiAccess,
            multicast_interfaces: Vec::new(),
            ethernet: Vec::new(),
            ethernet_link: LinkType::MultiAccess,
            routes: Vec::new(),
            strategies: Vec::new(),
            regions: Vec::new(),
            pit_capacity: 1 << 20,
            max_routes: 1 << 20,
            cs_packets: 65_536,
            cs_bytes: 64 << 20,
            unsolicited: UnsolicitedPolicy::default(),
            default_hop_limit: None,
            cs_directory: None,
            cs_directory_bytes: 1 << 30,
            cs_medium: FileMedium::default(),
            max_faces: 1_024,
            idle: Duration::from_secs(600),
            prove: Prove::default(),
            unproven_bytes: UNPROVEN_BYTES,
            interests_per_second: None,
            pit_quota: None,
            localhop: false,
            readvertise: false,
            certificate: None,
            anchors: Vec::new(),
            certificates: Vec::new(),
            schema: None,
            unix_sockets: Vec::new(),
            mailbox: None,
            repo: None,
            relay: None,
            count_every: None,
            links: LinkOptions::default(),
            accept_open: false,
            store,
        }
    }

    /// These settings for a relay and nothing else: it listens for encrypted links alone, and makes no face and no route of
    /// its own. Limits, keys, mailboxes and `[node.relay]` stay.
    #[must_use]
    pub fn of_a_relay(mut self) -> Self {
        let links =
            |listen: Vec<PeerUri>| listen.into_iter().filter(PeerUri::is_encrypted).collect();
        self.role = NodeRole::Relay;
        self.listen = self.listen.map(links).filter(|listen: &Vec<_>| !listen.is_empty());
        self.relay.get_or_insert_with(RelayOptions::default);
        (self.multicast, self.multicast_v6) = (None, None);
        self.ethernet.clear();
        self.connect.clear();
        self.routes.clear();
        self.strategies.clear();
        self.cs_directory = None;
        self.repo = None;
        self
    }

    /// Addresses at which this node listens, in the order of the settings.
    ///
    /// # Errors
    /// [`NodeError::NoSocket`] if no path for the Unix socket is known.
    pub fn listening(&self) -> Result<Vec<PeerUri>, NodeError> {
        if let Some(listen) = &self.listen {
            return Ok(listen.clone());
        }
        if self.role == NodeRole::Relay {
            let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, LINK_PORT));
            return Ok(vec![
                format!("xylem://{at}").parse().expect("a scheme, an address and a port"),
            ]);
        }
        let socket = xylem_app::default_socket().ok_or(NodeError::NoSocket)?;
        let mut places = vec![PeerUri::unix(&socket)];
        for (scheme, port) in
            [("udp4", NDN_PORT), ("tcp4", NDN_PORT), ("ws", WEB_SOCKET_PORT), ("xylem", LINK_PORT)]
        {
            let uri = format!("{scheme}://{}", SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
            places.push(uri.parse().expect("a scheme, an address and a port"));
        }
        Ok(places)
    }
}
