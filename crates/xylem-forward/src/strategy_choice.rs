//! The strategies and their names.

use core::fmt;

use xylem_packet::NameRef;
use xylem_packet::tlv::types;

/// How the next hops of an Interest are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ForwardingStrategy {
    /// The cheapest next hop; a retransmission takes the next one (NFD's best-route, version 5).
    #[default]
    BestRoute,
    /// All next hops at once (NFD's multicast, version 5).
    Multicast,
    /// The next hop with the shortest measured round trip; others are probed (NFD's ASF, version 5).
    Asf(AsfParameters),
    /// A random next hop; all are equally likely (NFD's random, version 1).
    Random,
    /// The next hop with the shortest measured round trip, if its last Interest was answered. All next hops
    /// if there is none, and for a retransmission (NFD's access, version 1).
    Access,
    /// All next hops at once. Without any, every other machine is asked, and the announcement that comes with an answer
    /// is passed to the owner of the routes (NFD's self-learning, version 1).
    SelfLearning,
}

/// Parameters of NFD's ASF, written after its version, as `probing-interval~30000` and `max-timeouts~5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AsfParameters {
    /// Milliseconds between two probes of a prefix, at least [`AsfParameters::MIN_INTERVAL`]; `None`: as the forwarder
    /// is configured.
    pub probing_interval: Option<u32>,
    /// Number of unanswered Interests in a row that makes a next hop the last to be tried, at least 1; `None`: 3.
    pub max_timeouts: Option<u8>,
}

impl AsfParameters {
    /// NFD's minimum interval in milliseconds.
    pub const MIN_INTERVAL: u32 = 1_000;

    /// Parses one parameter. `None` if it is unknown, out of range or repeated.
    fn take(&mut self, component: &[u8]) -> Option<()> {
        let at = component.iter().position(|byte| *byte == b'~')?;
        let (key, value) = component.split_at(at);
        let value: u64 = core::str::from_utf8(value.get(1..)?).ok()?.parse().ok()?;
        match key {
            b"probing-interval" if self.probing_interval.is_none() => {
                let interval = u32::try_from(value).ok()?;
                self.probing_interval = Some(interval).filter(|i| *i >= Self::MIN_INTERVAL);
                self.probing_interval.map(drop)
            }
            b"max-timeouts" if self.max_timeouts.is_none() => {
                self.max_timeouts = Some(u8::try_from(value).ok()?).filter(|max| *max > 0);
                self.max_timeouts.map(drop)
            }
            _ => None,
        }
    }
}

/// The common prefix of NFD's strategy names.
const PREFIX: [&[u8]; 3] = [b"localhost", b"nfd", b"strategy"];

impl ForwardingStrategy {
    /// All strategies, without parameters.
    pub const ALL: [ForwardingStrategy; 6] = [
        ForwardingStrategy::BestRoute,
        ForwardingStrategy::Multicast,
        ForwardingStrategy::Asf(AsfParameters { probing_interval: None, max_timeouts: None }),
        ForwardingStrategy::Random,
        ForwardingStrategy::Access,
        ForwardingStrategy::SelfLearning,
    ];

    const fn component(self) -> &'static str {
        match self {
            ForwardingStrategy::BestRoute => "best-route",
            ForwardingStrategy::Multicast => "multicast",
            ForwardingStrategy::Asf(_) => "asf",
            ForwardingStrategy::Random => "random",
            ForwardingStrategy::Access => "access",
            ForwardingStrategy::SelfLearning => "self-learning",
        }
    }

    const fn version(self) -> u64 {
        match self {
            ForwardingStrategy::BestRoute
            | ForwardingStrategy::Multicast
            | ForwardingStrategy::Asf(_) => 5,
            ForwardingStrategy::Random
            | ForwardingStrategy::Access
            | ForwardingStrategy::SelfLearning => 1,
        }
    }

    /// The strategy with this name. The version may be left out, and an older one gives the current one. Parameters
    /// follow the version.
    pub fn parse(name: NameRef<'_>) -> Option<ForwardingStrategy> {
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
        let named =
            |strategy: &ForwardingStrategy| strategy.component().as_bytes() == which.value();
        let mut strategy = Self::ALL.into_iter().find(named)?;
        let Some(version) = components.next() else { return Some(strategy) };
        if version.as_number_of(types::VERSION_COMPONENT)? > strategy.version() {
            return None;
        }
        for component in components {
            let ForwardingStrategy::Asf(parameters) = &mut strategy else { return None };
            if component.typ() != types::GENERIC_COMPONENT {
                return None;
            }
            parameters.take(component.value())?;
        }
        Some(strategy)
    }
}

/// The URI of the strategy's name, with version and parameters.
impl fmt::Display for ForwardingStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/localhost/nfd/strategy/{}/v={}", self.component(), self.version())?;
        let ForwardingStrategy::Asf(parameters) = self else { return Ok(()) };
        if let Some(interval) = parameters.probing_interval {
            write!(f, "/probing-interval~{interval}")?;
        }
        if let Some(max) = parameters.max_timeouts {
            write!(f, "/max-timeouts~{max}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use xylem_packet::Name;

    #[test]
    fn strategy_names_round_trip() {
        let with = |probing_interval, max_timeouts| {
            ForwardingStrategy::Asf(AsfParameters { probing_interval, max_timeouts })
        };
        let more = [with(Some(30_000), None), with(None, Some(5)), with(Some(1_000), Some(255))];
        for strategy in more {
            let name = Name::from_uri(&strategy.to_string()).unwrap();
            assert_eq!(ForwardingStrategy::parse(name.as_ref()), Some(strategy));
        }
        for strategy in ForwardingStrategy::ALL {
            let name = Name::from_uri(&strategy.to_string()).unwrap();
            assert_eq!(ForwardingStrategy::parse(name.as_ref()), Some(strategy));
            assert_eq!(
                ForwardingStrategy::parse(name.as_ref().parent()),
                Some(strategy),
                "no version"
            );
        }
        for wrong in [
            "/localhost/nfd/strategy/best-route/v=6",
            "/localhost/nfd/strategy/best-route/v=5/x",
            "/localhost/nfd/strategy/best-route/5",
            "/localhost/nfd/strategy/random/v=2",
            "/localhost/nfd/strategy/random/v=1/max-timeouts~3",
            "/localhost/nfd/strategy/asf/v=5/max-timeouts~0",
            "/localhost/nfd/strategy/asf/v=5/max-timeouts~256",
            "/localhost/nfd/strategy/asf/v=5/max-timeouts~3/max-timeouts~3",
            "/localhost/nfd/strategy/asf/v=5/probing-interval~999",
            "/localhost/nfd/strategy/asf/v=5/probing-interval",
            "/localhost/nfd/strategy/asf/v=5/other~3",
            "/localhost/nfd/strategy/asf/max-timeouts~3",
            "/localhost/nfd/strategy/ncc",
            "/localhost/nfd/strategy",
            "/localhost/nfd/strategies/asf",
        ] {
            let name = Name::from_uri(wrong).unwrap();
            assert_eq!(ForwardingStrategy::parse(name.as_ref()), None, "{wrong}");
        }
        let older = Name::from_uri("/localhost/nfd/strategy/multicast/v=1").unwrap();
        assert_eq!(ForwardingStrategy::parse(older.as_ref()), Some(ForwardingStrategy::Multicast));
    }
}
