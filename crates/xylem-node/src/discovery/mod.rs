//! Finds peers through the LAN, the DHT and the router, beside the work of a share or a fetch (docs/spec/reach.md).
//!
//! [`LanSearch`] finds a ticket's sharer on the getter's LAN when its addresses are silent. [`ShareAnnouncer`] announces a share.
//! [`find_public`] makes a ticket from a root or a publisher's name. Addresses found are dialled, within limits, and
//! not trusted in any way.

mod beside;
mod nearby;
mod public;

use std::net::IpAddr;

use if_addrs::{IfAddr, get_if_addrs};
use xylem_object::PublisherId;
use xylem_object::naming::default_name;
use xylem_packet::NameRef;

pub(crate) use beside::{DhtRoom, MAX_PUBLIC, Publicity, ShareAnnouncer};
pub(crate) use nearby::LanSearch;
pub use public::{PublicOptions, PublicSharer, PublicTarget, find_public};

/// How to announce a share, besides its tickets. The default is not at all.
#[derive(Clone, Debug, Default)]
pub struct AnnounceOptions {
    /// Whether on the LAN, under a name that only holders of a ticket can compute.
    pub lan: bool,
    /// Whether to ask the router to forward the port.
    pub map: bool,
    /// Whether in the mainline DHT, to all peers.
    pub public: Option<DhtStart>,
}

/// First nodes of the DHT.
#[derive(Clone, Debug, Default)]
pub struct DhtStart {
    /// Each HOST:PORT. `None`: nodes of an earlier run, or the public bootstrap nodes.
    pub bootstrap: Option<Vec<String>>,
    /// Whether the two sides of a code, or a sharer and a getter, may meet at relays of strangers that are listed there.
    pub volunteers: VolunteerUse,
}

/// Whether volunteer relays are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolunteerUse {
    /// They are asked if there is no direct way.
    #[default]
    Ask,
    /// They are not.
    Never,
}

/// The name of a publisher's object as people write it: the file's name if the object has the default name for a file,
/// else the name without its first slash.
pub(crate) fn label(publisher: &PublisherId, object: NameRef<'_>) -> String {
    if let Some(last) = object.last()
        && default_name(publisher, last.value()).as_ref() == object
    {
        return String::from_utf8_lossy(last.value()).into_owned();
    }
    object.to_string().trim_start_matches('/').to_owned()
}

/// Whether an address lies on a network of this machine's interfaces. Answers of mDNS come from there.
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
    fn labels_are_file_names_or_names_without_a_slash() {
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
