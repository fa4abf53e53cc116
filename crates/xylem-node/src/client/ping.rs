//! Is somebody there, and how far: `PREFIX/ping/<number>`, as ndnping has it.

use std::time::Duration;

use xylem_client::{PingServer, Pinger};
use xylem_library::{Error, Stop};
use xylem_packet::Name;

use super::{Client, client_error, parse_name, random_seed};
use crate::uri::PeerUri;

pub use xylem_client::{PingReport, Pinged};

/// Whom to ping, and how.
#[derive(Clone, Debug)]
pub struct PingOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The prefix, without `ping`, as an NDN URI.
    pub prefix: String,
    /// From one ping to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// So many pings; `None`: until the run is stopped.
    pub count: Option<u64>,
    /// First number; `None`: a random one, so that caches don't answer for the last run.
    pub start: Option<u64>,
}

/// Pings until `count` are done or `stop` is raised.
///
/// # Errors
/// [`xylem_library::Blame::Usage`] for a prefix that makes no Interest,
/// [`xylem_library::Blame::Network`] if the forwarder goes away.
pub fn ping(
    options: &PingOptions,
    stop: &Stop,
    on_ping: &mut dyn FnMut(u64, Pinged),
) -> Result<PingReport, Error> {
    let prefix = parse_name(&options.prefix)?;
    let mut client = Client::connect(options.at.as_ref())?;
    let seed = random_seed()?;
    let (times, first) = ((options.interval, options.timeout), options.start.unwrap_or(seed));
    let mut pinger = Pinger::new(prefix.as_ref(), times, options.count, first, seed, on_ping);
    client.run(&mut pinger, stop)?;
    Ok(pinger.into_report())
}

/// How to answer pings.
#[derive(Clone, Debug)]
pub struct PingServeOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The prefix, without `ping`, as an NDN URI.
    pub prefix: String,
    /// Bytes of content in each answer.
    pub size: usize,
    /// FreshnessPeriod of each answer.
    pub freshness: Duration,
    /// End after so many answers.
    pub count: Option<u64>,
    /// Ask the forwarder for the prefix's Interests; false where a route leads here already.
    pub register: bool,
}

/// Answers pings until `stop` is raised: how many. `on_ping` hears `None` once pings can come.
///
/// # Errors
/// As for [`ping`], and if the forwarder refuses the prefix.
pub fn serve(
    options: &PingServeOptions,
    stop: &Stop,
    on_ping: &mut dyn FnMut(Option<&Name>),
) -> Result<u64, Error> {
    let prefix = parse_name(&options.prefix)?;
    let on_ping = std::cell::RefCell::new(on_ping);
    let mut told = |name: &Name| (on_ping.borrow_mut())(Some(name));
    let PingServeOptions { size, freshness, count, .. } = *options;
    let server = PingServer::new(prefix.as_ref(), size, freshness, count, &mut told);
    let mut server = server.map_err(client_error)?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(server.served(), stop)?;
    }
    (on_ping.borrow_mut())(None);
    client.run(&mut server, stop)?;
    Ok(server.answered())
}
