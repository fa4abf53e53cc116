//! `--shape LEVEL`: what sizes and times of an encrypted link's datagrams show.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xylem_node::{ShapeLevel, Shaping};

/// The flag of every command that makes encrypted links.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShapeArgs {
    /// Hide sizes and times of the encrypted link's datagrams from whoever watches the network
    ///
    /// The level in force is the higher of what the two sides ask for, within what both agree to;
    /// who does not give this flag agrees to low and medium, off refuses all.
    #[arg(long = "shape", value_name = "LEVEL", value_parser = level(), env = "XYLEM_SHAPE",
          hide_env_values = true)]
    shape: Option<Shaping>,
}

/// Names and costs of the levels (docs/shaping.md has the measurements).
const LEVELS: [(ShapeLevel, &str); 5] = [
    (ShapeLevel::Off, "nothing is hidden, also if the peer asks for it"),
    (ShapeLevel::Low, "five sizes. Costs few bytes and no time"),
    (ShapeLevel::Medium, "two sizes, times jittered. Costs few bytes, 3 ms a packet"),
    (
        ShapeLevel::High,
        "sizes and times drawn by lot, cover traffic in use and 10 s after. Costs a third more bytes, 4 ms a packet; \
         3.7 MB/s at most, 37 kB/s of cover",
    ),
    (
        ShapeLevel::Paranoid,
        "one size at one rate, used or not. Costs 1 MB/s both ways all the time; no faster than that",
    ),
];

fn level() -> impl TypedValueParser<Value = Shaping> {
    let values = LEVELS.map(|(level, help)| PossibleValue::new(level.name()).help(help));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Shaping>())
}

impl ShapeArgs {
    /// What the flag says, or nothing if it was not given.
    pub(crate) fn given(&self) -> Option<Shaping> {
        self.shape.clone()
    }

    /// What the flag says, or the usual: not shaped unless the peer asks for it.
    pub(crate) fn shaping(&self) -> Shaping {
        self.given().unwrap_or_default()
    }

    /// The flag as a child of this program takes it.
    pub(crate) fn as_args(&self) -> Option<String> {
        self.shape.as_ref().map(|shape| format!("--shape={}", shape.level))
    }
}
