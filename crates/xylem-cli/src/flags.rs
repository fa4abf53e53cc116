//! Flags that several verbs share: one text, one variable and one meaning each. A verb whose flag takes other values
//! (`ndn node --listen`, `scrub --from`), or none from a variable (`net reach --listen`), defines it itself.

use crate::exit::CommandFailure;
use crate::values::{LinkAt, parse_rate, parse_seconds, peers, stored_links};
use clap::Args;
use std::time::Duration;
use xylem_node::{PeerAddress, PeerUri};
use xylem_object::ticket::Address;

/// The peers that a command asks instead of those that its ticket names.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FromArgs {
    /// Ask this peer, not the ticket's: HOST:PORT
    ///
    /// HOST:PORT or KEY@HOST:PORT is an encrypted link; the same within TCP is xylem+tls://HOST[:PORT][?sni=NAME],
    /// xylem+ws://, xylem+wss:// or xylem+doh://. udp://HOST, tcp://HOST, ws://HOST (with :PORT if it is not the usual
    /// one) or unix:///PATH is an NDN forwarder. Can be repeated.
    // There is no variable for it: a peer that serves one ticket makes other commands fail.
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    pub(crate) from: Vec<PeerUri>,
}

impl FromArgs {
    /// The addresses of the peers.
    pub(crate) fn peers(&self) -> Result<Vec<PeerAddress>, CommandFailure> {
        peers(&self.from)
    }
}

/// How long a command waits for others.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct TimeoutArgs {
    /// Give up after this long without progress
    ///
    /// [default: 30]
    // `verbs.rs` has the words of the verbs in which it is otherwise.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true,
          env = "XYLEM_TIMEOUT", hide_env_values = true)]
    timeout: Option<Duration>,
}

impl TimeoutArgs {
    /// The time that was given, or else this default.
    pub(crate) fn or_seconds(self, default: u32) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(default.into()))
    }
}

/// How fast a command reads and fetches.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LimitArgs {
    /// Bytes a second at most, such as 500K or 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate, env = "XYLEM_LIMIT",
          hide_env_values = true)]
    pub(crate) limit: Option<u64>,
}

/// How fast a command fetches, and what goes first.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct PaceArgs {
    #[command(flatten)]
    pub(crate) rate: LimitArgs,

    /// Use only the capacity of the path that other traffic leaves free
    #[arg(long)]
    pub(crate) low_priority: bool,
}

/// Where a command accepts encrypted links.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListenArgs {
    /// Listen for encrypted links here: HOST:PORT or PORT
    ///
    /// These links use UDP. PORT alone listens on all interfaces; an IP address alone listens on a free port. For
    /// links within TCP give xylem+tls://HOST:PORT, xylem+ws://, xylem+wss:// or xylem+doh:// (DNS over HTTPS). Can be
    /// repeated. `sync` and `service` remember it. [default: all interfaces, at the port of the last run; if that is
    /// taken or there was none, at 7348; if that is taken, at a free port]
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_LISTEN",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = link_text
    )]
    pub(crate) listen: Vec<String>,
}

impl ListenArgs {
    /// The addresses to bind.
    pub(crate) fn places(&self) -> Result<Vec<PeerAddress>, CommandFailure> {
        stored_links(&self.listen)
    }
}

/// Checks the text of a place to listen at.
fn link_text(text: &str) -> Result<String, String> {
    text.parse::<LinkAt>().map(|_| text.to_owned())
}

/// Where others reach this machine.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AnnouncedArgs {
    /// Where this machine can be reached from elsewhere: HOST:PORT
    ///
    /// A port that a router forwards, a name that DNS knows. Tickets name it first; can be repeated.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "XYLEM_ANNOUNCE",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) announce: Vec<Address>,
}
