//! A bad network between two TUN devices.
//!
//! Standard input is the device of the left side, standard output that of the right. The parent process
//! (`bench/networks.py`) has opened both for reading and writing, and has put each into a network namespace. IP packets
//! go from one to the other through a [`way::NetworkDirection`] each. At the end, on SIGINT or SIGTERM, one line of JSON on standard
//! error has the counts of packets.
//!
//! `internet` instead is a whole network of such devices with boxes that translate addresses ([`internet::Internet`],
//! for `bench/reach.py`).
//!
//! It is a measuring device: one thread, one packet a system call, some 100,000 packets a second. It answers nothing
//! itself: no ICMP, no fragments.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

mod conditions;
mod device;
mod internet;
mod ip;
mod nat;
mod socket;
mod way;

use conditions::{Change, PathFigures, ScheduledChanges};
use device::{BURST, NAP, give, sleep, take};
use internet::Internet;
use way::NetworkDirection;

/// Carries IP packets between two TUN devices, standard input and standard output, under bad conditions
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    instead: Option<Instead>,
    #[command(flatten)]
    figures: PathFigures,
    /// Changes, with seconds after the first packet: 2:mtu=1280, 2:loss=5, 2:rate=10, 2:cut=4 (for four seconds),
    /// 2:rebind (new UDP ports of the left side); can be repeated
    #[arg(long, value_name = "SECONDS:WHAT")]
    at: Vec<ScheduledChanges>,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

#[derive(Subcommand)]
enum Instead {
    /// Many hosts behind boxes that translate addresses, as commanded on standard input
    Internet {
        #[command(flatten)]
        figures: PathFigures,
        /// Seed of the random numbers
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        seed: u64,
    },
}

/// Both directions, and the changes to come.
struct Network {
    /// Changes, latest first.
    changes: Vec<(Duration, Change)>,
    translator: ip::Translator,
    outward: NetworkDirection,
    inward: NetworkDirection,
}

impl Network {
    fn new(arguments: Arguments) -> Self {
        let mut changes: Vec<_> = arguments.at.into_iter().flat_map(|at| at.0).collect();
        changes.sort_by_key(|(time, _)| core::cmp::Reverse(*time));
        let conditions = arguments.figures.conditions();
        Self {
            changes,
            translator: ip::Translator::default(),
            outward: NetworkDirection::new(conditions, arguments.seed),
            inward: NetworkDirection::new(conditions, !arguments.seed),
        }
    }

    fn change(&mut self, now: Duration) {
        while let Some((_, change)) = self.changes.pop_if(|(time, _)| *time <= now) {
            change.apply(&mut self.outward.path.conditions);
            change.apply(&mut self.inward.path.conditions);
            if change == Change::Rebind {
                self.translator.rebind();
            }
        }
    }

    /// Takes a packet from the left.
    fn go_out(&mut self, now: Duration, packet: &mut [u8]) {
        self.translator.outward(packet);
        self.outward.offer(now, packet);
    }

    /// Takes a packet from the right.
    fn go_in(&mut self, now: Duration, packet: &[u8]) {
        self.inward.offer(now, packet);
    }

    /// The time of the next event.
    fn due(&self) -> Option<Duration> {
        let change = self.changes.last().map(|(time, _)| *time);
        [self.outward.due(), self.inward.due(), change].into_iter().flatten().min()
    }
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Instead::Internet { figures, seed }) = arguments.instead {
        return Internet::new(figures.conditions(), seed).run(std::io::stdin().as_fd());
    }
    let mut network = Network::new(arguments);
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let (left, right) = (stdin.as_fd(), stdout.as_fd());
    let mut buffer = vec![0; 65_536];
    for device in [left, right] {
        device::unblock(device)?;
        // Packets left in the devices from before are not part of this run.
        while take(device, &mut buffer)?.is_some() {}
    }
    carry(&mut network, left, right, &stopped, &mut buffer)?;
    let report = serde_json::json!({
        "outward": describe(&network.outward),
        "inward": describe(&network.inward),
    });
    eprintln!("{report}");
    Ok(())
}

fn carry(
    network: &mut Network,
    left: BorrowedFd,
    right: BorrowedFd,
    stopped: &AtomicBool,
    buffer: &mut [u8],
) -> std::io::Result<()> {
    // Time begins with the first packet.
    let mut began = None;
    while !stopped.load(Ordering::Relaxed) {
        let now = |began: Option<Instant>| began.map_or(Duration::ZERO, |b| b.elapsed());
        let wait = network.due().filter(|_| began.is_some());
        let wait = wait.map_or(NAP, |due| due.saturating_sub(now(began)).min(NAP));
        sleep(&[left, right], wait)?;
        for _ in 0..BURST {
            let Some(packet) = take(left, buffer)? else { break };
            let began = *began.get_or_insert_with(Instant::now);
            network.go_out(began.elapsed(), packet);
        }
        for _ in 0..BURST {
            let Some(packet) = take(right, buffer)? else { break };
            let began = *began.get_or_insert_with(Instant::now);
            network.go_in(began.elapsed(), packet);
        }
        let now = now(began);
        if began.is_some() {
            network.change(now);
        }
        while let Some(packet) = network.outward.arrived(now) {
            give(right, &packet)?;
        }
        while let Some(mut packet) = network.inward.arrived(now) {
            if network.translator.inward(&mut packet) {
                give(left, &packet)?;
            }
        }
    }
    Ok(())
}

fn describe(way: &NetworkDirection) -> serde_json::Value {
    let counts = &way.path.counts;
    serde_json::json!({
        "packets": counts.sent,
        "bytes": counts.bytes,
        "overflowed": counts.overflowed,
        "lost": counts.lost,
        "cut": counts.cut,
        "too_large": counts.too_large,
        "marked": counts.marked,
        "doubled": counts.duplicated,
        "delivered": way.delivered,
        "late_us": way.late_us,
    })
}
