//! [`Admission`]: which unsolicited newcomers get a face, which face gives way to them, and how much is sent to an
//! address that has not answered yet.
//!
//! Inputs are the newcomer's address and the times of packets; the output is the face that ends. No socket, no clock.
//! The sender address of a datagram may be forged; that of a connection has answered; a local program is trusted more
//! than both. Each of the three kinds has places of its own, so that none takes those of another: `docs/spec/faces.md`.

mod allowance;
mod places;
mod unproven;

pub use allowance::{UNPROVEN_BYTES, UnprovenAllowance};
pub use places::FaceStanding;
pub use unproven::{Prove, UnprovenAddress};

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use xylem_packet::{Interest, LpPacket};

use places::{FacePlaces, SeatIndex};

/// Faces of local programs beyond the limit for others: a flood from outside must not lock out this machine's own
/// programs.
const LOCAL_RESERVE: usize = 256;
/// File descriptors open in any case: the poll, listening sockets, the log, the store's.
const OWN_FILES: usize = 24;
/// Publications hold open one in this many of the process's file descriptors.
const PUBLISHED_PART: usize = 8;
/// Longest lifetime of an Interest. A peer that has asked for something keeps its face for this long.
const ASKED: Duration = Duration::from_secs(60);
/// A connection that never sent anything readable ends after this.
const SILENT: Duration = Duration::from_secs(15);

/// How a face is reached, as far as admission is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceKind {
    /// Datagrams from an address that may be forged. Takes no file descriptor.
    Datagrams,
    /// A connection from another machine.
    Connection,
    /// A connection of a program on this machine.
    Local,
}

/// Limits for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Faces to other machines, dialled ones included.
    pub faces: usize,
    /// Connections from other machines.
    pub connections: usize,
    /// Connections of all kinds; local programs get what the others leave.
    pub all_connections: usize,
    /// Files of publications held open.
    pub files: usize,
}

impl Capacity {
    /// Divides `faces` faces and the `descriptors` file descriptors of the process among the kinds.
    #[must_use]
    pub fn new(faces: usize, descriptors: usize) -> Self {
        let files = (descriptors / PUBLISHED_PART).max(2);
        let rest = descriptors.saturating_sub(OWN_FILES).saturating_sub(files).max(2);
        let local = (rest / 4).clamp(1, LOCAL_RESERVE);
        let connections = faces.min(rest.saturating_sub(local));
        let all_connections = rest.min(faces.saturating_add(LOCAL_RESERVE));
        Self { faces, connections, all_connections, files }
    }
}

/// Decision about a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionVerdict<K> {
    /// There is room.
    Room,
    /// There is room once this face has ended.
    Instead(K),
    /// No face gives way.
    Full,
}

/// A face's place among the faces that others opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSlot {
    kind: FaceKind,
    place: SeatIndex,
}

/// The places of all three kinds; see the module's documentation. `K` identifies a face.
#[derive(Debug)]
pub struct Admission<K> {
    capacity: Capacity,
    datagrams: FacePlaces<K>,
    connections: FacePlaces<K>,
    local: FacePlaces<K>,
}

impl<K: Copy> Admission<K> {
    /// Starts empty.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        // Datagrams and connections get three quarters each, so that neither takes all faces from the other.
        let most = part(capacity.faces, 4).saturating_mul(3).max(1);
        Self {
            capacity,
            datagrams: FacePlaces::new(most),
            connections: FacePlaces::new(most.min(capacity.connections)),
            local: FacePlaces::of_one_host(capacity.all_connections),
        }
    }

    /// Returns the limits.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn places(&mut self, kind: FaceKind) -> &mut FacePlaces<K> {
        match kind {
            FaceKind::Datagrams => &mut self.datagrams,
            FaceKind::Connection => &mut self.connections,
            FaceKind::Local => &mut self.local,
        }
    }

    /// Decides whether one more face may be opened from `from`. `faces` counts all faces, dialled ones included;
    /// `carriers` counts connections that are not faces of their own.
    pub fn judge(
        &self,
        now: Duration,
        kind: FaceKind,
        from: IpAddr,
        faces: usize,
        carriers: usize,
    ) -> AdmissionVerdict<K> {
        let connections = self.connections.len().saturating_add(self.local.len());
        let connections = connections.saturating_add(carriers);
        let crowded = kind != FaceKind::Datagrams && connections >= self.capacity.all_connections;
        match kind {
            FaceKind::Local => {
                let most = self.capacity.faces.saturating_add(LOCAL_RESERVE);
                self.local.judge(now, from, crowded || faces >= most)
            }
            FaceKind::Connection if crowded => self.connections.judge(now, from, true),
            _ => {
                let own =
                    if kind == FaceKind::Datagrams { &self.datagrams } else { &self.connections };
                match own.judge(now, from, false) {
                    // All faces are in use: the kind with more of them gives one up.
                    AdmissionVerdict::Room if faces >= self.capacity.faces => {
                        let more = self.datagrams.len() >= self.connections.len();
                        let larger = if more { &self.datagrams } else { &self.connections };
                        larger
                            .any_face(now)
                            .map_or(AdmissionVerdict::Full, AdmissionVerdict::Instead)
                    }
                    verdict => verdict,
                }
            }
        }
    }

    /// Records the face of an admitted newcomer.
    pub fn seat(&mut self, now: Duration, kind: FaceKind, from: IpAddr, key: K) -> AdmissionSlot {
        let standing =
            if kind == FaceKind::Datagrams { FaceStanding::Heard } else { FaceStanding::Silent };
        AdmissionSlot { kind, place: self.places(kind).take(now, from, key, standing) }
    }

    /// Records that a packet arrived over the face.
    #[inline]
    pub fn received(&mut self, seat: AdmissionSlot, now: Duration) {
        self.places(seat.kind).received(seat.place, now);
    }

    /// Raises a face's standing. The address of a connection has answered already, so a useful connection counts as
    /// proven.
    #[inline]
    pub fn raise(&mut self, seat: AdmissionSlot, standing: FaceStanding) {
        let standing = match (seat.kind, standing) {
            (FaceKind::Connection | FaceKind::Local, FaceStanding::Useful) => FaceStanding::Proven,
            // A local program counts as useful after one packet: that distinguishes it from an idle connection.
            (FaceKind::Local, FaceStanding::Heard) => FaceStanding::Useful,
            _ => standing,
        };
        self.places(seat.kind).raise(seat.place, standing);
    }

    /// Frees the place of a face that has ended.
    pub fn leave(&mut self, seat: AdmissionSlot) {
        self.places(seat.kind).free(seat.place);
    }

    /// Returns how long the face may be silent; `None`: without limit. `idle` is the configured time for a peer that
    /// has been useful.
    #[must_use]
    pub fn patience(&self, seat: AdmissionSlot, idle: Duration) -> Option<Duration> {
        let places = match seat.kind {
            FaceKind::Datagrams => &self.datagrams,
            FaceKind::Connection => &self.connections,
            // A program may wait for days for the first Interest under its prefix.
            FaceKind::Local => return None,
        };
        match (seat.kind, places.standing(seat.place)?) {
            (FaceKind::Connection, FaceStanding::Silent) => Some(SILENT.min(idle)),
            (FaceKind::Connection, FaceStanding::Useful | FaceStanding::Proven) => None,
            (FaceKind::Connection, FaceStanding::Heard) | (_, FaceStanding::Proven) => Some(idle),
            (_, FaceStanding::Useful) if self.datagrams.is_crowded() => Some(ASKED.min(idle)),
            (_, FaceStanding::Useful) => Some(idle),
            (_, FaceStanding::Silent | FaceStanding::Heard) => Some(ASKED.min(idle)),
        }
    }

    /// Returns how many more connections of strangers carriers may hold.
    #[must_use]
    pub fn room_for_carriers(&self) -> usize {
        let taken = self.connections.len().saturating_add(self.local.len());
        self.capacity.connections.min(self.capacity.all_connections.saturating_sub(taken))
    }
}

/// Returns whether a datagram from an unknown address opens a face: it must be an Interest, or a fragment that may
/// become one. Data and Nacks are unsolicited there.
#[must_use]
pub fn opens(datagram: &[u8]) -> bool {
    let is_interest = |packet| Interest::decode(packet).is_ok();
    is_interest(datagram)
        || LpPacket::decode(datagram).is_ok_and(|lp| {
            let part = lp.is_fragmented() && lp.fragment.is_some_and(|part| !part.is_empty());
            lp.nack.is_none() && (part || lp.fragment.is_some_and(is_interest))
        })
}

/// Returns one of `parts` equal parts, at least one.
fn part(of: usize, parts: usize) -> usize {
    (of / parts.max(1)).max(1)
}

/// Returns the network that an address belongs to: 24 bits of IPv4, or 48 bits of IPv6, the usual size of a site.
fn site(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & 0xffff_ff00).into(),
        IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
    }
}

#[cfg(test)]
mod tests;
