//! Admission of faces that other ends make: carries out the verdicts of [`xylem_peers::admission`].

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_peers::admission::{
    AdmissionVerdict, Capacity, FaceKind, FaceStanding, UnprovenAllowance,
};

use super::Engine;
use crate::faces::{EngineFace, FaceLimits, FaceTrouble, Transport, admission};

/// UDP peers at addresses that are not proven: what they may be sent, and which of them are to prove theirs.
pub(super) struct UnprovenPeers {
    /// What they are sent beyond three bytes for one.
    allowance: UnprovenAllowance,
    /// Those that are to be challenged; maybe also faces that have ended.
    asking: Vec<FaceId>,
}

impl UnprovenPeers {
    /// `budget`: bytes beyond three for one for each address. `secret`: random.
    pub(super) fn new(budget: u32, secret: [u8; 32]) -> Self {
        Self { allowance: UnprovenAllowance::new(budget, secret), asking: Vec::new() }
    }

    /// Returns whether an address may be sent `bytes` beyond three for one, and counts them.
    #[inline]
    pub(super) fn draw(&mut self, now: Duration, ip: IpAddr, bytes: usize) -> bool {
        self.allowance.draw(now, ip, bytes)
    }

    /// Has a peer challenged with the next flush.
    #[inline]
    pub(super) fn challenge(&mut self, face: FaceId) {
        if self.asking.last() != Some(&face) {
            self.asking.push(face);
        }
    }
}

impl Engine {
    /// Replaces the default limits; call it before anything arrives.
    pub fn set_limits(&mut self, limits: FaceLimits) {
        self.net.limits = limits;
        self.net.admission = admission(limits.faces);
        self.net.unproven.allowance.set_budget(limits.unproven_bytes);
    }

    /// Returns whether a peer may have a face. If it takes another face's place, that face ends.
    pub(super) fn admits(&mut self, kind: FaceKind, from: IpAddr) -> bool {
        let net = &self.net;
        let (faces, carriers) = (net.faces.len(), net.carriers.count());
        let verdict = net.admission.judge(self.now(), kind, from, faces, carriers);
        if verdict != AdmissionVerdict::Room {
            self.report_no_room(kind);
        }
        if let AdmissionVerdict::Instead(face) = verdict {
            self.drop_face(face, "a new face takes its place");
        }
        verdict != AdmissionVerdict::Full
    }

    /// Records that an admitted peer has a face.
    pub(super) fn seat(&mut self, id: FaceId, kind: FaceKind, from: IpAddr) {
        let now = self.now();
        let seat = self.net.admission.seat(now, kind, from, id);
        if let Some(face) = self.net.faces.get_mut(id) {
            face.seat = Some(seat);
        }
    }

    /// Counts the address of a UDP peer as proven: an operator has named the face or its address.
    pub fn vouch_for_face(&mut self, id: FaceId) {
        self.proven(id);
    }

    /// Exempts a face that another end has made from the limits, and counts its peer as proven.
    pub fn keep_face(&mut self, id: FaceId) {
        self.proven(id);
        self.keep_ethernet_face(id);
        if let Some(seat) = self.net.faces.get_mut(id).and_then(|face| face.seat.take()) {
            self.net.admission.leave(seat);
        }
    }

    /// Reports that all places of a kind are taken.
    pub(super) fn report_no_room(&mut self, kind: FaceKind) {
        let Capacity { faces, connections, .. } = self.net.admission.capacity();
        self.net.pending.push_trouble(FaceTrouble::Crowded(kind), || match kind {
            FaceKind::Datagrams => format!(
                "the limit of faces for UDP peers is reached ({faces} faces in all): new ones replace unused ones; \
                 a node's setting is max_faces"
            ),
            FaceKind::Connection => format!(
                "the limit of connections is reached ({connections}, a quarter of them for one host): new ones \
                 replace idle ones; raise the limit of open files (ulimit -n), or a node's max_faces"
            ),
            FaceKind::Local => "the limit of connections of this machine's programs is reached: new ones replace \
                 idle ones; raise the limit of open files (ulimit -n)"
                .into(),
        });
    }

    /// Handles an error of a listening socket; returns whether further connections may wait behind it.
    pub(super) fn can_accept_more(&mut self, e: &io::Error) -> bool {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        match e.kind() {
            ConnectionAborted | Interrupted => true,
            WouldBlock => false,
            _ => {
                self.net.pending.push_trouble(FaceTrouble::Accepting, || {
                    format!("cannot accept connections: {e}; is the limit of open files (ulimit -n) too low?")
                });
                false
            }
        }
    }

    /// Challenges unproven UDP peers that get, or need, more than three bytes for one.
    pub(super) fn ask_unproven(&mut self) {
        let now = self.now();
        let mut mute = None;
        let net = &mut self.net;
        for id in net.unproven.asking.drain(..) {
            let Some(EngineFace {
                transport: Transport::Udp { socket, remote, unproven: Some(unproven) },
                ..
            }) = net.faces.get_mut(id)
            else {
                continue;
            };
            if let Some(question) = unproven.probe_due(now, || xylem_base::random().ok()) {
                net.plain_sockets.queue(*socket, *remote, &question);
                mute = unproven.is_mute().then_some(*remote).or(mute);
            }
        }
        if let Some(remote) = mute {
            self.net.pending.push_trouble(FaceTrouble::Unproven, || {
                format!(
                    "udp://{remote} has not proven its address, and no budget for such addresses is left, so it \
                     receives three bytes for each byte it sends: let it connect over TCP, or see udp_prove, \
                     udp_unproven_bytes and --answer-unproven"
                )
            });
        }
    }

    /// Records that the address of a UDP peer is proven, and sends it the waiting frames.
    pub(super) fn proven(&mut self, id: FaceId) {
        let net = &mut self.net;
        let Some(EngineFace {
            transport: Transport::Udp { socket, remote, unproven }, seat, ..
        }) = net.faces.get_mut(id)
        else {
            return;
        };
        let Some(proven) = unproven.take() else { return };
        tracing::debug!(face = %id, %remote, "the address is proven");
        for frame in proven.answered() {
            net.plain_sockets.queue(*socket, *remote, &frame);
        }
        if let Some(seat) = *seat {
            net.admission.raise(seat, FaceStanding::Proven);
        }
    }
}
