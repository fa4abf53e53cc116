//! `--shape LEVEL` and `--post-quantum WHEN`: what sizes and times an encrypted link shows, and the key exchange of its
//! keys.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xylem_node::{LinkOptions, PostQuantum, ShapeLevel, Shaping};

/// Flags of commands that make encrypted links.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShapeArgs {
    /// Hide sizes and times of datagrams: off to paranoid
    ///
    /// It hides those of the encrypted link from observers of the network.
    ///
    /// The level in force is the higher one that the two sides ask for, within what both accept. A side without this
    /// flag accepts low and medium; off refuses all. Below high, amounts show, and they reveal which of a set of known
    /// files is fetched. From high on a fetch's link stays up until the next of 4, 8, 16 … s after its beginning
    /// (Ctrl-C ends it). No level hides that the link is xylem's.
    #[arg(long = "shape", value_name = "LEVEL", value_parser = level(), env = "XYLEM_SHAPE",
          hide_env_values = true)]
    shape: Option<Shaping>,
    /// Add ML-KEM-768, which withstands quantum computers
    ///
    /// Keys of the encrypted link then rest on it besides X25519.
    #[arg(long, value_name = "WHEN", value_parser = when(), env = "XYLEM_POST_QUANTUM",
          hide_env_values = true)]
    post_quantum: Option<PostQuantum>,
}

/// When a handshake is hybrid: the values, names and help texts.
const WHEN: [(PostQuantum, &str, &str); 3] = [
    (PostQuantum::Offer, "offer", "where the peer does that too; what happens without this flag"),
    (PostQuantum::Require, "require", "always: there is no link to a peer that does not"),
    (PostQuantum::Never, "never", "a datagram and 70 microseconds less for each link"),
];

fn when() -> impl TypedValueParser<Value = PostQuantum> {
    let values = WHEN.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| post_quantum(&name))
}

/// Parses the flag's value; the settings of a node use it, too.
pub(crate) fn post_quantum(name: &str) -> Result<PostQuantum, String> {
    let found = WHEN.iter().find(|(_, word, _)| *word == name);
    let (when, ..) = found.ok_or("expected offer, require or never")?;
    if !when.is_possible() {
        return Err("ML-KEM-768 is not implemented for this processor".into());
    }
    Ok(*when)
}

/// Names and costs of the levels (docs/shaping.md has the measurements).
const LEVELS: [(ShapeLevel, &str); 5] = [
    (ShapeLevel::Off, "nothing is hidden, also if the peer asks for it"),
    (ShapeLevel::Low, "five sizes. Costs few bytes and no time"),
    (ShapeLevel::Medium, "two sizes, times jittered. Costs few bytes, 3 ms a packet"),
    (
        ShapeLevel::High,
        "sizes and times by lot, cover traffic in use and 10 s after. Costs a tenth more bytes, \
         4 ms a packet and 37 kB/s of cover; 3.7 MB/s at most",
    ),
    (
        ShapeLevel::Paranoid,
        "one size at one rate, used or not. Costs 1 MB/s each way all the time, and is no faster",
    ),
];

fn level() -> impl TypedValueParser<Value = Shaping> {
    let values = LEVELS.map(|(level, help)| PossibleValue::new(level.name()).help(help));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Shaping>())
}

impl ShapeArgs {
    /// The first of these flags that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let Self { shape, post_quantum } = self;
        let shape = shape.as_ref().map(|_| "--shape");
        shape.or(post_quantum.map(|_| "--post-quantum"))
    }

    /// Whether links are covered so that sizes and times show little.
    pub(crate) fn is_covered(&self) -> bool {
        self.links().shaping.level >= ShapeLevel::High
    }

    /// The flags' options; `usual` holds where a flag is missing.
    pub(crate) fn over(&self, usual: &LinkOptions) -> LinkOptions {
        LinkOptions {
            shaping: self.shape.clone().unwrap_or_else(|| usual.shaping.clone()),
            post_quantum: self.post_quantum.unwrap_or(usual.post_quantum),
            port: usual.port,
        }
    }

    /// The flags' options, or the defaults: shaped only if the peer asks for it, hybrid if the peer can.
    pub(crate) fn links(&self) -> LinkOptions {
        self.over(&LinkOptions::default())
    }

    /// The flags and their values as arguments for another run of this program.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let Self { shape, post_quantum } = self;
        let shape = shape.as_ref().map(|shape| ("--shape", shape.level.to_string()));
        let word = WHEN.iter().find(|(when, ..)| Some(*when) == *post_quantum);
        let when = word.map(|(_, word, _)| ("--post-quantum", (*word).to_owned()));
        shape.into_iter().chain(when).collect()
    }
}
