//! [`scrub`]: the library's, with peers who bring what is damaged.

use std::cell::RefCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use xylem_library::scrub::{ScrubOptions, ScrubSummary, Throttle};
use xylem_library::{Error, Stop, disk, keys};
use xylem_link::StaticKey;
use xylem_store::Store;

use crate::event::Event;
use crate::remote::Peers;
use xylem_library::reachable::Peer;

/// A thread that waits looks this often whether it should end.
const TICK: Duration = Duration::from_millis(100);

/// Whom to ask for damaged pieces, and how fast everything may go.
#[derive(Clone, Debug)]
pub struct RepairOptions {
    /// Peers instead of those of the record's ticket.
    pub peers: Vec<Peer>,
    /// Give up on them after this long without progress.
    pub give_up: Duration,
    /// Bytes to read a second at most, and to fetch.
    pub limit_rate: Option<u64>,
}

/// Re-reads what `options` name of the store in `directory` and, where they ask for it, puts right what
/// is damaged.
///
/// # Errors
/// As [`xylem_library::scrub::scrub`].
pub fn scrub(
    directory: &Path,
    options: &ScrubOptions,
    repair: &RepairOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ScrubSummary, Error> {
    let store = Store::open(disk(), directory)?;
    let own = keys::load_existing(&directory.join("keys").join("link")).ok();
    let own = own.map(|secret| StaticKey::from_bytes(secret).public().0);
    let on_event = RefCell::new(on_event);
    let mut peers = Peers::new(repair, own, &on_event);
    let mut report = |event| (on_event.borrow_mut())(Event::Library(event));
    let limit = repair.limit_rate.filter(|limit| *limit > 0);
    let limit = limit.map(|bytes| ReadRate { bytes, started: Instant::now() });
    let throttle = limit.as_ref().map(|limit| limit as &dyn Throttle);
    Ok(xylem_library::scrub::scrub(&store, options, &mut peers, throttle, stop, &mut report)?)
}

/// So many bytes a second.
struct ReadRate {
    bytes: u64,
    started: Instant,
}

impl Throttle for ReadRate {
    fn wait(&self, bytes: u64, stop: &Stop) {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes as f64);
        loop {
            let early = due.saturating_sub(self.started.elapsed());
            if early.is_zero() || stop.raised() {
                break;
            }
            thread::sleep(early.min(TICK));
        }
    }
}
