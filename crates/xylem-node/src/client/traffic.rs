//! Load for a forwarder: Interests at a rate or as fast as a window allows, and who answers them.

use std::time::Duration;

use xylem_client::traffic::{Generator, TrafficServer};
use xylem_library::{Error, Stop};

use super::{Client, client_error, parse_name, random_seed};
use crate::uri::PeerUri;

pub use xylem_client::traffic::{MAX_WINDOW, TrafficOptions, TrafficReport, TrafficServed};

/// Makes load until its time is over, and says how it went.
///
/// # Errors
/// [`xylem_library::Blame::Usage`] for a name that can't be one, [`xylem_library::Blame::Network`] if
/// the forwarder goes away. A raised `stop` ends the run early and is no error.
pub fn generate(
    at: Option<&PeerUri>,
    options: TrafficOptions,
    stop: &Stop,
) -> Result<TrafficReport, Error> {
    let mut client = Client::connect(at)?;
    let mut generator = Generator::new(options, random_seed()?).map_err(client_error)?;
    client.run(&mut generator, stop)?;
    Ok(generator.into_report())
}

/// How to answer load.
#[derive(Clone, Debug)]
pub struct TrafficServeOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// Which names to answer, as an NDN URI.
    pub prefix: String,
    /// Bytes of content in each Data.
    pub size: usize,
    /// FreshnessPeriod of each Data.
    pub freshness: Duration,
    /// Ask the forwarder for the prefix's Interests; false where a route leads here already.
    pub register: bool,
}

/// Answers every Interest under a prefix until `stop` is raised. `ready` is called once Interests
/// can come.
///
/// # Errors
/// [`xylem_library::Blame::Usage`] for a name or size that no packet can have,
/// [`xylem_library::Blame::Network`] if the forwarder refuses the prefix or goes away.
pub fn serve(
    options: &TrafficServeOptions,
    stop: &Stop,
    ready: &mut dyn FnMut(),
) -> Result<TrafficServed, Error> {
    let prefix = parse_name(&options.prefix)?;
    let server = TrafficServer::new(prefix.clone(), options.size, options.freshness);
    let mut server = server.map_err(client_error)?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(prefix.as_ref(), stop)?;
    }
    ready();
    client.run(&mut server, stop)?;
    Ok(server.served())
}
