//! [`ProcessNote`]: what a running process publishes about itself, and how events change it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xylem_files::LibraryEvent;
use xylem_link::{LinkStats, Traffic};
use xylem_node::{Event, FaceAddress, GetterReport, GetterState};
use xylem_sink::pieces::{PeerPicture, ProgressSnapshot};

/// Peers, and also shares, that a note lists at most.
const MAX_ROWS: usize = 256;
/// Getters with counted bytes.
const MAX_GETTERS: usize = 4_096;

/// See the module's documentation. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProcessNote {
    pub(crate) pid: u32,
    /// The verb: `get`, `share`, …
    pub(crate) verb: String,
    pub(crate) since_ms: u64,
    /// The time of the last change.
    pub(crate) at_ms: u64,
    /// One of: looking, hashing, fetching, serving, seeding.
    pub(crate) phase: String,
    /// The name of what is fetched, as its publisher gave it.
    pub(crate) name: String,
    pub(crate) root: String,
    pub(crate) directory: bool,
    pub(crate) files: u64,
    /// Bytes verified, or read while hashing.
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// A digit for each of up to 512 equal parts: 0 means that none of the part is here, 9 that all of it is.
    pub(crate) pieces: String,
    pub(crate) peers: Vec<PeerNote>,
    pub(crate) shares: Vec<ShareNote>,
    /// The last failure.
    pub(crate) trouble: Option<String>,
    /// Bytes sent to each getter of a share so far, by its number.
    #[serde(skip)]
    pub(crate) getters: BTreeMap<u64, u64>,
}

/// One peer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PeerNote {
    /// Its address, as a face URI or HOST:PORT.
    pub(crate) peer: String,
    pub(crate) relayed: bool,
    /// How a getter of a share is reached: direct, lan, carried, relayed, web or forwarder. Empty for other peers.
    #[serde(default)]
    pub(crate) way: String,
    /// Bytes of packets that a share sent to it, of all that is shared.
    #[serde(default)]
    pub(crate) sent: u64,
    /// active, stalled or dropped.
    pub(crate) standing: String,
    /// Verified bytes that came from it.
    pub(crate) bytes: u64,
    pub(crate) rtt_ms: Option<f64>,
    /// Interests sent to it; those lost and those refused follow.
    pub(crate) interests: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    /// Pieces from it that did not verify.
    pub(crate) wrong: u64,
    /// The link, if it is reached over an encrypted one.
    pub(crate) link: Option<LinkNote>,
}

/// The encrypted link to a peer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LinkNote {
    /// The level of shaping.
    pub(crate) shaping: String,
    pub(crate) datagram: usize,
    pub(crate) post_quantum: bool,
    /// Bytes of padding and cover that were sent.
    pub(crate) padding: u64,
    pub(crate) cover: u64,
    pub(crate) sent: TrafficNote,
    pub(crate) received: TrafficNote,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrafficNote {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    /// Datagrams by size; their number by the time since the one before follows: [`Traffic`].
    pub(crate) sizes: Vec<u64>,
    pub(crate) gaps: Vec<u64>,
}

/// A share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShareNote {
    /// Versioned NDN name.
    pub(crate) name: String,
    pub(crate) root: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Complete fetches, as the getters report them.
    pub(crate) fetched: u64,
    /// Bytes of packets sent.
    pub(crate) sent: u64,
}

impl ProcessNote {
    /// Updates the note by an event; false if the event changes nothing.
    pub(crate) fn see(&mut self, event: &Event) -> bool {
        match event {
            Event::Library(LibraryEvent::Hashing { done, total }) => {
                self.begin("hashing");
                (self.done, self.total) = (*done, *total);
            }
            Event::Library(LibraryEvent::Warning { what }) => self.trouble = Some(what.clone()),
            Event::Unanswered { .. } => self.begin("looking"),
            Event::Found { name, directory, root, bytes, files } => {
                self.begin("fetching");
                (self.name, self.root) = (name.clone(), root.to_string());
                (self.directory, self.files) = (*directory, *files);
                (self.done, self.total, self.pieces) = (0, *bytes, String::new());
            }
            Event::Progress { verified, total, picture, .. } => {
                self.begin("fetching");
                (self.done, self.total) = (*verified, *total);
                if let Some(ProgressSnapshot { pieces, peers }) = picture.as_deref() {
                    self.pieces.clone_from(pieces);
                    self.peers = peers.iter().take(MAX_ROWS).map(PeerNote::of).collect();
                }
            }
            Event::Seeding(_) => {
                self.begin("seeding");
                (self.done, self.pieces) = (self.total, "9".repeat(self.pieces.len()));
            }
            Event::Shared { name, root, bytes, files, .. } => {
                self.begin("serving");
                let (name, root) = (name.to_string(), root.to_string());
                // A growing file is announced again with each checkpoint.
                self.shares.retain(|share| share.name != name);
                if self.shares.len() < MAX_ROWS {
                    let (bytes, files) = (*bytes, *files);
                    self.shares.push(ShareNote {
                        name,
                        root,
                        bytes,
                        files,
                        ..ShareNote::default()
                    });
                }
            }
            Event::Fetched(told) => {
                let name = told.name.to_string();
                let shares = self.shares.iter_mut().filter(|share| share.name == name);
                shares.for_each(|share| share.fetched = share.fetched.saturating_add(1));
            }
            Event::Getter(told) => self.see_getter(told),
            Event::PeerConnected { peer } => {
                let _ = self.peer(peer);
            }
            Event::Moved { peer, to } => {
                let (peer, relayed, to) = (peer.to_string(), is_relayed(to), to.to_string());
                self.peers.iter_mut().filter(|row| row.peer == peer).for_each(|row| {
                    row.peer.clone_from(&to);
                    row.relayed = relayed;
                });
            }
            Event::Shaped { peer, level, .. } => {
                if let Some(row) = self.peer(peer) {
                    row.link.get_or_insert_default().shaping = level.to_string();
                }
            }
            Event::Serving { links } => {
                for (peer, stats) in links {
                    if let Some(row) = self.peer(peer) {
                        row.rtt_ms = stats.rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
                        row.link = Some(LinkNote::of(stats));
                    }
                }
            }
            Event::PeerGone { peer, .. } => {
                let peer = peer.to_string();
                self.peers.retain(|row| row.peer != peer);
            }
            Event::PeerMisbehaved { peer, what } => {
                self.trouble =
                    Some(format!("data of peer {} did not verify: {what}", peer.for_people()));
            }
            _ => return false,
        }
        true
    }

    /// Adds what was sent since the last report of the same getter.
    fn see_getter(&mut self, told: &GetterReport) {
        let known = match told.state {
            GetterState::Ended => self.getters.remove(&told.number),
            _ if self.getters.len() >= MAX_GETTERS && !self.getters.contains_key(&told.number) => {
                return;
            }
            _ => self.getters.insert(told.number, told.sent),
        };
        let more = told.sent.saturating_sub(known.unwrap_or_default());
        let name = told.name.to_string();
        for share in self.shares.iter_mut().filter(|share| share.name == name) {
            share.sent = share.sent.saturating_add(more);
        }
        if let Some(row) = self.peer(&told.peer) {
            row.way = told.way.to_string();
            row.sent = row.sent.saturating_add(more);
        }
    }

    fn begin(&mut self, phase: &str) {
        if self.phase != phase {
            phase.clone_into(&mut self.phase);
        }
    }

    /// The row of a peer; `None` if there are too many.
    fn peer(&mut self, at: &FaceAddress) -> Option<&mut PeerNote> {
        let peer = at.to_string();
        let known = self.peers.iter().position(|row| row.peer == peer);
        if known.is_none() && self.peers.len() < MAX_ROWS {
            let (relayed, standing) = (is_relayed(at), "active".to_owned());
            self.peers.push(PeerNote {
                peer: peer.clone(),
                relayed,
                standing,
                ..PeerNote::default()
            });
        }
        let at = known.or(self.peers.len().checked_sub(1))?;
        self.peers.get_mut(at).filter(|row| row.peer == peer)
    }
}

fn is_relayed(peer: &FaceAddress) -> bool {
    matches!(peer, FaceAddress::Relayed(_))
}

impl PeerNote {
    fn of(PeerPicture { peer, stats, link }: &PeerPicture) -> Self {
        let link_rtt = link.as_ref().and_then(|link| link.rtt);
        Self {
            relayed: is_relayed(peer),
            peer: peer.to_string(),
            standing: format!("{:?}", stats.standing).to_lowercase(),
            bytes: stats.bytes,
            rtt_ms: stats.round_trip.or(link_rtt).map(|rtt| rtt.as_secs_f64() * 1e3),
            interests: stats.interests,
            lost: stats.lost,
            refused: stats.refused,
            wrong: stats.misbehaviour.into(),
            link: link.as_ref().map(LinkNote::of),
            way: String::new(),
            sent: 0,
        }
    }
}

impl LinkNote {
    fn of(stats: &LinkStats) -> Self {
        let traffic = |traffic: &Traffic, datagrams, bytes| TrafficNote {
            datagrams,
            bytes,
            sizes: traffic.sizes.to_vec(),
            gaps: traffic.gaps.to_vec(),
        };
        Self {
            shaping: stats.shaping.to_string(),
            datagram: stats.datagram_size,
            post_quantum: stats.post_quantum,
            padding: stats.padding_sent,
            cover: stats.cover_sent,
            sent: traffic(&stats.sent, stats.datagrams_sent, stats.bytes_sent),
            received: traffic(&stats.received, stats.datagrams_received, stats.bytes_received),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;
    use xylem_peers::reachable::{FaceAddress, WayTaken};

    #[test]
    fn events_become_a_note() {
        let mut note = ProcessNote::default();
        let peer = || FaceAddress::Link(SocketAddr::from(([192, 0, 2, 7], 7348)));
        let root = xylem_hash::hash(b"");
        let found =
            Event::Found { name: "film".into(), directory: false, root, bytes: 9, files: 1 };
        assert!(note.see(&found));
        assert!(note.see(&Event::PeerConnected { peer: peer() }));
        assert!(note.see(&Event::PeerConnected { peer: peer() }));
        assert_eq!((note.phase.as_str(), note.total, note.peers.len()), ("fetching", 9, 1));
        let pieces = "90".to_owned();
        let picture = Some(Box::new(ProgressSnapshot { pieces, peers: Vec::new() }));
        let progress = Event::Progress { verified: 4, total: 9, peers: 1, relayed: 0, picture };
        assert!(note.see(&progress));
        assert_eq!((note.done, note.pieces.as_str(), note.peers.len()), (4, "90", 0));
        assert!(!note.see(&Event::Listening { uri: peer() }));
        for port in 0..2000 {
            let peer = FaceAddress::Link(SocketAddr::from(([192, 0, 2, 7], port)));
            note.see(&Event::PeerConnected { peer });
        }
        assert_eq!(note.peers.len(), MAX_ROWS);
        assert!(note.see(&Event::PeerGone {
            peer: FaceAddress::Link(SocketAddr::from(([192, 0, 2, 7], 5))),
            why: String::new()
        }));
        assert_eq!(note.peers.len(), MAX_ROWS - 1);
    }

    #[test]
    fn bytes_sent_to_getters_count_before_their_fetch_is_complete() {
        let name = xylem_packet::Name::from_uri("/alice/film/v=7").unwrap();
        let share = ShareNote { name: name.to_string(), ..ShareNote::default() };
        let mut note = ProcessNote { shares: vec![share], ..ProcessNote::default() };
        let browser = FaceAddress::Uri("wsclient://192.0.2.8:80".parse().unwrap());
        for (number, state, sent) in [
            (1, GetterState::Began, 10),
            (2, GetterState::Began, 7),
            (1, GetterState::Continues, 100),
            (1, GetterState::Ended, 110),
        ] {
            let (peer, way) = (browser.clone(), WayTaken::Web);
            let (bytes, complete, elapsed) = (9, false, Duration::ZERO);
            let name = name.clone();
            assert!(note.see(&Event::Getter(GetterReport {
                number,
                state,
                peer,
                way,
                name,
                bytes,
                sent,
                complete,
                elapsed,
            })));
        }
        assert_eq!((note.shares[0].sent, note.peers[0].sent), (117, 117));
        assert_eq!((note.peers[0].way.as_str(), note.getters.len()), ("web", 1));
    }
}
