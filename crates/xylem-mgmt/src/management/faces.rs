//! faces/create, update, destroy, list, query, channels, events.

use core::time::Duration;

use xylem_forward::{FaceId, FaceScope, LinkType};

use super::{Answer, Management, ManagementCommand, malformed_command};
use crate::{
    ChannelStatus, CodecError, CommandRefusal, ControlParameters, ControlResponse, Entry,
    FaceEvent, FaceInfo, FaceQueryFilter, FaceStatus, FaceUri, ManagementHost, Persistency,
};

/// NFD's numbers of face scopes.
fn scope_number(scope: FaceScope) -> u64 {
    match scope {
        FaceScope::NonLocal => 0,
        FaceScope::Local => 1,
    }
}

/// NFD's numbers of link types.
fn link_type_number(link_type: LinkType) -> u64 {
    match link_type {
        LinkType::PointToPoint => 0,
        LinkType::MultiAccess => 1,
        LinkType::AdHoc => 2,
    }
}

/// Properties of a face for answers. MTU and congestion marking are left out: decoders that require an order of fields
/// differ there.
pub(super) fn properties(face: FaceId, host: &impl ManagementHost) -> Option<ControlParameters> {
    let info = host.face_info(face)?;
    Some(ControlParameters {
        face_id: Some(face.0),
        uri: Some(info.remote.to_string()),
        local_uri: Some(info.local.to_string()),
        flags: Some(info.flags),
        persistency: Some(info.persistency.number()),
        ..ControlParameters::default()
    })
}

fn event(kind: u64, face: FaceId, info: &FaceInfo) -> FaceEvent {
    FaceEvent {
        kind,
        face_id: face.0,
        uri: info.remote.to_string(),
        local_uri: info.local.to_string(),
        scope: scope_number(info.scope),
        persistency: info.persistency.number(),
        link_type: link_type_number(info.link_type),
        flags: info.flags,
    }
}

impl Management {
    /// Reports a new face. A second call for the same face has no effect.
    pub fn face_up(
        &mut self,
        now: Duration,
        face: FaceId,
        host: &impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        if let Some((name, _)) = self.opening.remove(&face) {
            let properties = properties(face, host).unwrap_or_default();
            self.respond(name.as_ref(), ControlResponse::new(200, "OK", properties), out);
        }
        let Some(info) = host.face_info(face).filter(|_| !self.announced.contains_key(&face))
        else {
            return;
        };
        let event = event(FaceEvent::CREATED, face, &info);
        out.extend(self.events.publish(now, &event, &self.signer));
        self.announced.insert(face, event);
    }

    /// Reports that the connection of a requested face failed. [`Self::face_gone`] follows if the face is removed.
    pub fn face_failed(&mut self, face: FaceId, why: &str, out: &mut Vec<Vec<u8>>) {
        if let Some((name, _)) = self.opening.remove(&face) {
            let nothing = ControlParameters::default();
            self.respond(name.as_ref(), ControlResponse::new(504, why, nothing), out);
        }
    }

    /// Reports that a face is gone; its routes are removed.
    pub fn face_gone(
        &mut self,
        now: Duration,
        face: FaceId,
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        self.rib.face_gone(face, host.forwarder());
        if let Some(mut event) = self.announced.remove(&face) {
            event.kind = FaceEvent::DESTROYED;
            out.extend(self.events.publish(now, &event, &self.signer));
        }
        self.tell_daemon(now, host, out);
    }

    pub(super) fn create_face<H: ManagementHost>(
        &mut self,
        command: ManagementCommand<'_, H>,
    ) -> Answer {
        let ManagementCommand { parameters, host, .. } = command;
        let uri = parameters.uri.as_ref().ok_or_else(|| malformed_command("Uri is missing"))?;
        let uri =
            FaceUri::of_dialled(uri).map_err(|error| malformed_command(format!("Uri: {error}")))?;
        check_persistency(&parameters)?;
        let face = host.create_face(&uri, &parameters)?;
        if !host.is_opening(face) {
            self.face_up(command.now, face, host, command.out);
        }
        Ok(properties(face, host).unwrap_or_default())
    }

    pub(super) fn destroy_face<H: ManagementHost>(
        &mut self,
        command: ManagementCommand<'_, H>,
    ) -> Answer {
        let ManagementCommand { parameters, host, .. } = command;
        let face =
            parameters.face_id.map(FaceId).ok_or_else(|| malformed_command("FaceId is missing"))?;
        let known = host.face_info(face).is_some();
        if host.destroy_face(face) {
            self.face_gone(command.now, face, host, command.out);
        } else if known {
            return Err(CommandRefusal::new(406, "this face cannot be removed"));
        }
        // A face that does not exist counts as destroyed.
        Ok(ControlParameters { face_id: Some(face.0), ..ControlParameters::default() })
    }
}

/// A persistency other than the three is an error and not ignored.
fn check_persistency(parameters: &ControlParameters) -> Result<(), CommandRefusal> {
    match parameters.persistency {
        Some(number) if Persistency::from_number(number).is_none() => {
            Err(malformed_command(format!("there is no FacePersistency {number}")))
        }
        _ => Ok(()),
    }
}

pub(super) fn update<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let face = command.face();
    let ManagementCommand { parameters, host, .. } = command;
    check_persistency(&parameters)?;
    if host.face_info(face).is_none() {
        return Err(CommandRefusal::new(404, "there is no such face"));
    }
    host.update_face(face, &parameters)?;
    let all = properties(face, host).unwrap_or_default();
    Ok(ControlParameters { uri: None, local_uri: None, ..all })
}

fn status(face: FaceId, host: &impl ManagementHost) -> Option<FaceStatus> {
    let info = host.face_info(face)?;
    let counters = host.forwarder_ref().counters(face)?;
    Some(FaceStatus {
        face_id: face.0,
        uri: info.remote.to_string(),
        local_uri: info.local.to_string(),
        expiration_ms: info.expires_ms,
        scope: scope_number(info.scope),
        persistency: info.persistency.number(),
        link_type: link_type_number(info.link_type),
        base_congestion_marking_interval: info.base_congestion_marking_interval,
        default_congestion_threshold: info.default_congestion_threshold,
        mtu: info.mtu,
        in_interests: counters.in_interests,
        in_data: counters.in_data,
        in_nacks: counters.in_nacks,
        out_interests: counters.out_interests,
        out_data: counters.out_data,
        out_nacks: counters.out_nacks,
        in_bytes: counters.in_bytes,
        out_bytes: counters.out_bytes,
        flags: info.flags,
    })
}

/// The status of all faces, by number.
fn statuses(host: &impl ManagementHost) -> impl Iterator<Item = FaceStatus> {
    let mut faces: Vec<FaceId> = host.forwarder_ref().faces().collect();
    faces.sort_unstable();
    faces.into_iter().filter_map(move |face| status(face, host))
}

pub(super) fn list(host: &impl ManagementHost) -> Vec<u8> {
    let mut content = Vec::new();
    statuses(host).for_each(|status| status.write_entry(&mut content));
    content
}

/// The faces that match a filter; a Uri in it is compared in its canonical form.
pub(super) fn query(filter: &[u8], host: &impl ManagementHost) -> Result<Vec<u8>, CodecError> {
    let mut filter = FaceQueryFilter::decode(filter)?;
    for uri in [&mut filter.uri, &mut filter.local_uri].into_iter().flatten() {
        if let Ok(canonical) = FaceUri::of_dialled(uri) {
            *uri = canonical.to_string();
        }
    }
    let mut content = Vec::new();
    statuses(host)
        .filter(|status| filter.matches(status))
        .for_each(|status| status.write_entry(&mut content));
    Ok(content)
}

pub(super) fn channels(host: &impl ManagementHost) -> Vec<u8> {
    let mut content = Vec::new();
    for channel in host.channels() {
        ChannelStatus { local_uri: channel.to_string() }.write_entry(&mut content);
    }
    content
}
