//! What a node is told: [`NodeConfig`], from code or from a settings file (TOML, its table `[node]`;
//! docs/node.md lists every setting).

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use xylem_forward::Strategy;
use xylem_link::Shaping;
use xylem_packet::Name;

use super::error::NodeError;
use crate::uri::{LINK_PORT, NDN_PORT, PeerUri, WEB_SOCKET_PORT};
use xylem_library::mail::MailboxConfig;

/// The group and port that the Internet Assigned Numbers Authority lists for NDN.
const MULTICAST_GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 23, 170), 56_363);

/// What a node is told. [`NodeConfig::new`] is what runs without a settings file.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Interests a second from each face; more are dropped.
    pub interests_per_second: Option<u32>,
    /// Pending Interests of each face at most; `None`: three quarters of the capacity, so that no
    /// face fills the table alone.
    pub pit_quota: Option<usize>,
    /// Take prefix registrations from other machines, if a trusted key signed them.
    pub localhop: bool,
    /// PEM files with the certificate chain and the key that carriers over TLS show; `None`: a
    /// certificate made up for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates whose keys may command; empty: every local application may.
    pub anchors: Vec<PathBuf>,
    /// Mail that is kept for others until they fetch it; `None`: none.
    pub mailbox: Option<MailboxConfig>,
    /// What sizes and times on encrypted links show.
    pub shaping: Shaping,
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
            interests_per_second: None,
            pit_quota: None,
            localhop: false,
            certificate: None,
            anchors: Vec::new(),
            mailbox: None,
            shaping: Shaping::default(),
            store,
        }
    }

    /// Reads a settings file: its table `[node]`, or the usual values if there is none.
    ///
    /// # Errors
    /// [`NodeError::Settings`], with the line of what is wrong.
    pub fn from_file(path: &Path, store: PathBuf) -> Result<Self, NodeError> {
        let wrong = |what: String| NodeError::Settings { path: path.to_path_buf(), what };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        Self::from_toml(&text, store).map_err(wrong)
    }

    /// As [`NodeConfig::from_file`], from the file's text.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn from_toml(text: &str, store: PathBuf) -> Result<Self, String> {
        let file: FileTable = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|at| text[..at.start.min(text.len())].lines().count().max(1));
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{place}{}", e.message().replace('\n', "; "))
        })?;
        let mut config = file.node.unwrap_or_default().apply(Self::new(store))?;
        config.mailbox = file.mailbox.and_then(MailboxTable::settings);
        Ok(config)
    }

    /// Where this node listens, in the order in which it is told.
    ///
    /// # Errors
    /// [`NodeError::NoSocket`] where no place for the Unix socket is known.
    pub fn listening(&self) -> Result<Vec<PeerUri>, NodeError> {
        if let Some(listen) = &self.listen {
            return Ok(listen.clone());
        }
        let socket = default_socket().ok_or(NodeError::NoSocket)?;
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

/// The Unix socket of a node that was not told another: `/run/xylem/xylem.sock` for root, else
/// `$XDG_RUNTIME_DIR/xylem/xylem.sock`.
pub fn default_socket() -> Option<PathBuf> {
    let dir = if is_root() {
        PathBuf::from("/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())?
    };
    Some(dir.join("xylem").join("xylem.sock"))
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[derive(Deserialize)]
struct FileTable {
    // Other tables are other commands'.
    node: Option<NodeTable>,
    mailbox: Option<MailboxTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MailboxTable {
    enabled: Option<bool>,
    each: Option<usize>,
    mailboxes: Option<usize>,
    bytes: Option<u64>,
    days: Option<u32>,
}

impl MailboxTable {
    fn settings(self) -> Option<MailboxConfig> {
        self.enabled.unwrap_or(true).then(|| {
            let mut limits = MailboxConfig::default();
            set(&mut limits.each, self.each);
            set(&mut limits.mailboxes, self.mailboxes);
            set(&mut limits.bytes, self.bytes);
            set(&mut limits.age, self.days.map(|n| Duration::from_secs(86_400) * n));
            limits
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    listen: Option<Vec<String>>,
    connect: Option<Vec<String>>,
    shape: Option<String>,
    max_faces: Option<usize>,
    idle_seconds: Option<u64>,
    interests_per_second: Option<u32>,
    pit_quota: Option<usize>,
    pit_capacity: Option<usize>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    cs_packets: Option<usize>,
    cs_bytes: Option<usize>,
    cs_directory: Option<PathBuf>,
    cs_directory_bytes: Option<u64>,
    multicast: Option<MulticastTable>,
    management: Option<ManagementTable>,
    route: Option<Vec<RouteTable>>,
    strategy: Option<Vec<StrategyTable>>,
    regions: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MulticastTable {
    enabled: Option<bool>,
    group: Option<SocketAddrV4>,
    interfaces: Option<Vec<Ipv4Addr>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagementTable {
    localhop: Option<bool>,
    anchors: Option<Vec<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    prefix: String,
    to: String,
    cost: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StrategyTable {
    prefix: String,
    strategy: String,
}

/// Limits that a machine of any size keeps.
const MAX_PIT: usize = 1 << 31;

impl NodeTable {
    fn apply(self, mut config: NodeConfig) -> Result<NodeConfig, String> {
        if let Some(listen) = self.listen {
            config.listen = Some(uris("listen", &listen)?);
        }
        config.connect = uris("connect", &self.connect.unwrap_or_default())?;
        if let Some(shape) = self.shape {
            config.shaping = shape.parse().map_err(|e| format!("shape: {shape}: {e}"))?;
        }
        set(&mut config.max_faces, self.max_faces);
        set(&mut config.idle, self.idle_seconds.map(Duration::from_secs));
        set(&mut config.pit_capacity, self.pit_capacity);
        set(&mut config.cs_packets, self.cs_packets);
        set(&mut config.cs_bytes, self.cs_bytes);
        set(&mut config.cs_directory_bytes, self.cs_directory_bytes);
        config.cs_directory = self.cs_directory;
        config.interests_per_second = self.interests_per_second;
        config.pit_quota = self.pit_quota;
        if !(1..=MAX_PIT).contains(&config.pit_capacity) {
            return Err(format!("pit_capacity has to be between 1 and {MAX_PIT}"));
        }
        config.certificate = match (self.tls_certificate, self.tls_key) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => return Err("tls_certificate and tls_key have to be given together".into()),
        };
        if let Some(multicast) = self.multicast {
            let group = multicast.group.unwrap_or(MULTICAST_GROUP);
            if !group.ip().is_multicast() {
                return Err(format!("multicast group {group} is no multicast address"));
            }
            config.multicast = multicast.enabled.unwrap_or(true).then_some(group);
            config.multicast_interfaces = multicast.interfaces.unwrap_or_default();
        }
        if let Some(management) = self.management {
            config.localhop = management.localhop.unwrap_or(false);
            config.anchors = management.anchors.unwrap_or_default();
            if config.localhop && config.anchors.is_empty() {
                return Err("localhop needs anchors: it takes commands from other machines".into());
            }
        }
        for route in self.route.unwrap_or_default() {
            let to = uri("route", &route.to)?;
            let (prefix, cost) = (name(&route.prefix)?, route.cost.unwrap_or(0));
            config.routes.push(Route { prefix, to, cost });
        }
        for choice in self.strategy.unwrap_or_default() {
            let (prefix, strategy) = (name(&choice.prefix)?, name(&choice.strategy)?);
            let strategy = Strategy::parse(strategy.as_ref())
                .ok_or_else(|| format!("strategy {} is not known", choice.strategy))?;
            config.strategies.push((prefix, strategy));
        }
        let regions = self.regions.unwrap_or_default();
        config.regions = regions.iter().map(|region| name(region)).collect::<Result<_, _>>()?;
        Ok(config)
    }
}

fn set<T>(value: &mut T, wanted: Option<T>) {
    if let Some(wanted) = wanted {
        *value = wanted;
    }
}

fn uri(setting: &str, text: &str) -> Result<PeerUri, String> {
    text.parse().map_err(|e| format!("{setting}: {text}: {e}"))
}

fn uris(setting: &str, texts: &[String]) -> Result<Vec<PeerUri>, String> {
    texts.iter().map(|text| uri(setting, text)).collect()
}

fn name(text: &str) -> Result<Name, String> {
    Name::from_uri(text).map_err(|e| format!("{text:?} is no name: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_link::Level;

    fn read(text: &str) -> Result<NodeConfig, String> {
        NodeConfig::from_toml(text, PathBuf::from("/s"))
    }

    #[test]
    fn every_setting_is_read() {
        let config = read(
            r#"
            [node]
            listen = ["unix:///tmp/x.sock", "tcp4://127.0.0.1:0"]
            connect = ["udp://192.0.2.1"]
            shape = "high"
            max_faces = 7
            idle_seconds = 30
            interests_per_second = 100
            pit_quota = 10
            pit_capacity = 1000
            tls_certificate = "/etc/xylem/chain.pem"
            tls_key = "/etc/xylem/key.pem"
            cs_packets = 3
            cs_bytes = 5
            cs_directory = "/var/cache/xylem"
            cs_directory_bytes = 9
            regions = ["/isp/site"]
            [node.multicast]
            enabled = false
            [node.management]
            localhop = true
            anchors = ["/etc/xylem/anchor.cert"]
            [[node.route]]
            prefix = "/a"
            to = "tcp://192.0.2.2"
            cost = 4
            [[node.strategy]]
            prefix = "/b"
            strategy = "/localhost/nfd/strategy/multicast"
            [mailbox]
            each = 5
            days = 2
            [other]
            unknown = 1
            "#,
        )
        .unwrap();
        assert_eq!(config.listen.unwrap()[0], PeerUri::unix(Path::new("/tmp/x.sock")));
        assert_eq!(config.connect, ["udp://192.0.2.1".parse().unwrap()]);
        assert_eq!(config.shaping, Shaping::at(Level::High));
        assert_eq!((config.max_faces, config.idle), (7, Duration::from_secs(30)));
        assert_eq!((config.interests_per_second, config.pit_quota), (Some(100), Some(10)));
        assert_eq!((config.pit_capacity, config.cs_packets, config.cs_bytes), (1000, 3, 5));
        assert_eq!(config.cs_directory, Some(PathBuf::from("/var/cache/xylem")));
        assert_eq!(config.cs_directory_bytes, 9);
        assert!(config.certificate.is_some());
        assert_eq!(config.multicast, None);
        assert!(config.localhop && config.anchors.len() == 1);
        assert_eq!((config.routes[0].prefix.to_string(), config.routes[0].cost), ("/a".into(), 4));
        assert_eq!((config.strategies.len(), config.regions.len()), (1, 1));
        let mailbox = config.mailbox.unwrap();
        assert_eq!((mailbox.each, mailbox.age), (5, Duration::from_secs(2 * 86_400)));
        assert_eq!(read("[mailbox]\nenabled = false").unwrap().mailbox, None);
    }

    #[test]
    fn an_empty_file_gives_the_usual_values() {
        let config = read("").unwrap();
        assert_eq!(config.multicast, Some(MULTICAST_GROUP));
        assert!(config.listen.is_none() && !config.localhop && config.routes.is_empty());
    }

    #[test]
    fn what_is_wrong_is_one_line_that_names_it() {
        for (text, says) in [
            ("[node]\nlisten = 5", "line 2"),
            ("[node]\n\nlissen = []", "lissen"),
            ("[node", "line 1"),
            ("[mailbox]\nsize = 1", "size"),
            ("[node]\nlisten = [\"http://x\"]", "http"),
            ("[node]\nconnect = [\"unix://relative\"]", "unix"),
            ("[node]\nshape = \"much\"", "much"),
            ("[node]\npit_capacity = 0", "pit_capacity"),
            ("[node]\ntls_key = \"k\"", "tls_certificate"),
            ("[node]\nmax_faces = -1", "line 2"),
            ("[node.multicast]\ngroup = \"10.0.0.1:5\"", "10.0.0.1"),
            ("[node.management]\nlocalhop = true", "anchors"),
            ("[[node.route]]\nprefix = \"no slash\"\nto = \"udp://h\"", "no slash"),
            ("[[node.strategy]]\nprefix = \"/\"\nstrategy = \"/mine\"", "/mine"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(says) && !said.contains('\n'), "{text:?} said {said:?}");
        }
    }
}
