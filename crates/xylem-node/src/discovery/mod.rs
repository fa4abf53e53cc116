//! Who is where, asked of the LAN, the DHT and the router beside what a share or a fetch does (docs/spec/reach.md).
//!
//! [`Nearby`] gives a fetch addresses on its own LAN when those of its ticket are silent; [`Beside`] says where a
//! share is; [`find_public`] makes a ticket of a root or of a publisher's name. What comes is dialled, within limits,
//! and believed nothing.

mod beside;
mod nearby;
mod public;

use std::net::IpAddr;

use if_addrs::{IfAddr, get_if_addrs};
use xylem_object::PublisherId;
use xylem_object::naming::default_name;
use xylem_packet::NameRef;

pub(crate) use beside::{Beside, MAX_PUBLIC, Publicity, Room};
pub(crate) use nearby::Nearby;
pub use public::{PublicOptions, Wanted, find_public};

/// How a share says where it is, beside its tickets. By default it does not.
#[derive(Clone, Debug, Default)]
pub struct AnnounceOptions {
    /// On the LAN, under a name that only holders of a ticket can compute.
    pub lan: bool,
    /// Whether the router is asked to forward the port.
    pub map: bool,
    /// In the mainline DHT, to everybody.
    pub public: Option<DhtStart>,
}

/// Where the DHT is entered.
#[derive(Clone, Debug, Default)]
pub struct DhtStart {
    /// HOST:PORT; `None`: nodes of an earlier run, or those that everybody uses.
    pub bootstrap: Option<Vec<String>>,
}

/// A publisher's object as people say it: the file's name where it has the name that files get, else the name without
/// its first slash.
pub(crate) fn label(publisher: &PublisherId, object: NameRef<'_>) -> String {
    if let Some(last) = object.last()
        && default_name(publisher, last.value()).as_ref() == object
    {
        return String::from_utf8_lossy(last.value()).into_owned();
    }
    object.to_string().trim_start_matches('/').to_owned()
}

/// Whether an address lies on a network of this machine's interfaces, which is where answers of mDNS come from.
pub(crate) fn on_link(ip: IpAddr) -> bool {
    let within = |a: u128, b: u128, mask: u128| a & mask == b & mask;
    let is_near = |of: &IfAddr| match (of, ip) {
        (IfAddr::V4(of), IpAddr::V4(ip)) => {
            let bits = |ip| u128::from(u32::from(ip));
            within(bits(of.ip), bits(ip), bits(of.netmask))
        }
        (IfAddr::V6(of), IpAddr::V6(ip)) => {
            within(u128::from(of.ip), u128::from(ip), u128::from(of.netmask))
        }
        _ => false,
    };
    get_if_addrs().unwrap_or_default().iter().any(|interface| is_near(&interface.addr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Name;

    #[test]
    fn objects_are_said_as_people_say_them() {
        let publisher = PublisherId([9; 32]);
        let said = |name: Name| label(&publisher, name.as_ref());
        assert_eq!(said(default_name(&publisher, b"my film.mkv")), "my film.mkv");
        assert_eq!(said(Name::from_uri("/alice/photos").unwrap()), "alice/photos");
        assert_eq!(said(default_name(&PublisherId([8; 32]), b"x")).matches('/').count(), 2);
    }

    #[test]
    fn loopback_is_near_and_documentation_is_not() {
        assert!(on_link(IpAddr::from([127, 0, 0, 1])));
        assert!(!on_link(IpAddr::from([203, 0, 113, 9])));
    }
}
