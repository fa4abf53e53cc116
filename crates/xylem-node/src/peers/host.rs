//! [`Host`]: the thread that answers those who dial a fetching node.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use mio::Waker;
use xylem_forward::{FaceId, Forwarder, Seed};
use xylem_link::{Endpoint, Shaping, StaticKey};
use xylem_object::peers::{Announcement, MAX_OWN_ADDRESSES};
use xylem_object::{Publication, Ticket};
use xylem_packet::{Interest, Packet};

use super::announcers::Announcers;
use crate::addresses::advertised;
use crate::engine::{Engine, Happening, Limits};
use crate::failure;
use xylem_library::held::Answers;
use xylem_library::held::HeldSource;
use xylem_library::held::Holdings;
use xylem_library::identity;
use xylem_library::publish::disk;
use xylem_library::{Error, Stop};

/// Links that others have made; more are refused.
const MAX_LINKS: usize = 64;
/// Answers between two flushes, as in [`crate::share`].
const ANSWERS_A_FLUSH: usize = 7;

/// Serves one publication from what is held of it. Ends, with a goodbye on its links, when dropped.
pub(crate) struct Host {
    key: [u8; 32],
    listen: Vec<SocketAddr>,
    served: Arc<AtomicU64>,
    stop: Stop,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Listens at `listen` (nothing: at a free port of all interfaces) under a key made up for this
    /// run, and serves what the ticket names, of which `manifest` is the signed manifest.
    ///
    /// # Errors
    /// Those of sockets; [`crate::Blame::Usage`] if the manifest is not the ticket's.
    pub(crate) fn start(
        listen: &[SocketAddr],
        shaping: Shaping,
        ticket: &Ticket,
        manifest: Vec<u8>,
        holdings: Holdings,
    ) -> Result<Self, Error> {
        let publication = Publication::new(ticket.name.clone(), manifest, &ticket.publisher)
            .map_err(|e| failure::usage(e.to_string()))?;
        let secret = StaticKey::from_bytes(identity::random()?);
        let key = secret.public().0;
        let config = xylem_link::Config {
            // Only who was told of the key learns that something listens.
            accept_open: false,
            max_links: MAX_LINKS,
            shaping,
            ..Default::default()
        };
        let endpoint = Endpoint::new(config, secret, identity::random()?);
        let seed = Seed::from_random(identity::random()?);
        let local = |e| failure::local("cannot start the event loop", &e);
        let mut engine =
            Engine::new(endpoint, Forwarder::new(Default::default(), seed)).map_err(local)?;
        engine.set_limits(Limits { faces: MAX_LINKS, ..Limits::default() });
        let listen = bind(&mut engine, listen)?;
        engine.serve(ticket.name.as_ref());
        let waker = engine.waker().map_err(local)?;
        let source = HeldSource::new(holdings, publication.manifest().clone(), disk());
        let answers = Answers::new(publication, ticket.publisher, source);
        let (served, stop) = (Arc::new(AtomicU64::new(0)), Stop::new());
        let prefix = ticket.name.clone();
        let run =
            Run { engine, prefix, answers, announcers: Announcers::default(), out: Vec::new() };
        let (counter, ends) = (served.clone(), stop.clone());
        let thread = thread::Builder::new().name("serve".into());
        let thread = thread.spawn(move || run.run(&ends, &counter)).map_err(local)?;
        Ok(Self { key, listen, served, stop, waker, thread: Some(thread) })
    }

    /// The key that dialled links prove.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Where it listens.
    pub(crate) fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Bytes of content that were sent to others.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// What to tell a peer: the port at the address that it sees, and addresses of ours that say more
    /// than that does: those asked for, and those of the whole network.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let port = self.listen.first()?.port();
        let mut addresses = advertised(&self.listen);
        addresses.retain(|a| self.listen.contains(a) || is_public(a));
        addresses.truncate(MAX_OWN_ADDRESSES);
        Some(Announcement { key: self.key, port, addresses })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.raise();
        // Without it the thread looks within a tenth of a second.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

/// Whether an address means the same everywhere.
fn is_public(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(v4) => !(v4.ip().is_private() || v4.ip().is_loopback()),
        SocketAddr::V6(v6) => !(v6.ip().is_unique_local() || v6.ip().is_loopback()),
    }
}

fn bind(engine: &mut Engine, asked: &[SocketAddr]) -> Result<Vec<SocketAddr>, Error> {
    if !asked.is_empty() {
        let bind = |a: &SocketAddr| engine.bind_link(*a).map_err(|e| failure::bind(*a, &e));
        return asked.iter().map(bind).collect();
    }
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let first = engine.bind_link(v4).map_err(|e| failure::bind(v4, &e))?;
    // A machine without IPv6 serves over IPv4 alone.
    let second = engine.bind_link(SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port())));
    Ok([Some(first), second.ok()].into_iter().flatten().collect())
}

/// What the thread owns.
struct Run {
    engine: Engine,
    prefix: xylem_packet::Name,
    answers: Answers,
    announcers: Announcers,
    out: Vec<u8>,
}

impl Run {
    fn run(mut self, stop: &Stop, served: &AtomicU64) {
        while !stop.raised() {
            // Sockets that fail for good end the serving, not the fetch.
            if self.engine.wait(None).is_err() {
                break;
            }
            let mut answered = 0;
            while let Some(happening) = self.engine.next_happening() {
                match happening {
                    Happening::Packet { from, packet, nack: None, .. } => {
                        self.take(from, &packet);
                        answered += 1;
                        if answered % ANSWERS_A_FLUSH == 0 {
                            self.engine.flush_links();
                        }
                    }
                    Happening::Stream { face, stream, what } => {
                        self.engine.refuse_stream(face, stream, what);
                    }
                    Happening::FaceDown { face, .. } => self.announcers.went_down(face),
                    Happening::Packet { .. } | Happening::FaceUp { .. } => {}
                }
            }
            served.store(self.answers.served, Ordering::Relaxed);
            self.engine.flush();
        }
        self.engine.close();
    }

    fn take(&mut self, from: FaceId, packet: &[u8]) {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { return };
        self.out.clear();
        if self.answers.answer(self.engine.now(), &interest, &mut self.out) {
            return self.engine.send(&self.out);
        }
        match self.hints(from, &interest) {
            Some(answer) => self.engine.send(&answer),
            None => self.engine.refuse(packet),
        }
    }

    fn hints(&mut self, from: FaceId, interest: &Interest<'_>) -> Option<Vec<u8>> {
        self.announcers.answer(&self.engine, from, self.prefix.as_ref(), interest)
    }
}
