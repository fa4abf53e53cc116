//! [`Finder`]: asks linked peers for further peers, and chooses which to dial.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_object::peers::{self, Announcement, PeerHint};
use xylem_packet::{Data, InterestBuilder, Name};

use crate::reachable::may_be_dialled;

/// Interval at which each linked peer is asked.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The first interval; each is twice the one before, up to [`ASK_EVERY`]. Getters that begin together have announced
/// nothing when the first of them ask.
const FIRST_ASK_AGAIN: Duration = Duration::from_millis(300);
/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(3);
/// A peer is not asked anew before this long without its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Longest possible answer, bytes; almost all other packets are longer.
const LONGEST: usize = 4_096;
/// Most handshakes with hinted peers under way at once.
const MAX_AT_ONCE: usize = 8;
/// Most handshakes with hinted peers begun within [`WINDOW`].
const MAX_DIALS: usize = 32;
const WINDOW: Duration = Duration::from_secs(600);
/// How long a hinted peer is left alone after it was unreachable or went away.
const REST: Duration = Duration::from_secs(60);
/// Most hinted peers remembered.
const MAX_KNOWN: usize = 256;

/// A peer to dial.
pub struct PeerToDial {
    /// The key that it must prove.
    pub key: [u8; 32],
    /// All addresses that it may have.
    pub addresses: Vec<SocketAddr>,
}

/// Finds peers through peers.
pub struct Finder {
    prefix: Name,
    /// Where this program can be reached.
    announced: Option<Announcement>,
    /// Whether hints are followed.
    follows: bool,
    asks_at: Duration,
    /// The next interval.
    pause: Duration,
    asked: HashMap<FaceId, (Name, Duration)>,
    known: HashMap<[u8; 32], HintState>,
    /// Whether there may be a peer to dial.
    fresh: bool,
    /// When recent handshakes were begun.
    begun: Vec<Duration>,
}

enum HintState {
    /// This program itself, or a peer that is dialled because it was named explicitly.
    Settled,
    Hinted(Vec<SocketAddr>),
    /// Dialled, with this many handshakes under way.
    Dialled(usize),
    Rests(Duration),
}

impl Finder {
    /// Asks about the publication at `prefix`, first at time `from`. Peers with keys in `named` are dialled by the
    /// caller. If it does not follow hints, it only announces our addresses.
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
            pause: FIRST_ASK_AGAIN,
            asked: HashMap::new(),
            known: named.into_iter().map(|key| (key, HintState::Settled)).collect(),
            fresh: false,
            begun: Vec::new(),
        }
    }

    /// Announces our addresses to peers from now on.
    pub fn announce(&mut self, announcement: Announcement) {
        self.known.insert(announcement.key, HintState::Settled);
        self.announced = Some(announcement);
    }

    /// Stops following hints.
    pub fn stop_following(&mut self) {
        self.follows = false;
        self.known.retain(|_, state| !matches!(state, HintState::Hinted(_)));
    }

    /// Returns when [`Finder::ask`] is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (self.follows || self.announced.is_some()).then_some(self.asks_at)
    }

    /// Asks the peers at the other ends of `links`, if it is time; passes each question to `send`.
    pub fn ask(
        &mut self,
        now: Duration,
        links: impl Iterator<Item = FaceId>,
        send: &mut dyn FnMut(FaceId, &[u8]),
    ) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        self.asks_at = now.saturating_add(self.pause);
        self.pause = self.pause.saturating_mul(2).min(ASK_EVERY);
        self.asked.retain(|_, (_, at)| *at + PATIENCE > now);
        for face in links {
            let is_open = |(_, at): &(Name, Duration)| *at + ANSWERED_WITHIN > now;
            if self.asked.get(&face).is_some_and(is_open) {
                continue;
            }
            // A system without randomness now may have some at the next attempt.
            let Ok(nonce) = xylem_base::random() else { return };
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

    /// Takes a packet if it answers one of our questions, and returns whether it does. It costs nothing while no
    /// question is open. `near`: the peer is on this machine.
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
            None | Some(HintState::Hinted(_)) => true,
            Some(HintState::Rests(until)) => *until <= now,
            Some(HintState::Settled | HintState::Dialled(_)) => false,
        };
        if !self.follows || !rested || addresses.is_empty() {
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            // Some peer invents keys. Replace an entry that is only hinted: real peers will be hinted again.
            let lightly = |(_, state): &(&_, &HintState)| {
                matches!(state, HintState::Hinted(_) | HintState::Rests(_))
            };
            let Some(key) = self.known.iter().find(lightly).map(|(key, _)| *key) else { return };
            self.known.remove(&key);
        }
        self.known.insert(hint.key, HintState::Hinted(addresses));
        self.fresh = true;
    }

    /// Returns the next peer to dial, within the limits. Report each of its addresses that does not come up, or goes
    /// down, to [`Finder::ended`].
    pub fn next(&mut self, now: Duration) -> Option<PeerToDial> {
        if !self.fresh {
            return None;
        }
        self.begun.retain(|at| *at + WINDOW > now);
        let under_way: usize = self.known.values().map(HintState::under_way).sum();
        let room = MAX_AT_ONCE.saturating_sub(under_way).min(MAX_DIALS - self.begun.len());
        let hinted = |(_, state): &(&_, &HintState)| matches!(state, HintState::Hinted(_));
        let found = self.known.iter().find(hinted).map(|(key, _)| *key);
        // Peers for which there is no room now wait for it.
        self.fresh = found.is_some();
        let key = found.filter(|_| room > 0);
        let Some(HintState::Hinted(mut addresses)) = key.and_then(|key| self.known.remove(&key))
        else {
            return None;
        };
        let key = key?;
        addresses.truncate(room);
        self.begun.extend(addresses.iter().map(|_| now));
        self.known.insert(key, HintState::Dialled(addresses.len()));
        Some(PeerToDial { key, addresses })
    }

    /// Records that one address of a dialled peer answers; its other handshakes are abandoned.
    pub fn came_up(&mut self, key: [u8; 32]) {
        self.known.insert(key, HintState::Dialled(0));
        self.fresh = true;
    }

    /// Records that an address of a dialled peer does not answer, or that its link ended; `left` other handshakes
    /// continue.
    pub fn ended(&mut self, now: Duration, key: [u8; 32], left: usize) {
        let state = if left > 0 { HintState::Dialled(left) } else { HintState::Rests(now + REST) };
        self.known.insert(key, state);
        self.fresh = true;
    }

    /// Removes a link that ended.
    pub fn went_down(&mut self, face: FaceId) {
        self.asked.remove(&face);
    }
}

impl HintState {
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
    fn peers_are_asked_often_at_first() {
        let (mut finder, mut asked, mut now) = (finder(), Vec::new(), Duration::ZERO);
        while now < Duration::from_secs(20) {
            // The first peer answers at once, the second never.
            let links = [FaceId(1), FaceId(2)].into_iter();
            finder.ask(now, links, &mut |face, _| asked.push((face.0, now.as_millis())));
            finder.asked.remove(&FaceId(1));
            now = finder.poll_timeout().unwrap();
        }
        let of = |face| {
            asked.iter().filter(|(of, _)| *of == face).map(|(_, at)| *at).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [0, 300, 900, 2_100, 4_500, 9_300, 14_300, 19_300]);
        assert_eq!(of(2), [0, 2_100, 4_500, 9_300, 14_300, 19_300]);
    }

    #[test]
    fn handshakes_are_limited_at_once_and_in_total() {
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
    fn an_unreachable_peer_rests_before_the_next_dial() {
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
    fn hints_use_bounded_memory() {
        let mut finder = finder();
        for i in 0..10_000_u32 {
            let mut one = hint(0, &["192.0.2.1:4000"]);
            one.key[..4].copy_from_slice(&i.to_be_bytes());
            finder.note_hint(NOW, one, false);
            assert!(finder.known.len() <= MAX_KNOWN);
        }
        assert!(matches!(finder.known.get(&[1; 32]), Some(HintState::Settled)));
    }
}
