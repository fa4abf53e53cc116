//! `xylem-siege`: an attacker with a ticket, for `bench/siege.py`.
//!
//!     xylem-siege links TICKET LINKS RATE SECONDS [lifetime in ms]
//!     xylem-siege half TICKET RATE SECONDS
//!     xylem-siege register xylem://KEY@HOST:PORT CLIENTS SECONDS
//!
//! `links` opens this many encrypted links, each from a port of its own. It sends over them in turn RATE Interests a
//! second in all (0: as fast as it can) for names under the ticket's that do not exist. `half` sends first messages of
//! handshakes and nothing after. `register` keeps this many honest clients registered with a relay. Each writes a line
//! of JSON when it begins and one when it is over.

mod relay;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use xylem_link::{Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, StaticKey};
use xylem_object::Ticket;
use xylem_object::ticket::Address;
use xylem_packet::{Component, InterestBuilder, Name};

type Failure = Box<dyn std::error::Error>;

/// Interests sent over one link at a time.
const BURST: u64 = 64;
/// Time limit for all links to come up.
const LINKS_TIMEOUT: Duration = Duration::from_secs(60);

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// One link, with endpoint, key and port of its own.
struct Attacker {
    endpoint: Endpoint,
    socket: UdpSocket,
    link: LinkId,
    up: bool,
    came: u64,
}

/// Counters of sent packets.
#[derive(Default)]
struct Sent {
    interests: u64,
    datagrams: u64,
    bytes: u64,
}

impl Attacker {
    fn new(now: Duration, target: &Target) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let mut endpoint =
            Endpoint::new(LinkConfig::default(), StaticKey::generate(random()?), random()?);
        let link = target.dial(&mut endpoint, now);
        Ok(Self { endpoint, socket, link, up: false, came: 0 })
    }

    fn send(&mut self, now: Duration, buffer: &mut Vec<u8>, sent: &mut Sent) {
        while let Some(transmit) = self.endpoint.poll_transmit(now, buffer) {
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for datagram in buffer[..transmit.len].chunks(size) {
                // A datagram that a full buffer refuses is lost.
                if self.socket.send_to(datagram, transmit.to).is_ok() {
                    sent.datagrams += 1;
                    sent.bytes += datagram.len() as u64;
                }
            }
        }
    }

    fn receive(&mut self, now: Duration, buffer: &mut [u8]) -> Result<(), Failure> {
        loop {
            match self.socket.recv_from(buffer) {
                Ok((len, from)) => {
                    self.endpoint.handle_datagram(now, from, BytesMut::from(&buffer[..len]));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The port has been closed meanwhile.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e.into()),
            }
        }
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, .. } => {
                    (self.link, self.up) = (link, true);
                    self.endpoint.keep(link);
                }
                LinkEvent::Closed { .. } => self.up = false,
                LinkEvent::Packet { .. } => self.came += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The next Interest for a name that does not exist.
fn interest(prefix: &Name, lifetime: u64, number: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
    let name = prefix.child(Component::generic(number.to_be_bytes().as_slice()));
    let [.., a, b, c, d] = number.to_be_bytes();
    out.clear();
    InterestBuilder::new(name.as_ref())
        .nonce([a, b, c, d])
        .lifetime_ms(lifetime)
        .encode(out)
        .map_err(|e| e.to_string())?;
    Ok(())
}

struct Target {
    at: SocketAddr,
    key: Option<PeerKey>,
    /// The publisher's key, which every ticket has. It opens the handshake where the ticket has no link key.
    publisher: [u8; 32],
    prefix: Name,
}

impl Target {
    fn dial(&self, endpoint: &mut Endpoint, now: Duration) -> LinkId {
        match self.key {
            Some(key) => endpoint.connect(now, self.at, Some(key)),
            None => endpoint.connect_by_knock(now, self.at, &self.publisher),
        }
    }
}

fn target(ticket: &str) -> Result<Target, Failure> {
    let ticket: Ticket = ticket.parse()?;
    let at = ticket.addresses.iter().find_map(|address| match address {
        Address::Ip(at) => Some(*at),
        _ => None,
    });
    Ok(Target {
        at: at.ok_or("the ticket has no address")?,
        key: ticket.link_key.map(PeerKey),
        publisher: ticket.publisher.0,
        prefix: ticket.name.ok_or("the ticket has no name")?,
    })
}

fn links(
    target: &Target,
    links: usize,
    rate: u64,
    lasts: Duration,
    lifetime: u64,
) -> Result<(), Failure> {
    let (epoch, mut buffer, mut packet) = (Instant::now(), Vec::new(), Vec::new());
    let mut incoming = vec![0; 65_536];
    let mut sent = Sent::default();
    let mut all = Vec::new();
    for _ in 0..links {
        // One after the other: this is no flood of handshakes.
        let mut attacker = Attacker::new(epoch.elapsed(), target)?;
        while !attacker.up {
            attacker.send(epoch.elapsed(), &mut buffer, &mut sent);
            attacker.receive(epoch.elapsed(), &mut incoming)?;
            std::thread::sleep(Duration::from_micros(200));
            if epoch.elapsed() > LINKS_TIMEOUT {
                return Err("the links did not come up".into());
            }
        }
        all.push(attacker);
    }
    println!("{}", serde_json::json!({"up": all.len()}));
    sent = Sent::default();
    // Each attacker asks for other names.
    let mut number = u64::from_be_bytes(random()?);
    let begin = Instant::now();
    'all: loop {
        for attacker in &mut all {
            let since = begin.elapsed();
            if since >= lasts {
                break 'all;
            }
            let now = epoch.elapsed();
            attacker.receive(now, &mut incoming)?;
            let due = match rate {
                0 => BURST,
                _ => ((since.as_secs_f64() * rate as f64) as u64)
                    .saturating_sub(sent.interests)
                    .min(BURST),
            };
            for _ in 0..due {
                number = number.wrapping_add(1);
                interest(&target.prefix, lifetime, number, &mut packet)?;
                if attacker.endpoint.send(attacker.link, &packet).is_err() {
                    break;
                }
                sent.interests += 1;
            }
            attacker.send(now, &mut buffer, &mut sent);
            if due < BURST {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
    let up = all.iter().filter(|attacker| attacker.up).count();
    let came: u64 = all.iter().map(|attacker| attacker.came).sum();
    println!(
        "{}",
        serde_json::json!({"interests": sent.interests, "datagrams": sent.datagrams, "bytes": sent.bytes,
            "seconds": begin.elapsed().as_secs_f64(), "up": up, "came": came})
    );
    Ok(())
}

fn half(target: &Target, rate: u64, lasts: Duration) -> Result<(), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    println!("{}", serde_json::json!({"up": 0}));
    let (begin, mut buffer, mut sent) = (Instant::now(), Vec::new(), Sent::default());
    let (mut incoming, mut came) = (vec![0; 65_536], 0u64);
    while begin.elapsed() < lasts {
        let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent.interests < due {
            let config = LinkConfig { accept_incoming: false, ..LinkConfig::default() };
            let mut endpoint = Endpoint::new(config, StaticKey::generate(random()?), random()?);
            target.dial(&mut endpoint, Duration::ZERO);
            sent.interests += 1;
            while let Some(transmit) = endpoint.poll_transmit(Duration::ZERO, &mut buffer) {
                let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
                for datagram in buffer[..transmit.len].chunks(size) {
                    if socket.send_to(datagram, transmit.to).is_ok() {
                        sent.datagrams += 1;
                        sent.bytes += datagram.len() as u64;
                    }
                }
            }
        }
        while let Ok(len) = socket.recv(&mut incoming) {
            came += len as u64;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    println!(
        "{}",
        serde_json::json!({"handshakes": sent.interests, "datagrams": sent.datagrams, "bytes": sent.bytes,
            "seconds": begin.elapsed().as_secs_f64(), "came_bytes": came})
    );
    Ok(())
}

fn run() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let seconds = |text: &str| text.parse().map(Duration::from_secs_f64);
    match words[..] {
        ["links", ticket, count, rate, lasts] => {
            links(&target(ticket)?, count.parse()?, rate.parse()?, seconds(lasts)?, 60_000)
        }
        ["links", ticket, count, rate, lasts, lifetime] => {
            let lifetime = lifetime.parse()?;
            links(&target(ticket)?, count.parse()?, rate.parse()?, seconds(lasts)?, lifetime)
        }
        ["half", ticket, rate, lasts] => half(&target(ticket)?, rate.parse()?, seconds(lasts)?),
        ["register", uri, count, lasts] => relay::register(uri, count.parse()?, seconds(lasts)?),
        _ => Err("usage: xylem-siege links TICKET LINKS RATE SECONDS [LIFETIME] | half TICKET RATE SECONDS | \
                   register URI CLIENTS SECONDS"
            .into()),
    }
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}", serde_json::json!({"error": e.to_string()}));
            std::process::ExitCode::FAILURE
        }
    }
}
