//! The strategies and their names.

use core::fmt;

use xylem_packet::NameRef;
use xylem_packet::tlv::types;

/// How the next hops of an Interest are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForwardingStrategy {
    /// The cheapest next hop; a retransmission takes the next one (NFD's best-route, version 5).
    BestRoute(RetxSuppression),
    /// All next hops at once (NFD's multicast, version 5).
    Multicast(RetxSuppression),
    /// The next hop with the shortest measured round trip; others are probed (NFD's ASF, version 5).
    Asf(AsfParameters),
    /// A random next hop; all are equally likely (NFD's random, version 1).
    Random(RetxSuppression),
    /// The next hop with the shortest measured round trip, if its last Interest was answered. All next hops
    /// if there is none, and for a retransmission (NFD's access, version 1).
    Access,
    /// All next hops at once. Without any, every other machine is asked, and the announcement that comes with an answer
    /// is passed to the owner of the routes (NFD's self-learning, version 1).
    SelfLearning,
}

impl Default for ForwardingStrategy {
    fn default() -> Self {
        Self::BEST_ROUTE
    }
}

/// How long the same Interest is not sent again. The time grows with each repeated sending (NFD's exponential
/// retransmission suppression). The parameters follow a strategy's version, as `retx-suppression-initial~20`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct RetxSuppression {
    /// `retx-suppression-initial`: milliseconds after the first sending, at least 1; `None`: 10.
    pub initial_ms: Option<u16>,
    /// `retx-suppression-max`: the longest time in milliseconds, not less than the first; `None`: 250.
    pub max_ms: Option<u16>,
    /// `retx-suppression-multiplier`: growth with each sending, in thousandths, at least 1,000; `None`: 2,000.
    pub multiplier_thousandths: Option<u32>,
}

impl RetxSuppression {
    /// The suppression of NFD's strategies without parameters.
    pub const USUAL: Self = Self { initial_ms: None, max_ms: None, multiplier_thousandths: None };

    /// The largest accepted multiplier, in thousandths.
    const MAX_MULTIPLIER: u32 = 1_000_000;

    /// Milliseconds after the first sending.
    pub(crate) fn first(self) -> u16 {
        self.initial_ms.unwrap_or(10)
    }

    fn max(self) -> u16 {
        self.max_ms.unwrap_or(250)
    }

    /// Milliseconds after a further sending, if it was `earlier` after the one before.
    pub(crate) fn next(self, earlier: u16) -> u16 {
        let thousandths = u64::from(self.multiplier_thousandths.unwrap_or(2_000));
        let longer = u64::from(earlier).saturating_mul(thousandths) / 1_000;
        u16::try_from(longer).unwrap_or(u16::MAX).min(self.max())
    }

    /// Reads one parameter. `None` if it is unknown, out of range or repeated.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "retx-suppression-initial" if self.initial_ms.is_none() => {
                self.initial_ms = Some(value.parse().ok()?).filter(|ms| *ms > 0);
                self.initial_ms.map(drop)
            }
            "retx-suppression-max" if self.max_ms.is_none() => {
                self.max_ms = Some(value.parse().ok()?).filter(|ms| *ms > 0);
                self.max_ms.map(drop)
            }
            "retx-suppression-multiplier" if self.multiplier_thousandths.is_none() => {
                let range = 1_000..=Self::MAX_MULTIPLIER;
                self.multiplier_thousandths = thousandths(value).filter(|n| range.contains(n));
                self.multiplier_thousandths.map(drop)
            }
            _ => None,
        }
    }
}

/// Reads a decimal number with at most three digits after the point, as thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| {
        let are_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| are_digits)
    };
    let unit = [100, 10, 1].get(fraction.len().checked_sub(1)?)?;
    digits(whole)?.checked_mul(1_000)?.checked_add(digits(fraction)? * unit)
}

impl fmt::Display for RetxSuppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ms) = self.initial_ms {
            write!(f, "/retx-suppression-initial~{ms}")?;
        }
        if let Some(ms) = self.max_ms {
            write!(f, "/retx-suppression-max~{ms}")?;
        }
        let Some(thousandths) = self.multiplier_thousandths else { return Ok(()) };
        write!(f, "/retx-suppression-multiplier~{}", thousandths / 1_000)?;
        match thousandths % 1_000 {
            0 => Ok(()),
            rest if rest % 100 == 0 => write!(f, ".{}", rest / 100),
            rest if rest % 10 == 0 => write!(f, ".{:02}", rest / 10),
            rest => write!(f, ".{rest:03}"),
        }
    }
}

/// Parameters of NFD's ASF, written after its version, as `probing-interval~30000` and `max-timeouts~5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AsfParameters {
    /// Milliseconds between two probes of a prefix, at least [`AsfParameters::MIN_INTERVAL`]; `None`: as the forwarder
    /// is configured.
    pub probing_interval: Option<u32>,
    /// Number of unanswered Interests in a row that makes a next hop the last to be tried, at least 1; `None`: 3.
    pub max_timeouts: Option<u8>,
    /// As of the other strategies.
    pub suppression: RetxSuppression,
}

impl AsfParameters {
    /// NFD's minimum interval in milliseconds.
    pub const MIN_INTERVAL: u32 = 1_000;

    /// Reads one parameter. `None` if it is unknown, out of range or repeated.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "probing-interval" if self.probing_interval.is_none() => {
                let interval = value.parse().ok()?;
                self.probing_interval = Some(interval).filter(|i| *i >= Self::MIN_INTERVAL);
                self.probing_interval.map(drop)
            }
            "max-timeouts" if self.max_timeouts.is_none() => {
                self.max_timeouts = Some(value.parse().ok()?).filter(|max| *max > 0);
                self.max_timeouts.map(drop)
            }
            _ => self.suppression.take(key, value),
        }
    }
}

/// The common prefix of NFD's strategy names.
const PREFIX: [&[u8]; 3] = [b"localhost", b"nfd", b"strategy"];

impl ForwardingStrategy {
    /// Best-route without parameters.
    pub const BEST_ROUTE: Self = Self::BestRoute(RetxSuppression::USUAL);
    /// Multicast without parameters.
    pub const MULTICAST: Self = Self::Multicast(RetxSuppression::USUAL);
    /// Random without parameters.
    pub const RANDOM: Self = Self::Random(RetxSuppression::USUAL);
    /// ASF without parameters.
    pub const ASF: Self = Self::Asf(AsfParameters {
        probing_interval: None,
        max_timeouts: None,
        suppression: RetxSuppression::USUAL,
    });

    /// All strategies, without parameters.
    pub const ALL: [ForwardingStrategy; 6] = [
        ForwardingStrategy::BEST_ROUTE,
        ForwardingStrategy::MULTICAST,
        ForwardingStrategy::ASF,
        ForwardingStrategy::RANDOM,
        ForwardingStrategy::Access,
        ForwardingStrategy::SelfLearning,
    ];

    const fn component(self) -> &'static str {
        match self {
            ForwardingStrategy::BestRoute(_) => "best-route",
            ForwardingStrategy::Multicast(_) => "multicast",
            ForwardingStrategy::Asf(_) => "asf",
            ForwardingStrategy::Random(_) => "random",
            ForwardingStrategy::Access => "access",
            ForwardingStrategy::SelfLearning => "self-learning",
        }
    }

    const fn version(self) -> u64 {
        match self {
            ForwardingStrategy::BestRoute(_)
            | ForwardingStrategy::Multicast(_)
            | ForwardingStrategy::Asf(_) => 5,
            ForwardingStrategy::Random(_)
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
            if component.typ() != types::GENERIC_COMPONENT {
                return None;
            }
            let (key, value) = core::str::from_utf8(component.value()).ok()?.split_once('~')?;
            match &mut strategy {
                Self::BestRoute(how) | Self::Multicast(how) | Self::Random(how) => {
                    how.take(key, value)?;
                }
                Self::Asf(parameters) => parameters.take(key, value)?,
                Self::Access | Self::SelfLearning => return None,
            }
        }
        let suppression = strategy.suppression();
        (suppression.first() <= suppression.max()).then_some(strategy)
    }

    fn suppression(self) -> RetxSuppression {
        match self {
            Self::BestRoute(how) | Self::Multicast(how) | Self::Random(how) => how,
            Self::Asf(parameters) => parameters.suppression,
            Self::Access | Self::SelfLearning => RetxSuppression::USUAL,
        }
    }
}

/// The URI of the strategy's name, with version and parameters.
impl fmt::Display for ForwardingStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/localhost/nfd/strategy/{}/v={}", self.component(), self.version())?;
        if let ForwardingStrategy::Asf(parameters) = self {
            if let Some(interval) = parameters.probing_interval {
                write!(f, "/probing-interval~{interval}")?;
            }
            if let Some(max) = parameters.max_timeouts {
                write!(f, "/max-timeouts~{max}")?;
            }
        }
        self.suppression().fmt(f)
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
            let suppression = RetxSuppression::USUAL;
            ForwardingStrategy::Asf(AsfParameters { probing_interval, max_timeouts, suppression })
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
            "/localhost/nfd/strategy/best-route/v=5/max-timeouts~3",
            "/localhost/nfd/strategy/access/v=1/retx-suppression-max~300",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~0",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~65536",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~300",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~9",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~521.5",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~300/retx-suppression-max~300",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-multiplier~0.9",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-multiplier~-2.1",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-multiplier~2.",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-multiplier~2.1234",
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-multiplier~1001",
            "/localhost/nfd/strategy/asf/max-timeouts~3",
            "/localhost/nfd/strategy/ncc",
            "/localhost/nfd/strategy",
            "/localhost/nfd/strategies/asf",
        ] {
            let name = Name::from_uri(wrong).unwrap();
            assert_eq!(ForwardingStrategy::parse(name.as_ref()), None, "{wrong}");
        }
        let older = Name::from_uri("/localhost/nfd/strategy/multicast/v=1").unwrap();
        assert_eq!(ForwardingStrategy::parse(older.as_ref()), Some(ForwardingStrategy::MULTICAST));
    }

    #[test]
    fn suppression_is_a_parameter_of_four_strategies() {
        for parameters in [
            "/retx-suppression-initial~20",
            "/retx-suppression-max~1000",
            "/retx-suppression-multiplier~3",
            "/retx-suppression-multiplier~2.25",
            "/retx-suppression-multiplier~1.5",
            "/retx-suppression-multiplier~1.005",
            "/retx-suppression-initial~20/retx-suppression-max~500/retx-suppression-multiplier~2.5",
        ] {
            for strategy in [
                ForwardingStrategy::BEST_ROUTE,
                ForwardingStrategy::MULTICAST,
                ForwardingStrategy::RANDOM,
                ForwardingStrategy::ASF,
            ] {
                let uri = std::format!("{strategy}{parameters}");
                let name = Name::from_uri(&uri).unwrap();
                let parsed = ForwardingStrategy::parse(name.as_ref());
                assert_eq!(parsed.expect("a strategy").to_string(), uri);
            }
        }
        let how = RetxSuppression {
            initial_ms: Some(20),
            max_ms: Some(100),
            multiplier_thousandths: Some(2_500),
        };
        assert_eq!((how.first(), how.next(20), how.next(50), how.next(100)), (20, 50, 100, 100));
        let usual = RetxSuppression::USUAL;
        assert_eq!((usual.first(), usual.next(10), usual.next(160)), (10, 20, 250));
    }
}
