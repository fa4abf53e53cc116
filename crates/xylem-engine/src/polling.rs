//! [`SocketPoll`]: which sockets are ready, and that each of them gets one turn a round.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use xylem_forward::FaceId;
use xylem_sockets::CarrierId;

/// The engine counts as behind when there was always more input for this long.
const BEHIND_AFTER: Duration = Duration::from_millis(5);

/// The source of readiness that a poll token identifies.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PollSource {
    Link(usize),
    Udp(usize),
    Multicast(usize),
    Ethernet(usize),
    Listener(usize),
    Carrier(CarrierId),
    /// A socket opened for one attempt to punch through a NAT.
    Extra(u16),
    /// A relay's second port.
    Second(usize),
    /// A face with a connection of its own.
    Face(FaceId),
}

/// The system's poll, and the sources that had more to read than one turn takes. Only registered sources have a token.
pub(crate) struct SocketPoll {
    poll: Poll,
    events: Events,
    tokens: HashMap<Token, PollSource>,
    next_token: usize,
    /// Sources that get a turn in the next round without a report of the system.
    unfinished: Vec<PollSource>,
    /// The list of a round, kept for its allocation.
    ready: Vec<PollSource>,
    /// Sources of this round, to list each once.
    had_turn: HashSet<PollSource>,
    /// Since when there was always more input to take in.
    busy_since: Option<Duration>,
}

impl SocketPoll {
    /// Makes a poll without sources.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(256),
            tokens: HashMap::new(),
            next_token: 0,
            unfinished: Vec::new(),
            ready: Vec::new(),
            had_turn: HashSet::new(),
            busy_since: None,
        })
    }

    fn next_token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    /// Gives a source a token, with which `register` enters it in the poll. After an error it has none.
    pub(crate) fn register<T>(
        &mut self,
        source: PollSource,
        register: impl FnOnce(Token, &Poll) -> io::Result<T>,
    ) -> io::Result<T> {
        let token = self.next_token();
        let registered = register(token, &self.poll)?;
        self.tokens.insert(token, source);
        Ok(registered)
    }

    /// Forgets a source that is closed.
    pub(crate) fn forget(&mut self, token: Token) {
        self.tokens.remove(&token);
    }

    /// Makes a waker. No source has its token, so its event only ends a sleep. A poll may have only one.
    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        let token = self.next_token();
        Waker::new(self.poll.registry(), token)
    }

    /// The system's poll, for sockets that change what they wait for.
    pub(crate) fn system(&self) -> &Poll {
        &self.poll
    }

    /// Gives a source a turn in the next round, which then begins without sleep.
    pub(crate) fn unfinished(&mut self, source: PollSource) {
        self.unfinished.push(source);
    }

    /// Sleeps until a source is ready, for `sleep` at most, and not at all while there is more input to take in:
    /// unfinished sources, or `others`. Returns each source that gets a turn once; [`Self::end_round`] takes the list
    /// back.
    ///
    /// # Errors
    /// Those of the system's poll.
    pub(crate) fn wait(
        &mut self,
        now: Duration,
        sleep: Duration,
        others: bool,
    ) -> io::Result<Vec<PollSource>> {
        let idle = self.unfinished.is_empty() && !others;
        self.busy_since = if idle { None } else { self.busy_since.or(Some(now)) };
        let sleep = if idle { sleep } else { Duration::ZERO };
        match self.poll.poll(&mut self.events, Some(sleep)) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.append(&mut self.unfinished);
        for event in &self.events {
            let Some(source) = self.tokens.get(&event.token()) else { continue };
            ready.push(*source);
            // One read may not reach the end, and no other event will report it.
            if event.is_read_closed() {
                self.unfinished.push(*source);
            }
        }
        // A source may be listed for remaining and for new data: it gets one turn for both.
        if ready.len() > 1 {
            self.had_turn.clear();
            ready.retain(|source| self.had_turn.insert(*source));
        }
        Ok(ready)
    }

    /// Takes a round's list back, for its allocation.
    pub(crate) fn end_round(&mut self, ready: Vec<PollSource>) {
        self.ready = ready;
        self.ready.clear();
    }

    /// Whether input comes faster than the engine takes it in.
    #[inline]
    pub(crate) fn is_behind(&self, now: Duration) -> bool {
        self.busy_since.is_some_and(|since| now > since + BEHIND_AFTER)
    }
}
