//! [`RelayControl`]: orders to the relay of a running node, from other threads of its process.
//!
//! An order waits until the node's loop has its next turn, for which it is woken. At most [`MAX_ORDERS`] wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xylem_base::Wake;
use xylem_reach::relay::{RelayBan, RelayLoad};

/// Orders that wait at most.
const MAX_ORDERS: usize = 64;
/// How long the loop may take for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What a relay is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayOrder {
    /// Report what it does, with so many sites and clients.
    Load(usize),
    /// Keep a client or a network away from now on.
    Ban(RelayBan),
    /// End a ban.
    Unban(RelayBan),
    /// List the bans.
    Bans,
    /// Take no more clients and pairs, and end when no pair is in use, after this time at the latest.
    Drain(Duration),
}

/// A relay's answer to a [`RelayOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayAnswer {
    /// What it does.
    Load(Box<RelayLoad>),
    /// The client or network is banned, and so many registrations were removed; `None`: there are too many bans.
    Banned(Option<usize>),
    /// Whether there was this ban.
    Unbanned(bool),
    /// The bans.
    Bans(Vec<RelayBan>),
    /// It takes no more clients, and ends by itself.
    Draining,
    /// The node does more than relay, and does not end by itself.
    NoRelayAlone,
}

/// An order, and where its answer goes.
pub(super) struct QueuedOrder {
    pub(super) order: RelayOrder,
    pub(super) answer: SyncSender<RelayAnswer>,
}

#[derive(Default)]
struct ControlQueue {
    orders: VecDeque<QueuedOrder>,
    wake: Option<Wake>,
}

/// See the module's documentation.
#[derive(Clone, Default)]
pub struct RelayControl(Arc<Mutex<ControlQueue>>);

impl RelayControl {
    fn queue(&self) -> MutexGuard<'_, ControlQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order, and waits for its answer. `None`: the relay does not run yet or any more, or has no time.
    #[must_use]
    pub fn ask(&self, order: RelayOrder) -> Option<RelayAnswer> {
        let (answer, answered) = sync_channel(1);
        let mut queue = self.queue();
        let wake = queue.wake.clone().filter(|_| queue.orders.len() < MAX_ORDERS)?;
        queue.orders.push_back(QueuedOrder { order, answer });
        drop(queue);
        wake();
        answered.recv_timeout(ANSWER_TIME).ok()
    }

    /// The relay runs, and is woken so.
    pub(super) fn begin(&self, wake: Wake) {
        self.queue().wake = Some(wake);
    }

    /// The relay has ended.
    pub(super) fn end(&self) {
        let mut queue = self.queue();
        (queue.wake, queue.orders) = (None, VecDeque::new());
    }

    pub(super) fn next(&self) -> Option<QueuedOrder> {
        self.queue().orders.pop_front()
    }
}

impl fmt::Debug for RelayControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayControl")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_gets_its_answer_only_while_the_relay_runs() {
        let control = RelayControl::default();
        assert_eq!(control.ask(RelayOrder::Bans), None);
        let relay = control.clone();
        control.begin(Arc::new(move || {
            let one = relay.next().expect("it was queued before");
            assert_eq!(one.order, RelayOrder::Bans);
            one.answer.send(RelayAnswer::Bans(vec![])).expect("it waits");
        }));
        assert_eq!(control.ask(RelayOrder::Bans), Some(RelayAnswer::Bans(vec![])));
        control.end();
        assert_eq!(control.ask(RelayOrder::Bans), None);
    }
}
