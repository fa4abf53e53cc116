//! [`scrub`]: the library's scrub, with peers that replace damaged pieces.

use std::cell::RefCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::Stop;
use xylem_check::scrub::{ScrubError, ScrubOptions, ScrubSummary, Throttle};
use xylem_link::StaticKey;
use xylem_peers::reachable::PeerAddress;
use xylem_store::Store;

use crate::event::Event;
use crate::remote::RemotePeers;

/// Interval at which a waiting thread checks whether it should end.
const TICK: Duration = Duration::from_millis(100);

/// Peers to ask for damaged pieces, and rate limits.
#[derive(Clone, Debug)]
pub struct RepairOptions {
    /// Peers to ask instead of those in the record's ticket.
    pub peers: Vec<PeerAddress>,
    /// Give up on these peers after this long without progress.
    pub give_up: Duration,
    /// Bytes a second at most, for reading and for fetching.
    pub limit_rate: Option<u64>,
}

/// Reads the files again that `options` select from the store in `directory`. Repairs damage if `options` ask for it.
///
/// # Errors
/// As [`xylem_check::scrub::scrub`].
pub fn scrub(
    directory: &Path,
    options: &ScrubOptions,
    repair: &RepairOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ScrubSummary, ScrubError> {
    let store = Store::open(options.medium.shared(), directory)?;
    let own = xylem_keys::load_existing(&directory.join("keys").join("link")).ok();
    let own = own.map(|secret| StaticKey::from_bytes(secret).public().0);
    let on_event = RefCell::new(on_event);
    let mut peers = RemotePeers::new(repair, own, &on_event);
    let mut report = |event| (on_event.borrow_mut())(Event::Library(event));
    let limit = repair.limit_rate.filter(|limit| *limit > 0);
    let limit = limit.map(|bytes| ReadRate { bytes, started: Instant::now() });
    let throttle = limit.as_ref().map(|limit| limit as &dyn Throttle);
    xylem_check::scrub::scrub(&store, options, &mut peers, throttle, stop, &mut report)
}

/// A limit on bytes read a second.
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
