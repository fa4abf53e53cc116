//! The page of `share --web`: the files that browsers load (crates/xylem-web), and the link to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use xylem_node::{ReachWay, SitePage};
use xylem_object::ticket::Address;
use xylem_reach::kind::is_global;

/// The default port of the page.
const PORT: u16 = 7380;

/// All interfaces and the default port, or a free port if that is taken.
pub(crate) fn default_address() -> SocketAddr {
    let usual = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let free = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    if TcpListener::bind(usual).is_ok() { usual } else { free }
}

macro_rules! page {
    ($path:literal, $file:literal, $media_type:literal, $gzip:literal) => {
        SitePage {
            path: $path,
            media_type: $media_type,
            gzip: $gzip,
            body: include_bytes!(concat!("../carried/web/", $file)),
        }
    };
}

/// All that a browser loads; nothing comes from elsewhere.
pub(crate) fn pages() -> Vec<SitePage> {
    vec![
        page!("/", "index.html", "text/html; charset=utf-8", false),
        page!("/style.css", "style.css", "text/css; charset=utf-8", false),
        page!("/icon.svg", "icon.svg", "image/svg+xml", false),
        page!("/page.js", "page.js", "text/javascript; charset=utf-8", false),
        page!("/worker.js", "worker.js", "text/javascript; charset=utf-8", false),
        page!("/engine.js", "engine.js", "text/javascript; charset=utf-8", false),
        page!("/xylem.wasm", "xylem.wasm.gz", "application/wasm", true),
    ]
}

/// The link to paste into a browser. The page is served at `at`; if that is all interfaces, the link has the ticket's
/// first address.
pub(crate) fn link(at: SocketAddr, addresses: &[Address], ticket: &str) -> String {
    let host = match place(at, addresses) {
        Address::Ip(named) => SocketAddr::new(named.ip(), at.port()).to_string(),
        Address::Host(host, _) => format!("{}:{}", host.as_str(), at.port()),
    };
    format!("http://{host}/#{ticket}")
}

/// Which browsers reach the link; `None` if that depends on what stands before this machine ([`behind_router`]).
pub(crate) fn reach_of_link(at: SocketAddr, addresses: &[Address]) -> Option<String> {
    match place(at, addresses) {
        Address::Ip(named) if named.ip().is_loopback() => {
            Some("Only browsers on this machine reach that link.".to_owned())
        }
        Address::Ip(named) if !is_global(named.ip()) => Some(format!(
            "Only browsers in the local network reach that link. For others forward TCP port {} of the router to this \
             machine, and put the router's address into the link.",
            at.port()
        )),
        _ => None,
    }
}

/// The same for a machine behind a router or a relay: both pass the encrypted link alone. `at`: where the page is
/// served.
pub(crate) fn behind_router(way: ReachWay, at: SocketAddr) -> Option<String> {
    match way {
        ReachWay::Here | ReachWay::Lan | ReachWay::Direct => None,
        ReachWay::Mapped
        | ReachWay::Announced
        | ReachWay::Punched
        | ReachWay::PunchedOrRelayed
        | ReachWay::Relayed => Some(format!(
            "Browsers elsewhere reach the page only if TCP port {} is forwarded to this machine: what stands before it \
             passes the encrypted link, and the page is not part of that.",
            at.port()
        )),
    }
}

/// The place that the link names.
fn place(at: SocketAddr, addresses: &[Address]) -> Address {
    let reachable = |address: &&Address| match address {
        Address::Ip(named) => named.is_ipv4() == at.is_ipv4(),
        Address::Host(..) => true,
    };
    match at.ip().is_unspecified() {
        false => Address::Ip(at),
        true => addresses
            .iter()
            .find(reachable)
            .cloned()
            .unwrap_or_else(|| Address::Ip(SocketAddr::new(loopback(at.ip()), at.port()))),
    }
}

fn loopback(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_what_the_ticket_names() {
        let addresses: Vec<Address> =
            ["[2001:db8::7]:7348", "192.0.2.7:7348"].map(|a| a.parse().unwrap()).into();
        let link_at = |at: &str| link(at.parse().unwrap(), &addresses, "xylem:t");
        assert_eq!(link_at("0.0.0.0:7380"), "http://192.0.2.7:7380/#xylem:t");
        assert_eq!(link_at("[::]:80"), "http://[2001:db8::7]:80/#xylem:t");
        assert_eq!(link_at("127.0.0.1:9"), "http://127.0.0.1:9/#xylem:t");
        assert_eq!(link("0.0.0.0:9".parse().unwrap(), &[], "t"), "http://127.0.0.1:9/#t");
    }

    #[test]
    fn a_link_states_which_browsers_reach_it() {
        let reach = |address: &str| {
            reach_of_link("0.0.0.0:7380".parse().unwrap(), &[address.parse().unwrap()])
        };
        assert!(reach("127.0.0.1:7348").unwrap().contains("on this machine"));
        let near = reach("192.168.1.9:7348").unwrap();
        assert!(near.contains("local network") && near.contains("TCP port 7380"), "{near}");
        assert_eq!(reach("198.51.100.7:7348"), None);
        assert_eq!(reach("me.example.org:7000"), None);
        let at = "0.0.0.0:7380".parse().unwrap();
        for way in [ReachWay::Direct, ReachWay::Lan, ReachWay::Here] {
            assert_eq!(behind_router(way, at), None, "{way:?}");
        }
        for way in [ReachWay::Mapped, ReachWay::Announced, ReachWay::Punched, ReachWay::Relayed] {
            assert!(behind_router(way, at).unwrap().contains("TCP port 7380"), "{way:?}");
        }
    }

    /// The page, its script and its program are small, and have nothing inline.
    #[test]
    fn pages_are_small_and_load_nothing_from_elsewhere() {
        let pages = pages();
        let bytes: usize = pages.iter().map(|page| page.body.len()).sum();
        assert!(bytes < 300_000, "{bytes} bytes");
        let text = |page: &SitePage| String::from_utf8(page.body.to_vec()).unwrap();
        for page in pages.iter().filter(|page| !page.gzip) {
            let text = text(page);
            let outside = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http://") && !outside.contains("https://"), "{}", page.path);
            assert!(!text.contains("style=\"") && !text.contains("<script>"), "{}", page.path);
        }
    }
}
