//! Verbs and options drawn at random and compared with a model of the publications, the stores, the shares and the
//! folders on disk. Features that are right alone have to be right together.
//!
//! A sequence is a few commands of one sharer (a folder, a store, perhaps a background node and shares in the
//! foreground) and of one getter (a store, three destinations). After each command the folders must equal the model,
//! byte by byte: nothing of the user's changes or goes that was not named, and nothing comes that was not published. A
//! sequence that fails is made shorter until each of its verbs is needed.
//!
//! Left out, as they have random tests of their own or no state here:
//! - `sync`, whose members and clocks `bench/folders.py` draws;
//! - the LAN, the DHT and NATs, and with them `net reach`, `get --seed` and codes: the machine's network would be part of
//!   the sequence (`homes.rs`, `discovery.rs`, `seeds.rs`, `codes.rs`). A relay is named, but loopback needs none;
//! - mounts, buckets and mirrors, which need root or a server (`mount.rs`, `buckets.rs`);
//! - `share --for`, whose root differs each time, mail, witnesses and certificates (`private.rs`, `mail.rs`,
//!   `witness.rs`, `ca.rs`);
//! - `get --range` and `--rename`, which choose other names, and rates, which only take time;
//! - `ndn` and `sum`, which keep nothing.
//!
//! `XYLEM_SEQUENCES=N` runs N sequences (a million: `just sequences`), `XYLEM_SEQUENCE=SEED` the sequence of one seed.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;
mod tree;
mod verb;
mod world;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use verb::Verb;
use world::World;

/// Number of sequences in an ordinary test run.
const FEW: u64 = 200;

/// How often a shortened sequence has to pass before it counts as passing: the moment of a kill differs from run to
/// run.
const TRIES: usize = 3;

/// Runs a sequence. An error names the verb and the difference.
fn run(verbs: &[Verb]) -> Result<(), String> {
    let mut world = World::new();
    for (at, verb) in verbs.iter().enumerate() {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| world.apply(verb)));
        let outcome = outcome.unwrap_or_else(|why| {
            let text = why.downcast_ref::<String>().cloned();
            Err(text.or(why.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
        });
        outcome.map_err(|why| format!("at verb {at}, {verb:?}: {why}"))?;
    }
    Ok(())
}

/// Drops verbs for as long as the remaining sequence still fails.
fn shortened(mut verbs: Vec<Verb>, mut why: String) -> (Vec<Verb>, String) {
    let mut at = 0;
    while at < verbs.len() {
        let mut fewer = verbs.clone();
        fewer.remove(at);
        match (0..TRIES).find_map(|_| run(&fewer).err()) {
            Some(still) => (verbs, why) = (fewer, still),
            None => at += 1,
        }
    }
    (verbs, why)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_sequences_agree_with_the_model() {
    // A panic within a sequence is reported with the sequence; the hook prints nothing for it.
    panic::set_hook(Box::new(|info| {
        if thread::current().name() == Some("main") {
            eprintln!("{info}");
        }
    }));
    let one = number("XYLEM_SEQUENCE");
    let first = one.unwrap_or(number("XYLEM_FIRST_SEQUENCE").unwrap_or(0));
    let end = one.map_or_else(|| first + number("XYLEM_SEQUENCES").unwrap_or(FEW), |seed| seed + 1);
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    // Twice the processors: sequences mostly wait for each other's processes.
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = thread::scope(|scope| {
        let work = || {
            let mut failures = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    break;
                }
                let verbs = verb::sequence(seed);
                if let Err(why) = run(&verbs) {
                    failed.store(number("XYLEM_GO_ON").is_none(), Ordering::Relaxed);
                    let (verbs, shorter) = shortened(verbs, why.clone());
                    let lines: Vec<String> = verbs.iter().map(|v| format!("    {v:?}")).collect();
                    failures.push(format!(
                        "sequence {seed}: {why}\n  the shortest that fails: {shorter}\n{}",
                        lines.join("\n")
                    ));
                }
            }
            failures
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    let _ = panic::take_hook();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
