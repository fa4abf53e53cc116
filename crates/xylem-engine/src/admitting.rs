//! Admission of faces that other ends make: carries out the verdicts of [`xylem_peers::admission`].

use std::io;
use std::net::IpAddr;

use xylem_forward::FaceId;
use xylem_peers::admission::{AdmissionVerdict, Capacity, FaceKind, FaceStanding};

use super::{Engine, EngineEvent};
use crate::faces::{EngineFace, FaceLimits, FaceTrouble, Transport, admission};

impl Engine {
    /// Replaces the default limits; call it before anything arrives.
    pub fn set_limits(&mut self, limits: FaceLimits) {
        self.net.limits = limits;
        self.net.admission = admission(limits.faces);
        self.net.allowance.set_budget(limits.unproven_bytes);
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
        if let Some(seat) = self.net.faces.get_mut(id).and_then(|face| face.seat.take()) {
            self.net.admission.leave(seat);
        }
    }

    /// Reports that all places of a kind are taken.
    pub(super) fn report_no_room(&mut self, kind: FaceKind) {
        let Capacity { faces, connections, .. } = self.net.admission.capacity();
        self.trouble(FaceTrouble::Crowded(kind), || match kind {
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
                self.trouble(FaceTrouble::Accepting, || {
                    format!("cannot accept connections: {e}; is the limit of open files (ulimit -n) too low?")
                });
                false
            }
        }
    }

    fn trouble(&mut self, trouble: FaceTrouble, what: impl FnOnce() -> String) {
        if !self.net.reported_troubles.contains(&trouble) {
            self.net.reported_troubles.push(trouble);
            let what = what();
            tracing::warn!(what);
            self.net.pending.push_back(EngineEvent::Trouble { what });
        }
    }

    /// Challenges unproven UDP peers that get, or need, more than three bytes for one.
    pub(super) fn ask_unproven(&mut self) {
        let now = self.now();
        let mut mute = None;
        let net = &mut self.net;
        for id in net.asking.drain(..) {
            let Some(EngineFace {
                transport: Transport::Udp { socket, remote, unproven: Some(unproven) },
                ..
            }) = net.faces.get_mut(id)
            else {
                continue;
            };
            if let Some(question) = unproven.probe_due(now, || xylem_base::random().ok()) {
                net.udp_sockets[*socket].queue(*remote, &question);
                mute = unproven.is_mute().then_some(*remote).or(mute);
            }
        }
        if let Some(remote) = mute {
            self.trouble(FaceTrouble::Unproven, || {
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
            net.udp_sockets[*socket].queue(*remote, &frame);
        }
        if let Some(seat) = *seat {
            net.admission.raise(seat, FaceStanding::Proven);
        }
    }
}
