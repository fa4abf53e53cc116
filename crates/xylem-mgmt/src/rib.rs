//! [`Rib`]: the registered routes, and the FIB that follows from them.
//!
//! A prefix may have several routes: one for each face and origin. Its next hops come from its own routes and from
//! routes of shorter prefixes with the flag CHILD_INHERIT, unless a route between has the flag CAPTURE (NFD wiki,
//! "RibMgmt"). For each face the nearest prefix counts, and of its routes the cheapest. Next hops of a nearer prefix
//! are tried before those of a shorter one, whatever their cost. A default route for everything takes no traffic from a
//! local program, and a holder of `/shop` does not answer for `/shop/bob` while bob does. Only prefixes that have
//! routes have FIB entries; a longer name is forwarded by its longest prefix, as always.
//!
//! Next hops that another program put into the FIB stay, unless a route has the same prefix and face.

use core::ops::Bound::{Included, Unbounded};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use xylem_forward::{FaceId, Forwarder, RouteError};
use xylem_packet::NameRef;

use crate::types::{ORIGIN_PREFIXANN, ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};

/// A route of one prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredRoute {
    /// The face that it leads to.
    pub face: FaceId,
    /// The origin; a face may have one route of each origin.
    pub origin: u64,
    /// The cost; lower ones are preferred. The forwarder keeps 32 bits of it.
    pub cost: u64,
    /// [`ROUTE_CHILD_INHERIT`], [`ROUTE_CAPTURE`].
    pub flags: u64,
    /// When it expires; `None` if it ends only with its face.
    pub expires: Option<Duration>,
}

/// Reasons for which a route is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RibError {
    /// The RIB is full.
    #[error("the maximum number of routes is reached")]
    Full,
    /// The forwarder refuses it.
    #[error("{0}")]
    Fib(#[from] RouteError),
}

/// A next hop that follows from routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RibHop {
    cost: u32,
    /// As in [`xylem_forward::NextHop`].
    above: u8,
}

#[derive(Debug, Default)]
struct PrefixRoutes {
    routes: Vec<RegisteredRoute>,
    /// The FIB entry of the prefix, as far as this RIB made it.
    installed: BTreeMap<FaceId, RibHop>,
}

impl PrefixRoutes {
    fn has(&self, flag: u64) -> bool {
        self.routes.iter().any(|route| route.flags & flag != 0)
    }
}

/// The routes by prefix. Keys are the values of Name TLVs, in the order of names.
#[derive(Debug)]
pub struct Rib {
    entries: BTreeMap<Box<[u8]>, PrefixRoutes>,
    routes: usize,
    max_routes: usize,
    by_face: BTreeSet<(FaceId, Box<[u8]>)>,
    expiry: BTreeSet<(Duration, Box<[u8]>, FaceId, u64)>,
    /// Prefixes with changed routes, if changes are recorded.
    changed: Option<BTreeSet<Box<[u8]>>>,
}

impl Rib {
    /// An empty RIB for at most `max_routes` routes.
    pub fn new(max_routes: usize) -> Self {
        Rib {
            entries: BTreeMap::new(),
            routes: 0,
            max_routes,
            by_face: BTreeSet::new(),
            expiry: BTreeSet::new(),
            changed: None,
        }
    }

    /// Records changes of routes from now on.
    pub(crate) fn note_changes(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    /// The prefixes with routes that have changed since the last call.
    pub(crate) fn take_changes(&mut self) -> BTreeSet<Box<[u8]>> {
        self.changed.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// The routes of a prefix.
    pub fn routes(&self, prefix: NameRef<'_>) -> &[RegisteredRoute] {
        self.entries.get(prefix.value()).map_or(&[], |entry| &entry.routes)
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes
    }

    /// True if there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }

    /// Adds a route, or replaces that of the same prefix, face and origin.
    ///
    /// # Errors
    /// See [`RibError`]; nothing is changed then.
    pub fn register(
        &mut self,
        prefix: NameRef<'_>,
        route: RegisteredRoute,
        fib: &mut Forwarder,
    ) -> Result<(), RibError> {
        let before = self.remove_route(prefix, route.face, route.origin);
        if before.is_none() && self.routes >= self.max_routes {
            return Err(RibError::Full);
        }
        self.put(prefix, route);
        let refused = self.refresh(prefix, fib);
        if let Some(error) = refused {
            self.remove_route(prefix, route.face, route.origin);
            if let Some(before) = before {
                self.put(prefix, before);
            }
            self.refresh(prefix, fib);
            return Err(error.into());
        }
        Ok(())
    }

    /// Removes a route; returns whether there was one.
    pub fn unregister(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceId,
        origin: u64,
        fib: &mut Forwarder,
    ) -> bool {
        let known = self.remove_route(prefix, face, origin).is_some();
        if known {
            self.refresh(prefix, fib);
        }
        if known && origin == ORIGIN_PREFIXANN {
            fib.unset_announcement(prefix, face);
        }
        known
    }

    /// Whether there is a route of this prefix, face and origin.
    pub fn has(&self, prefix: NameRef<'_>, face: FaceId, origin: u64) -> bool {
        self.routes(prefix).iter().any(|r| r.face == face && r.origin == origin)
    }

    /// Removes the routes of a face that is gone.
    pub fn face_gone(&mut self, face: FaceId, fib: &mut Forwarder) {
        while let Some((_, key)) =
            self.by_face.range((face, Box::default())..).next().filter(|(f, _)| *f == face).cloned()
        {
            let Ok(prefix) = NameRef::from_value(&key) else { break };
            let routes = self.entries.get(&key).map(|entry| entry.routes.clone());
            for route in routes.unwrap_or_default().iter().filter(|route| route.face == face) {
                self.remove_route(prefix, face, route.origin);
            }
            self.refresh(prefix, fib);
        }
    }

    /// When to call [`Self::handle_timeout`]; `None` if no route expires.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.expiry.first().map(|(at, ..)| *at)
    }

    /// Removes expired routes.
    pub fn handle_timeout(&mut self, now: Duration, fib: &mut Forwarder) {
        while let Some((_, key, face, origin)) =
            self.expiry.first().filter(|(at, ..)| *at <= now).cloned()
        {
            let Ok(prefix) = NameRef::from_value(&key) else { break };
            self.unregister(prefix, face, origin, fib);
        }
    }

    /// Calls `f` with every prefix that has routes, and these routes, in canonical order.
    pub fn for_each(&self, f: &mut dyn FnMut(NameRef<'_>, &[RegisteredRoute])) {
        for (key, entry) in &self.entries {
            if let Ok(prefix) = NameRef::from_value(key) {
                f(prefix, &entry.routes);
            }
        }
    }

    /// Adds a route to the tables, not to the FIB.
    fn put(&mut self, prefix: NameRef<'_>, route: RegisteredRoute) {
        let key: Box<[u8]> = prefix.value().into();
        if let Some(at) = route.expires {
            self.expiry.insert((at, key.clone(), route.face, route.origin));
        }
        if let Some(changed) = &mut self.changed {
            changed.insert(key.clone());
        }
        self.by_face.insert((route.face, key.clone()));
        self.entries.entry(key).or_default().routes.push(route);
        self.routes += 1;
    }

    /// Removes a route from the tables, not from the FIB. Its entry stays until [`Self::refresh`].
    fn remove_route(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceId,
        origin: u64,
    ) -> Option<RegisteredRoute> {
        let entry = self.entries.get_mut(prefix.value())?;
        let at = entry.routes.iter().position(|r| r.face == face && r.origin == origin)?;
        let route = entry.routes.remove(at);
        self.routes -= 1;
        let key: Box<[u8]> = prefix.value().into();
        if let Some(changed) = &mut self.changed {
            changed.insert(key.clone());
        }
        if !entry.routes.iter().any(|r| r.face == face) {
            self.by_face.remove(&(face, key.clone()));
        }
        if let Some(at) = route.expires {
            self.expiry.remove(&(at, key, face, origin));
        }
        Some(route)
    }

    /// Updates the FIB entries of `prefix` and of all longer ones. Returns the forwarder's error if it refused a next
    /// hop of `prefix` itself.
    fn refresh(&mut self, prefix: NameRef<'_>, fib: &mut Forwarder) -> Option<RouteError> {
        let below = self.entries.range::<[u8], _>((Included(prefix.value()), Unbounded));
        let keys: Vec<_> = below
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix.value()))
            .cloned()
            .collect();
        let mut refused = None;
        for key in keys {
            let Ok(name) = NameRef::from_value(&key) else { continue };
            let wanted = self.next_hops(name);
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            for face in entry.installed.keys().filter(|face| !wanted.contains_key(face)) {
                fib.remove_route(name, *face);
            }
            let mut installed = BTreeMap::new();
            for (face, hop) in wanted {
                let was = entry.installed.get(&face).copied();
                let done = match was == Some(hop) {
                    true => Ok(()),
                    false => fib.inherit_route(name, face, hop.cost, hop.above),
                };
                if let Err(error) = done
                    && name == prefix
                {
                    refused = Some(error);
                }
                // After a refused change the old entry stays.
                if let Some(hop) = done.map_or(was, |()| Some(hop)) {
                    installed.insert(face, hop);
                }
            }
            entry.installed = installed;
            if entry.routes.is_empty() {
                self.entries.remove(&key);
            }
        }
        refused
    }

    /// The next hops of a prefix that has an entry; none if that has no routes.
    fn next_hops(&self, prefix: NameRef<'_>) -> BTreeMap<FaceId, RibHop> {
        let mut hops = BTreeMap::new();
        let Some(own) = self.entries.get(prefix.value()).filter(|e| !e.routes.is_empty()) else {
            return hops;
        };
        merge(&mut hops, 0, own.routes.iter());
        let mut captured = own.has(ROUTE_CAPTURE);
        for n in (0..prefix.len()).rev() {
            if captured {
                break;
            }
            let Some(above) = self.entries.get(prefix.prefix(n).value()) else { continue };
            let inherited = |route: &&RegisteredRoute| route.flags & ROUTE_CHILD_INHERIT != 0;
            let distance = u8::try_from(prefix.len().saturating_sub(n)).unwrap_or(u8::MAX);
            merge(&mut hops, distance, above.routes.iter().filter(inherited));
            captured = above.has(ROUTE_CAPTURE);
        }
        hops
    }
}

/// Adds one prefix's routes: the cheapest of each face that no longer prefix has.
fn merge<'a>(
    hops: &mut BTreeMap<FaceId, RibHop>,
    above: u8,
    routes: impl Iterator<Item = &'a RegisteredRoute>,
) {
    let mut of_prefix: BTreeMap<FaceId, u32> = BTreeMap::new();
    for route in routes {
        let cost = u32::try_from(route.cost).unwrap_or(u32::MAX);
        let least = of_prefix.entry(route.face).or_insert(cost);
        *least = cost.min(*least);
    }
    for (face, cost) in of_prefix {
        hops.entry(face).or_insert(RibHop { cost, above });
    }
}
