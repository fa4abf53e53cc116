//! rib/announce, and what a self-learning forwarder hears: routes by signed announcements.

use core::time::Duration;

use xylem_forward::FaceId;
use xylem_packet::{Component, Interest, Name, NameRef};

use super::{Answer, Management, bad, own_prefixes, rib_refusal};
use crate::request::Reach;
use crate::{
    AnnouncementError, Authority, ControlParameters, Host, PrefixAnnouncement, Refusal, Route,
    types,
};

/// What NFD gives such routes: others are tried before them.
const COST: u64 = 2048;
/// How long what came with a Data is believed at most (NFD).
const LEARNED_FOR: Duration = Duration::from_secs(600);
/// Announcements that are kept: each may be 2 KiB.
const MOST: usize = 4096;

impl Management {
    /// The command. Its parameters are the announcement itself, in ApplicationParameters; the route is the
    /// face's that it came over.
    pub(super) fn announce(
        &mut self,
        now: Duration,
        (from, reach): (FaceId, Reach),
        interest: &Interest<'_>,
        host: &mut impl Host,
    ) -> Answer {
        let wire = interest.app_parameters().filter(|parameters| !parameters.is_empty());
        let wire = wire.ok_or_else(|| bad("there is no prefix announcement"))?;
        let announcement = PrefixAnnouncement::decode(wire).map_err(malformed)?;
        let authority = match reach {
            Reach::Localhost => &self.localhost,
            Reach::Localhop => self.localhop.as_ref().unwrap_or(&self.localhost),
        };
        check(authority, &announcement, host.now_ms())?;
        self.take(now, from, &announcement, None, host)
    }

    /// An announcement came over `face`, with the Data of this name that the network was searched for. It makes a
    /// route only if an anchor stands behind its signature, and the key may sign for the prefix: where there are
    /// no anchors nothing is learned from neighbours. Gives the prefix.
    ///
    /// # Errors
    /// Why it makes no route.
    pub fn learn(
        &mut self,
        now: Duration,
        face: FaceId,
        name: NameRef<'_>,
        announcement: &[u8],
        host: &mut impl Host,
    ) -> Result<Name, Refusal> {
        let announcement = PrefixAnnouncement::decode(announcement).map_err(malformed)?;
        let prefix = announcement.prefix();
        if !prefix.is_prefix_of(name) {
            return Err(Refusal::new(403, format!("{prefix} is announced with {name}")));
        }
        let authority = match (&self.localhost, &self.localhop) {
            (own @ Authority::Anchors(_), _) | (_, Some(own)) => own,
            (Authority::Anybody, None) => return Err(Refusal::new(403, "there are no anchors")),
        };
        check(authority, &announcement, host.now_ms())?;
        self.take(now, face, &announcement, Some(LEARNED_FOR), host)?;
        Ok(prefix.to_name())
    }

    /// Whoever is behind `face` has no way to this name any more: of the routes over it that were announced the one
    /// of the longest prefix ends. True if there was one.
    pub fn unlearn(&mut self, face: FaceId, name: NameRef<'_>, host: &mut impl Host) -> bool {
        let fib = host.forwarder();
        (0..=name.len())
            .rev()
            .any(|len| self.rib.unregister(name.prefix(len), face, types::ORIGIN_PREFIXANN, fib))
    }

    /// Makes the route.
    fn take(
        &mut self,
        now: Duration,
        face: FaceId,
        announcement: &PrefixAnnouncement<'_>,
        most: Option<Duration>,
        host: &mut impl Host,
    ) -> Answer {
        let prefix = announcement.prefix();
        let is_ours = own_prefixes().iter().any(|own| own.as_ref().is_prefix_of(prefix));
        let local = [b"localhost".as_slice(), b"localhop"].map(Component::generic);
        // What neighbours announce leads to them: what is meant for this machine or this link does not.
        if is_ours || (most.is_some() && prefix.get(0).is_some_and(|first| local.contains(&first)))
        {
            return Err(Refusal::new(403, "this prefix can't be announced"));
        }
        let lasts = announcement.lasts_ms(host.now_ms());
        let lasts = lasts.ok_or_else(|| rejected("it is not valid now"))?;
        let lasts = most
            .map_or(lasts, |most| lasts.min(u64::try_from(most.as_millis()).unwrap_or(u64::MAX)));
        let fib = host.forwarder();
        // Who announces again takes nobody's place.
        if fib.announcements() >= MOST && !self.rib.has(prefix, face, types::ORIGIN_PREFIXANN) {
            return Err(Refusal::new(503, "there are as many announcements as there may be"));
        }
        let route = Route {
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

/// Whether whoever signed it may sign for its prefix.
fn check(
    authority: &Authority,
    announcement: &PrefixAnnouncement<'_>,
    now_ms: u64,
) -> Result<(), Refusal> {
    authority.check_data(&announcement.data, now_ms).map_err(rejected)
}

fn malformed(error: AnnouncementError) -> Refusal {
    bad(format!("prefix announcement: {error}"))
}

/// 403, in NFD's words.
fn rejected(why: impl core::fmt::Display) -> Refusal {
    Refusal::new(403, format!("Prefix announcement rejected: {why}"))
}
