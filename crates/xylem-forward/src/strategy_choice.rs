//! The strategies by name.

use xylem_packet::NameRef;
use xylem_packet::tlv::types;

/// How the next hops of an Interest are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Strategy {
    /// The cheapest way; a retransmission takes the next one (NFD's best-route, version 5).
    #[default]
    BestRoute,
    /// Every way at once (NFD's multicast, version 5).
    Multicast,
    /// The way with the shortest measured round trip; others are probed (NFD's ASF, version 5).
    Asf,
}

/// What NFD calls its strategies' common prefix.
const PREFIX: [&[u8]; 3] = [b"localhost", b"nfd", b"strategy"];
const VERSION: u64 = 5;

impl Strategy {
    /// All there are.
    pub const ALL: [Strategy; 3] = [Strategy::BestRoute, Strategy::Multicast, Strategy::Asf];

    /// The name's URI, version included.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::BestRoute => "/localhost/nfd/strategy/best-route/v=5",
            Strategy::Multicast => "/localhost/nfd/strategy/multicast/v=5",
            Strategy::Asf => "/localhost/nfd/strategy/asf/v=5",
        }
    }

    const fn component(self) -> &'static [u8] {
        match self {
            Strategy::BestRoute => b"best-route",
            Strategy::Multicast => b"multicast",
            Strategy::Asf => b"asf",
        }
    }

    /// The strategy of this name. The version may be left out, and an older one gives ours;
    /// parameters are not understood.
    pub fn parse(name: NameRef<'_>) -> Option<Strategy> {
        let mut components = name.iter();
        for expected in PREFIX {
            let component = components.next()?;
            if component.typ() != types::GENERIC_COMPONENT || component.value() != expected {
                return None;
            }
        }
        let which = components.next()?;
        if which.typ() != types::GENERIC_COMPONENT {
            return None;
        }
        let strategy = Self::ALL.into_iter().find(|s| s.component() == which.value())?;
        match (components.next(), components.next()) {
            (None, _) => Some(strategy),
            (Some(version), None) => {
                let version = version.as_number_of(types::VERSION_COMPONENT)?;
                (version <= VERSION).then_some(strategy)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Name;

    #[test]
    fn names_are_read_as_they_are_written() {
        for strategy in Strategy::ALL {
            let name = Name::from_uri(strategy.name()).unwrap();
            assert_eq!(Strategy::parse(name.as_ref()), Some(strategy));
            assert_eq!(Strategy::parse(name.as_ref().parent()), Some(strategy), "no version");
        }
        for wrong in [
            "/localhost/nfd/strategy/best-route/v=6",
            "/localhost/nfd/strategy/best-route/v=5/x",
            "/localhost/nfd/strategy/best-route/5",
            "/localhost/nfd/strategy/ncc",
            "/localhost/nfd/strategy",
            "/localhost/nfd/strategies/asf",
        ] {
            let name = Name::from_uri(wrong).unwrap();
            assert_eq!(Strategy::parse(name.as_ref()), None, "{wrong}");
        }
        let older = Name::from_uri("/localhost/nfd/strategy/multicast/v=1").unwrap();
        assert_eq!(Strategy::parse(older.as_ref()), Some(Strategy::Multicast));
    }
}
