//! `sessions`: two processes that hold many idle sessions with each other.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xylem_bench::Report;
use xylem_bench::report::{Bound, Figure, Heading, Ratio, Row, Unit};
use xylem_link::{LinkConfig, LinkEvent, LinkId, PeerKey};

use crate::children::{self, PartProcess};
use crate::driver::Driver;
use crate::parts::{Effort, wrong};
use crate::session::{Listening, WRITE};
use crate::{ours, usage};

/// Number of sessions.
const COUNT: usize = 10_000;
/// Handshakes under way at a time.
const AT_ONCE: usize = 16;
/// Packets that each side sends over each session in the second row.
const PACKETS: usize = 8;
/// Time until handshake state is dropped: it is kept for 10 s.
const SETTLE: Duration = Duration::from_secs(12);

const COLUMNS: [&str; 4] =
    ["KiB each, dialer", "KiB each, responder", "% of a core, dialer", "% of a core, responder"];
const RATIO: &str = "KiB each, the larger";
const WANTED: f64 = 16.0;

/// The report of one side.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct SideReport {
    links: usize,
    resident_bytes: u64,
    cpu_seconds: f64,
    packets: u64,
}

fn config() -> LinkConfig {
    LinkConfig { max_links: 2 * COUNT, ..LinkConfig::default() }
}

/// Plays a part of the table.
pub(crate) fn play(arguments: &[String]) -> io::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["listen"] => {
            let driver = Driver::new(config())?;
            let key = driver.endpoint.public_key().to_string();
            children::report(&Listening { at: driver.local(), key })?;
            hold(driver, None)
        }
        ["dial", at, key] => {
            let driver = Driver::new(config())?;
            children::report(&0)?;
            hold(driver, Some((at.parse().map_err(|_| wrong())?, ours::key(key)?)))
        }
        _ => Err(wrong()),
    }
}

/// Dials if it has an address, and otherwise follows orders.
fn hold(mut driver: Driver, to: Option<(SocketAddr, PeerKey)>) -> io::Result<()> {
    let orders = children::orders();
    let mut links: Vec<LinkId> = Vec::new();
    let (mut dialled, mut packets, mut dials) = (0, 0, false);
    loop {
        if let Some((at, key)) = to.filter(|_| dials) {
            let now = driver.now();
            while dialled < COUNT && dialled - links.len() < AT_ONCE {
                driver.endpoint.connect(now, at, Some(key));
                dialled += 1;
            }
        }
        driver.turn(None)?;
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, .. } => links.push(link),
                LinkEvent::Packet { .. } => packets += 1,
                LinkEvent::Closed { reason, .. } => return Err(ours::ended(reason)),
                _ => {}
            }
        }
        match orders.try_recv().as_deref() {
            Ok("dial") => dials = true,
            Ok("send") => send(&mut driver, &links, &mut packets)?,
            Ok(_) => children::report(&SideReport {
                links: links.len(),
                resident_bytes: usage::resident_bytes(),
                cpu_seconds: usage::cpu_seconds(),
                packets,
            })?,
            Err(_) => {}
        }
    }
}

/// Sends some packets over each link, one link after the other.
fn send(driver: &mut Driver, links: &[LinkId], packets: &mut u64) -> io::Result<()> {
    let packet = vec![7; WRITE];
    for link in links {
        for _ in 0..PACKETS {
            driver.endpoint.send(*link, &packet).map_err(ours::ended)?;
        }
        // A pause that lets the other side keep up.
        let soon = driver.now() + Duration::from_micros(300);
        driver.turn(Some(soon))?;
        while let Some(event) = driver.endpoint.poll_event() {
            *packets += u64::from(matches!(event, LinkEvent::Packet { .. }));
        }
    }
    Ok(())
}

/// Makes the table.
pub(crate) fn table(
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> io::Result<()>,
) -> io::Result<()> {
    let watched = Duration::from_secs(effort.pick(10, 30));
    emit(Report::Heading(Heading {
        table: "sessions".into(),
        title: format!("{COUNT} idle sessions between two processes, kept alive"),
        unit: Unit::InColumns,
        label: "state".into(),
        figures: COLUMNS.map(str::to_owned).into(),
        ratios: vec![RATIO.into()],
        notes: vec![
            "Memory is what is resident more than before the first session, over their number. Path MTU \
             discovery has gone up to 65,507 B on each."
                .into(),
            format!("A session is pinged after 10 s of silence; processor time over {} s.", watched.as_secs()),
        ],
    }))?;
    let mut responder = PartProcess::start(&["sessions".into(), "listen".into()])?;
    let Listening { at, key } = responder.next_report()?;
    let words = ["sessions", "dial", &at.to_string(), &key].map(str::to_owned);
    let mut dialer = PartProcess::start(&words)?;
    dialer.next_report::<u64>()?;
    let mut sides = [dialer, responder];
    let before = held(&mut sides)?;
    sides[0].send_order("dial")?;
    wait(&mut sides, |held| held.links == COUNT)?;
    let mut emit_row = |label: &str, sides: &mut [PartProcess; 2]| -> io::Result<()> {
        std::thread::sleep(SETTLE);
        let (start, first) = (Instant::now(), held(sides)?);
        std::thread::sleep(watched);
        let (seconds, last) = (start.elapsed().as_secs_f64(), held(sides)?);
        let kib = |n: usize| {
            last[n].resident_bytes.saturating_sub(before[n].resident_bytes) as f64
                / COUNT as f64
                / 1_024.0
        };
        let load = |n: usize| (last[n].cpu_seconds - first[n].cpu_seconds) / seconds * 100.0;
        let values = [kib(0), kib(1), load(0), load(1)];
        let figures = COLUMNS.iter().zip(values).map(|(name, value)| Figure::quoted(*name, value));
        let wanted = Some(Bound::AtMost(WANTED));
        emit(Report::Row(Row {
            table: "sessions".into(),
            label: label.to_owned(),
            bytes: COUNT,
            figures: figures.collect(),
            ratios: vec![Ratio::new(RATIO, kib(0).max(kib(1)), 1.0, wanted)],
        }))
    };
    emit_row("connected", &mut sides)?;
    for n in 0..sides.len() {
        sides[n].send_order("send")?;
        settled(&mut sides)?;
    }
    let least = held(&mut sides)?.iter().map(|held| held.packets).min().unwrap_or(0);
    let all = (COUNT * PACKETS) as u64;
    if least < all / 10 * 9 {
        return Err(io::Error::other(format!("only {least} of {all} packets have arrived")));
    }
    emit_row("after 64 KiB each way", &mut sides)
}

/// Waits until no packets arrive any more; loopback may drop a few.
fn settled(sides: &mut [PartProcess; 2]) -> io::Result<()> {
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let packets = held(sides)?.iter().map(|held| held.packets).sum();
        if packets == before {
            return Ok(());
        }
        before = packets;
    }
}

fn held(sides: &mut [PartProcess; 2]) -> io::Result<[SideReport; 2]> {
    let mut held = [SideReport::default(); 2];
    for (side, held) in sides.iter_mut().zip(&mut held) {
        *held = side.order_and_wait("held")?;
    }
    Ok(held)
}

/// Waits until `there` holds for both sides.
fn wait(sides: &mut [PartProcess; 2], there: impl Fn(&SideReport) -> bool) -> io::Result<()> {
    let start = Instant::now();
    while !held(sides)?.iter().all(&there) {
        if start.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::other("not all packets arrived within a minute"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
