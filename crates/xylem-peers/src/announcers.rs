//! [`Announcers`]: peers that have announced where they listen, and the answers that pass their addresses on.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::source;
use xylem_object::peers::{self, Announcement, MAX_PEERS, PeerHint, PeersQuestion};
use xylem_packet::{Interest, NameRef};

/// Most announcers known at once; further ones are ignored.
const MAX_ANNOUNCERS: usize = 256;
/// Most announcers from one source ([`source()`]).
const MAX_OF_SOURCE: usize = 8;
/// An announcer that is silent for this long is no longer passed on; it asks every 5 s.
const STALE: Duration = Duration::from_secs(30);

/// Linked peers that have announced their addresses, for one publication.
#[derive(Default)]
pub struct Announcers {
    entries: Vec<Announcer>,
    /// Where the next answer begins, so that all are passed on in turn.
    next: usize,
}

struct Announcer {
    face: FaceId,
    source: IpAddr,
    hint: PeerHint,
    last_received: Duration,
}

impl Announcers {
    /// Answers a question about the publication at `prefix` that came over a face's encrypted link; `None` for anything
    /// else. `seen` is the address of the link's other end, `None` if the face is no link.
    pub fn answer(
        &mut self,
        now: Duration,
        from: FaceId,
        seen: Option<IpAddr>,
        prefix: NameRef<'_>,
        interest: &Interest<'_>,
    ) -> Option<Vec<u8>> {
        let asked = peers::parse_question(prefix, interest.name())?;
        let hints = self.answer_question(now, from, seen?, asked);
        peers::answer(interest.name(), &hints).ok()
    }

    /// Removes what came over a link that ended.
    pub fn went_down(&mut self, face: FaceId) {
        self.entries.retain(|e| e.face != face);
    }

    fn answer_question(
        &mut self,
        now: Duration,
        face: FaceId,
        seen: IpAddr,
        asked: PeersQuestion,
    ) -> Vec<PeerHint> {
        self.entries.retain(|e| e.last_received + STALE > now && e.face != face);
        let own = asked.announced.as_ref().map(|a| a.key);
        let hints = self.choose(face, seen, own);
        if let Some(announced) = asked.announced {
            self.note(now, face, seen, announced);
        }
        hints
    }

    fn note(&mut self, now: Duration, face: FaceId, seen: IpAddr, announced: Announcement) {
        let source = source(seen);
        let of_source = self.entries.iter().filter(|e| e.source == source).count();
        if of_source >= MAX_OF_SOURCE || self.entries.len() >= MAX_ANNOUNCERS {
            return;
        }
        let mut addresses = vec![SocketAddr::new(seen, announced.port)];
        for address in announced.addresses {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let hint = PeerHint { key: announced.key, addresses };
        self.entries.push(Announcer { face, source, hint, last_received: now });
    }

    /// Chooses hints of peers other than the asker.
    fn choose(&mut self, face: FaceId, asker: IpAddr, own: Option<[u8; 32]>) -> Vec<PeerHint> {
        let near = asker.is_loopback();
        let told = |e: &Announcer| {
            let mut hint = e.hint.clone();
            hint.addresses.retain(|a| near || !a.ip().is_loopback());
            let other = e.face != face && own != Some(hint.key);
            (other && !hint.addresses.is_empty()).then_some(hint)
        };
        let all: Vec<PeerHint> = self.entries.iter().filter_map(told).collect();
        if all.len() <= MAX_PEERS {
            return all;
        }
        self.next = (self.next + MAX_PEERS) % all.len();
        all.iter().cycle().skip(self.next).take(MAX_PEERS).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(key: u8, port: u16) -> PeersQuestion {
        let announced = Announcement { key: [key; 32], port, addresses: vec![] };
        PeersQuestion { nonce: [0; 8], announced: Some(announced) }
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    const NOW: Duration = Duration::from_secs(1);

    #[test]
    fn each_announcer_receives_the_others_but_not_itself() {
        let mut table = Announcers::default();
        assert_eq!(table.answer_question(NOW, FaceId(1), ip(1), asked(1, 4001)), []);
        let first = PeerHint { key: [1; 32], addresses: vec![SocketAddr::new(ip(1), 4001)] };
        assert_eq!(
            table.answer_question(NOW, FaceId(2), ip(2), asked(2, 4002)),
            std::slice::from_ref(&first)
        );
        let quiet = PeersQuestion { nonce: [0; 8], announced: None };
        assert_eq!(table.answer_question(NOW, FaceId(3), ip(3), quiet.clone()).len(), 2);
        assert_eq!(table.answer_question(NOW, FaceId(1), ip(1), asked(1, 4001)).len(), 1);
        // The same key over another link is still the asker itself.
        assert_eq!(table.answer_question(NOW, FaceId(9), ip(9), asked(1, 4001)).len(), 1);
        table.went_down(FaceId(2));
        table.went_down(FaceId(9));
        assert_eq!(table.answer_question(NOW, FaceId(3), ip(3), quiet.clone()), [first]);
        let later = NOW + STALE;
        assert_eq!(table.answer_question(later, FaceId(3), ip(3), quiet), []);
    }

    #[test]
    fn a_flood_takes_few_places_and_answers_take_turns() {
        let mut table = Announcers::default();
        for i in 0..50 {
            table.answer_question(NOW, FaceId(i), ip(1), asked(i as u8, 5000));
        }
        assert_eq!(table.entries.len(), MAX_OF_SOURCE);
        for i in 0..1_000 {
            let [a, b] = (i as u16).to_be_bytes();
            let from = IpAddr::from([10, 0, a, b]);
            table.answer_question(NOW, FaceId(100 + i), from, asked(b, 5000));
        }
        assert_eq!(table.entries.len(), MAX_ANNOUNCERS);
        let quiet = PeersQuestion { nonce: [0; 8], announced: None };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..64 {
            let hints = table.answer_question(NOW, FaceId(5_000), ip(7), quiet.clone());
            assert_eq!(hints.len(), MAX_PEERS);
            seen.extend(hints.into_iter().flat_map(|h| h.addresses));
        }
        // Announcers of one source share an address and a port.
        assert_eq!(seen.len(), MAX_ANNOUNCERS - MAX_OF_SOURCE + 1);
    }

    #[test]
    fn loopback_addresses_go_to_loopback_only() {
        let mut table = Announcers::default();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        table.answer_question(NOW, FaceId(1), loopback, asked(1, 4001));
        let quiet = PeersQuestion { nonce: [0; 8], announced: None };
        assert_eq!(table.answer_question(NOW, FaceId(2), ip(2), quiet.clone()), []);
        assert_eq!(table.answer_question(NOW, FaceId(2), loopback, quiet).len(), 1);
    }
}
