//! Routes by signed announcements: rib/announce, and those that a self-learning forwarder receives.

use core::time::Duration;

use xylem_forward::FaceId;
use xylem_packet::{Component, Interest, Name, NameRef};

use super::{Answer, Management, malformed_command, own_prefixes, rib_refusal};
use crate::request::CommandScope;
use crate::{
    AnnouncementError, CommandRefusal, CommandTrust, ControlParameters, ManagementHost,
    PrefixAnnouncement, RegisteredRoute, types,
};

/// Cost of such routes, as in NFD: others are tried before them.
const COST: u64 = 2048;
/// Maximum lifetime of a route by an announcement that came with a Data (NFD).
const MAX_LEARNED_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of announcements: each may have 2 KiB.
const MAX_ANNOUNCEMENTS: usize = 4096;

impl Management {
    /// Handles the command. Its ApplicationParameters hold the announcement; the route leads to the face that the
    /// command came over.
    pub(super) fn announce(
        &mut self,
        now: Duration,
        from: FaceId,
        reach: CommandScope,
        interest: &Interest<'_>,
        host: &mut impl ManagementHost,
    ) -> Answer {
        let wire = interest.app_parameters().filter(|parameters| !parameters.is_empty());
        let wire = wire.ok_or_else(|| malformed_command("the prefix announcement is missing"))?;
        let announcement = PrefixAnnouncement::decode(wire).map_err(malformed)?;
        let authority = match reach {
            CommandScope::Localhost => &self.localhost,
            CommandScope::Localhop => self.localhop.as_ref().unwrap_or(&self.localhost),
        };
        check(authority, &announcement, host.now_ms())?;
        self.add_route(now, from, &announcement, None, host)
    }

    /// Takes an announcement that came over `face`, with a Data that the network was searched for. It makes a route
    /// only if an anchor verifies its signature and the key may sign for the prefix: without anchors nothing is learned
    /// from neighbours. Returns the prefix.
    ///
    /// # Errors
    /// The reason for which it makes no route.
    pub fn learn(
        &mut self,
        now: Duration,
        face: FaceId,
        name: NameRef<'_>,
        announcement: &[u8],
        host: &mut impl ManagementHost,
    ) -> Result<Name, CommandRefusal> {
        let announcement = PrefixAnnouncement::decode(announcement).map_err(malformed)?;
        let prefix = announcement.prefix();
        if !prefix.is_prefix_of(name) {
            return Err(CommandRefusal::new(
                403,
                format!("the announcement of {prefix} came with {name}, which is not under it"),
            ));
        }
        let authority = match (&self.localhost, &self.localhop) {
            (own @ CommandTrust::Anchors(_), _) | (_, Some(own)) => own,
            (CommandTrust::Anybody, None) => {
                return Err(CommandRefusal::new(403, "no trust anchors are configured"));
            }
        };
        check(authority, &announcement, host.now_ms())?;
        self.add_route(now, face, &announcement, Some(MAX_LEARNED_LIFETIME), host)?;
        Ok(prefix.to_name())
    }

    /// Handles a report that the node behind `face` has no way to this name any more. The announced route over that
    /// face with the longest prefix is removed. True if there was one.
    pub fn unlearn(
        &mut self,
        face: FaceId,
        name: NameRef<'_>,
        host: &mut impl ManagementHost,
    ) -> bool {
        let fib = host.forwarder();
        (0..=name.len())
            .rev()
            .any(|len| self.rib.unregister(name.prefix(len), face, types::ORIGIN_PREFIXANN, fib))
    }

    /// Adds the route.
    fn add_route(
        &mut self,
        now: Duration,
        face: FaceId,
        announcement: &PrefixAnnouncement<'_>,
        most: Option<Duration>,
        host: &mut impl ManagementHost,
    ) -> Answer {
        let prefix = announcement.prefix();
        let is_ours = own_prefixes().iter().any(|own| own.as_ref().is_prefix_of(prefix));
        let local = [b"localhost".as_slice(), b"localhop"].map(Component::generic);
        // Announcements of neighbours lead to them: prefixes of this machine or this link do not.
        if is_ours || (most.is_some() && prefix.get(0).is_some_and(|first| local.contains(&first)))
        {
            return Err(CommandRefusal::new(403, "this prefix cannot be announced"));
        }
        let lasts = announcement.lasts_ms(host.now_ms());
        let lasts = lasts.ok_or_else(|| forbidden("it is not valid now"))?;
        let lasts = most
            .map_or(lasts, |most| lasts.min(u64::try_from(most.as_millis()).unwrap_or(u64::MAX)));
        let fib = host.forwarder();
        // A renewed announcement needs no further place.
        if fib.announcements() >= MAX_ANNOUNCEMENTS
            && !self.rib.has(prefix, face, types::ORIGIN_PREFIXANN)
        {
            return Err(CommandRefusal::new(503, "the maximum number of announcements is reached"));
        }
        let route = RegisteredRoute {
            face,
            origin: types::ORIGIN_PREFIXANN,
            cost: COST,
            flags: types::ROUTE_CHILD_INHERIT,
            expires: now.checked_add(Duration::from_millis(lasts)),
        };
        self.rib.register(prefix, route, fib).map_err(rib_refusal)?;
        fib.set_announcement(prefix, face, announcement.wire);
        Ok(ControlParameters {
            name: Some(prefix.to_name()),
            face_id: Some(face.0),
            origin: Some(route.origin),
            cost: Some(route.cost),
            flags: Some(route.flags),
            expiration_ms: Some(lasts),
            ..ControlParameters::default()
        })
    }
}

/// Checks that its signer may sign for its prefix.
fn check(
    authority: &CommandTrust,
    announcement: &PrefixAnnouncement<'_>,
    now_ms: u64,
) -> Result<(), CommandRefusal> {
    authority.check_data(&announcement.data, now_ms).map_err(forbidden)
}

fn malformed(error: AnnouncementError) -> CommandRefusal {
    malformed_command(format!("prefix announcement: {error}"))
}

/// 403, with NFD's text.
fn forbidden(why: impl core::fmt::Display) -> CommandRefusal {
    CommandRefusal::new(403, format!("Prefix announcement rejected: {why}"))
}
