//! The path between a dialer and the responder, 50 ms long in each direction, with an attacker on it. The attacker has
//! the ticket, sees every datagram, and inserts its own.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use xylem_link::{Endpoint, LinkConfig, PeerKey, StaticKey};
use xylem_link_internals::internals::KnownPeer;
use xylem_sim::Rng;

use crate::children;
use crate::driver::random;
use crate::flood::RATE;
use crate::session::Listening;

/// Delay in one direction.
const PATH_DELAY: Duration = Duration::from_millis(50);
/// Number of different forged datagrams that follow each genuine one.
const FORGED_VARIANTS: usize = 1_024;
/// The kind of a message, the second byte of its body (docs/spec/link.md, "Envelope").
const INITIAL: u8 = 1;
const RETRY: u8 = 2;
const RESPONSE: u8 = 3;
const FINISH: u8 = 4;
const REST: u8 = 5;

/// The attacker on the path.
struct AttackedPath {
    kind: String,
    known: KnownPeer,
    rng: Rng,
    /// Endpoint that answers under a key of its own.
    impostor: Endpoint,
    /// The forged datagrams, and whether they go to the responder.
    forged: Option<(bool, Vec<Vec<u8>>)>,
}

impl AttackedPath {
    /// Learns from a genuine datagram what to forge.
    fn see(&mut self, datagram: &[u8]) {
        let Some(body) = self.known.open(datagram) else { return };
        let Some(id) = datagram.first_chunk::<8>().copied() else { return };
        let dialer = body.get(58..66).and_then(|id| id.first_chunk()).copied().unwrap_or(id);
        let made = |rng: &mut Rng, kind: u8, to: [u8; 8], inside: usize, len: usize| {
            let body = [&[4, kind][..], &rng.bytes(inside)].concat();
            self.known.seal(to, &body, len)
        };
        let rng = &mut self.rng;
        let mut pool = |kind, to, inside, len| {
            (0..FORGED_VARIANTS).map(|_| made(rng, kind, to, inside, len)).collect::<Vec<_>>()
        };
        self.forged = match (self.kind.as_str(), body[1]) {
            ("rests", INITIAL) => Some((true, pool(REST, id, 91, 200))),
            ("retries", INITIAL) => Some((false, pool(RETRY, dialer, 24, 150))),
            ("responses", INITIAL) => Some((false, pool(RESPONSE, dialer, 115, 1_200))),
            ("impostor", INITIAL | REST) => match self.impostor_answers(datagram, &body) {
                answers if answers.is_empty() => return,
                answers => Some((false, answers)),
            },
            // Right except for the last bits, and from the dialer's own address.
            ("finishes", FINISH) => {
                let flipped = |n: usize| {
                    let mut body = body.clone();
                    body[51 + n % 24] ^= 1 << (n % 8);
                    self.known.seal(id, &body, 128 + n % 128)
                };
                Some((true, (0..FORGED_VARIANTS).map(flipped).collect()))
            }
            _ => return,
        };
    }

    /// Answers of an impostor: valid except for the key in them.
    fn impostor_answers(&mut self, datagram: &[u8], body: &[u8]) -> Vec<Vec<u8>> {
        let Some(id) = datagram.first_chunk::<8>() else { return Vec::new() };
        let own = KnownPeer::Key(self.impostor.public_key().0);
        let asked = own.seal(*id, body, datagram.len());
        let (now, from) = (Duration::ZERO, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        self.impostor.handle_datagram(now, from, asked.as_slice().into());
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        while self.impostor.poll_transmit(now, &mut buffer).is_some() {
            if let (Some(body), Some(to)) = (own.open(&buffer), buffer.first_chunk()) {
                answers.push(self.known.seal(*to, &body, buffer.len()));
            }
        }
        answers
    }
}

/// Carries datagrams both ways, and inserts those of `kind`.
pub(crate) fn play(kind: &str, responder: SocketAddr, key: PeerKey) -> io::Result<()> {
    let orders = children::orders();
    let known = KnownPeer::Key(key.0);
    let config =
        LinkConfig { max_half_open: 100_000, cookie_above: 100_000, ..LinkConfig::default() };
    let impostor = Endpoint::new(config, StaticKey::generate(random()?), random()?);
    let rng = Rng::new(u64::from_le_bytes(random()?[..8].try_into().unwrap_or_default()));
    let mut way = AttackedPath { kind: kind.to_owned(), known, rng, impostor, forged: None };
    let here = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        io::Result::Ok(socket)
    };
    // Sockets towards the dialer and towards the responder.
    let (near, far) = (here()?, here()?);
    children::report(&Listening { at: near.local_addr()?, key: String::new() })?;
    let (mut to_responder, mut to_dialer) = (VecDeque::new(), VecDeque::new());
    let (mut dialer, mut buffer) = (None, vec![0; 65_536]);
    let (mut begun, mut sent, mut paid) = (None::<Instant>, 0u64, 0u64);
    loop {
        let now = Instant::now();
        while let Ok((len, from)) = near.recv_from(&mut buffer) {
            dialer = Some(from);
            way.see(&buffer[..len]);
            to_responder.push_back((now + PATH_DELAY, buffer[..len].to_vec()));
        }
        while let Ok((len, _)) = far.recv_from(&mut buffer) {
            way.see(&buffer[..len]);
            to_dialer.push_back((now + PATH_DELAY, buffer[..len].to_vec()));
        }
        if let (Some((to_far, pool)), Some(dialer)) = (&way.forged, dialer) {
            let since = begun.get_or_insert(now);
            let due = (since.elapsed().as_secs_f64() * RATE as f64) as u64;
            // A larger delay is not made up for.
            paid = paid.max(due.saturating_sub(500));
            while paid < due {
                let datagram = &pool[sent as usize % pool.len()];
                // A datagram that can't be sent still counts towards the rate.
                let _ = match to_far {
                    true => far.send_to(datagram, responder),
                    false => near.send_to(datagram, dialer),
                };
                (sent, paid) = (sent + 1, paid + 1);
            }
        }
        while let Some((at, datagram)) = to_responder.front()
            && *at <= now
        {
            let _ = far.send_to(datagram, responder);
            to_responder.pop_front();
        }
        while let Some((at, datagram)) = to_dialer.front()
            && *at <= now
        {
            if let Some(dialer) = dialer {
                let _ = near.send_to(datagram, dialer);
            }
            to_dialer.pop_front();
        }
        if orders.try_recv().is_ok() {
            children::report(&sent)?;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}
