//! Where the peer is. Only the dialer moves; an address is asked before anything but the question is sent to
//! it (docs/spec/link.md, "Paths"; RFC 9000, sections 8.2 and 9.3, has the reasons).
//!
//! Whoever sends copies of the peer's datagrams on, and is quicker than the way that these take, has all of
//! them seem to come from an address of theirs, answers to questions too: what comes second is a replay. So
//! the address that an answer comes from says nothing. The token in it does: it went to one address, and
//! whoever answers has been reached there. The responder asks at both addresses, and stays where it is if it
//! is answered from there, or by way of there.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Link, MAX_WAIT};
use crate::event::Transmit;
use crate::frame::Frame;
use crate::kdf::Rng;
use crate::seal::OVERHEAD;

/// How often each of the two addresses is asked.
const MAX_CHALLENGES: u8 = 3;
/// An answer that comes later is none: the way may be much longer than the one before.
const MAX_ANSWER: Duration = Duration::from_secs(3);
/// While the peer is silent, the address that it had before is asked this often.
const SILENT_AGAIN: Duration = Duration::from_secs(2);
/// A datagram of nothing but a challenge.
const CHALLENGE_LEN: usize = OVERHEAD + 9;

/// What a responder knows of the addresses that its dialer may have.
#[derive(Default, Debug)]
pub(super) struct Paths {
    asking: Option<Asking>,
    /// Nobody is asked sooner.
    rest_until: Duration,
    /// Where the link was before it moved, and what was asked there.
    before: Option<(SocketAddr, u64)>,
    /// When it moved.
    moved: Duration,
}

/// A question at two addresses: the one that the link has, and another.
#[derive(Debug)]
struct Asking {
    other: SocketAddr,
    /// Bytes that came from there, less those that went there; no matter for one that was proven before.
    paid: usize,
    /// What is asked there.
    token: u64,
    /// What is asked where the link is.
    here: u64,
    /// Where a challenge is due: there, here.
    due: (bool, bool),
    left: u8,
    begun: Duration,
    next: Duration,
    /// How long an answer from here is waited for.
    wait: Duration,
    answered: bool,
}

/// Where the link goes on, if an answer says so.
type Verdict = Option<SocketAddr>;

impl Paths {
    /// Something authentic came from another address than the link's `here`. `newest`: and nothing newer did before.
    pub(super) fn on_datagram(
        &mut self,
        now: Duration,
        (from, len, newest): (SocketAddr, usize, bool),
        wait: Duration,
        rng: &mut Rng,
    ) {
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.other == from) {
            asking.paid = asking.paid.saturating_add(len);
        }
        if !newest || now < self.rest_until {
            return;
        }
        match &mut self.asking {
            // The same questions again: an answer to an earlier one is as good.
            Some(asking) if asking.other == from => asking.begin(now, wait),
            _ => self.ask(now, from, len, wait, rng),
        }
        self.rest_until = now + MAX_WAIT;
    }

    /// Nothing has come for long. Where the link was before, it may be heard again.
    fn on_silence(&mut self, now: Duration, wait: Duration, rng: &mut Rng) {
        if let Some((before, _)) = self.before {
            self.ask(now, before, usize::MAX, wait, rng);
            self.rest_until = now + SILENT_AGAIN;
        }
    }

    fn ask(&mut self, now: Duration, other: SocketAddr, len: usize, wait: Duration, rng: &mut Rng) {
        let proven = self.before.is_some_and(|(before, _)| before == other);
        let mut asking = Asking {
            other,
            paid: if proven { usize::MAX } else { len },
            token: rng.u64(),
            here: rng.u64(),
            due: (false, false),
            left: 0,
            begun: now,
            next: now,
            wait,
            answered: false,
        };
        asking.begin(now, wait);
        self.asking = Some(asking);
    }

    /// The challenge that is due now: where (`None`: where the link is), its token, and how many bytes may
    /// go there.
    fn poll(&mut self, now: Duration) -> Option<(Option<SocketAddr>, u64, usize)> {
        let asking = self.asking.as_mut()?;
        if asking.left > 0 && now >= asking.next {
            asking.left -= 1;
            asking.next = now + asking.wait / 2;
            asking.due = (!asking.answered, true);
        }
        if core::mem::take(&mut asking.due.1) {
            return Some((None, asking.here, usize::MAX));
        }
        // Otherwise it waits until more has come from there.
        if asking.due.0 && asking.paid >= CHALLENGE_LEN {
            asking.due.0 = false;
            return Some((Some(asking.other), asking.token, asking.paid));
        }
        None
    }

    /// So many bytes went to the other address.
    fn on_sent(&mut self, len: usize) {
        if let Some(asking) = &mut self.asking {
            asking.paid = asking.paid.saturating_sub(len);
        }
    }

    fn on_response(&mut self, now: Duration, token: u64) -> Verdict {
        match &mut self.asking {
            Some(asking) if now >= asking.begun + MAX_ANSWER => self.asking = None,
            // The link is heard where it is.
            Some(asking) if token == asking.here => self.asking = None,
            Some(asking) if token == asking.token => asking.answered = true,
            _ => {}
        }
        // It was, and the answer has taken its time.
        let (before, _) = self.before.filter(|(_, asked)| {
            *asked == token && self.asking.is_none() && now < self.moved + MAX_ANSWER
        })?;
        Some(before)
    }

    /// Whether the other address has answered, and this one had time to.
    fn verdict(&self, now: Duration) -> Verdict {
        let asking = self.asking.as_ref()?;
        (asking.answered && now >= asking.begun + asking.wait).then_some(asking.other)
    }

    /// The link was at `from` and goes on elsewhere.
    fn on_move(&mut self, now: Duration, from: SocketAddr) {
        let asked = self.asking.take().map_or(0, |asking| asking.here);
        self.before = Some((from, asked));
        self.moved = now;
    }

    fn next_timeout(&self) -> Option<Duration> {
        let asking = self.asking.as_ref()?;
        let question = (asking.left > 0).then_some(asking.next);
        let verdict = asking.answered.then_some(asking.begun + asking.wait);
        [question, verdict].into_iter().flatten().min()
    }
}

impl Asking {
    fn begin(&mut self, now: Duration, wait: Duration) {
        (self.begun, self.next, self.wait, self.left) = (now, now, wait, MAX_CHALLENGES);
    }
}

impl Link {
    /// A datagram of `len` bytes came from somewhere else than the link is.
    pub(super) fn on_other_address(&mut self, now: Duration, came: (SocketAddr, usize, bool)) {
        // A dialer has its responder where it dialled it.
        if !self.stream_settings.dialer {
            let wait = self.wait();
            self.paths.on_datagram(now, came, wait, &mut self.rng);
        }
    }

    pub(super) fn on_path_response(&mut self, now: Duration, token: u64) {
        if let Some(back) = self.paths.on_response(now, token) {
            self.move_to(now, back);
        }
        self.on_path_timeout(now);
    }

    pub(super) fn on_path_timeout(&mut self, now: Duration) {
        if let Some(other) = self.paths.verdict(now) {
            self.move_to(now, other);
        }
        if self.silent_at().is_some_and(|at| now >= at) {
            let wait = self.wait();
            self.paths.on_silence(now, wait, &mut self.rng);
        }
    }

    pub(super) fn next_path_timeout(&self) -> Option<Duration> {
        [self.paths.next_timeout(), self.silent_at()].into_iter().flatten().min()
    }

    /// When the peer has been silent for so long that it is looked for where it was before: it has left a ping
    /// unanswered, or half the idle timeout is over.
    fn silent_at(&self) -> Option<Duration> {
        self.paths.before?;
        let half = self.idle_timeout / 2;
        let patience = self.keep_alive.map_or(half, |quiet| half.min(quiet + MAX_WAIT));
        Some((self.last_received + patience).max(self.paths.rest_until))
    }

    fn move_to(&mut self, now: Duration, to: SocketAddr) {
        self.paths.on_move(now, self.remote);
        self.remote = to;
        self.mtu.reset(now);
        self.on_new_path(now);
        // Reset tokens are for an address.
        self.token_owed = true;
    }

    pub(super) fn transmit_challenge(
        &mut self,
        now: Duration,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (other, token, paid) = self.paths.poll(now)?;
        let challenge = Frame::PathChallenge(token);
        let Some(other) = other else {
            return Some(self.datagram(buf, self.remote, 0, |out| challenge.write(out)));
        };
        // Padding is not worth more than the address has paid for.
        let size = self.padded(CHALLENGE_LEN).min(paid);
        self.paths.on_sent(size);
        Some(self.datagram(buf, other, size, |out| challenge.write(out)))
    }
}
