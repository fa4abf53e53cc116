//! [`Admission`]: which of those who come by themselves get a face, who gives way to them, and what an
//! address is sent before it has shown that it hears us.
//!
//! Who came from where, and when it was heard, comes in; whose face ends goes out. No socket, no clock.
//! A datagram's sender can be anybody (addresses are forged), a connection's has answered; a local
//! program is trusted more than both. Each of the three has places of its own, so that none of them
//! takes those of another: `docs/spec/faces.md`.

mod places;
mod unproven;

pub use places::Standing;
pub use unproven::{Prove, Unproven};

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use xylem_packet::{Interest, LpPacket};

use places::{Place, Places};

/// Local programs' faces beyond the limit for others: whoever floods this machine from outside does not
/// lock its own programs out.
const LOCAL_RESERVE: usize = 256;
/// Files that are open whatever is served: the poll, sockets that listen, the log, the store's.
const OWN_FILES: usize = 24;
/// Files of publications held open, of all that may be: one in so many.
const PUBLISHED_PART: usize = 8;
/// The longest that an Interest may wait: who has asked for something keeps its face for so long.
const ASKED: Duration = Duration::from_secs(60);
/// A connection over which nothing has come that can be read ends after this.
const SILENT: Duration = Duration::from_secs(15);

/// What a face is made of, as far as places go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Datagrams from an address that may be forged. It takes no file descriptor.
    Datagrams,
    /// A connection from another machine.
    Connection,
    /// A connection of a program of this machine.
    Local,
}

/// How many there may be of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Faces to other machines, dialled ones included.
    pub faces: usize,
    /// Connections from other machines.
    pub connections: usize,
    /// Connections of all kinds; what the others leave is for local programs.
    pub all_connections: usize,
    /// Files of publications that are held open.
    pub files: usize,
}

impl Capacity {
    /// So many faces, by a process that may have so many files open.
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

/// What becomes of somebody who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<K> {
    /// There is room.
    Room,
    /// There is, once this one has gone.
    Instead(K),
    /// Nobody gives way.
    Full,
}

/// A face's place among those that others have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    kind: Kind,
    place: Place,
}

/// See the module's documentation. `K` is what a face is known by.
#[derive(Debug)]
pub struct Admission<K> {
    capacity: Capacity,
    datagrams: Places<K>,
    connections: Places<K>,
    local: Places<K>,
}

impl<K: Copy> Admission<K> {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        // Neither of the first two can take all faces from the other.
        let most = part(capacity.faces, 4).saturating_mul(3).max(1);
        Self {
            capacity,
            datagrams: Places::new(most),
            connections: Places::new(most.min(capacity.connections)),
            local: Places::of_one_host(capacity.all_connections),
        }
    }

    /// How many there may be.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn places(&mut self, kind: Kind) -> &mut Places<K> {
        match kind {
            Kind::Datagrams => &mut self.datagrams,
            Kind::Connection => &mut self.connections,
            Kind::Local => &mut self.local,
        }
    }

    /// Whether one more may come from there. `faces`: how many there are, whoever made them; `carriers`:
    /// connections that are no faces of their own.
    pub fn judge(
        &self,
        now: Duration,
        kind: Kind,
        from: IpAddr,
        (faces, carriers): (usize, usize),
    ) -> Verdict<K> {
        let connections = self.connections.len().saturating_add(self.local.len());
        let connections = connections.saturating_add(carriers);
        let crowded = kind != Kind::Datagrams && connections >= self.capacity.all_connections;
        match kind {
            Kind::Local => {
                let most = self.capacity.faces.saturating_add(LOCAL_RESERVE);
                self.local.judge(now, from, crowded || faces >= most)
            }
            Kind::Connection if crowded => self.connections.judge(now, from, true),
            _ => {
                let own = if kind == Kind::Datagrams { &self.datagrams } else { &self.connections };
                match own.judge(now, from, false) {
                    // All faces are in use: the kind that has more of them gives one.
                    Verdict::Room if faces >= self.capacity.faces => {
                        let more = self.datagrams.len() >= self.connections.len();
                        let larger = if more { &self.datagrams } else { &self.connections };
                        larger.anybody(now).map_or(Verdict::Full, Verdict::Instead)
                    }
                    verdict => verdict,
                }
            }
        }
    }

    /// A face was made for somebody who was let in.
    pub fn seat(&mut self, now: Duration, kind: Kind, from: IpAddr, key: K) -> Seat {
        let standing = if kind == Kind::Datagrams { Standing::Heard } else { Standing::Silent };
        Seat { kind, place: self.places(kind).take(now, from, key, standing) }
    }

    /// Something came from it.
    #[inline]
    pub fn heard(&mut self, seat: Seat, now: Duration) {
        self.places(seat.kind).heard(seat.place, now);
    }

    /// It has done what gives it this standing. A connection's address has answered before.
    #[inline]
    pub fn raise(&mut self, seat: Seat, standing: Standing) {
        let standing = match (seat.kind, standing) {
            (Kind::Connection | Kind::Local, Standing::Useful) => Standing::Proven,
            // A program of this machine need not have been of use to be told from an idle connection.
            (Kind::Local, Standing::Heard) => Standing::Useful,
            _ => standing,
        };
        self.places(seat.kind).raise(seat.place, standing);
    }

    /// Its face has ended.
    pub fn leave(&mut self, seat: Seat) {
        self.places(seat.kind).free(seat.place);
    }

    /// How long it may say nothing. `idle`: what the settings give to a peer that has been of use; `None`:
    /// as long as it likes.
    #[must_use]
    pub fn patience(&self, seat: Seat, idle: Duration) -> Option<Duration> {
        let places = match seat.kind {
            Kind::Datagrams => &self.datagrams,
            Kind::Connection => &self.connections,
            // A program may wait for days for the first Interest under its prefix.
            Kind::Local => return None,
        };
        match (seat.kind, places.standing(seat.place)?) {
            (Kind::Connection, Standing::Silent) => Some(SILENT.min(idle)),
            (Kind::Connection, Standing::Useful | Standing::Proven) => None,
            (Kind::Connection, Standing::Heard) | (_, Standing::Proven) => Some(idle),
            (_, Standing::Useful) if self.datagrams.is_crowded() => Some(ASKED.min(idle)),
            (_, Standing::Useful) => Some(idle),
            (_, Standing::Silent | Standing::Heard) => Some(ASKED.min(idle)),
        }
    }

    /// Connections of strangers that come to nothing more than carriers may.
    #[must_use]
    pub fn room_for_carriers(&self) -> usize {
        let taken = self.connections.len().saturating_add(self.local.len());
        self.capacity.connections.min(self.capacity.all_connections.saturating_sub(taken))
    }
}

/// Whether a datagram of somebody unknown is one that a face is made for: an Interest, or a part of a packet that
/// may become one. Data and Nacks answer what nobody has asked there.
#[must_use]
pub fn opens(datagram: &[u8]) -> bool {
    let is_interest = |packet| Interest::decode(packet).is_ok();
    is_interest(datagram)
        || LpPacket::decode(datagram).is_ok_and(|lp| {
            let part = lp.is_fragmented() && lp.fragment.is_some_and(|part| !part.is_empty());
            lp.nack.is_none() && (part || lp.fragment.is_some_and(is_interest))
        })
}

/// One of so many parts, at least one.
fn part(of: usize, parts: usize) -> usize {
    (of / parts.max(1)).max(1)
}

/// The network that has given somebody an address: 24 bits of IPv4, 48 of IPv6, which is what one site has.
fn site(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & 0xffff_ff00).into(),
        IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
    }
}

#[cfg(test)]
mod tests;
