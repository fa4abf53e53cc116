//! Path validation: an address gets nothing but challenges before it is proven (docs/spec/link.md, "Paths"; RFC 9000,
//! sections 8.2 and 9.3, has the reasons). Either side may move.
//!
//! An attacker may forward copies of the peer's datagrams faster than the path of the originals. All of them then seem
//! to come from the attacker's address, answers to challenges too: the original comes second and is a replay. So the
//! source address of an answer proves nothing. Its token does: it went to one address, and the peer that answers was
//! reached there.
//!
//! A move that this side did not choose therefore challenges both addresses. The link stays where it is if an answer
//! comes to the challenge at its own address. A move to a better way needs a challenge that this side chose to send
//! (`link/probe.rs`).

use core::net::SocketAddr;
use core::time::Duration;

use super::liveness::MAX_WAIT;
use crate::kdf::LinkRng;
use crate::seal::OVERHEAD;
use crate::way::SyntheticPrefixes;

/// How often each address is challenged.
const MAX_CHALLENGES: u8 = 3;
/// Longest wait for an answer: the new path may be much longer than the one before.
const MAX_ANSWER: Duration = Duration::from_secs(3);
/// Interval of challenges at the peer's proven addresses while it is silent.
const SILENT_AGAIN: Duration = Duration::from_secs(2);
/// Length of a datagram with nothing but a challenge, in bytes.
pub(super) const CHALLENGE_LEN: usize = OVERHEAD + 9;
/// Most proven addresses of the peer that are kept beside the link's.
const MAX_KNOWN: usize = 4;

/// The addresses that the peer may have.
#[derive(Default, Debug)]
pub(super) struct PathValidation {
    /// Which addresses are synthetic, and their kinds.
    pub ways: SyntheticPrefixes,
    challenges: Option<PathChallenges>,
    /// No challenge begins before this time.
    pub quiet_until: Duration,
    /// Proven addresses beside the link's, the newest last.
    pub known: Vec<SocketAddr>,
    /// The link's address before a move that it was forced to make, and the token of the challenge there.
    before: Option<(SocketAddr, u64)>,
    /// When it moved.
    moved: Duration,
    /// The address that it moved to, until that has been reported.
    pub unreported_move: Option<SocketAddr>,
}

/// A challenge at the link's address, and at others.
#[derive(Debug)]
struct PathChallenges {
    /// The address that a newer datagram came from; for a silent peer, all known addresses.
    others: Vec<OtherAddress>,
    /// Token of the challenge at the link's own address. `here_due`: it is to be sent.
    here: u64,
    here_due: bool,
    left: u8,
    begun: Duration,
    next: Duration,
    /// How long an answer from the link's own address is awaited.
    wait: Duration,
    /// The peer has fallen silent.
    silent: bool,
}

#[derive(Debug)]
struct OtherAddress {
    address: SocketAddr,
    /// Bytes received from there, less those sent there; unlimited for a proven address.
    credit: usize,
    token: u64,
    due: bool,
    answered: bool,
}

impl OtherAddress {
    fn new(address: SocketAddr, paid: usize, rng: &mut LinkRng) -> Self {
        Self { address, credit: paid, token: rng.u64(), due: false, answered: false }
    }
}

/// The address that the link moves to, if an answer decides so.
pub(super) type Verdict = Option<SocketAddr>;

impl PathValidation {
    /// Handles an authentic datagram from another address than the link's. `newest`: its packet number is the highest
    /// so far.
    pub(super) fn on_datagram(
        &mut self,
        now: Duration,
        from: SocketAddr,
        len: usize,
        newest: bool,
        wait: Duration,
        rng: &mut LinkRng,
    ) {
        let asking = self.challenges.as_mut();
        let asked = asking.and_then(|asking| asking.others.iter_mut().find(|o| o.address == from));
        let is_asked = asked.map(|other| other.credit = other.credit.saturating_add(len)).is_some();
        if !newest || now < self.quiet_until {
            return;
        }
        match &mut self.challenges {
            // The tokens stay the same: an answer to an earlier challenge counts as well.
            Some(asking) if is_asked => asking.begin(now, wait),
            _ => {
                let paid = if self.is_proven(from) { usize::MAX } else { len };
                let others = vec![OtherAddress::new(from, paid, rng)];
                self.challenge(now, others, wait, rng);
            }
        }
        self.quiet_until = now + MAX_WAIT;
    }

    /// Handles silence: challenges the peer at all other known addresses.
    pub(super) fn on_silence(&mut self, now: Duration, wait: Duration, rng: &mut LinkRng) {
        let others = self.known.iter().map(|to| OtherAddress::new(*to, usize::MAX, rng)).collect();
        self.challenge(now, others, wait, rng).silent = true;
        self.quiet_until = now + SILENT_AGAIN;
    }

    fn challenge(
        &mut self,
        now: Duration,
        others: Vec<OtherAddress>,
        wait: Duration,
        rng: &mut LinkRng,
    ) -> &mut PathChallenges {
        let here = rng.u64();
        let (here_due, left, silent) = (false, 0, false);
        let asking =
            PathChallenges { others, here, here_due, left, begun: now, next: now, wait, silent };
        let asking = self.challenges.insert(asking);
        asking.begin(now, wait);
        asking
    }

    /// The challenge that is due now: its address (`None`: the link's), its token, and how many bytes may go there.
    pub(super) fn poll(&mut self, now: Duration) -> Option<(Option<SocketAddr>, u64, usize)> {
        let asking = self.challenges.as_mut()?;
        if asking.left > 0 && now >= asking.next {
            asking.left -= 1;
            asking.next = now + asking.wait / 2;
            asking.here_due = true;
            asking.others.iter_mut().for_each(|other| other.due = !other.answered);
        }
        if core::mem::take(&mut asking.here_due) {
            return Some((None, asking.here, usize::MAX));
        }
        // Otherwise it waits until more bytes have come from there.
        let due = |other: &&mut OtherAddress| other.due && other.credit >= CHALLENGE_LEN;
        let other = asking.others.iter_mut().find(due)?;
        other.due = false;
        Some((Some(other.address), other.token, other.credit))
    }

    /// Counts bytes sent to another address.
    pub(super) fn on_sent(&mut self, to: SocketAddr, len: usize) {
        let others = self.challenges.iter_mut().flat_map(|asking| &mut asking.others);
        others.filter(|o| o.address == to).for_each(|o| o.credit = o.credit.saturating_sub(len));
    }

    pub(super) fn on_response(&mut self, now: Duration, token: u64) -> Verdict {
        match &mut self.challenges {
            Some(asking) if now >= asking.begun + MAX_ANSWER => self.challenges = None,
            // The peer answers at the link's own address.
            Some(asking) if token == asking.here => self.challenges = None,
            Some(asking) => {
                let answers = asking.others.iter_mut().filter(|other| other.token == token);
                answers.for_each(|other| other.answered = true);
            }
            None => {}
        }
        // A late answer from the address before the move: the link goes back.
        let (before, _) = self.before.filter(|(_, asked)| {
            *asked == token && self.challenges.is_none() && now < self.moved + MAX_ANSWER
        })?;
        Some(before)
    }

    /// The best of the other addresses that have answered, once the link's own has had time to.
    pub(super) fn verdict(&self, now: Duration) -> Verdict {
        let asking = self.challenges.as_ref().filter(|asking| now >= asking.verdict_at())?;
        let answered = asking.others.iter().filter(|other| other.answered).map(|o| o.address);
        answered.min_by_key(|address| self.ways.way(*address))
    }

    /// Returns whether the peer is silent at the link's address: any other address is better.
    pub(super) fn is_peer_silent(&self) -> bool {
        self.challenges.as_ref().is_some_and(|asking| asking.silent)
    }

    /// Returns whether the peer has been reached there.
    pub(super) fn is_proven(&self, address: SocketAddr) -> bool {
        self.known.contains(&address)
    }

    /// Keeps an address at which the peer was reached, beside the link's. If there are too many, the oldest of the same
    /// kind gives way, else the oldest of all.
    pub(super) fn keep(&mut self, address: SocketAddr) {
        self.known.retain(|known| *known != address);
        if self.known.len() >= MAX_KNOWN {
            let way = self.ways.way(address);
            let same = self.known.iter().position(|known| self.ways.way(*known) == way);
            self.known.remove(same.unwrap_or(0));
        }
        self.known.push(address);
    }

    /// Records a move from `from` to `to`, `chosen` by this side or forced.
    pub(super) fn on_move(
        &mut self,
        now: Duration,
        from: SocketAddr,
        to: SocketAddr,
        chosen: bool,
    ) {
        let asked = self.challenges.take().map(|asking| asking.here);
        self.before = asked.filter(|_| !chosen).map(|here| (from, here));
        self.keep(from);
        self.known.retain(|known| *known != to);
        (self.moved, self.unreported_move) = (now, Some(to));
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let asking = self.challenges.as_ref()?;
        let question = (asking.left > 0).then_some(asking.next);
        let answered = asking.others.iter().any(|other| other.answered);
        [question, answered.then(|| asking.verdict_at())].into_iter().flatten().min()
    }
}

impl PathChallenges {
    fn begin(&mut self, now: Duration, wait: Duration) {
        (self.begun, self.next, self.wait, self.left) = (now, now, wait, MAX_CHALLENGES);
    }

    /// Until this time an answer from the link's own address takes precedence. A silent peer gets half the wait,
    /// because it has left a ping unanswered already.
    fn verdict_at(&self) -> Duration {
        self.begun + if self.silent { self.wait / 2 } else { self.wait }
    }
}
