//! [`Finder`]: asks linked peers who else is there, and chooses whom to dial.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_object::peers::{self, Announcement, PeerHint};
use xylem_packet::{Data, InterestBuilder, Name};

use crate::keys;
use crate::reachable::may_be_dialled;

/// How often each linked peer is asked.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer, and almost every other packet is.
const LONGEST: usize = 4_096;
/// Handshakes with hinted peers under way at once.
const MAX_AT_ONCE: usize = 8;
/// Handshakes with hinted peers that begin within [`WINDOW`].
const MAX_DIALS: usize = 32;
const WINDOW: Duration = Duration::from_secs(600);
/// A hinted peer that could not be reached, or went away, is left alone for so long.
const REST: Duration = Duration::from_secs(60);
/// Hinted peers that are remembered.
const MAX_KNOWN: usize = 256;

/// Somebody to dial, and all the addresses that it may have.
pub struct Found {
    /// The key that it has to prove.
    pub key: [u8; 32],
    /// All that it may have.
    pub addresses: Vec<SocketAddr>,
}

/// Finds peers through peers.
pub struct Finder {
    prefix: Name,
    /// Where we can be asked ourselves.
    announced: Option<Announcement>,
    /// Whether hints are followed.
    follows: bool,
    asks_at: Duration,
    asked: HashMap<FaceId, (Name, Duration)>,
    known: HashMap<[u8; 32], State>,
    /// Somebody may be there to be dialled.
    fresh: bool,
    /// When handshakes were begun lately.
    begun: Vec<Duration>,
}

enum State {
    /// Ourselves, or dialled because somebody named it.
    Settled,
    Hinted(Vec<SocketAddr>),
    /// Dialled: handshakes that have not come to an end.
    Dialled(usize),
    Rests(Duration),
}

impl Finder {
    /// Asks about the publication at `prefix` from `from` on. Those with keys in `named` are dialled
    /// without it. Unless it `follows` hints, it only tells where we are.
    pub fn new(
        prefix: Name,
        named: impl IntoIterator<Item = [u8; 32]>,
        follows: bool,
        from: Duration,
    ) -> Self {
        Self {
            prefix,
            announced: None,
            follows,
            asks_at: from,
            asked: HashMap::new(),
            known: named.into_iter().map(|key| (key, State::Settled)).collect(),
            fresh: false,
            begun: Vec::new(),
        }
    }

    /// From now on peers are told where we are.
    pub fn announce(&mut self, announcement: Announcement) {
        self.known.insert(announcement.key, State::Settled);
        self.announced = Some(announcement);
    }

    /// Nobody is dialled any more.
    pub fn follow_no_more(&mut self) {
        self.follows = false;
        self.known.retain(|_, state| !matches!(state, State::Hinted(_)));
    }

    /// When [`Finder::ask`] has something to do.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (self.follows || self.announced.is_some()).then_some(self.asks_at)
    }

    /// Asks the peers at the other ends of `links`, if it is time: `send` is given each question.
    pub fn ask(
        &mut self,
        now: Duration,
        links: impl Iterator<Item = FaceId>,
        send: &mut dyn FnMut(FaceId, &[u8]),
    ) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        self.asks_at = now + ASK_EVERY;
        self.asked.retain(|_, (_, at)| *at + PATIENCE > now);
        for face in links {
            // A system that has no randomness now may have some in five seconds.
            let Ok(nonce) = keys::random() else { return };
            let name = peers::question(self.prefix.as_ref(), nonce, self.announced.as_ref());
            let mut interest = Vec::new();
            let lifetime = PATIENCE.as_millis() as u64;
            let built =
                InterestBuilder::new(name.as_ref()).lifetime_ms(lifetime).encode(&mut interest);
            if built.is_ok() {
                send(face, &interest);
                self.asked.insert(face, (name, now));
            }
        }
    }

    /// Takes a packet if it answers a question of ours; says whether it did. Costs nothing where no
    /// question waits. `near`: the peer is on this machine.
    pub fn handle_answer(
        &mut self,
        now: Duration,
        from: FaceId,
        near: impl FnOnce() -> bool,
        packet: &[u8],
    ) -> bool {
        if packet.len() > LONGEST {
            return false;
        }
        let Some((name, _)) = self.asked.get(&from) else { return false };
        let Ok(data) = Data::decode(packet) else { return false };
        if data.name() != name.as_ref() {
            return false;
        }
        self.asked.remove(&from);
        let near = near();
        for hint in peers::decode_list(data.content()).unwrap_or_default() {
            self.note_hint(now, hint, near);
        }
        true
    }

    fn note_hint(&mut self, now: Duration, hint: PeerHint, near: bool) {
        let mut addresses = hint.addresses;
        addresses.retain(|a| may_be_dialled(a, near));
        let rested = match self.known.get(&hint.key) {
            None | Some(State::Hinted(_)) => true,
            Some(State::Rests(until)) => *until <= now,
            Some(State::Settled | State::Dialled(_)) => false,
        };
        if !self.follows || !rested || addresses.is_empty() {
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            // Somebody makes peers up: those who are really there are told of again.
            let lightly =
                |(_, state): &(&_, &State)| matches!(state, State::Hinted(_) | State::Rests(_));
            let Some(key) = self.known.iter().find(lightly).map(|(key, _)| *key) else { return };
            self.known.remove(&key);
        }
        self.known.insert(hint.key, State::Hinted(addresses));
        self.fresh = true;
    }

    /// The next peer to dial, within the limits; tell of each of its addresses by [`Finder::ended`]
    /// that did not come up, or came down.
    pub fn next(&mut self, now: Duration) -> Option<Found> {
        if !self.fresh {
            return None;
        }
        self.begun.retain(|at| *at + WINDOW > now);
        let under_way: usize = self.known.values().map(State::under_way).sum();
        let room = MAX_AT_ONCE.saturating_sub(under_way).min(MAX_DIALS - self.begun.len());
        let hinted = |(_, state): &(&_, &State)| matches!(state, State::Hinted(_));
        let found = self.known.iter().find(hinted).map(|(key, _)| *key);
        // Those for whom there is no room now wait for it.
        self.fresh = found.is_some();
        let key = found.filter(|_| room > 0);
        let Some(State::Hinted(mut addresses)) = key.and_then(|key| self.known.remove(&key)) else {
            return None;
        };
        let key = key?;
        addresses.truncate(room);
        self.begun.extend(addresses.iter().map(|_| now));
        self.known.insert(key, State::Dialled(addresses.len()));
        Some(Found { key, addresses })
    }

    /// One address of a peer that was dialled answers; its other handshakes are given up.
    pub fn came_up(&mut self, key: [u8; 32]) {
        self.known.insert(key, State::Dialled(0));
        self.fresh = true;
    }

    /// An address of a dialled peer does not answer, or its link is gone: `left` others are still tried.
    pub fn ended(&mut self, now: Duration, key: [u8; 32], left: usize) {
        let state = if left > 0 { State::Dialled(left) } else { State::Rests(now + REST) };
        self.known.insert(key, state);
        self.fresh = true;
    }

    /// A link is gone.
    pub fn went_down(&mut self, face: FaceId) {
        self.asked.remove(&face);
    }
}

impl State {
    fn under_way(&self) -> usize {
        match self {
            Self::Dialled(n) => *n,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn hint(key: u8, addresses: &[&str]) -> PeerHint {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        PeerHint { key: [key; 32], addresses }
    }

    fn finder() -> Finder {
        let prefix = Name::from_uri("/a/v=1").unwrap();
        Finder::new(prefix, [[1; 32]], true, Duration::ZERO)
    }

    #[test]
    fn only_addresses_of_peers_are_dialled() {
        let mut finder = finder();
        let bad = [
            "0.0.0.0:4000",
            "0.1.2.3:4000",
            "255.255.255.255:4000",
            "224.0.0.1:4000",
            "127.0.0.1:4000",
            "192.0.2.1:53",
            "[::]:4000",
            "[ff02::1]:4000",
            "[::1]:4000",
            "[fe80::1]:4000",
            "[::ffff:127.0.0.1]:4000",
        ];
        finder.note_hint(NOW, hint(2, &bad), false);
        assert!(finder.next(NOW).is_none());
        finder.note_hint(NOW, hint(1, &["192.0.2.1:4000"]), false);
        assert!(finder.next(NOW).is_none(), "the ticket's own");
        finder.note_hint(NOW, hint(2, &["127.0.0.1:4000"]), true);
        assert!(finder.next(NOW).is_some());
    }

    #[test]
    fn few_handshakes_at_once_and_in_all() {
        let mut finder = finder();
        let mut begun = 0;
        for key in 10..60 {
            finder.note_hint(NOW, hint(key, &["192.0.2.1:4000", "192.0.2.2:4000"]), false);
        }
        for round in 0..20 {
            let (mut keys, mut addresses) = (Vec::new(), 0);
            while let Some(found) = finder.next(NOW) {
                addresses += found.addresses.len();
                keys.push(found.key);
            }
            assert!(addresses <= MAX_AT_ONCE, "{round}");
            begun += addresses;
            keys.into_iter().for_each(|key| finder.ended(NOW, key, 0));
        }
        assert_eq!(begun, MAX_DIALS);
        assert!(finder.next(NOW + WINDOW).is_some());
    }

    #[test]
    fn who_does_not_answer_rests() {
        let mut finder = finder();
        let again = |finder: &mut Finder, now| {
            finder.note_hint(now, hint(2, &["192.0.2.1:4000"]), false);
            finder.next(now).is_some()
        };
        assert!(again(&mut finder, NOW));
        assert!(!again(&mut finder, NOW), "it is being dialled");
        finder.came_up([2; 32]);
        assert!(!again(&mut finder, NOW), "it is there");
        finder.ended(NOW, [2; 32], 0);
        assert!(!again(&mut finder, NOW + REST / 2));
        assert!(again(&mut finder, NOW + REST));
    }

    #[test]
    fn strangers_do_not_fill_memory() {
        let mut finder = finder();
        for i in 0..10_000_u32 {
            let mut one = hint(0, &["192.0.2.1:4000"]);
            one.key[..4].copy_from_slice(&i.to_be_bytes());
            finder.note_hint(NOW, one, false);
            assert!(finder.known.len() <= MAX_KNOWN);
        }
        assert!(matches!(finder.known.get(&[1; 32]), Some(State::Settled)));
    }
}
