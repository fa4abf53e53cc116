//! Shaping profiles, the named ones among them, and the agreement of two sides.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use thiserror::Error;

use super::{Cover, Padding, SendTiming};
use crate::mtu::BASE_DATAGRAM;

const MS: Duration = Duration::from_millis(1);

/// How much of a link's sizes and times is hidden. docs/shaping.md has the cost of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    #[default]
    Off = 0,
    /// Five sizes.
    Low = 1,
    /// Two sizes, jittered times.
    Medium = 2,
    /// Drawn sizes, drawn times, cover while the link is used.
    High = 3,
    /// One size, one rate, as long as the link is up.
    Paranoid = 4,
}

/// The text is not the name of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unknown shaping level: use off, low, medium, high or paranoid")]
pub struct NoSuchLevel;

impl Level {
    /// All levels, ascending.
    pub const ALL: [Self; 5] = [Self::Off, Self::Low, Self::Medium, Self::High, Self::Paranoid];

    /// The level's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Paranoid => "paranoid",
        }
    }

    /// The level of a number on the wire. An unknown higher number comes from a later version, and means at least our
    /// highest.
    pub(crate) fn from_wire(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Paranoid)
    }

    /// The level in force between two sides: the higher of what they want, within both limits.
    pub(crate) fn agreed(ours: &Shaping, want: u8, limit: u8) -> Self {
        ours.level.max(Self::from_wire(want)).min(ours.limit).min(Self::from_wire(limit))
    }

    /// The profile of this level.
    #[must_use]
    pub fn profile(self) -> ShapingProfile {
        match self {
            Self::Off => ShapingProfile::default(),
            Self::Low => ShapingProfile {
                padding: Padding::SizeClasses(vec![128, 256, 512, 1_024]),
                ..ShapingProfile::default()
            },
            Self::Medium => ShapingProfile {
                padding: Padding::SizeClasses(vec![512]),
                timing: SendTiming::Uniform { min: MS, max: 5 * MS },
                burst: 64,
                cover: Cover::None,
            },
            Self::High => ShapingProfile {
                padding: Padding::Statistical(vec![
                    (256, 15),
                    (512, 10),
                    (768, 10),
                    (1_024, 15),
                    (BASE_DATAGRAM, 50),
                ]),
                timing: SendTiming::Exponential { mean: 4 * MS },
                burst: 16,
                cover: Cover::Poisson { mean: 25 * MS, rest: Some(Duration::from_secs(10)) },
            },
            Self::Paranoid => ShapingProfile {
                padding: Padding::Constant(BASE_DATAGRAM),
                timing: SendTiming::None,
                burst: 4,
                cover: Cover::Constant { interval: 5 * MS, rest: None },
            },
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = NoSuchLevel;

    fn from_str(name: &str) -> Result<Self, NoSuchLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or(NoSuchLevel)
    }
}

/// The shaping that a side wants and agrees to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// The level that this side wants at least.
    pub level: Level,
    /// The highest that it applies, whatever the peer wants.
    pub limit: Level,
    /// Replaces the profile of this side's own `level` while that level is in force.
    pub custom: Option<ShapingProfile>,
}

impl Shaping {
    /// The highest level that a side agrees to by default: what a peer can make it add is then in proportion to what is
    /// sent. Higher levels send even when there is nothing to send.
    pub const USUAL_LIMIT: Level = Level::Medium;

    /// Wants this level, and agrees to it.
    #[must_use]
    pub fn at(level: Level) -> Self {
        Self { level, limit: level.max(Self::USUAL_LIMIT), custom: None }
    }
}

impl FromStr for Shaping {
    type Err = NoSuchLevel;

    /// The meaning of a level's name to a user: wanted and agreed to; `off` refuses every other.
    fn from_str(name: &str) -> Result<Self, NoSuchLevel> {
        Ok(match name.parse()? {
            Level::Off => Self { limit: Level::Off, ..Self::default() },
            level => Self::at(level),
        })
    }
}

impl Default for Shaping {
    fn default() -> Self {
        Self::at(Level::Off)
    }
}

/// How a side shapes what it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapingProfile {
    /// The sizes of datagrams.
    pub padding: Padding,
    /// The times at which they leave.
    pub timing: SendTiming,
    /// How many may leave at one moment of the timing, or of constant cover; 0 counts as 1.
    pub burst: u16,
    /// Cover traffic beside them.
    pub cover: Cover,
}

impl ShapingProfile {
    /// The same profile within the supported limits.
    pub(crate) fn bounded(&self) -> Self {
        Self {
            padding: self.padding.bounded(),
            timing: self.timing.bounded(),
            burst: self.burst.max(1),
            cover: self.cover.bounded(),
        }
    }

    /// Returns whether it changes nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        (&self.padding, self.timing, self.cover) == (&Padding::None, SendTiming::None, Cover::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        for (number, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(level as usize, number);
            assert_eq!(Level::from_wire(number as u8), level);
        }
        assert_eq!(Level::from_wire(200), Level::Paranoid);
        assert_eq!("HIGH".parse::<Level>(), Err(NoSuchLevel));
    }

    /// min(max(want, want'), limit, limit'), from both sides the same.
    #[test]
    fn both_sides_agree_on_the_same_level() {
        for (w, l) in pairs() {
            for (w2, l2) in pairs() {
                let of = |level, limit| Shaping { level, limit, custom: None };
                let a = Level::agreed(&of(w, l), w2 as u8, l2 as u8);
                let b = Level::agreed(&of(w2, l2), w as u8, l as u8);
                assert_eq!(a, b);
                assert_eq!(a, w.max(w2).min(l).min(l2));
            }
        }
    }

    fn pairs() -> impl Iterator<Item = (Level, Level)> {
        Level::ALL.into_iter().flat_map(|a| Level::ALL.map(|b| (a, b)))
    }

    /// A peer can make a side without shaping of its own pad and wait, but not send cover.
    #[test]
    fn the_usual_limit_has_no_cover() {
        assert_eq!(Shaping::default().level, Level::Off);
        assert_eq!(Shaping::default().limit.profile().cover, Cover::None);
        assert_eq!(Shaping::at(Level::Paranoid).limit, Level::Paranoid);
    }
}
