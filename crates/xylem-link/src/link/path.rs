//! Where the peer is. An address is asked before anything but the question is sent to it
//! (docs/spec/link.md, "Paths"; RFC 9000, sections 8.2 and 9.3, has the reasons). Either side may move.
//!
//! Whoever sends copies of the peer's datagrams on, and is quicker than the way that these take, has all of
//! them seem to come from an address of theirs, answers to questions too: what comes second is a replay. So
//! the address that an answer comes from says nothing. The token in it does: it went to one address, and
//! whoever answers has been reached there. A move that nobody asked for therefore asks at both addresses, and
//! stays where it is if it is answered from there, or by way of there. A move to a better way needs a question that
//! this side chose to ask (`link/probe.rs`).

use core::net::SocketAddr;
use core::time::Duration;

use super::MAX_WAIT;
use crate::kdf::Rng;
use crate::seal::OVERHEAD;
use crate::way::Ways;

/// How often each address is asked.
const MAX_CHALLENGES: u8 = 3;
/// An answer that comes later is none: the way may be much longer than the one before.
const MAX_ANSWER: Duration = Duration::from_secs(3);
/// While the peer is silent, the addresses that it has proven are asked this often.
const SILENT_AGAIN: Duration = Duration::from_secs(2);
/// A datagram of nothing but a challenge.
pub(super) const CHALLENGE_LEN: usize = OVERHEAD + 9;
/// Addresses beside the link's that the peer has proven and that are kept.
const MAX_KNOWN: usize = 4;

/// What is known of the addresses that the peer may have.
#[derive(Default, Debug)]
pub(super) struct Paths {
    /// Which addresses are made up, and for what.
    pub ways: Ways,
    asking: Option<Asking>,
    /// Nobody is asked sooner.
    pub rest_until: Duration,
    /// Addresses beside the link's that have been proven, the newest last.
    pub known: Vec<SocketAddr>,
    /// Where the link was before a move that was forced upon it, and what was asked there.
    before: Option<(SocketAddr, u64)>,
    /// When it moved.
    moved: Duration,
    /// Where it has moved, until the program has been told.
    pub news: Option<SocketAddr>,
}

/// A question at the address that the link has, and at others.
#[derive(Debug)]
struct Asking {
    /// One from which a newer datagram came; or, of a silent peer, all that are known.
    others: Vec<Other>,
    /// What is asked where the link is, and whether that is due.
    here: u64,
    here_due: bool,
    left: u8,
    begun: Duration,
    next: Duration,
    /// How long an answer from here is waited for.
    wait: Duration,
    /// Nothing comes from the peer any more.
    silent: bool,
}

#[derive(Debug)]
struct Other {
    address: SocketAddr,
    /// Bytes that came from there, less those that went there; no matter for one that was proven before.
    paid: usize,
    token: u64,
    due: bool,
    answered: bool,
}

impl Other {
    fn new(address: SocketAddr, paid: usize, rng: &mut Rng) -> Self {
        Self { address, paid, token: rng.u64(), due: false, answered: false }
    }
}

/// Where the link goes on, if an answer says so.
pub(super) type Verdict = Option<SocketAddr>;

impl Paths {
    /// Something authentic came from another address than the link's. `newest`: and nothing newer did before.
    pub(super) fn on_datagram(
        &mut self,
        now: Duration,
        (from, len, newest): (SocketAddr, usize, bool),
        wait: Duration,
        rng: &mut Rng,
    ) {
        let asking = self.asking.as_mut();
        let asked = asking.and_then(|asking| asking.others.iter_mut().find(|o| o.address == from));
        let is_asked = asked.map(|other| other.paid = other.paid.saturating_add(len)).is_some();
        if !newest || now < self.rest_until {
            return;
        }
        match &mut self.asking {
            // The same questions again: an answer to an earlier one is as good.
            Some(asking) if is_asked => asking.begin(now, wait),
            _ => {
                let paid = if self.is_proven(from) { usize::MAX } else { len };
                let others = vec![Other::new(from, paid, rng)];
                self.ask(now, others, wait, rng);
            }
        }
        self.rest_until = now + MAX_WAIT;
    }

    /// Nothing has come for long. Where else the peer has been, it may be heard.
    pub(super) fn on_silence(&mut self, now: Duration, wait: Duration, rng: &mut Rng) {
        let others = self.known.iter().map(|to| Other::new(*to, usize::MAX, rng)).collect();
        self.ask(now, others, wait, rng).silent = true;
        self.rest_until = now + SILENT_AGAIN;
    }

    fn ask(
        &mut self,
        now: Duration,
        others: Vec<Other>,
        wait: Duration,
        rng: &mut Rng,
    ) -> &mut Asking {
        let here = rng.u64();
        let (here_due, left, silent) = (false, 0, false);
        let asking = Asking { others, here, here_due, left, begun: now, next: now, wait, silent };
        let asking = self.asking.insert(asking);
        asking.begin(now, wait);
        asking
    }

    /// The challenge that is due now: where (`None`: where the link is), its token, and how many bytes may
    /// go there.
    pub(super) fn poll(&mut self, now: Duration) -> Option<(Option<SocketAddr>, u64, usize)> {
        let asking = self.asking.as_mut()?;
        if asking.left > 0 && now >= asking.next {
            asking.left -= 1;
            asking.next = now + asking.wait / 2;
            asking.here_due = true;
            asking.others.iter_mut().for_each(|other| other.due = !other.answered);
        }
        if core::mem::take(&mut asking.here_due) {
            return Some((None, asking.here, usize::MAX));
        }
        // Otherwise it waits until more has come from there.
        let due = |other: &&mut Other| other.due && other.paid >= CHALLENGE_LEN;
        let other = asking.others.iter_mut().find(due)?;
        other.due = false;
        Some((Some(other.address), other.token, other.paid))
    }

    /// So many bytes went to another address.
    pub(super) fn on_sent(&mut self, to: SocketAddr, len: usize) {
        let others = self.asking.iter_mut().flat_map(|asking| &mut asking.others);
        others.filter(|o| o.address == to).for_each(|o| o.paid = o.paid.saturating_sub(len));
    }

    pub(super) fn on_response(&mut self, now: Duration, token: u64) -> Verdict {
        match &mut self.asking {
            Some(asking) if now >= asking.begun + MAX_ANSWER => self.asking = None,
            // The link is heard where it is.
            Some(asking) if token == asking.here => self.asking = None,
            Some(asking) => {
                let answers = asking.others.iter_mut().filter(|other| other.token == token);
                answers.for_each(|other| other.answered = true);
            }
            None => {}
        }
        // It was, and the answer has taken its time.
        let (before, _) = self.before.filter(|(_, asked)| {
            *asked == token && self.asking.is_none() && now < self.moved + MAX_ANSWER
        })?;
        Some(before)
    }

    /// The best of the other addresses that have answered, if this one had time to.
    pub(super) fn verdict(&self, now: Duration) -> Verdict {
        let asking = self.asking.as_ref().filter(|asking| now >= asking.verdict_at())?;
        let answered = asking.others.iter().filter(|other| other.answered).map(|o| o.address);
        answered.min_by_key(|address| self.ways.way(*address))
    }

    /// Whether the peer is not heard where the link is: anywhere else is better.
    pub(super) fn is_lost(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.silent)
    }

    /// Whether the peer has been reached there.
    pub(super) fn is_proven(&self, address: SocketAddr) -> bool {
        self.known.contains(&address)
    }

    /// The peer has been reached there, and the link is not. One of each kind gives way to its own first.
    pub(super) fn keep(&mut self, address: SocketAddr) {
        self.known.retain(|known| *known != address);
        if self.known.len() >= MAX_KNOWN {
            let way = self.ways.way(address);
            let same = self.known.iter().position(|known| self.ways.way(*known) == way);
            self.known.remove(same.unwrap_or(0));
        }
        self.known.push(address);
    }

    /// The link was at `from` and goes on at `to`, which this side has `chosen`, or had to take.
    pub(super) fn on_move(
        &mut self,
        now: Duration,
        (from, to): (SocketAddr, SocketAddr),
        chosen: bool,
    ) {
        let asked = self.asking.take().map(|asking| asking.here);
        self.before = asked.filter(|_| !chosen).map(|here| (from, here));
        self.keep(from);
        self.known.retain(|known| *known != to);
        (self.moved, self.news) = (now, Some(to));
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let asking = self.asking.as_ref()?;
        let question = (asking.left > 0).then_some(asking.next);
        let answered = asking.others.iter().any(|other| other.answered);
        [question, answered.then(|| asking.verdict_at())].into_iter().flatten().min()
    }
}

impl Asking {
    fn begin(&mut self, now: Duration, wait: Duration) {
        (self.begun, self.next, self.wait, self.left) = (now, now, wait, MAX_CHALLENGES);
    }

    /// Until then an answer from here counts more than others. A silent peer has left a ping unanswered before.
    fn verdict_at(&self) -> Duration {
        self.begun + if self.silent { self.wait / 2 } else { self.wait }
    }
}
