//! rib/register, unregister, list.

use core::time::Duration;

use xylem_forward::FaceId;

use super::{Answer, Management, ManagementCommand, rib_refusal};
use crate::request::CommandScope;
use crate::{
    CommandRefusal, ControlParameters, Entry, ManagementHost, RegisteredRoute, Rib, RibEntry,
    RibRoute, types,
};

impl Management {
    pub(super) fn register<H: ManagementHost>(
        &mut self,
        command: ManagementCommand<'_, H>,
    ) -> Answer {
        let name = command.route_name()?;
        let face = self.own_or_named_face(&command)?;
        let parameters = &command.parameters;
        let expiration_ms = parameters.expiration_ms;
        let route = RegisteredRoute {
            face,
            origin: parameters.origin.unwrap_or(types::ORIGIN_APP),
            cost: parameters.cost.unwrap_or(0),
            flags: parameters.flags.unwrap_or(types::ROUTE_CHILD_INHERIT),
            expires: expiration_ms
                .and_then(|ms| command.now.checked_add(Duration::from_millis(ms))),
        };
        let fib = command.host.forwarder();
        self.rib.register(name.as_ref(), route, fib).map_err(rib_refusal)?;
        // A neighbour's command leads to itself, and its sender's address may be forged.
        if command.reach == CommandScope::Localhost {
            command.host.vouch_for_face(face);
        }
        Ok(ControlParameters {
            name: Some(name),
            face_id: Some(face.0),
            origin: Some(route.origin),
            cost: Some(route.cost),
            flags: Some(route.flags),
            expiration_ms,
            ..ControlParameters::default()
        })
    }

    pub(super) fn unregister<H: ManagementHost>(
        &mut self,
        command: ManagementCommand<'_, H>,
    ) -> Answer {
        let name = command.route_name()?;
        // A face that is gone has no routes, which is the wanted result.
        let face = match command.reach {
            CommandScope::Localhost => command.face(),
            CommandScope::Localhop => self.own_or_named_face(&command)?,
        };
        let origin = command.parameters.origin.unwrap_or(types::ORIGIN_APP);
        self.rib.unregister(name.as_ref(), face, origin, command.host.forwarder());
        Ok(ControlParameters {
            name: Some(name),
            face_id: Some(face.0),
            origin: Some(origin),
            ..ControlParameters::default()
        })
    }

    /// The face of a route: neighbours may name no face but their own.
    fn own_or_named_face<H: ManagementHost>(
        &self,
        command: &ManagementCommand<'_, H>,
    ) -> Result<FaceId, CommandRefusal> {
        let face = command.known_face()?;
        if command.reach == CommandScope::Localhop && face != command.from {
            return Err(CommandRefusal::new(403, "a neighbour may register only its own face"));
        }
        Ok(face)
    }
}

pub(super) fn list(rib: &Rib, now: Duration) -> Vec<u8> {
    let mut content = Vec::new();
    rib.for_each(&mut |prefix, routes| {
        let routes = routes
            .iter()
            .map(|route| RibRoute {
                face_id: route.face.0,
                origin: route.origin,
                cost: route.cost,
                flags: route.flags,
                expiration_ms: route.expires.map(|at| {
                    u64::try_from(at.saturating_sub(now).as_millis()).unwrap_or(u64::MAX)
                }),
            })
            .collect();
        RibEntry { name: prefix.to_name(), routes }.write_entry(&mut content);
    });
    content
}
