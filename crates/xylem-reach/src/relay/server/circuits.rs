//! [`RelayCircuits`]: the pairs of registrations that exchange datagrams, and the tags of each pair.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;

use xylem_link::source;

use super::RelayConfig;
use super::registrations::{RegistrationSlot, Registrations};
use crate::relay::crowd::HostCounts;
use crate::relay::wire::{CircuitTag, RelayRefusal};

/// Bits of a circuit's number within the tag that the relay chooses. The bits above distinguish it from earlier
/// circuits with the same number.
const NUMBER_BITS: u32 = 20;
/// Maximum number of datagrams to a target that has not sent one: enough for a few handshakes.
const MAX_UNANSWERED_DATAGRAMS: u32 = 32;

/// Where a datagram of a circuit goes, and the circuit that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct CircuitEnd {
    pub slot: RegistrationSlot,
    pub tag: CircuitTag,
    /// The circuit's number, and the host that asked for it.
    pub circuit: u32,
    pub host: IpAddr,
}

#[derive(Debug)]
struct RelayCircuit {
    /// The requesting registration and its own tag.
    from: (RegistrationSlot, CircuitTag),
    /// The target and the relay's tag.
    to: (RegistrationSlot, CircuitTag),
    host: IpAddr,
    used: Duration,
    /// Datagrams sent to the target. `None` once it has answered.
    unanswered: Option<u32>,
}

/// All circuits.
#[derive(Debug, Default)]
pub(super) struct RelayCircuits {
    slots: Vec<Option<RelayCircuit>>,
    free: Vec<u32>,
    made: u32,
    crowd: HostCounts,
}

impl RelayCircuits {
    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    fn get(&self, number: u32) -> Option<&RelayCircuit> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// Connects `from` with `to`. A tag in use then means the new circuit, unless it has the same target already.
    pub(super) fn connect(
        &mut self,
        now: Duration,
        config: &RelayConfig,
        registrations: &mut Registrations,
        from: (RegistrationSlot, CircuitTag),
        to: RegistrationSlot,
    ) -> Result<(), RelayRefusal> {
        let asking = registrations.get(from.0).ok_or(RelayRefusal::NotHere)?;
        let host = asking.host;
        let same = asking
            .circuits_requested
            .iter()
            .find(|(tag, _)| *tag == from.1)
            .map(|(_, number)| *number);
        // A client may repeat a request, because it does not know whether the relay still has the circuit.
        let stands = |number| self.get(number).is_some_and(|circuit| circuit.to.0 == to);
        if same.is_some_and(stands) {
            return Ok(());
        }
        let full = asking.circuits_requested.len() >= config.circuits_asked.max(1);
        let idlest = || self.idlest(asking.circuits_requested.iter().map(|(_, number)| *number));
        let own = same.or_else(|| if full { idlest() } else { None });
        if let Some(number) = own {
            self.end(registrations, number);
        }
        let reached = &registrations.get(to).ok_or(RelayRefusal::NotHere)?.circuits_as_target;
        if reached.len() >= config.circuits_reached.max(1)
            && let Some(number) = self.least_of_greediest(reached)
        {
            self.end(registrations, number);
        }
        if self.len() >= config.circuits.clamp(1, 1 << NUMBER_BITS)
            && let Some(number) = self.crowd.oldest_of_largest_site()
        {
            self.end(registrations, number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.slots.len()).map_err(|_| RelayRefusal::Quota)?;
                self.slots.push(None);
                number
            }
        };
        self.made = self.made.wrapping_add(1);
        let tag =
            CircuitTag::of_relay(self.made.wrapping_shl(NUMBER_BITS) & (u32::MAX >> 1) | number);
        let circuit = RelayCircuit { from, to: (to, tag), host, used: now, unanswered: Some(0) };
        if let Some(place) = self.slots.get_mut(number as usize) {
            *place = Some(circuit);
        }
        self.crowd.add(host, number);
        if let Some(one) = registrations.get_mut(from.0) {
            one.circuits_requested.push((from.1, number));
        }
        if let Some(one) = registrations.get_mut(to) {
            one.circuits_as_target.push(number);
        }
        Ok(())
    }

    fn idlest(&self, among: impl Iterator<Item = u32>) -> Option<u32> {
        among.min_by_key(|number| self.get(*number).map(|circuit| circuit.used))
    }

    /// Among these circuits, the one idle for longest of the host that has most of them.
    fn least_of_greediest(&self, among: &[u32]) -> Option<u32> {
        let host = |number: u32| self.get(number).map(|circuit| source(circuit.host));
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for host in among.iter().filter_map(|number| host(*number)) {
            let count = counts.entry(host).or_default();
            *count = count.saturating_add(1);
        }
        let (greediest, _) = counts.into_iter().max_by_key(|(host, count)| (*count, *host))?;
        self.idlest(among.iter().copied().filter(|number| host(*number) == Some(greediest)))
    }

    /// The end to which a datagram from `near` with this tag is forwarded.
    #[inline]
    pub(super) fn far_end(
        &mut self,
        registrations: &Registrations,
        now: Duration,
        near: RegistrationSlot,
        tag: CircuitTag,
    ) -> Option<CircuitEnd> {
        let number = if tag.is_of_relay() {
            tag.number() & ((1 << NUMBER_BITS) - 1)
        } else {
            let asked = &registrations.get(near)?.circuits_requested;
            asked.iter().find(|(own, _)| *own == tag)?.1
        };
        let circuit = self.slots.get_mut(number as usize)?.as_mut()?;
        let far = if circuit.to == (near, tag) {
            circuit.unanswered = None;
            circuit.from
        } else if circuit.from == (near, tag) {
            // A target that does not answer must not be flooded.
            if let Some(sent) = &mut circuit.unanswered {
                *sent = sent.checked_add(1).filter(|sent| *sent <= MAX_UNANSWERED_DATAGRAMS)?;
            }
            circuit.to
        } else {
            return None;
        };
        circuit.used = now;
        let (slot, tag) = far;
        Some(CircuitEnd { slot, tag, circuit: number, host: circuit.host })
    }

    fn end(&mut self, registrations: &mut Registrations, number: u32) {
        let Some(circuit) = self.slots.get_mut(number as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(number);
        self.crowd.remove(circuit.host, number);
        if let Some(one) = registrations.get_mut(circuit.from.0) {
            one.circuits_requested.retain(|(_, it)| *it != number);
        }
        if let Some(one) = registrations.get_mut(circuit.to.0) {
            one.circuits_as_target.retain(|it| *it != number);
        }
    }

    pub(super) fn end_all_of(&mut self, registrations: &mut Registrations, slot: RegistrationSlot) {
        let Some(one) = registrations.get(slot) else { return };
        let asked = one.circuits_requested.iter().map(|(_, number)| *number);
        let numbers: Vec<u32> = asked.chain(one.circuits_as_target.iter().copied()).collect();
        for number in numbers {
            self.end(registrations, number);
        }
    }
}
