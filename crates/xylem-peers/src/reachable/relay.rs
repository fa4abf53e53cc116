//! [`Relay`]: a relay as written, `KEY@HOST:PORT`, and the ways to it in the order of attempts.

use std::fmt;
use std::str::FromStr;

use xylem_mgmt::{Carrier, FaceUri, UriAuthority, UriHost};
use xylem_object::ticket::{Address, MAX_RELAY_ADDRESSES, RelayContact};
use xylem_reach::relay::{TeamToken, TeamTokenError};

use super::peer::PeerAddress;
use super::uri::{HostLookupError, LINK_PORT, LookUp, PeerUri, PeerUriError};

/// TCP port at which a relay is tried besides its own: firewalls that drop UDP let the web's port through.
const WEB_PORT: u16 = 443;
/// Most relays that one run uses.
pub const MAX_RELAYS: usize = 4;

/// A relay from the user or a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its key and addresses, as in tickets.
    pub at: RelayContact,
    /// If set, only this carrier is tried, at the given port.
    carried: Option<(Carrier, Option<String>)>,
    /// The token that it asks of its clients. It is in no ticket and no message.
    pub token: Option<TeamToken>,
}

/// Ways to one relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayWays {
    /// Over UDP: tried first.
    pub udp: Vec<PeerAddress>,
    /// Over TCP: tried if UDP stays silent or is absent.
    pub tcp: Vec<PeerAddress>,
}

/// Why a text is no [`Relay`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayUriError {
    /// It is no address of a peer.
    #[error(transparent)]
    Uri(#[from] PeerUriError),
    /// It is no encrypted link.
    #[error("{0}: not an encrypted link, as a relay needs; give KEY@HOST:PORT")]
    NotEncrypted(FaceUri),
    /// It has no key.
    #[error("a relay needs its key: give KEY@HOST:PORT, as `xylem relay` prints it")]
    NoKey,
    /// Its host is no name that a ticket can hold.
    #[error("{0:?} is not a host name")]
    Host(String),
    /// Its address is valid on one interface alone.
    #[error("a relay's address cannot have a zone (%INTERFACE)")]
    Zone,
    /// Its token is malformed.
    #[error(transparent)]
    Token(#[from] TeamTokenError),
}

/// A limit of [`Relay::gathered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayLimit {
    /// Of relays.
    #[error("at most {MAX_RELAYS} relays are used at once")]
    Relays,
    /// Of the addresses of one.
    #[error("at most {MAX_RELAY_ADDRESSES} addresses of one relay are used")]
    Addresses,
}

impl Relay {
    /// Merges relays with the same key, in the given order.
    ///
    /// # Errors
    /// More than [`MAX_RELAYS`], or too many addresses of one.
    pub fn gathered(named: impl IntoIterator<Item = Self>) -> Result<Vec<Self>, RelayLimit> {
        let mut relays: Vec<Self> = Vec::new();
        for relay in named {
            let same = |known: &&mut Self| {
                (known.at.key, &known.carried) == (relay.at.key, &relay.carried)
            };
            match relays.iter_mut().find(same) {
                Some(known) => {
                    let Self { at: RelayContact { addresses, .. }, token, .. } = relay;
                    known.token = known.token.take().or(token);
                    let new = addresses.into_iter().filter(|at| !known.at.addresses.contains(at));
                    let new: Vec<Address> = new.collect();
                    known.at.addresses.extend(new);
                }
                None => relays.push(relay),
            }
        }
        if relays.len() > MAX_RELAYS {
            return Err(RelayLimit::Relays);
        }
        if relays.iter().any(|relay| relay.at.addresses.len() > MAX_RELAY_ADDRESSES) {
            return Err(RelayLimit::Addresses);
        }
        Ok(relays)
    }

    /// Makes one of a relay whose key was not named, and that has proven this key at its address.
    #[must_use]
    pub fn with_key(key: [u8; 32], address: Address, token: Option<TeamToken>) -> Self {
        Self { at: RelayContact { key, addresses: vec![address] }, carried: None, token }
    }

    /// Writes it with its token, for a place that only its user can read.
    pub fn secret_text(&self) -> String {
        let plain = self.to_string();
        let Some(token) = &self.token else { return plain };
        let between = if plain.contains('?') { '&' } else { '?' };
        format!("{plain}{between}token={}", token.secret_text())
    }

    /// Returns the ways to it: over UDP, and over TCP as a WebSocket within TLS at the web's port and at its own.
    ///
    /// # Errors
    /// Why none of its names has an address.
    pub fn ways(&self, look_up: LookUp<'_>) -> Result<RelayWays, HostLookupError> {
        let mut ways = RelayWays { udp: Vec::new(), tcp: Vec::new() };
        let (mut why, key) = (None, Some(self.at.key));
        for at in &self.at.addresses {
            let (found, host) = match at {
                Address::Ip(address) => (vec![*address], None),
                Address::Host(name, port) => match look_up(name.as_str(), *port) {
                    Ok(found) => (found, Some(name.as_str().to_owned())),
                    Err(error) => {
                        why = Some(error);
                        continue;
                    }
                },
            };
            for address in found {
                if let Some((carrier, sni)) = &self.carried {
                    let name = sni.clone().or(host.clone());
                    ways.tcp.push(PeerAddress::Carried { carrier: *carrier, address, name, key });
                    continue;
                }
                ways.udp.push(PeerAddress::Link { address, key });
                let mut ports = vec![WEB_PORT, address.port()];
                ports.dedup();
                for port in ports {
                    let (mut address, name) = (address, host.clone());
                    address.set_port(port);
                    let carrier = Carrier::SecureWebSocket;
                    ways.tcp.push(PeerAddress::Carried { carrier, address, name, key });
                }
            }
        }
        match why {
            Some(why) if ways.tcp.is_empty() => Err(why),
            _ => Ok(ways),
        }
    }
}

/// A relay as its user names it: with its key, or by its host alone, `HOST[:PORT]`, and then with the key that it proves
/// when it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedRelay {
    /// With its key.
    Keyed(Relay),
    /// An address or a host name with a port, and the token that the relay asks of its clients.
    Keyless(Address, Option<TeamToken>),
}

impl NamedRelay {
    /// How a user names the relay at this address without its key: the usual port is left out.
    pub fn short(at: &Address) -> String {
        let (text, usual) = (at.to_string(), format!(":{LINK_PORT}"));
        text.strip_suffix(&usual).map_or_else(|| text.clone(), str::to_owned)
    }

    /// Writes it with its token, for a place that only its user can read.
    pub fn secret_text(&self) -> String {
        match self {
            Self::Keyed(relay) => relay.secret_text(),
            Self::Keyless(place, Some(token)) => format!("{place}?token={}", token.secret_text()),
            Self::Keyless(place, None) => place.to_string(),
        }
    }

    /// Whether its user gave a token for it.
    pub fn has_token(&self) -> bool {
        match self {
            Self::Keyed(relay) => relay.token.is_some(),
            Self::Keyless(_, token) => token.is_some(),
        }
    }
}

impl FromStr for NamedRelay {
    type Err = RelayUriError;

    fn from_str(text: &str) -> Result<Self, RelayUriError> {
        if text.contains('@') || text.contains("://") {
            return text.parse().map(Self::Keyed);
        }
        let (place, token) = match text.split_once("?token=") {
            Some((place, token)) => (place, Some(token.parse()?)),
            None => (text, None),
        };
        // Without a port it ends behind the name, or behind the bracket of an IPv6 address.
        let has_port = place.rsplit_once(':').is_some_and(|(host, _)| {
            !host.is_empty() && (!host.contains(':') || host.ends_with(']'))
        });
        let with_port = if has_port { place.to_owned() } else { format!("{place}:{LINK_PORT}") };
        let place = with_port.parse().map_err(|_| RelayUriError::Host(place.to_owned()))?;
        Ok(Self::Keyless(place, token))
    }
}

/// Writes it without its token.
impl fmt::Display for NamedRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyed(relay) => relay.fmt(f),
            Self::Keyless(place, _) => place.fmt(f),
        }
    }
}

impl From<RelayContact> for Relay {
    fn from(at: RelayContact) -> Self {
        Self { at, carried: None, token: None }
    }
}

impl FromStr for Relay {
    type Err = RelayUriError;

    /// Parses `KEY@HOST:PORT` or `xylem://KEY@HOST[:PORT]`; or `xylem+wss://KEY@HOST[:PORT]` and the like, to try only
    /// that carrier. `?token=TOKEN` may follow (`&token=TOKEN` after `?sni=NAME`).
    fn from_str(text: &str) -> Result<Self, RelayUriError> {
        let token = ["?token=", "&token="].iter().find_map(|before| text.split_once(before));
        let (text, token) = match token {
            Some((text, token)) => (text, Some(token.parse()?)),
            None => (text, None),
        };
        let PeerUri { key, sni, face, device: _ } = text.parse()?;
        let (at, carried) = match face {
            FaceUri::Xylem(at) => (at, None),
            FaceUri::Carried(carrier, at) => (at, Some((carrier, sni))),
            other => return Err(RelayUriError::NotEncrypted(other)),
        };
        let key = key.ok_or(RelayUriError::NoKey)?;
        Ok(Self { at: RelayContact { key, addresses: vec![address(&at)?] }, carried, token })
    }
}

fn address(at: &UriAuthority) -> Result<Address, RelayUriError> {
    match &at.host {
        UriHost::Ip(ip) => Ok(Address::Ip((*ip, at.port).into())),
        UriHost::Name(name) => {
            let name = name.parse().map_err(|_| RelayUriError::Host(name.clone()))?;
            Ok(Address::Host(name, at.port))
        }
        UriHost::Zoned(..) => Err(RelayUriError::Zone),
    }
}

/// Writes it as in tickets and messages, with its first address and without its token.
impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((carrier, _)) = &self.carried {
            write!(f, "{}://", carrier.scheme())?;
        }
        self.at.fmt(f)?;
        match &self.carried {
            Some((_, Some(name))) => write!(f, "?sni={name}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn relay(text: &str) -> Relay {
        text.parse().expect(text)
    }

    fn key(byte: &str) -> String {
        byte.repeat(32)
    }

    fn ways(relay: &Relay) -> Result<Vec<String>, HostLookupError> {
        let look_up = |host: &str, port| match host {
            "r.example" => Ok(vec![SocketAddr::from(([192, 0, 2, 9], port))]),
            _ => Err(HostLookupError::NoAddress(host.to_owned())),
        };
        let RelayWays { udp, tcp } = relay.ways(&look_up)?;
        Ok(udp.iter().chain(&tcp).map(ToString::to_string).collect())
    }

    #[test]
    fn a_relay_is_tried_over_udp_then_over_secure_websocket() {
        let text = format!("{}@192.0.2.1:7000", key("a5"));
        let named = relay(&text);
        assert_eq!((named.at.key, named.to_string()), ([0xa5; 32], text.clone()));
        assert_eq!(relay(&format!("xylem://{text}")), named);
        let expected =
            ["192.0.2.1:7000", "xylem+wss://192.0.2.1:443", "xylem+wss://192.0.2.1:7000"];
        assert_eq!(ways(&named).unwrap(), expected);
        let web = ways(&relay(&format!("{}@r.example:443", key("a5")))).unwrap();
        assert_eq!(web, ["192.0.2.9:443", "xylem+wss://192.0.2.9:443"]);
        let usual = relay(&format!("xylem://{}@r.example", key("a5")));
        assert_eq!(usual.to_string(), format!("{}@r.example:7348", key("a5")));
    }

    #[test]
    fn an_explicit_carrier_is_the_only_way() {
        let text = format!("xylem+wss://{}@r.example:8443", key("a5"));
        assert_eq!(ways(&relay(&text)).unwrap(), ["xylem+wss://192.0.2.9:8443"]);
        assert_eq!(relay(&text).to_string(), text);
        let hidden = format!("{text}?sni=cdn.example");
        assert_eq!(relay(&hidden).to_string(), hidden);
    }

    #[test]
    fn a_relay_may_be_named_by_its_host_alone() {
        let named = |text: &str| text.parse::<NamedRelay>();
        for (text, shown) in [
            ("relay.example.org", "relay.example.org:7348"),
            ("relay.example.org:443", "relay.example.org:443"),
            ("192.0.2.1", "192.0.2.1:7348"),
            ("[2001:db8::1]", "[2001:db8::1]:7348"),
        ] {
            let relay = named(text).unwrap();
            assert_eq!(relay.to_string(), shown);
            let NamedRelay::Keyless(at, None) = relay else { panic!("{text}") };
            assert_eq!(NamedRelay::short(&at), text);
        }
        let relay = named("relay.example.org?token=correct-horse-battery").unwrap();
        assert!(relay.has_token() && relay.to_string() == "relay.example.org:7348");
        assert_eq!(named(&relay.secret_text()).unwrap(), relay);
        let keyed = format!("{}@192.0.2.1:7000", key("a5"));
        assert_eq!(named(&keyed).unwrap(), NamedRelay::Keyed(self::relay(&keyed)));
        for text in ["", ":7348", "relay.example.org:x", "a b", "05@192.0.2.9:1", "udp://h"] {
            assert!(named(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_is_read_and_not_shown() {
        let at = format!("{}@192.0.2.1:7000", key("a5"));
        let secret = "correct-horse-battery";
        let named = relay(&format!("{at}?token={secret}"));
        assert_eq!(named.token.as_ref().map(TeamToken::secret_text), Some(secret));
        assert_eq!((named.to_string(), named.at.to_string()), (at.clone(), at.clone()));
        assert!(!format!("{named:?}").contains(secret));
        assert_eq!(relay(&named.secret_text()), named);
        let hidden = format!("xylem+wss://{at}?sni=cdn.example");
        let carried = relay(&format!("{hidden}&token={secret}"));
        assert_eq!((carried.to_string(), carried.token.is_some()), (hidden, true));
        assert_eq!(relay(&carried.secret_text()), carried);
        assert_eq!(Relay::gathered([relay(&at), named.clone()]).unwrap(), [named]);
        assert!(format!("{at}?token=short").parse::<Relay>().is_err());
    }

    #[test]
    fn addresses_of_one_relay_are_merged() {
        let texts = ["a5", "b6", "a5"].iter().zip(["192.0.2.1:1", "h:2", "[::1]:3"]);
        let named = texts.map(|(byte, at)| relay(&format!("{}@{at}", key(byte))));
        let named: Vec<Relay> = named.collect();
        let all = Relay::gathered(named.clone()).unwrap();
        assert_eq!(all.len(), 2);
        let of = |i: usize| all[i].at.addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (of(0).join(" "), of(1).join(" ")),
            ("192.0.2.1:1 [::1]:3".into(), "h:2".into())
        );
        assert_eq!(Relay::gathered(named.into_iter().cycle().take(40)).unwrap(), all);
        let many = (0..5).map(|i| relay(&format!("{}@h:1", key(&format!("0{i}")))));
        assert!(Relay::gathered(many).is_err());
        let many = (1..4).map(|port| relay(&format!("{}@h:{port}", key("a5"))));
        assert!(Relay::gathered(many).is_err());
    }

    #[test]
    fn an_unresolvable_relay_name_is_an_error() {
        let text = |host: &str| relay(&format!("{}@{host}:1", key("a5")));
        let gone = ways(&text("gone.example")).unwrap_err();
        assert!(matches!(gone, HostLookupError::NoAddress(host) if host == "gone.example"));
        let both = Relay::gathered([text("gone.example"), text("192.0.2.1")]).unwrap();
        assert_eq!(ways(&both[0]).unwrap().len(), 3);
    }

    #[test]
    fn invalid_relays_are_refused() {
        for text in [
            "192.0.2.1:7348",
            "xylem://192.0.2.1",
            "udp://192.0.2.1",
            "unix:///run/x",
            "tcp://h",
            "",
            "r.example",
            "a5@h:1",
            "xylem+wss://h",
        ] {
            assert!(text.parse::<Relay>().is_err(), "{text}");
        }
        let keyed = format!("xylem://{}@192.0.2.1.5:1", key("a5"));
        assert!(keyed.parse::<Relay>().is_err());
    }
}
