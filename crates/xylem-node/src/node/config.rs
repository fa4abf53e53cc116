//! What a node is told: [`NodeConfig`]. A settings file is the command's to read.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use crate::shaping::LinkOptions;
use xylem_forward::Strategy;
use xylem_packet::Name;

use super::error::NodeError;
use super::relay::RelayOptions;
use xylem_library::admission::Prove;
use xylem_library::mail::MailboxConfig;
use xylem_library::reachable::{LINK_PORT, NDN_PORT, PeerUri, WEB_SOCKET_PORT};

/// The group and port that the Internet Assigned Numbers Authority lists for NDN.
pub const MULTICAST_GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 23, 170), 56_363);

/// What a node is told. [`NodeConfig::new`] is what runs without a settings file.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where to listen; `None`: the usual places.
    pub listen: Option<Vec<PeerUri>>,
    /// Faces that are made at the start and kept up.
    pub connect: Vec<PeerUri>,
    /// Multicast group and port; `None`: no multicast.
    pub multicast: Option<SocketAddrV4>,
    /// Addresses of the interfaces that take part in it; empty: all but loopback.
    pub multicast_interfaces: Vec<Ipv4Addr>,
    /// Routes that always stand.
    pub routes: Vec<Route>,
    /// Strategies by prefix.
    pub strategies: Vec<(Name, Strategy)>,
    /// Names of the region that it is in: where a forwarding hint leads here, the Interest goes on by
    /// its own name.
    pub regions: Vec<Name>,
    /// Pending Interests at most.
    pub pit_capacity: usize,
    /// Cached packets at most.
    pub cs_packets: usize,
    /// Bytes of cached packets at most.
    pub cs_bytes: usize,
    /// Where cached packets go that memory has no room for; `None`: nowhere.
    pub cs_directory: Option<PathBuf>,
    /// Bytes of them at most.
    pub cs_directory_bytes: u64,
    /// Faces at most.
    pub max_faces: usize,
    /// A UDP peer that says nothing for this long loses the face that its first packet made.
    pub idle: Duration,
    /// Which UDP peers have to show that they are there.
    pub prove: Prove,
    /// Interests a second from each face; more are dropped.
    pub interests_per_second: Option<u32>,
    /// Pending Interests of each face at most, for one more its oldest goes out; `None`: a sixteenth of
    /// the capacity.
    pub pit_quota: Option<usize>,
    /// Take prefix registrations from other machines, if a trusted key signed them.
    pub localhop: bool,
    /// PEM files with the certificate chain and the key that carriers over TLS show; `None`: a
    /// certificate made up for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Tell a routing daemon of this machine (`/localhost/nlsr`) which prefixes programs register here.
    pub readvertise: bool,
    /// Certificates whose keys may command; empty: every local application may.
    pub anchors: Vec<PathBuf>,
    /// Certificates that the anchors' keys have signed, or those of certificates before them: whose keys may
    /// command as well.
    pub certificates: Vec<PathBuf>,
    /// What those keys, and those that they vouch for, may command; `None`: everything.
    pub schema: Option<PathBuf>,
    /// Unix sockets that management may be told to make faces to; the settings' own need not be here.
    pub unix_sockets: Vec<PathBuf>,
    /// Mail that is kept for others until they fetch it; `None`: none.
    pub mailbox: Option<MailboxConfig>,
    /// It passes datagrams between others that ask for it; `None`: it does not.
    pub relay: Option<RelayOptions>,
    /// What encrypted links are to be like.
    pub links: LinkOptions,
    /// Whether those who dial without the node's key are answered, too.
    pub accept_open: bool,
    /// Where the node's identity (the key of its encrypted links) is kept.
    pub store: PathBuf,
}

/// A route of the settings.
#[derive(Clone, Debug)]
pub struct Route {
    /// What is reached there.
    pub prefix: Name,
    /// Next hop; a face to it is made and kept up.
    pub to: PeerUri,
    /// Cheaper ones are tried first.
    pub cost: u32,
}

impl NodeConfig {
    /// What runs without a settings file.
    pub fn new(store: PathBuf) -> Self {
        Self {
            listen: None,
            connect: Vec::new(),
            multicast: Some(MULTICAST_GROUP),
            multicast_interfaces: Vec::new(),
            routes: Vec::new(),
            strategies: Vec::new(),
            regions: Vec::new(),
            pit_capacity: 1 << 20,
            cs_packets: 65_536,
            cs_bytes: 64 << 20,
            cs_directory: None,
            cs_directory_bytes: 1 << 30,
            max_faces: 1_024,
            idle: Duration::from_secs(600),
            prove: Prove::default(),
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
            relay: None,
            links: LinkOptions::default(),
            accept_open: false,
            store,
        }
    }

    /// Where this node listens, in the order in which it is told.
    ///
    /// # Errors
    /// [`NodeError::NoSocket`] where no place for the Unix socket is known.
    pub fn listening(&self) -> Result<Vec<PeerUri>, NodeError> {
        if let Some(listen) = &self.listen {
            return Ok(listen.clone());
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
