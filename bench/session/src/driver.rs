//! [`Driver`]: one link endpoint over one UDP socket, driven as in the node: one thread, the node's own socket code,
//! and nothing between the endpoint and the measurement.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use xylem_link::{Endpoint, LinkConfig, StaticKey};

use xylem_sockets::{EcnCapability, Oversize, Udp};

/// Longest sleep.
const MAX_SLEEP: Duration = Duration::from_millis(100);

pub(crate) struct Driver {
    pub endpoint: Endpoint,
    socket: Udp,
    poll: Poll,
    events: Events,
    epoch: Instant,
    buffer: Vec<u8>,
    /// Whether the socket may hold more than was read.
    more: bool,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent that are at least as long as a first message.
    pub long_sent: u64,
}

/// The shortest first message, in bytes (docs/spec/link.md, "Envelope").
const FIRST_MESSAGE: usize = 1_200;

/// 32 random bytes.
pub(crate) fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

impl Driver {
    /// An endpoint of a new identity on a port of the loopback interface.
    pub(crate) fn new(config: LinkConfig) -> io::Result<Self> {
        let endpoint = Endpoint::new(config, StaticKey::generate(random()?), random()?);
        let mut socket = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), Oversize::Lose)?;
        let poll = Poll::new()?;
        socket.register(&poll, Token(0))?;
        Ok(Self {
            endpoint,
            socket,
            poll,
            events: Events::with_capacity(16),
            epoch: Instant::now(),
            buffer: Vec::new(),
            more: false,
            received: 0,
            long_sent: 0,
        })
    }

    /// Its address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// The endpoint's clock.
    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Sends waiting datagrams, sleeps until one arrives or a timer is due (`deadline` at the latest), and receives one
    /// batch. The caller polls events.
    pub(crate) fn turn(&mut self, deadline: Option<Duration>) -> io::Result<()> {
        self.flush();
        let now = self.now();
        let due = [deadline, self.endpoint.poll_timeout()].into_iter().flatten().min();
        let sleep = due.map_or(MAX_SLEEP, |at| at.saturating_sub(now).min(MAX_SLEEP));
        let sleep = if self.more { Duration::ZERO } else { sleep };
        if !self.more {
            match self.poll.poll(&mut self.events, Some(sleep)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        if self.more || !self.events.is_empty() {
            let now = self.now();
            let Self { socket, endpoint, received, .. } = self;
            self.more = socket.receive(&mut |from, marked, datagram| {
                *received += 1;
                endpoint.handle_marked_datagram(now, from, marked, datagram);
            })?;
        }
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        Ok(())
    }

    /// Sends waiting datagrams.
    pub(crate) fn flush(&mut self) {
        let now = self.now();
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer) {
            self.long_sent += u64::from(transmit.len >= FIRST_MESSAGE);
            let contents = &self.buffer[..transmit.len];
            let ecn = if transmit.ecn { EcnCapability::Capable } else { EcnCapability::NotCapable };
            self.socket.send(transmit.to, contents, transmit.segment_size, ecn);
        }
    }
}
