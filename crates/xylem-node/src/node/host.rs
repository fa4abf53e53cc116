//! [`ManagedEngine`]: how management changes this program's faces.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_forward::{FaceId, FaceScope, Forwarder};
use xylem_mgmt::{
    CommandRefusal, ControlParameters, FaceInfo, FaceUri, ManagementHost, Persistency, UriHost,
    types,
};
use xylem_packet::MAX_PACKET;
use xylem_packet::link_service::MIN_MTU;
use xylem_peers::command_times;
use xylem_peers::reachable::{PeerAddress, PeerUri, PeerUriError};

use xylem_engine::Engine;
use xylem_engine::now_ms;
use xylem_engine::resolve;
use xylem_engine::{EngineFace, Transport};

/// The engine as management uses it, and the program's start.
pub(super) struct ManagedEngine<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) started_ms: u64,
    pub(super) store: &'a Path,
    /// Unix sockets to which management may connect.
    pub(super) unix_sockets: &'a [PathBuf],
}

impl ManagementHost for ManagedEngine<'_> {
    fn forwarder(&mut self) -> &mut Forwarder {
        &mut self.engine.forwarder
    }

    fn forwarder_ref(&self) -> &Forwarder {
        &self.engine.forwarder
    }

    fn create_face(
        &mut self,
        uri: &FaceUri,
        parameters: &ControlParameters,
    ) -> Result<FaceId, CommandRefusal> {
        let persistency = match parameters.persistency.and_then(Persistency::from_number) {
            None => Persistency::Persistent,
            Some(Persistency::OnDemand) => {
                return Err(unacceptable("only the other end makes faces on demand"));
            }
            Some(other) => other,
        };
        let peer = match uri {
            FaceUri::Ether(address) => ethernet_peer(*address, parameters)?,
            _ => peer_of(uri, parameters.uri.as_deref())?,
        };
        // A URI in lists has no key, so an accepted link of another key would look like the one that is wanted.
        let existing = self.engine.faces().find(|(id, face)| {
            let key = peer.link_key();
            let here = match &peer {
                PeerAddress::Ethernet { device, .. } => is_device(&face.local, device),
                _ => true,
            };
            face.remote == *uri && here && key.is_none_or(|key| self.engine.leads_to(*id, &key))
        });
        if let Some(id) = existing.map(|(id, _)| id) {
            // The command names the address, whichever end made the face.
            self.engine.vouch_for_face(id);
            return Err(CommandRefusal::exists(id));
        }
        // The node may have rights that the sender of a command lacks: to connect to this socket, and to be trusted
        // there.
        if let PeerAddress::Unix(path) = &peer
            && !self.unix_sockets.contains(path)
        {
            return Err(unacceptable("the settings allow no face to this socket: unix_sockets"));
        }
        let failed = |e: std::io::Error| CommandRefusal::new(504, format!("{uri}: {e}"));
        let id = self.engine.dial(&peer, persistency).map_err(failed)?;
        if let Err(refusal) = self.change(id, parameters) {
            self.engine.drop_face(id, "refused");
            return Err(refusal);
        }
        Ok(id)
    }

    fn update_face(
        &mut self,
        face: FaceId,
        parameters: &ControlParameters,
    ) -> Result<(), CommandRefusal> {
        self.change(face, parameters)
    }

    fn vouch_for_face(&mut self, face: FaceId) {
        self.engine.vouch_for_face(face);
    }

    fn destroy_face(&mut self, face: FaceId) -> bool {
        let may_go = |face: &EngineFace| !matches!(face.transport, Transport::Internal);
        let goes = self.engine.face(face).is_some_and(may_go);
        if goes {
            self.engine.drop_face(face, "destroyed");
        }
        goes
    }

    fn is_opening(&self, face: FaceId) -> bool {
        self.engine.face(face).is_some_and(|face| {
            let connects = matches!(face.transport, Transport::Stream(_) | Transport::WebSocket(_));
            connects && !face.came_up && face.persistency != Persistency::Permanent
        })
    }

    fn face_info(&self, face: FaceId) -> Option<FaceInfo> {
        let face = self.engine.face(face)?;
        let link_service = face.link_service.config();
        let flag = |on, flag| if on { flag } else { 0 };
        let interval =
            u64::try_from(link_service.congestion_interval.as_nanos()).unwrap_or(u64::MAX);
        let marks = link_service.congestion_marking;
        Some(FaceInfo {
            remote: face.remote.clone(),
            local: face.local.clone(),
            scope: face.scope,
            persistency: face.persistency,
            link_type: face.link_type,
            mtu: face.is_datagram().then_some(link_service.mtu as u64),
            flags: flag(link_service.local_fields, types::FLAG_LOCAL_FIELDS)
                | flag(link_service.reliability, types::FLAG_LP_RELIABILITY)
                | flag(marks, types::FLAG_CONGESTION_MARKING),
            base_congestion_marking_interval: marks.then_some(interval),
            default_congestion_threshold: marks.then_some(link_service.congestion_threshold as u64),
            expires_ms: self.engine.expires_in(face).map(|t| t.as_millis() as u64),
        })
    }

    fn channels(&self) -> Vec<FaceUri> {
        self.engine.listens_at()
    }

    fn keep_command_times(&mut self, times: &[u8]) -> Result<(), CommandRefusal> {
        command_times::keep(self.store, times).map_err(|e| CommandRefusal::new(504, e.to_string()))
    }

    fn started_ms(&self) -> u64 {
        self.started_ms
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }
}

impl ManagedEngine<'_> {
    /// Sets all parameters, or none if there is an error.
    fn change(&mut self, id: FaceId, parameters: &ControlParameters) -> Result<(), CommandRefusal> {
        let frame_limit = self.engine.frame_limit(id);
        let Some(face) = self.engine.face_mut(id) else {
            return Err(CommandRefusal::new(404, "there is no such face"));
        };
        let mut link_service = *face.link_service.config();
        if let Some(mtu) = parameters.mtu {
            if !face.is_datagram() {
                return Err(unacceptable("only a datagram face has an MTU"));
            }
            if mtu < MIN_MTU as u64 {
                return Err(unacceptable("an MTU below 64 carries no NDN"));
            }
            let limit = frame_limit.unwrap_or(MAX_PACKET).min(MAX_PACKET);
            link_service.mtu = usize::try_from(mtu).unwrap_or(MAX_PACKET).min(limit);
        }
        if let (Some(flags), Some(mask)) = (parameters.flags, parameters.mask) {
            let set = |flag, value: &mut bool| {
                if mask & flag != 0 {
                    *value = flags & flag != 0;
                }
            };
            set(types::FLAG_LOCAL_FIELDS, &mut link_service.local_fields);
            set(types::FLAG_LP_RELIABILITY, &mut link_service.reliability);
            set(types::FLAG_CONGESTION_MARKING, &mut link_service.congestion_marking);
            if link_service.local_fields && face.scope != FaceScope::Local {
                return Err(unacceptable("local fields are for faces to this machine's programs"));
            }
        }
        if let Some(interval) = parameters.base_congestion_marking_interval {
            link_service.congestion_interval = Duration::from_nanos(interval);
        }
        if let Some(threshold) = parameters.default_congestion_threshold {
            link_service.congestion_threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
        }
        if let Some(persistency) = parameters.persistency.and_then(Persistency::from_number) {
            let can_dial = face.peer.is_some()
                || matches!(face.transport, Transport::Udp { .. } | Transport::Ethernet { .. });
            if !can_dial && persistency != face.persistency {
                return Err(unacceptable("only the other end can make this face again"));
            }
            face.persistency = persistency;
        }
        face.link_service.set_config(link_service);
        if face.persistency != Persistency::OnDemand {
            self.engine.keep_face(id);
        }
        Ok(())
    }
}

fn unacceptable(text: impl ToString) -> CommandRefusal {
    CommandRefusal::new(406, text.to_string())
}

/// The peer that a face URI names, with the key and the server's name that `dialled` states for an encrypted link. Host
/// names are not resolved: that would delay all packets, and NFD expects clients to resolve them, too.
fn peer_of(uri: &FaceUri, dialled: Option<&str>) -> Result<PeerAddress, CommandRefusal> {
    let host = match uri {
        FaceUri::Udp(at)
        | FaceUri::Tcp(at)
        | FaceUri::WebSocket(at)
        | FaceUri::SecureWebSocket(at)
        | FaceUri::Xylem(at)
        | FaceUri::Carried(_, at) => Some(&at.host),
        _ => None,
    };
    if matches!(host, Some(UriHost::Name(_) | UriHost::Zoned(..))) {
        return Err(unacceptable("the host has to be an address"));
    }
    if uri.port() == Some(0) {
        return Err(unacceptable("port 0 is no port of another machine"));
    }
    let peer = match (uri, dialled) {
        (FaceUri::Xylem(_) | FaceUri::Carried(..) | FaceUri::SecureWebSocket(_), Some(dialled)) => {
            dialled.parse().map_err(|e: PeerUriError| unacceptable(e))?
        }
        _ => PeerUri::try_from(uri.clone()).map_err(unacceptable)?,
    };
    match resolve(&peer).map_err(unacceptable)?.into_iter().next() {
        Some(PeerAddress::Udp(at)) if !is_unicast(at) => Err(unacceptable("not a unicast address")),
        Some(peer) => Ok(peer),
        None => Err(unacceptable("no address")),
    }
}

/// The peer at an Ethernet address. The interface is the command's LocalUri, as with NFD, or stands in its Uri.
fn ethernet_peer(
    address: [u8; 6],
    parameters: &ControlParameters,
) -> Result<PeerAddress, CommandRefusal> {
    let stated = parameters.uri.as_deref().and_then(FaceUri::split_device);
    let device = match parameters.local_uri.as_deref().map(str::parse) {
        Some(Ok(FaceUri::Dev(device))) => Some(device),
        Some(_) => {
            return Err(unacceptable("the local end of Ethernet is an interface: dev://eth0"));
        }
        None => stated.map(|(_, device)| device.to_owned()),
    };
    let missing = "which interface? Ethernet needs a LocalUri (--local dev://eth0)";
    let device = device.ok_or_else(|| unacceptable(missing))?;
    if address[0] & 1 == 1 || address == [0; 6] {
        return Err(unacceptable("not a unicast address; groups are for the settings"));
    }
    Ok(PeerAddress::Ethernet { device, address })
}

/// Whether a face's local end is this interface.
fn is_device(local: &FaceUri, device: &str) -> bool {
    matches!(local, FaceUri::Dev(name) if name == device)
}

fn is_unicast(address: SocketAddr) -> bool {
    !address.ip().is_multicast() && !address.ip().is_unspecified()
}
