//! Where a forwarder can be reached: `unix:///path`, `tcp://host:port`, `udp://host:port`.
//!
//! Text comes from `--at`, from the environment or from what is on this machine; a [`Socket`] is
//! opened at what comes out. Nothing is sent here.
//!
//! [`Socket`]: super::socket::Socket

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::api::{Blame, Error};
use crate::failure;

/// The port that NDN has for UDP and TCP.
const DEFAULT_PORT: u16 = 6363;
/// The variable that NDN libraries read.
const TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";
/// Where NFD and NDNd listen.
const NFD_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/run/nfd.sock"];
/// Where a node of ours listens that runs for the whole machine.
const SYSTEM_SOCKET: &str = "/run/xylem/xylem.sock";
/// The same for one user's node, under `$XDG_RUNTIME_DIR`.
const USER_SOCKET: &str = "xylem/xylem.sock";

/// One way to a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A Unix stream socket.
    Unix(PathBuf),
    /// A TCP connection.
    Tcp(HostPort),
    /// UDP datagrams.
    Udp(HostPort),
}

/// A host, not looked up yet, and which of its addresses are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    host: String,
    port: u16,
    family: Option<Family>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Endpoint {
    /// The endpoint that was asked for, or else what the environment says, or else the first of
    /// the usual sockets that exists: ours, then NFD's.
    ///
    /// # Errors
    /// [`Blame::Usage`] for a text that can't be read, [`Blame::Network`] if no forwarder is there.
    pub(crate) fn choose(at: Option<&str>) -> Result<Self, Error> {
        if let Some(text) = at {
            return text.parse().map_err(|why: String| failure::usage(why));
        }
        if let Ok(text) = std::env::var(TRANSPORT_VARIABLE)
            && !text.is_empty()
        {
            return text
                .parse()
                .map_err(|why: String| failure::usage(format!("{TRANSPORT_VARIABLE}: {why}")));
        }
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let of_user = runtime.filter(|dir| dir.is_absolute()).map(|dir| dir.join(USER_SOCKET));
        let usual = of_user
            .into_iter()
            .chain([PathBuf::from(SYSTEM_SOCKET)])
            .chain(NFD_SOCKETS.iter().map(PathBuf::from));
        usual.into_iter().find(|path| path.exists()).map(Self::Unix).ok_or_else(|| Error {
            blame: Blame::Network,
            message: "no forwarder runs here; start `xylem node`, or give --at URI".to_owned(),
        })
    }
}

impl HostPort {
    /// The addresses of the host, IPv4 first: a name such as `localhost` often has an IPv6 address
    /// that nobody listens on.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let network = |message| Error { blame: Blame::Network, message };
        let found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| network(format!("cannot look up {}: {e}", self.host)))?;
        let mut found: Vec<SocketAddr> = found
            .filter(|a| match self.family {
                None => true,
                Some(Family::V4) => a.is_ipv4(),
                Some(Family::V6) => a.is_ipv6(),
            })
            .collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        match found.is_empty() {
            true => Err(network(format!("{} has no such address", self.host))),
            false => Ok(found),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (name, family) = match scheme.strip_suffix(['4', '6']) {
            Some(name) if scheme.ends_with('4') => (name, Some(Family::V4)),
            Some(name) => (name, Some(Family::V6)),
            None => (scheme, None),
        };
        match name {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(PathBuf::from(rest))),
            "" if rest.starts_with('/') => Ok(Self::Unix(PathBuf::from(rest))),
            "tcp" => Ok(Self::Tcp(host_port(rest, family)?)),
            "udp" => Ok(Self::Udp(host_port(rest, family)?)),
            _ => Err(format!(
                "{text:?} is no forwarder: expected unix:///path, tcp://HOST:PORT or \
                 udp://HOST:PORT"
            )),
        }
    }
}

fn host_port(text: &str, family: Option<Family>) -> Result<HostPort, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let bad = || format!("{text:?} is not HOST or HOST:PORT");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(bad)?;
            (host, after.strip_prefix(':'))
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| bad())?,
        None => DEFAULT_PORT,
    };
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%');
    if host.is_empty() || host.len() > 255 || !host.chars().all(plain) {
        return Err(bad());
    }
    Ok(HostPort { host: host.to_owned(), port, family })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, at) = match self {
            Self::Unix(path) => return write!(f, "unix://{}", path.display()),
            Self::Tcp(at) => ("tcp", at),
            Self::Udp(at) => ("udp", at),
        };
        match at.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", at.host, at.port),
            false => write!(f, "{scheme}://{}:{}", at.host, at.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_the_usual_kinds() {
        for (text, shown) in [
            ("unix:///run/nfd/nfd.sock", "unix:///run/nfd/nfd.sock"),
            ("/tmp/x.sock", "unix:///tmp/x.sock"),
            ("tcp://localhost", "tcp://localhost:6363"),
            ("tcp4://192.0.2.7:7000", "tcp://192.0.2.7:7000"),
            ("udp6://[2001:db8::7]:56363", "udp://[2001:db8::7]:56363"),
            ("udp://2001:db8::7", "udp://[2001:db8::7]:6363"),
            ("tcp://h:1/", "tcp://h:1"),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), shown);
        }
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "nfd.sock",
            "unix://x",
            "http://h:1",
            "tcp://",
            "tcp://h:99999",
            "udp://[::1",
            "tcp://a b:1",
            "tcp44://h",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        let wanted = "tcp6://127.0.0.1".parse::<Endpoint>().unwrap();
        let Endpoint::Tcp(at) = wanted else { panic!("tcp") };
        assert_eq!(at.resolve().unwrap_err().blame, Blame::Network);
    }
}
