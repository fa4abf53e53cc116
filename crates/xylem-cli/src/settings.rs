//! The settings file, in TOML: `relay`, `lan`, `map`, `public` and the tables `[relay_list]` and `[dht]` are for verbs that find peers. The tables
//! `[node]` and `[mailbox]` configure a node (docs/node.md lists every setting).

use std::fmt;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod relay;

use crate::relays::without_tokens;
use crate::shaping::post_quantum;
use relay::RelayTable;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use xylem_app::VerifyWith;
use xylem_forward::{LinkType, UnsolicitedPolicy};
use xylem_mailbox::MailboxConfig;
use xylem_mgmt::FaceUri;
use xylem_node::{
    ForwardingStrategy, MULTICAST_GROUP, MULTICAST_GROUP_V6, NamedRelay, NodeConfig, NodeRoute,
    PeerUri, PeerUriError, Prove, RelayList, RelayUriError, RepoOptions, VolunteerUse,
};
use xylem_packet::Name;
use xylem_reach::code::distance;

/// Reads the tables `[node]` and `[mailbox]` of a settings file; without them the default values.
///
/// # Errors
/// One line, with the file's name and the line of the mistake.
pub(crate) fn read(path: &Path, store: PathBuf) -> Result<NodeConfig, String> {
    let wrong = |what| format!("settings {}: {what}", path.display());
    let FileTable { relay: _, relay_list: _, lan: _, map: _, public: _, dht: _, node, mailbox } =
        file(path)?;
    let mut config = node.unwrap_or_default().apply(NodeConfig::new(store)).map_err(wrong)?;
    config.mailbox = mailbox.and_then(MailboxTable::settings);
    Ok(config)
}

/// The relays that a settings file names for all commands.
#[derive(Debug)]
pub(crate) enum RelaySetting {
    /// `relay`, above its tables.
    Named(Vec<NamedRelay>),
    /// The table `[relay_list]`.
    Listed(RelayList),
}

/// Reads `relay` and the table `[relay_list]`.
///
/// # Errors
/// As of [`read`].
pub(crate) fn relays(path: &Path) -> Result<RelaySetting, String> {
    let FileTable { relay, relay_list, .. } = file(path)?;
    let wrong = |what: String| format!("settings {}: {what}", path.display());
    match (relay, relay_list) {
        (Some(_), Some(_)) => {
            Err(wrong("both `relay` and [relay_list] name relays; give one of the two".into()))
        }
        (None, Some(table)) => table.list().map(RelaySetting::Listed).map_err(wrong),
        (named, None) => {
            let relay = |uri: &String| {
                uri.parse().map_err(|e: RelayUriError| {
                    wrong(without_tokens(&format!("relay: {uri}: {e}")))
                })
            };
            let named: Result<Vec<NamedRelay>, String> =
                named.unwrap_or_default().iter().map(relay).collect();
            named.map(RelaySetting::Named)
        }
    }
}

/// Settings for the LAN, the router and the DHT, for all commands.
pub(crate) struct DiscoverySettings {
    /// Whether to look and announce on the LAN.
    pub(crate) lan: bool,
    /// Whether to ask the router to forward ports.
    pub(crate) map: bool,
    /// Whether shares are announced in the DHT.
    pub(crate) public: bool,
    /// Where to enter the DHT.
    pub(crate) bootstrap: Option<Vec<String>>,
    /// Whether the DHT may be used at all.
    pub(crate) dht: bool,
    /// Whether codes use it.
    pub(crate) code_dht: bool,
    /// Whether codes use relays of strangers that are listed there.
    pub(crate) volunteers: VolunteerUse,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        let volunteers = VolunteerUse::default();
        let (bootstrap, public) = (None, false);
        Self { lan: true, map: true, public, bootstrap, dht: true, code_dht: true, volunteers }
    }
}

/// Reads `lan`, `map`, `public`, and `dht` or the table `[dht]`.
///
/// # Errors
/// As of [`read`].
pub(crate) fn finding(path: &Path) -> Result<DiscoverySettings, String> {
    let FileTable { lan, map, public, dht, .. } = file(path)?;
    let (dht, DhtTable { bootstrap, codes, volunteers }) = match dht {
        Some(DhtSetting::Whole(wanted)) => (wanted, DhtTable::default()),
        Some(DhtSetting::Table(table)) => (true, table),
        None => (true, DhtTable::default()),
    };
    let (lan, map) = (lan.unwrap_or(true), map.unwrap_or(true));
    let (public, code_dht) = (public.unwrap_or(false), dht && codes.unwrap_or(true));
    let volunteers = match volunteers {
        Some(false) => VolunteerUse::Never,
        Some(true) | None => VolunteerUse::Ask,
    };
    Ok(DiscoverySettings { lan, map, public, bootstrap, dht, code_dht, volunteers })
}

/// Parses a whole settings file. So a mistake anywhere is reported by the first command that reads it, even if it needs
/// another part.
fn file(path: &Path) -> Result<FileTable, String> {
    let wrong = |what: String| format!("settings {}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    tables(&text).map_err(wrong)
}

fn tables(text: &str) -> Result<FileTable, String> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map(|at| text[..at.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let what = unknown(e.message()).unwrap_or_else(|| e.message().replace('\n', "; "));
        format!("{place}{what}")
    })
}

/// The headers of the tables that can contain settings; the first one is the place above all tables.
const PLACES: [&str; 12] = [
    "",
    "[relay_list]",
    "[dht]",
    "[node]",
    "[node.multicast]",
    "[node.ethernet]",
    "[node.management]",
    "[node.relay]",
    "[node.repo]",
    "[[node.route]]",
    "[[node.strategy]]",
    "[mailbox]",
];

/// The message for an unknown setting: the nearest known one, or the table where it belongs. The library's message
/// lists all that it expected.
fn unknown(message: &str) -> Option<String> {
    let (field, expected) = expected(message)?;
    let what = format!("{field:?} is not a setting here");
    let is_flag = field.strip_prefix("no_").filter(|name| expected.contains(name));
    if let Some(name) = is_flag {
        return Some(format!("{what}; write {name} = false"));
    }
    let letters: Vec<char> = field.chars().collect();
    let apart = |known: &&&str| distance(&letters, known);
    let near = expected.iter().min_by_key(apart).filter(|known| apart(known) <= 2);
    if let Some(known) = near {
        return Some(format!("{what}; the nearest is {known:?}"));
    }
    let elsewhere =
        PLACES.iter().find(|place| settings_of(place).iter().any(|name| *name == field));
    Some(match elsewhere {
        Some(&"") => format!("{what}; it belongs above all tables"),
        Some(place) => format!("{what}; it belongs in {place}"),
        None => format!("{what}; the settings here are {}", expected.join(", ")),
    })
}

/// Extracts from a message of the library the field that it is about, and the expected ones.
fn expected(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

/// Names of the settings of a table, by its header.
fn settings_of(place: &str) -> Vec<String> {
    let asked = toml::from_str::<FileTable>(&format!("{place}\n-= 1")).err();
    let known = asked.as_ref().and_then(|e| expected(e.message()));
    known.map_or_else(Vec::new, |(_, known)| known.into_iter().map(str::to_owned).collect())
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DhtTable {
    bootstrap: Option<Vec<String>>,
    codes: Option<bool>,
    volunteers: Option<bool>,
}

/// `dht = false`, or the table.
enum DhtSetting {
    Whole(bool),
    Table(DhtTable),
}

impl<'de> Deserialize<'de> for DhtSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;
        impl<'de> Visitor<'de> for EitherForm {
            type Value = DhtSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table")
            }

            fn visit_bool<E>(self, wanted: bool) -> Result<DhtSetting, E> {
                Ok(DhtSetting::Whole(wanted))
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<DhtSetting, M::Error> {
                DhtTable::deserialize(MapAccessDeserializer::new(map)).map(DhtSetting::Table)
            }
        }
        deserializer.deserialize_any(EitherForm)
    }
}

/// The structure of a settings file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    relay: Option<Vec<String>>,
    relay_list: Option<RelayListTable>,
    lan: Option<bool>,
    map: Option<bool>,
    public: Option<bool>,
    dht: Option<DhtSetting>,
    node: Option<NodeTable>,
    mailbox: Option<MailboxTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelayListTable {
    file: PathBuf,
    signer: PathBuf,
    read_seconds: Option<u64>,
}

impl RelayListTable {
    fn list(self) -> Result<RelayList, String> {
        let Self { file, signer, read_seconds } = self;
        if file.to_string_lossy().contains("://") {
            return Err(format!(
                "relay_list file: {}: lists are files here, and are not fetched; let a timer fetch it and its .sig, for \
                 example from a share with `xylem get`",
                file.display()
            ));
        }
        for (name, path) in [("file", &file), ("signer", &signer)] {
            if !path.is_absolute() {
                let path = path.display();
                return Err(format!("relay_list {name}: {path}: give the path from the root"));
            }
        }
        let signer = VerifyWith::Certificates(vec![signer]);
        let mut list = RelayList::new(file, signer);
        set(&mut list.again, read_seconds.map(|n| Duration::from_secs(n.max(1))));
        Ok(list)
    }
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
    post_quantum: Option<String>,
    accept_open: Option<bool>,
    max_faces: Option<usize>,
    idle_seconds: Option<u64>,
    udp_prove: Option<String>,
    udp_unproven_bytes: Option<u32>,
    interests_per_second: Option<RateLimit>,
    pit_quota: Option<usize>,
    pit_capacity: Option<usize>,
    max_routes: Option<usize>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    cs_packets: Option<usize>,
    cs_bytes: Option<usize>,
    unsolicited_data: Option<String>,
    default_hop_limit: Option<u8>,
    cs_directory: Option<PathBuf>,
    cs_directory_bytes: Option<u64>,
    multicast: Option<MulticastTable>,
    ethernet: Option<EthernetTable>,
    management: Option<ManagementTable>,
    relay: Option<RelayTable>,
    repo: Option<RepoTable>,
    route: Option<Vec<RouteTable>>,
    strategy: Option<Vec<StrategyTable>>,
    regions: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MulticastTable {
    enabled: Option<bool>,
    group: Option<SocketAddrV4>,
    ipv6: Option<bool>,
    group_v6: Option<SocketAddrV6>,
    interfaces: Option<Vec<IpAddr>>,
    ad_hoc: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EthernetTable {
    devices: Vec<String>,
    ad_hoc: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagementTable {
    localhop: Option<bool>,
    readvertise: Option<bool>,
    anchors: Option<Vec<PathBuf>>,
    certificates: Option<Vec<PathBuf>>,
    schema: Option<PathBuf>,
    unix_sockets: Option<Vec<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RepoTable {
    prefix: String,
    directory: PathBuf,
    repo_bytes: Option<u64>,
    anchors: Vec<PathBuf>,
    certificates: Option<Vec<PathBuf>>,
    schema: Option<PathBuf>,
}

impl RepoTable {
    fn settings(self) -> Result<RepoOptions, String> {
        let prefix = name(&self.prefix)?;
        if prefix.is_empty() {
            return Err("repo: prefix has to have a component: commands begin with it".into());
        }
        if self.anchors.is_empty() {
            return Err("repo needs anchors, whose keys may insert".into());
        }
        let bytes = self.repo_bytes.unwrap_or(REPO_BYTES);
        if bytes < MIN_REPO_BYTES {
            return Err(format!("repo_bytes has to be {MIN_REPO_BYTES} at least"));
        }
        Ok(RepoOptions {
            prefix,
            directory: self.directory,
            bytes,
            anchors: self.anchors,
            certificates: self.certificates.unwrap_or_default(),
            schema: self.schema,
        })
    }
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

/// A limit per second. 0 would let nothing through, so it is no limit, as in the table of relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateLimit {
    /// `"none"`, or 0.
    None,
    PerSecond(u32),
}

impl<'de> Deserialize<'de> for RateLimit {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = RateLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number a second up to {}, or \"none\"", u32::MAX)
            }

            fn visit_i64<E: de::Error>(self, rate: i64) -> Result<RateLimit, E> {
                match u32::try_from(rate) {
                    Ok(0) => Ok(RateLimit::None),
                    Ok(rate) => Ok(RateLimit::PerSecond(rate)),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(rate), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RateLimit, E> {
                match word {
                    "none" => Ok(RateLimit::None),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        value.deserialize_any(Reader)
    }
}

/// The usual quota of a repository, bytes, and the smallest one.
const REPO_BYTES: u64 = 1 << 30;
const MIN_REPO_BYTES: u64 = 1 << 16;
/// The node's own prefixes, and room for some.
const MIN_ROUTES: usize = 64;
/// Upper limits that any machine can hold.
const MAX_PIT: usize = 1 << 31;

impl NodeTable {
    fn apply(self, mut config: NodeConfig) -> Result<NodeConfig, String> {
        if let Some(listen) = self.listen {
            config.listen = Some(uris("listen", &listen)?);
        }
        let connect = self.connect.unwrap_or_default();
        config.connect =
            connect.iter().map(|text| far_uri("connect", text)).collect::<Result<_, _>>()?;
        if let Some(shape) = self.shape {
            config.links.shaping = shape.parse().map_err(|e| format!("shape: {shape}: {e}"))?;
        }
        if let Some(when) = self.post_quantum {
            config.links.post_quantum =
                post_quantum(&when).map_err(|e| format!("post_quantum: {when}: {e}"))?;
        }
        set(&mut config.accept_open, self.accept_open);
        set(&mut config.max_faces, self.max_faces);
        set(&mut config.idle, self.idle_seconds.map(Duration::from_secs));
        if let Some(who) = self.udp_prove {
            config.prove = prove(&who)?;
        }
        set(&mut config.unproven_bytes, self.udp_unproven_bytes);
        set(&mut config.pit_capacity, self.pit_capacity);
        set(&mut config.max_routes, self.max_routes);
        set(&mut config.cs_packets, self.cs_packets);
        set(&mut config.cs_bytes, self.cs_bytes);
        if let Some(word) = self.unsolicited_data {
            config.unsolicited = unsolicited(&word)?;
        }
        config.default_hop_limit = self.default_hop_limit.and_then(NonZeroU8::new);
        set(&mut config.cs_directory_bytes, self.cs_directory_bytes);
        config.cs_directory = self.cs_directory;
        config.interests_per_second = match self.interests_per_second {
            Some(RateLimit::PerSecond(rate)) => Some(rate),
            Some(RateLimit::None) | None => None,
        };
        config.pit_quota = self.pit_quota;
        if config.max_routes < MIN_ROUTES {
            return Err(format!("max_routes has to be {MIN_ROUTES} at least"));
        }
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
            if !group.ip().is_multicast() || group.port() == 0 {
                return Err(format!("multicast group {group} is not a multicast address and port"));
            }
            let group_v6 = multicast.group_v6.unwrap_or(MULTICAST_GROUP_V6);
            if !group_v6.ip().is_multicast() || group_v6.port() == 0 {
                return Err(format!(
                    "multicast group {group_v6} is not a multicast address and port"
                ));
            }
            let enabled = multicast.enabled.unwrap_or(true);
            config.multicast = enabled.then_some(group);
            let with_ipv6 = enabled && multicast.ipv6.unwrap_or(false);
            config.multicast_v6 = with_ipv6.then_some(group_v6);
            config.multicast_interfaces = multicast.interfaces.unwrap_or_default();
            if multicast.ad_hoc == Some(true) {
                config.multicast_link = LinkType::AdHoc;
            }
        }
        if let Some(ethernet) = self.ethernet {
            config.ethernet = ethernet.devices;
            if ethernet.ad_hoc == Some(true) {
                config.ethernet_link = LinkType::AdHoc;
            }
        }
        if let Some(management) = self.management {
            config.localhop = management.localhop.unwrap_or(false);
            config.readvertise = management.readvertise.unwrap_or(false);
            config.anchors = management.anchors.unwrap_or_default();
            config.certificates = management.certificates.unwrap_or_default();
            if config.anchors.is_empty() && !config.certificates.is_empty() {
                return Err("certificates need anchors, whose keys have signed them".into());
            }
            config.unix_sockets = management.unix_sockets.unwrap_or_default();
            config.schema = management.schema;
            if config.schema.is_some() && config.anchors.is_empty() {
                return Err("schema needs anchors: it says what their keys may command".into());
            }
            if config.localhop && config.anchors.is_empty() {
                return Err("localhop needs anchors: it takes commands from other machines".into());
            }
        }
        if let Some(relay) = self.relay {
            config.relay = relay.settings()?;
        }
        config.repo = self.repo.map(RepoTable::settings).transpose()?;
        for route in self.route.unwrap_or_default() {
            let to = far_uri("route", &route.to)?;
            let (prefix, cost) = (name(&route.prefix)?, route.cost.unwrap_or(0));
            config.routes.push(NodeRoute { prefix, to, cost });
        }
        for choice in self.strategy.unwrap_or_default() {
            let (prefix, strategy) = (name(&choice.prefix)?, name(&choice.strategy)?);
            let strategy = ForwardingStrategy::parse(strategy.as_ref())
                .ok_or_else(|| format!("unknown strategy {}", choice.strategy))?;
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

fn prove(who: &str) -> Result<Prove, String> {
    match who {
        "others" => Ok(Prove::Others),
        "all" => Ok(Prove::All),
        "nobody" => Ok(Prove::Nobody),
        _ => Err(format!("udp_prove: {who}: expected others, all or nobody")),
    }
}

fn unsolicited(word: &str) -> Result<UnsolicitedPolicy, String> {
    let all = UnsolicitedPolicy::ALL;
    let found = all.iter().find(|(name, _)| *name == word).map(|(_, policy)| *policy);
    let names = || all.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("unsolicited_data: {word}: expected one of {}", names()))
}

fn uri(setting: &str, text: &str) -> Result<PeerUri, String> {
    text.parse().map_err(|e: PeerUriError| format!("{setting}: {text}: {e}"))
}

/// The URI of another machine, which listens at a port of its own.
fn far_uri(setting: &str, text: &str) -> Result<PeerUri, String> {
    let keyless = match text.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, at)| at))
        }
        None => text.to_owned(),
    };
    let face = keyless.split('?').next().unwrap_or_default().parse::<FaceUri>();
    if face.is_ok_and(|face| face.port() == Some(0)) {
        return Err(format!("{setting}: {text}: port 0 is no port of another machine"));
    }
    uri(setting, text)
}

fn uris(setting: &str, texts: &[String]) -> Result<Vec<PeerUri>, String> {
    texts.iter().map(|text| uri(setting, text)).collect()
}

fn name(text: &str) -> Result<Name, String> {
    Name::from_uri(text).map_err(|e| format!("{text:?} is not a name: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_node::{ShapeLevel as Level, Shaping};

    fn read(text: &str) -> Result<NodeConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        super::read(&path, PathBuf::from("/s"))
    }

    #[test]
    fn a_rate_is_a_number_or_none() {
        let rate = |value: &str| {
            read(&format!("[node]\ninterests_per_second = {value}\n"))
                .map(|config| config.interests_per_second)
        };
        assert_eq!(rate("7"), Ok(Some(7)));
        assert_eq!((rate("\"none\""), rate("0")), (Ok(None), Ok(None)));
        for wrong in ["\"all\"", "-1", "4294967296", "true", "1.5"] {
            let refused = rate(wrong).unwrap_err();
            assert!(refused.contains("line 2") && refused.contains("or \"none\""), "{refused}");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
    }

    #[test]
    fn every_setting_is_read() {
        let config = read(
            r#"
            [node]
            listen = ["unix:///tmp/x.sock", "tcp4://127.0.0.1:0"]
            connect = ["udp://192.0.2.1"]
            shape = "high"
            post_quantum = "require"
            accept_open = true
            max_faces = 7
            idle_seconds = 30
            udp_prove = "nobody"
            udp_unproven_bytes = 70
            interests_per_second = 100
            pit_quota = 10
            pit_capacity = 1000
            max_routes = 500
            tls_certificate = "/etc/xylem/chain.pem"
            tls_key = "/etc/xylem/key.pem"
            cs_packets = 3
            cs_bytes = 5
            unsolicited_data = "admit-local"
            default_hop_limit = 32
            cs_directory = "/var/cache/xylem"
            cs_directory_bytes = 9
            regions = ["/isp/site"]
            [node.multicast]
            enabled = false
            [node.ethernet]
            devices = ["eth0"]
            ad_hoc = true
            [node.management]
            localhop = true
            anchors = ["/etc/xylem/anchor.cert"]
            certificates = ["/etc/xylem/alice.cert"]
            schema = "/etc/xylem/commands.lvs"
            unix_sockets = ["/run/nfd/nfd.sock"]
            [node.relay]
            circuits = 4
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
            "#,
        )
        .unwrap();
        assert_eq!(config.listen.unwrap()[0], PeerUri::unix(Path::new("/tmp/x.sock")));
        assert_eq!(config.connect, ["udp://192.0.2.1".parse().unwrap()]);
        assert_eq!(config.links.shaping, Shaping::at(Level::High));
        assert_eq!(config.links.post_quantum, xylem_node::PostQuantum::Require);
        assert!(config.accept_open);
        assert_eq!((config.max_faces, config.idle), (7, Duration::from_secs(30)));
        assert_eq!((config.prove, config.unproven_bytes), (Prove::Nobody, 70));
        assert_eq!((config.interests_per_second, config.pit_quota), (Some(100), Some(10)));
        assert_eq!((config.pit_capacity, config.cs_packets, config.cs_bytes), (1000, 3, 5));
        assert_eq!(config.unsolicited, UnsolicitedPolicy::AdmitLocal);
        assert_eq!(config.default_hop_limit, NonZeroU8::new(32));
        assert_eq!(config.max_routes, 500);
        assert_eq!(config.cs_directory, Some(PathBuf::from("/var/cache/xylem")));
        assert_eq!(config.cs_directory_bytes, 9);
        assert!(config.certificate.is_some());
        assert_eq!(config.multicast, None);
        assert_eq!((config.ethernet, config.ethernet_link), (vec!["eth0".into()], LinkType::AdHoc));
        assert!(config.localhop && config.anchors.len() == 1);
        assert_eq!(config.certificates.len(), 1);
        assert_eq!(config.schema, Some(PathBuf::from("/etc/xylem/commands.lvs")));
        assert_eq!(config.relay.unwrap().limits.circuits, 4);
        assert_eq!(config.unix_sockets, [PathBuf::from("/run/nfd/nfd.sock")]);
        assert_eq!((config.routes[0].prefix.to_string(), config.routes[0].cost), ("/a".into(), 4));
        assert_eq!((config.strategies.len(), config.regions.len()), (1, 1));
        let mailbox = config.mailbox.unwrap();
        assert_eq!((mailbox.each, mailbox.age), (5, Duration::from_secs(2 * 86_400)));
        assert_eq!(read("[mailbox]\nenabled = false").unwrap().mailbox, None);
    }

    const SAMPLE: &str = include_str!("../carried/config.toml");

    /// The sample, with each setting put in force that stands behind a `#`.
    fn sample_in_force() -> String {
        let setting = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
        let line = |line| match str::strip_prefix(line, "#") {
            Some(rest) if setting(rest) => rest,
            _ => line,
        };
        SAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_sample_settings_equal_the_defaults() {
        assert_eq!(format!("{:?}", read(SAMPLE)), format!("{:?}", read("")));
        let usual = NodeConfig::new(PathBuf::from("/s"));
        let shown = read(&sample_in_force()).unwrap();
        assert_eq!((shown.max_faces, shown.idle), (usual.max_faces, usual.idle));
        assert_eq!((shown.accept_open, usual.accept_open), (false, false));
        assert_eq!(shown.max_routes, usual.max_routes);
        assert_eq!((shown.prove, shown.unproven_bytes), (usual.prove, usual.unproven_bytes));
        assert_eq!((shown.cs_packets, shown.cs_bytes), (usual.cs_packets, usual.cs_bytes));
        assert_eq!(shown.cs_directory_bytes, usual.cs_directory_bytes);
        assert_eq!((shown.pit_capacity, shown.multicast), (usual.pit_capacity, usual.multicast));
        assert_eq!(shown.pit_quota, Some(usual.pit_capacity / 16));
        assert_eq!(shown.mailbox, Some(MailboxConfig::default()));
        assert_eq!(usual.relay.is_none(), shown.relay.is_some());
    }

    /// The patterns are exhaustive: a new setting does not compile until it stands here, and does not pass until it
    /// stands in the sample.
    #[test]
    fn the_sample_has_every_setting() {
        macro_rules! all {
            ($table:expr, $kind:ident { $($field:ident),* }) => {{
                let $kind { $($field),* } = $table;
                $(assert!($field.is_some(), "{} is missing", stringify!($field));)*
                ($($field),*)
            }};
        }
        let text = sample_in_force().replace("localhop = false", "localhop = true");
        let FileTable { relay, relay_list, lan, map, public, dht, node, mailbox } =
            tables(&text).unwrap();
        let RelayListTable { file, signer, read_seconds } = relay_list.unwrap();
        assert!(RelayListTable { file, signer, read_seconds: None }.list().is_ok());
        assert_eq!(read_seconds, Some(3_600));
        assert!(relay.is_some_and(|uris| uris[0].parse::<NamedRelay>().is_ok()));
        assert_eq!((lan, map, public), (Some(true), Some(true), Some(false)));
        let Some(DhtSetting::Table(table)) = dht else { panic!("a table") };
        all!(table, DhtTable { bootstrap, codes, volunteers });
        let (multicast, ethernet, management, relay, repo, route, strategy, ..) = all!(
            node.unwrap(),
            NodeTable {
                multicast,
                ethernet,
                management,
                relay,
                repo,
                route,
                strategy,
                listen,
                connect,
                shape,
                post_quantum,
                accept_open,
                max_faces,
                idle_seconds,
                udp_prove,
                udp_unproven_bytes,
                interests_per_second,
                pit_quota,
                pit_capacity,
                max_routes,
                tls_certificate,
                tls_key,
                cs_packets,
                cs_bytes,
                unsolicited_data,
                default_hop_limit,
                cs_directory,
                cs_directory_bytes,
                regions
            }
        );
        all!(
            multicast.unwrap(),
            MulticastTable { enabled, group, ipv6, group_v6, interfaces, ad_hoc }
        );
        let EthernetTable { devices, ad_hoc } = ethernet.unwrap();
        assert_eq!((devices.len(), ad_hoc), (1, Some(false)));
        all!(
            management.unwrap(),
            ManagementTable { localhop, readvertise, anchors, certificates, schema, unix_sockets }
        );
        relay.unwrap().has_every_setting();
        let RepoTable { prefix: _, directory: _, repo_bytes, anchors: _, certificates, schema } =
            repo.unwrap();
        assert!(repo_bytes == Some(REPO_BYTES) && certificates.is_some() && schema.is_some());
        let RouteTable { prefix: _, to: _, cost } = route.unwrap().remove(0);
        assert_eq!(cost, Some(10));
        let StrategyTable { prefix: _, strategy: _ } = strategy.unwrap().remove(0);
        all!(mailbox.unwrap(), MailboxTable { enabled, each, mailboxes, bytes, days });
    }

    #[test]
    fn an_empty_file_gives_the_usual_values() {
        let config = read("").unwrap();
        assert_eq!(config.multicast, Some(MULTICAST_GROUP));
        assert!(config.listen.is_none() && !config.localhop && config.routes.is_empty());
    }

    #[test]
    fn the_dht_is_turned_off_for_codes_in_two_forms() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(dir.path().join("settings"), text).unwrap();
            let read = finding(&dir.path().join("settings")).unwrap();
            (read.dht, read.code_dht)
        };
        assert_eq!(of(""), (true, true));
        assert_eq!(of("dht = false"), (false, false));
        assert_eq!(of("[dht]\ncodes = false\nbootstrap = [\"h:1\"]"), (true, false));
        assert_eq!(of("[dht]\nbootstrap = [\"h:1\"]"), (true, true));
        assert!(tables("dht = 5").is_err());
    }

    #[test]
    fn volunteer_relays_are_turned_off_by_themselves() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(dir.path().join("settings"), text).unwrap();
            let read = finding(&dir.path().join("settings")).unwrap();
            (read.code_dht, read.volunteers)
        };
        assert_eq!(of(""), (true, VolunteerUse::Ask));
        assert_eq!(of("[dht]\nvolunteers = false"), (true, VolunteerUse::Never));
        assert_eq!(of("[dht]\nvolunteers = true"), (true, VolunteerUse::Ask));
    }

    #[test]
    fn relays_are_named_or_listed() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(dir.path().join("settings"), text).unwrap();
            relays(&dir.path().join("settings"))
        };
        let list =
            |file: &str| format!("[relay_list]\nfile = \"{file}\"\nsigner = \"/org.cert\"\n");
        assert!(matches!(of("").unwrap(), RelaySetting::Named(named) if named.is_empty()));
        let RelaySetting::Listed(listed) = of(&list("/relays")).unwrap() else { panic!("a list") };
        assert_eq!(listed.file, Path::new("/relays"));
        for (text, says) in [
            (format!("relay = []\n{}", list("/relays")), "one of the two"),
            (list("relays"), "from the root"),
            (list("https://example.org/relays"), "xylem get"),
        ] {
            let said = of(&text).unwrap_err();
            assert!(said.contains(says) && !said.contains('\n'), "{text:?} said {said:?}");
        }
    }

    #[test]
    fn every_table_has_settings_to_point_to() {
        for place in PLACES {
            assert!(!settings_of(place).is_empty(), "{place:?}");
        }
    }

    #[test]
    fn wrong_settings_are_named_in_one_line() {
        for (text, says) in [
            ("[node]\nlisten = 5", "line 2"),
            (
                "[node]\n\nlissen = []",
                "line 3: \"lissen\" is not a setting here; the nearest is \"listen\"",
            ),
            ("no_lan = true", "line 1: \"no_lan\" is not a setting here; write lan = false"),
            ("\nrelays = []", "line 2: \"relays\" is not a setting here; the nearest is \"relay\""),
            ("listen = []", "\"listen\" is not a setting here; it belongs in [node]"),
            (
                "[node]\ncircuits = 4",
                "\"circuits\" is not a setting here; it belongs in [node.relay]",
            ),
            ("[node]\ncost = 4", "\"cost\" is not a setting here; it belongs in [[node.route]]"),
            ("[node]\nlan = false", "\"lan\" is not a setting here; it belongs above all tables"),
            (
                "[other]\nx = 1",
                "\"other\" is not a setting here; the settings here are relay, relay_list",
            ),
            ("[dht]\ncode = false", "\"code\" is not a setting here; the nearest is \"codes\""),
            ("[relay_list]\nfile = \"/f\"", "signer"),
            ("[node", "line 1"),
            ("[mailbox]\nsize = 1", "size"),
            ("[node]\nlisten = [\"http://x\"]", "http"),
            ("[node]\nconnect = [\"unix://relative\"]", "unix"),
            ("[node]\nconnect = [\"udp://192.0.2.1:0\"]", "port 0"),
            ("[[node.route]]\nprefix = \"/\"\nto = \"tcp6://[::1]:0\"", "port 0"),
            ("[node]\nshape = \"much\"", "much"),
            ("[node]\nudp_prove = \"me\"", "udp_prove"),
            ("[node]\npit_capacity = 0", "pit_capacity"),
            ("[node]\ntls_key = \"k\"", "tls_certificate"),
            ("[node]\nmax_faces = -1", "line 2"),
            ("[node]\nunsolicited_data = \"all\"", "drop-all"),
            ("[node.multicast]\ngroup = \"10.0.0.1:5\"", "10.0.0.1"),
            ("[node.multicast]\ngroup_v6 = \"[2001:db8::1]:5\"", "2001:db8::1"),
            ("[node.management]\nlocalhop = true", "anchors"),
            ("[node.management]\ncertificates = [\"c\"]", "anchors"),
            ("[node.management]\nschema = \"s\"", "anchors"),
            ("[node.relay]\nlifetime_seconds = 5", "lifetime_seconds"),
            ("[node.relay]\ncircuits = 1048577", "circuits"),
            ("[node.relay]\nannounce = [\"http://x\"]", "announce"),
            ("[[node.route]]\nprefix = \"no slash\"\nto = \"udp://h\"", "no slash"),
            ("[[node.strategy]]\nprefix = \"/\"\nstrategy = \"/mine\"", "/mine"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(says) && !said.contains('\n'), "{text:?} said {said:?}");
        }
    }
}
