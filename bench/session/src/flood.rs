//! `flood`: forged datagrams of many kinds, while honest dialers connect over a path of 100 ms.
//!
//! Four processes: a responder, an attacker that floods it from many addresses or one, the path with an attacker on it,
//! and this one, which dials again and again as a stranger. The result is the processor time of the responder, or that
//! of the dialer where that is larger.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use serde::{Deserialize, Serialize};
use xylem_bench::Report;
use xylem_bench::report::{Bound, Figure, Heading, Ratio, Row, Unit};
use xylem_link::{CloseReason, Endpoint, LinkConfig, LinkEvent, PeerKey, StaticKey};
use xylem_link_internals::internals::{KnownPeer, handshake_envelope};
use xylem_sim::Rng;

use crate::children::{self, PartProcess};
use crate::driver::{Driver, random};
use crate::parts::{Effort, wrong};
use crate::session::Listening;
use crate::{ours, usage, way};

/// Forged datagrams a second.
pub(crate) const RATE: u64 = 50_000;
/// Number of different datagrams in the flood; each is sent from another address every time.
const FLOOD_VARIANTS: usize = 4_096;
/// Number of true first messages, among which those of one address are chosen for copies.
const TRUE_POOL: usize = 512;
/// Number of source ports; addresses are all of 127.0.0.0/8.
const PORTS: usize = 16;
/// Length of a datagram forged from random bytes.
const LEN: usize = 1_216;
/// Pause between two dials.
const PAUSE: Duration = Duration::from_millis(10);

/// Label of each kind, and the datagrams sent: by the attacker that floods the responder, and by the one on the path.
const KINDS: [(&str, &str, &str); 11] = [
    ("no flood", "none", "none"),
    ("random bytes", "random", "none"),
    ("right envelope, garbage in it", "envelope", "none"),
    ("copies of true first messages", "copies", "none"),
    ("keys of small order", "small", "none"),
    ("good cookies of one address", "cookies", "none"),
    ("rests, of the dialer's address and id", "none", "rests"),
    ("finishes that are right but for a bit", "none", "finishes"),
    ("retries, to the dialer", "none", "retries"),
    ("responses, to the dialer", "none", "responses"),
    ("responses under another key", "none", "impostor"),
];

const COLUMNS: [&str; 8] = [
    "sent/s",
    "arrived/s",
    "µs of CPU each",
    "cookies/s",
    "peak MiB",
    "dials",
    "median tries",
    "median ms",
];
const SHARE: &str = "share of a core";
const TRIES: &str = "most tries";
const WORST: &str = "slowest, s";

/// The responder's report of its load.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct ResponderLoad {
    cpu_seconds: f64,
    received: u64,
    cookies: u64,
    peak_bytes: u64,
}

/// Plays a part of the table.
pub(crate) fn play(arguments: &[String]) -> io::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["respond"] => respond(),
        ["way", kind, at, key] => {
            way::play(kind, at.parse().map_err(|_| wrong())?, ours::key(key)?)
        }
        ["send", kind, at, key] => send(kind, at.parse().map_err(|_| wrong())?, ours::key(key)?),
        _ => Err(wrong()),
    }
}

fn respond() -> io::Result<()> {
    let orders = children::orders();
    let mut driver = Driver::new(LinkConfig::default())?;
    let key = driver.endpoint.public_key().to_string();
    children::report(&Listening { at: driver.local(), key })?;
    loop {
        driver.turn(None)?;
        while driver.endpoint.poll_event().is_some() {}
        if orders.try_recv().is_ok() {
            children::report(&ResponderLoad {
                cpu_seconds: usage::cpu_seconds(),
                received: driver.received,
                cookies: driver.endpoint.endpoint_stats().cookies_sent,
                peak_bytes: usage::peak_bytes(),
            })?;
        }
    }
}

/// The datagrams of a flood.
fn pool(kind: &str, at: SocketAddr, key: PeerKey, rng: &mut Rng) -> io::Result<Vec<Vec<u8>>> {
    match kind {
        "random" => Ok((0..FLOOD_VARIANTS).map(|_| rng.bytes(LEN)).collect()),
        "envelope" | "small" => {
            Ok((0..FLOOD_VARIANTS).map(|n| enveloped(n, kind, key, rng)).collect())
        }
        "copies" => copies(at, key),
        "cookies" => Ok(Vec::new()),
        _ => Err(wrong()),
    }
}

/// Version and kind of an initial message, no cookie, then garbage: a key, an id, known flags.
fn enveloped(n: usize, kind: &str, key: PeerKey, rng: &mut Rng) -> Vec<u8> {
    let mut body = vec![4, 1];
    body.extend_from_slice(&[0; 24]);
    body.extend_from_slice(&rng.bytes(40));
    if kind == "small" {
        body[26..58].fill(0);
    }
    // With and without the flag for a KEM key in a second datagram: the message is kept, or answered at once.
    body.push((n % 4) as u8);
    body.extend_from_slice(&rng.bytes(LEN - 24 - body.len()));
    let id = rng.next_u64().to_le_bytes();
    handshake_envelope(Some(key.0), id, &body)
}

/// First messages of existing dialers, without later ones.
fn copies(at: SocketAddr, key: PeerKey) -> io::Result<Vec<Vec<u8>>> {
    let mut endpoint =
        Endpoint::new(LinkConfig::default(), StaticKey::generate(random()?), random()?);
    let mut buffer = Vec::new();
    let mut pool = Vec::new();
    for _ in 0..TRUE_POOL {
        endpoint.connect(Duration::ZERO, at, Some(key));
        while endpoint.poll_transmit(Duration::ZERO, &mut buffer).is_some() {
            pool.push(buffer.clone());
        }
    }
    pool.retain(|datagram| datagram.len() >= LEN - 16);
    Ok(pool)
}

fn send(kind: &str, at: SocketAddr, key: PeerKey) -> io::Result<()> {
    let orders = children::orders();
    let mut rng = Rng::new(u64::from_le_bytes(random()?[..8].try_into().unwrap_or_default()));
    let mut pool = pool(kind, at, key, &mut rng)?;
    let mut sockets = Vec::new();
    for _ in 0..PORTS {
        let from = match kind {
            // Not the dialers' address, since they would share its rate limit.
            "cookies" => Ipv4Addr::new(127, 0, 0, 2),
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let socket = UdpSocket::bind((from, 0))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        sockets.push((socket, state));
    }
    children::report(&0)?;
    let mut cookies = CookieAttacker {
        known: KnownPeer::Key(key.0),
        first: enveloped(0, "", key, &mut rng),
        good: Vec::new(),
    };
    cookies.first = cookies.known.open(&cookies.first).ok_or_else(wrong)?;
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        if kind == "cookies" {
            cookies.take(&sockets[0].0)?;
        }
        let due = (start.elapsed().as_secs_f64() * RATE as f64) as u64;
        while sent < due {
            let random = rng.next_u64();
            if kind == "cookies" {
                let datagram = cookies.next(random);
                let _ = sockets[0].0.send_to(&datagram, at);
                sent += 1;
                continue;
            }
            let count = pool.len() as u64;
            let datagram = &mut pool[(random % count) as usize];
            if kind == "random" {
                datagram[..8].copy_from_slice(&random.to_le_bytes());
            }
            let [_, a, b, c, ..] = random.to_be_bytes();
            let (socket, state) = &sockets[sent as usize % PORTS];
            let transmit = Transmit {
                destination: at,
                ecn: None,
                contents: datagram,
                segment_size: None,
                src_ip: Some(IpAddr::V4(Ipv4Addr::new(127, a, b, c.clamp(1, 254)))),
            };
            // A datagram that can't be sent still counts towards the rate.
            let _ = state.try_send(UdpSockRef::from(socket), &transmit);
            sent += 1;
        }
        if orders.try_recv().is_ok() {
            children::report(&sent)?;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// An attacker with an address of its own, which returns the cookies that it receives, each with a first message of its
/// own.
struct CookieAttacker {
    known: KnownPeer,
    first: Vec<u8>,
    good: Vec<Vec<u8>>,
}

impl CookieAttacker {
    /// Receives cookies; the newest are kept.
    fn take(&mut self, socket: &UdpSocket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let mut buffer = [0; 2_048];
        while let Ok(len) = socket.recv(&mut buffer) {
            let id = buffer.first_chunk::<8>().copied();
            let body = self.known.open(&buffer[..len]).filter(|body| body[1] == 2);
            if let (Some(id), Some(body)) = (id, body) {
                if self.good.len() >= FLOOD_VARIANTS {
                    self.good.swap_remove(0);
                }
                self.good.push(self.initial(id, &body[2..26]));
            }
        }
        Ok(())
    }

    fn initial(&self, id: [u8; 8], cookie: &[u8]) -> Vec<u8> {
        let mut body = self.first.clone();
        body[2..26].copy_from_slice(cookie);
        body[58..66].copy_from_slice(&id);
        self.known.seal(id, &body, LEN)
    }

    /// A message with a good cookie; one time in eight a message that asks for a new cookie.
    fn next(&self, random: u64) -> Vec<u8> {
        match self.good.get((random >> 8) as usize % self.good.len().max(1)) {
            Some(good) if !random.is_multiple_of(8) => good.clone(),
            _ => self.initial(random.to_be_bytes(), &[0; 24]),
        }
    }
}

/// One dial: number of first messages sent, milliseconds, and whether a link came up.
fn dial(driver: &mut Driver, at: SocketAddr, key: PeerKey) -> io::Result<(u64, f64, bool)> {
    let (start, before) = (Instant::now(), driver.long_sent);
    let now = driver.now();
    driver.endpoint.connect(now, at, Some(key));
    let connected = loop {
        driver.turn(None)?;
        match driver.endpoint.poll_event() {
            Some(LinkEvent::Connected { link, .. }) => break Some(link),
            // A closed link may be one of an earlier dial.
            Some(LinkEvent::Closed {
                reason: CloseReason::HandshakeTimeout | CloseReason::WrongPeer,
                ..
            }) => {
                break None;
            }
            _ => {}
        }
    };
    let took = start.elapsed().as_secs_f64() * 1e3;
    let tries = driver.long_sent - before;
    // The responder's side comes up, and then both sides end.
    for _ in 0..2 {
        let until = driver.now() + PAUSE;
        while driver.now() < until {
            driver.turn(Some(until))?;
            while driver.endpoint.poll_event().is_some() {}
        }
        connected.into_iter().for_each(|link| driver.endpoint.close(link));
    }
    Ok((tries, took, connected.is_some()))
}

/// Makes the table.
pub(crate) fn table(
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> io::Result<()>,
) -> io::Result<()> {
    let dials = effort.pick(5, 20);
    emit(Report::Heading(Heading {
        table: "flood".into(),
        title: format!("{RATE} forged datagrams a second, while others dial over a way of 100 ms"),
        unit: Unit::InColumns,
        label: "what they are".into(),
        figures: COLUMNS.map(str::to_owned).into(),
        ratios: vec![SHARE.into(), TRIES.into(), WORST.into()],
        notes: vec![
            format!(
                "{dials} dials each. Who floods the responder comes from addresses all over 127.0.0.0/8, but for one; \
                 who sits on the way holds the ticket, sees everything and takes nothing away."
            ),
            "CPU is that of the responder's process or the dialer's, whichever has used more, program and kernel. \
             Wanted: at most half a core, and every dial that is in earnest comes up within three seconds; no more than three \
             first messages each, of which the cookie takes one, where nobody sits on the way."
                .into(),
        ],
    }))?;
    for (label, kind, on_way) in KINDS {
        emit(Report::Row(measure(label, kind, on_way, dials)?))?;
    }
    Ok(())
}

fn measure(label: &str, kind: &str, on_way: &str, count: usize) -> io::Result<Row> {
    let mut responder = PartProcess::start(&["flood".into(), "respond".into()])?;
    let Listening { at, key } = responder.next_report()?;
    let words = ["flood", "way", on_way, &at.to_string(), &key].map(str::to_owned);
    let mut path = PartProcess::start(&words)?;
    let Listening { at: there, .. } = path.next_report()?;
    let mut flood = None;
    if kind != "none" {
        let words = ["flood", "send", kind, &at.to_string(), &key].map(str::to_owned);
        let mut player = PartProcess::start(&words)?;
        player.next_report::<u64>()?;
        flood = Some(player);
    }
    let key = ours::key(&key)?;
    let mut driver = Driver::new(LinkConfig::default())?;
    // Until the flood has its full rate.
    std::thread::sleep(Duration::from_millis(500));
    let mut sent = || -> io::Result<u64> {
        let by_way: u64 = path.order_and_wait("sent")?;
        Ok(by_way + flood.as_mut().map_or(Ok(0), |player| player.order_and_wait::<u64>("sent"))?)
    };
    let (before, sent_before): (ResponderLoad, u64) = (responder.order_and_wait("load")?, sent()?);
    let (start, own_before, came) = (Instant::now(), usage::cpu_seconds(), driver.received);
    let mut dials = Vec::new();
    for _ in 0..count {
        dials.push(dial(&mut driver, there, key)?);
    }
    let (after, sent_after): (ResponderLoad, u64) = (responder.order_and_wait("load")?, sent()?);
    let seconds = start.elapsed().as_secs_f64();
    let taken = matches!(kind, "envelope" | "copies" | "small" | "cookies");
    if taken && after.cookies == before.cookies {
        return Err(io::Error::other("the flood was not parsed as first messages"));
    }
    let (theirs, own) = (after.cpu_seconds - before.cpu_seconds, usage::cpu_seconds() - own_before);
    let (cpu, received) = match theirs > own {
        true => (theirs, after.received - before.received),
        false => (own, driver.received - came),
    };
    let received = received as f64;
    let tries = crate::session::median(&dials, |(tries, ..)| *tries as f64).value;
    let took = crate::session::median(&dials, |(_, took, _)| *took).value;
    let values = [
        (sent_after - sent_before) as f64 / seconds,
        received / seconds,
        cpu / received.max(1.0) * 1e6,
        (after.cookies - before.cookies) as f64 / seconds,
        after.peak_bytes as f64 / (1 << 20) as f64,
        dials.len() as f64,
        tries,
        took,
    ];
    let figures = COLUMNS.iter().zip(values).filter(|(_, value)| *value > 0.0);
    // A failed dial counts as one try more than the maximum.
    let most = dials.iter().map(|(tries, _, ok)| tries + u64::from(!ok)).max().unwrap_or(u64::MAX);
    let slowest = dials.iter().map(|(_, took, ok)| if *ok { *took } else { f64::MAX });
    let slowest = slowest.fold(0.0, f64::max) / 1e3;
    let most_wanted = (on_way == "none").then_some(Bound::AtMost(3.0));
    Ok(Row {
        table: "flood".into(),
        label: label.to_owned(),
        bytes: LEN,
        figures: figures.map(|(name, value)| Figure::quoted(*name, value)).collect(),
        ratios: vec![
            Ratio::new(SHARE, cpu / seconds, 1.0, Some(Bound::AtMost(0.5))),
            Ratio::new(TRIES, most as f64, 1.0, most_wanted),
            Ratio::new(WORST, slowest, 1.0, Some(Bound::AtMost(3.0))),
        ],
    })
}
