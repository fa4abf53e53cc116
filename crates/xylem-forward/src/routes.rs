//! Routes, strategy choices and regions, as set by the owner of the forwarder.

use xylem_packet::NameRef;

use crate::fib::{NextHop, insert_hop, remove_hop};
use crate::forwarder::Forwarder;
use crate::memory::Flat;
use crate::prefixes::MAX_COMPONENTS;
use crate::storage::Storage;
use crate::{FaceId, ForwardingStrategy, RouteError};

/// Buffer for a name copied out of a table.
type NameBuffer<S> = <S as Storage>::Scratch;

impl<S: Storage> Forwarder<S> {
    /// Adds a route: Interests under `prefix` may go to `face`. Among several next hops the cheapest is tried first. An
    /// existing route gets the new cost.
    pub fn add_route(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceId,
        cost: u32,
    ) -> Result<(), RouteError> {
        self.inherit_route(prefix, face, cost, 0)
    }

    /// As [`Self::add_route`], for a next hop that `prefix` inherits from a name with `above` components less. Next
    /// hops of longer prefixes are tried before it, whatever they cost.
    pub fn inherit_route(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceId,
        cost: u32,
        above: u8,
    ) -> Result<(), RouteError> {
        if self.faces.number(face).is_none() {
            return Err(RouteError::NoSuchFace);
        }
        if prefix.len() > MAX_COMPONENTS {
            return Err(RouteError::PrefixTooLong);
        }
        let id = self.fib.find_or_insert(&self.hasher, prefix).ok_or(RouteError::TableFull)?;
        let hops = self.fib.get_mut(id);
        let is_new = !remove_hop(hops, face);
        let room = !is_new || hops.as_slice().len() < self.max_next_hops;
        if room && insert_hop(hops, NextHop { face, cost, above }) {
            return Ok(());
        }
        if hops.as_slice().is_empty() {
            self.fib.remove(id);
        }
        Err(RouteError::TableFull)
    }

    /// Removes a route. Returns whether there was one.
    pub fn remove_route(&mut self, prefix: NameRef<'_>, face: FaceId) -> bool {
        let Some(id) = self.fib.find(&self.hasher, prefix) else { return false };
        let hops = self.fib.get_mut(id);
        let removed = remove_hop(hops, face);
        if hops.as_slice().is_empty() {
            self.fib.remove(id);
        }
        removed
    }

    pub(crate) fn remove_routes_over(&mut self, face: FaceId) {
        // A removed entry frees its number, and none is added here.
        let mut next = self.fib.ids().next();
        while let Some(id) = next {
            next = self.fib.ids().find(|other| *other > id);
            let hops = self.fib.get_mut(id);
            remove_hop(hops, face);
            if hops.as_slice().is_empty() {
                self.fib.remove(id);
            }
        }
    }

    /// Calls `f` with every prefix that has next hops, and with its next hops in the order in which they are tried.
    pub fn for_each_route(&self, f: &mut dyn FnMut(NameRef<'_>, &[NextHop])) {
        let mut buffer = NameBuffer::<S>::default();
        for id in self.fib.ids() {
            f(self.fib.name_of(id, &mut buffer), self.fib.get(id).as_slice());
        }
    }

    /// Number of prefixes with next hops.
    pub fn fib_len(&self) -> usize {
        self.fib.len()
    }

    /// Sets the strategy for names under `prefix`. A longer prefix with a strategy overrides it.
    pub fn set_strategy(
        &mut self,
        prefix: NameRef<'_>,
        strategy: ForwardingStrategy,
    ) -> Result<(), RouteError> {
        if prefix.len() > MAX_COMPONENTS {
            return Err(RouteError::PrefixTooLong);
        }
        let id = self.strategies.find_or_insert(&self.hasher, prefix);
        *self.strategies.get_mut(id.ok_or(RouteError::TableFull)?) = strategy;
        Ok(())
    }

    /// Removes a choice of strategy. Returns whether there was one. Without one, `/` has best-route.
    pub fn unset_strategy(&mut self, prefix: NameRef<'_>) -> bool {
        let id = self.strategies.find(&self.hasher, prefix);
        id.map(|id| self.strategies.remove(id)).is_some()
    }

    /// Calls `f` with every choice of strategy; that of `/` is always included.
    pub fn for_each_strategy(&self, f: &mut dyn FnMut(NameRef<'_>, ForwardingStrategy)) {
        if self.strategies.find(&self.hasher, NameRef::default()).is_none() {
            f(NameRef::default(), ForwardingStrategy::default());
        }
        let mut buffer = NameBuffer::<S>::default();
        for id in self.strategies.ids() {
            f(self.strategies.name_of(id, &mut buffer), *self.strategies.get(id));
        }
    }

    /// Adds a name of the region that this forwarder is in (NFD's network region table). An Interest with a forwarding
    /// hint that is a prefix of such a name has arrived, and is forwarded by its own name from here on.
    pub fn add_region(&mut self, name: NameRef<'_>) -> Result<(), RouteError> {
        if name.len() > MAX_COMPONENTS {
            return Err(RouteError::PrefixTooLong);
        }
        let id = self.regions.find_or_insert(&self.hasher, name);
        id.map(|_| ()).ok_or(RouteError::TableFull)
    }
}
