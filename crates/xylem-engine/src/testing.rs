//! Engines of one test, on loopback, run in turns by one thread.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, LinkConfig, StaticKey};

use crate::{Engine, EngineEvent};

/// An engine with keys from the seed, and a socket for links.
pub(crate) fn engine(seed: u8) -> Engine {
    engine_at(seed, "127.0.0.1:0".parse().expect("an address"), LinkConfig::default())
}

/// An engine with keys from the seed, and a socket for links at this address.
pub(crate) fn engine_at(seed: u8, at: SocketAddr, config: LinkConfig) -> Engine {
    let endpoint = Endpoint::new(config, StaticKey::generate([seed; 32]), [seed; 32]);
    let forwarder =
        Forwarder::new(ForwarderConfig::end_host(), ForwarderSeed::from_random([seed; 16]));
    let mut engine = Engine::new(endpoint, forwarder).expect("the system gives a poll");
    engine.bind_link(at).expect("loopback");
    engine
}

/// Runs all engines until `is` holds; `beside` runs in each turn.
pub(crate) fn until(
    engines: &mut [&mut Engine],
    mut beside: impl FnMut(),
    mut is: impl FnMut(&mut [&mut Engine], &[EngineEvent]) -> bool,
) {
    let began = Instant::now();
    let mut events = Vec::new();
    while !is(engines, &events) {
        assert!(began.elapsed() < Duration::from_secs(30), "it never happened: {events:?}");
        for engine in engines.iter_mut() {
            engine.flush();
            let now = engine.now();
            engine.wait(Some(now)).expect("sockets work");
            events.extend(std::iter::from_fn(|| engine.net.pending.pop()));
        }
        beside();
    }
}
