//! Links within TCP connections: connects the carriers' connections with the link's endpoint.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use xylem_carriers::tls::TlsIdentity;
use xylem_forward::FaceId;
use xylem_link::{LinkId, PeerKey, Transmit};
use xylem_mgmt::{Carrier, FaceUri, Persistency};
use xylem_peers::admission::FaceKind;
use xylem_peers::reachable::{FaceAddress, endpoint};

use super::listening::FaceListener;
use super::{Engine, FaceEnd, Network, PollSource};
use crate::faces::{EngineFace, Transport};
use xylem_sockets::{CarrierAccept, CarrierDial, CarrierId};

impl Engine {
    /// Sets the certificate for carriers over TLS; call it before the first of them listens.
    pub fn set_certificate(&mut self, identity: TlsIdentity) {
        self.net.carriers.set_identity(identity);
    }

    /// Listens for links in carriers of this kind.
    ///
    /// # Errors
    /// Those of the system, and a certificate that can't be used.
    pub fn bind_carrier(
        &mut self,
        carrier: Carrier,
        address: SocketAddr,
    ) -> io::Result<SocketAddr> {
        self.net.carriers.prepare(carrier)?;
        self.bind_stream(address, |listener| FaceListener::Carrier(carrier, listener))
    }

    /// Takes an accepted connection. One beyond the limits is closed at once.
    pub(super) fn accept_carrier(&mut self, carrier: Carrier, socket: TcpStream, far: SocketAddr) {
        let now = self.now();
        let ip = far.ip();
        let room = self.net.admission.room_for_carriers();
        let Ok(oldest) = self.net.carriers.make_room(ip, room) else { return };
        if let Some(oldest) = oldest {
            self.end_carrier(oldest, "too many connections without a link");
        }
        if self.net.carriers.count() >= room {
            return self.report_no_room(FaceKind::Connection);
        }
        let id = self.net.carriers.next_id();
        let Network { carriers, polling, .. } = &mut self.net;
        let accepted = CarrierAccept { carrier, socket, far };
        // A connection that the system does not let us use is closed.
        let _ = polling.register(PollSource::Carrier(id), |token, poll| {
            carriers.accept(now, id, token, accepted, poll)
        });
    }

    /// Dials a connection and, over it, a link.
    pub(super) fn connect_carrier(
        &mut self,
        to: CarrierDial<'_>,
        key: Option<PeerKey>,
    ) -> io::Result<Transport> {
        let now = self.now();
        let id = self.net.carriers.next_id();
        let Network { carriers, polling, .. } = &mut self.net;
        polling.register(PollSource::Carrier(id), |token, poll| {
            carriers.dial(now, id, token, to, poll)
        })?;
        let address = self.net.carriers.address(id);
        let link = self.net.connect_link(now, address, key);
        self.net.carriers.attach(id, link);
        Ok(Transport::Link(link))
    }

    /// Handles a ready connection: it came up, data arrived, or there is room to write.
    pub(super) fn receive_carrier(&mut self, id: CarrierId, source: PollSource) {
        let now = self.now();
        let outcome = if self.net.relaying.is_some() {
            self.relay_carried(now, id)
        } else {
            let Network { carriers, endpoint, reaching, .. } = &mut self.net;
            let from = carriers.address(id);
            carriers.receive(now, id, &mut |datagram| {
                if let Some((from, datagram)) = reaching.take_in(now, from, datagram) {
                    endpoint.handle_datagram(now, from, datagram);
                }
            })
        };
        self.drain_endpoint(now);
        self.drain_relays(now);
        match outcome {
            Ok(true) => self.net.polling.unfinished(source),
            Ok(false) => {}
            Err(e) => self.end_carrier(id, e),
        }
    }

    /// Writes waiting bytes of carriers to the kernel.
    pub(super) fn flush_carriers(&mut self, now: Duration) {
        for (id, why) in self.net.carriers.flush(now) {
            self.end_carrier(id, why);
        }
    }

    /// Ends connections that have no link in time, and those of ended links.
    pub(super) fn keep_carriers(&mut self, now: Duration) {
        for id in self.net.carriers.overdue(now) {
            self.end_carrier(id, "idle");
        }
    }

    /// Ends a connection, and the link that runs over it.
    fn end_carrier(&mut self, id: CarrierId, why: impl Into<FaceEnd>) {
        let Some((token, link)) = self.net.carriers.remove(id) else { return };
        let why = why.into();
        tracing::debug!(carrier = ?id, %why, "carrier connection has ended");
        self.net.polling.forget(token);
        let Some(link) = link else { return };
        // A link that has moved to a better way meanwhile goes on there.
        let here = self.net.carriers.address(id);
        if self.net.endpoint.link(link).is_some_and(|up| up.remote() != here) {
            return;
        }
        match self.net.faces.of_link(link) {
            Some(face) => self.fail_face(face, why),
            // The link to a relay, for example.
            None => self.net.endpoint.close(link),
        }
    }

    /// Makes the face of a link that a peer has dialled. `None`, and the link ends, if its carrier is gone or has a
    /// link already.
    pub(super) fn face_of_new_link(&mut self, link: LinkId, remote: SocketAddr) -> Option<FaceId> {
        if let Some(relay) = self.net.reaching.relay_at(remote) {
            let address = FaceAddress::Relayed(relay);
            let transport = Transport::Link(link);
            let mut face = EngineFace::new(transport, address, FaceUri::Null, FaceUri::Null);
            face.persistency = Persistency::OnDemand;
            return Some(self.add_face(face));
        }
        let (far, here) = if self.net.carriers.is_synthetic(remote) {
            let carriers = &mut self.net.carriers;
            let id = carriers.of_address(remote).filter(|id| carriers.attach(*id, link));
            let Some((carrier, far, near)) = id.and_then(|id| carriers.ends(id)) else {
                self.net.endpoint.close(link);
                return None;
            };
            let uri = |address| FaceUri::Carried(carrier, endpoint(address));
            (uri(far), uri(near))
        } else {
            (FaceUri::Xylem(endpoint(remote)), self.net.link_sockets.uri_for(remote))
        };
        let address = match &far {
            FaceUri::Carried(..) => FaceAddress::Uri(far.clone()),
            _ => FaceAddress::Link(remote),
        };
        let mut face = EngineFace::new(Transport::Link(link), address, far, here);
        face.persistency = Persistency::OnDemand;
        Some(self.add_face(face))
    }
}

impl Network {
    /// Gives the datagrams that the endpoint has written to the carrier of a synthetic address. If that carrier is gone
    /// they are lost, and the link ends.
    pub(super) fn carry(&mut self, now: Duration, transmit: &Transmit) {
        let Self { carriers, datagram, .. } = self;
        if let Some(id) = carriers.of_address(transmit.to) {
            let size = transmit.segment_size.unwrap_or(transmit.len);
            carriers.queue(now, id, &datagram[..transmit.len], size);
        }
    }
}

#[cfg(test)]
mod tests;
