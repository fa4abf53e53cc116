//! [`Registrations`]: the registered clients, and the keys, names and numbers by which they are found.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;

use xylem_hash::keyed_hash;
use zeroize::Zeroizing;

use super::load::RecentBytes;
use super::{RelayBan, RelayConfig, RelayPeer};
use crate::relay::crowd::HostCounts;
use crate::relay::rate::LeakyBucket;
use crate::relay::wire::{
    self, CircuitTag, ConnectTarget, DatagramHead, DatagramId, IdEpoch, Register, RelayRefusal,
    TOKEN,
};

/// An index into the table of registrations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct RegistrationSlot(u32);

/// The state of one registration.
pub(super) struct RelayRegistration {
    /// Differs from the serial numbers of earlier registrations in the same slot.
    pub serial: u64,
    pub key: [u8; 32],
    pub secret: Zeroizing<[u8; 32]>,
    /// Its address, which it has proven.
    pub at: SocketAddr,
    /// The address from which it last sent a keep-alive, not proven yet.
    pub unproven_address: Option<SocketAddr>,
    pub host: IpAddr,
    pub last_keep_alive: Duration,
    /// When it was last sent a demand for proof of its address.
    pub last_proof_demand: Duration,
    /// The highest number of its keep-alives.
    pub number: u32,
    pub epoch: u32,
    up: [Option<DatagramHead>; 2],
    pub down: DatagramHead,
    /// The token that notifies it after this relay was killed and started again.
    pub restart_token: [u8; TOKEN],
    pub bytes: LeakyBucket,
    /// Bytes from and to it of late.
    pub recent: RecentBytes,
    listens: bool,
    names: Vec<[u8; 32]>,
    pub code: Option<u32>,
    /// Circuits that it has requested, by its own tags.
    pub circuits_requested: Vec<(CircuitTag, u32)>,
    /// Circuits in which it is the target.
    pub circuits_as_target: Vec<u32>,
}

impl RelayRegistration {
    /// The id of its datagrams in its newest epoch.
    pub(super) fn current_id(&self) -> DatagramId {
        IdEpoch::new(&self.secret, self.epoch).up.id
    }

    /// The head of a datagram with this id.
    pub(super) fn head_of(&self, id: DatagramId) -> Option<DatagramHead> {
        self.up.iter().flatten().find(|head| head.id == id).copied()
    }
}

/// All registrations, with indices by id, key, name and number.
pub(super) struct Registrations {
    random: [u8; 32],
    serial: u64,
    /// Incremented whenever a registration is added, removed or moved.
    pub changes: u64,
    slots: Vec<Option<Box<RelayRegistration>>>,
    free: Vec<u32>,
    ids: HashMap<DatagramId, RegistrationSlot>,
    keys: HashMap<[u8; 32], Vec<RegistrationSlot>>,
    names: HashMap<[u8; 32], Vec<RegistrationSlot>>,
    codes: HashMap<u32, RegistrationSlot>,
    crowd: HostCounts,
}

impl Registrations {
    pub(super) fn new(random: [u8; 32]) -> Self {
        Self {
            random,
            serial: 0,
            changes: 0,
            slots: Vec::new(),
            free: Vec::new(),
            ids: HashMap::new(),
            keys: HashMap::new(),
            names: HashMap::new(),
            codes: HashMap::new(),
            crowd: HostCounts::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RelayRegistration> {
        self.slots.iter().flatten().map(Box::as_ref)
    }

    /// Those that a ban concerns.
    pub(super) fn of_ban(&self, ban: &RelayBan) -> Vec<RegistrationSlot> {
        let slots = (0_u32..).zip(&self.slots);
        let is_of = |one: &RelayRegistration| ban.is_of(&one.key, one.host);
        let banned = slots.filter(|(_, one)| one.as_deref().is_some_and(is_of));
        banned.map(|(slot, _)| RegistrationSlot(slot)).collect()
    }

    /// The sites with most registrations.
    pub(super) fn largest_sites(&self) -> impl Iterator<Item = (IpAddr, usize)> {
        self.crowd.largest_sites()
    }

    /// Registrations of the site of a host.
    pub(super) fn of_site(&self, host: IpAddr) -> usize {
        self.crowd.of_site(host)
    }

    pub(super) fn get(&self, slot: RegistrationSlot) -> Option<&RelayRegistration> {
        self.slots.get(slot.0 as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, slot: RegistrationSlot) -> Option<&mut RelayRegistration> {
        self.slots.get_mut(slot.0 as usize)?.as_deref_mut()
    }

    #[inline]
    pub(super) fn of_id(&self, id: DatagramId) -> Option<RegistrationSlot> {
        self.ids.get(&id).copied()
    }

    /// The registration with this key and secret.
    pub(super) fn find(&self, key: &[u8; 32], secret: &[u8; 32]) -> Option<RegistrationSlot> {
        let same = |slot: &&RegistrationSlot| {
            let one = self.get(**slot);
            one.is_some_and(|one| constant_time_eq::constant_time_eq(&one.secret[..], secret))
        };
        self.keys.get(key)?.iter().find(same).copied()
    }

    /// The registration that `target` means: of several, the newest one that listens.
    pub(super) fn target(&self, target: ConnectTarget) -> Option<RegistrationSlot> {
        let of = |slots: Option<&Vec<RegistrationSlot>>| {
            let mut slots = slots?.iter().rev();
            slots.find(|slot| self.get(**slot).is_some_and(|one| one.listens)).copied()
        };
        match target {
            ConnectTarget::Key(key) => of(self.keys.get(&key)),
            ConnectTarget::Publisher(publisher) => of(self.names.get(&publisher.0)),
            ConnectTarget::Code(code) => self.codes.get(&code).copied(),
        }
    }

    /// The registration to remove before one of `peer` is added. `None`: there is room.
    pub(super) fn make_room(
        &self,
        config: &RelayConfig,
        peer: &RelayPeer,
    ) -> Result<Option<RegistrationSlot>, RelayRefusal> {
        if let Some(own) = self.keys.get(&peer.key)
            && own.len() >= config.registrations_of_key.max(1)
        {
            return Ok(own.first().copied());
        }
        if self.crowd.of_host(peer.host) >= config.registrations_of_host {
            return Err(RelayRefusal::Quota);
        }
        if self.crowd.of_site(peer.host) >= config.registrations_of_site {
            let oldest = self.crowd.oldest_of_site(peer.host).map(RegistrationSlot);
            return oldest.map(Some).ok_or(RelayRefusal::Quota);
        }
        if self.len() >= config.registrations {
            return self
                .crowd
                .oldest_of_largest_site()
                .map(|slot| Some(RegistrationSlot(slot)))
                .ok_or(RelayRefusal::Quota);
        }
        Ok(None)
    }

    pub(super) fn add(
        &mut self,
        now: Duration,
        peer: &RelayPeer,
        register: &Register,
    ) -> Result<RegistrationSlot, RelayRefusal> {
        let IdEpoch { up, down } = IdEpoch::new(&register.secret, register.epoch);
        if self.ids.contains_key(&up.id) {
            return Err(RelayRefusal::Taken);
        }
        self.serial = self.serial.wrapping_add(1);
        self.changes = self.changes.wrapping_add(1);
        let one = RelayRegistration {
            serial: self.serial,
            key: peer.key,
            secret: register.secret.clone(),
            at: peer.at,
            unproven_address: None,
            host: peer.host,
            last_keep_alive: now,
            last_proof_demand: Duration::ZERO,
            number: register.number,
            epoch: register.epoch,
            up: [Some(up), None],
            down,
            restart_token: wire::restart_token(&register.secret, register.epoch),
            bytes: LeakyBucket::default(),
            recent: RecentBytes::default(),
            listens: register.listens,
            names: Vec::new(),
            code: None,
            circuits_requested: Vec::new(),
            circuits_as_target: Vec::new(),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).map_err(|_| RelayRefusal::Quota)?;
                self.slots.push(None);
                slot
            }
        };
        self.ids.insert(up.id, RegistrationSlot(slot));
        self.keys.entry(peer.key).or_default().push(RegistrationSlot(slot));
        self.crowd.add(peer.host, slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Box::new(one));
        }
        self.set_names_and_code(RegistrationSlot(slot), register);
        Ok(RegistrationSlot(slot))
    }

    /// Sets the names, and assigns a number if one is wanted.
    fn set_names_and_code(&mut self, slot: RegistrationSlot, register: &Register) {
        self.forget_names(slot);
        let mut names: Vec<[u8; 32]> = register.names.iter().map(|it| it.publisher.0).collect();
        names.sort_unstable();
        names.dedup();
        for name in &names {
            self.names.entry(*name).or_default().push(slot);
        }
        let has = self.get(slot).and_then(|one| one.code);
        let code = if register.wants_code { has.or_else(|| self.new_code()) } else { has };
        if let Some(code) = code {
            self.codes.insert(code, slot);
        }
        if let Some(one) = self.get_mut(slot) {
            (one.names, one.code, one.listens) = (names, code, register.listens);
        }
    }

    /// Draws a free number with few digits: below four times the count in use, and at least below a hundred.
    fn new_code(&mut self) -> Option<u32> {
        let below = u64::try_from(self.codes.len()).ok()?.saturating_mul(4).max(100);
        (0..64_u8).find_map(|_| {
            self.random = *keyed_hash(&self.random, b"next").as_bytes();
            let drawn = keyed_hash(&self.random, b"code");
            let drawn = u64::from_be_bytes(*drawn.as_bytes().first_chunk()?);
            let code = u32::try_from(drawn.checked_rem(below)?).ok()?.checked_add(1)?;
            (!self.codes.contains_key(&code)).then_some(code)
        })
    }

    /// Renews the registration of the same peer with the same secret, over a new link. Its circuits remain.
    pub(super) fn renew(
        &mut self,
        now: Duration,
        slot: RegistrationSlot,
        peer: &RelayPeer,
        register: &Register,
    ) -> Result<(), RelayRefusal> {
        let IdEpoch { up, down } = IdEpoch::new(&register.secret, register.epoch);
        if self.of_id(up.id).is_some_and(|owner| owner != slot) {
            return Err(RelayRefusal::Taken);
        }
        let Some(one) = self.get_mut(slot) else { return Err(RelayRefusal::NotHere) };
        let same = one.epoch == register.epoch;
        let before = one.up[0].filter(|_| !same);
        let after = if same { one.up[1] } else { before };
        let gone = one.up[1].filter(|_| !same);
        (one.at, one.unproven_address, one.last_keep_alive) = (peer.at, None, now);
        one.number = one.number.max(register.number);
        (one.epoch, one.up, one.down) = (register.epoch, [Some(up), after], down);
        one.restart_token = wire::restart_token(&register.secret, register.epoch);
        if let Some(gone) = gone.filter(|gone| gone.id != up.id) {
            self.ids.remove(&gone.id);
        }
        self.ids.insert(up.id, slot);
        self.moved(slot, Some(peer.host));
        self.set_names_and_code(slot, register);
        Ok(())
    }

    /// Records that the client has moved to another host; `None` if the host is unknown.
    pub(super) fn moved(&mut self, slot: RegistrationSlot, host: Option<IpAddr>) {
        self.changes = self.changes.wrapping_add(1);
        let Some(one) = self.slots.get_mut(slot.0 as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        let Some(host) = host.filter(|host| *host != one.host) else { return };
        self.crowd.remove(one.host, slot.0);
        self.crowd.add(host, slot.0);
        one.host = host;
    }

    /// Moves to the next epoch if the client asks for that one. Ids older than the last epoch are dropped.
    pub(super) fn rotate(&mut self, slot: RegistrationSlot, epoch: u32) {
        let Some(one) = self.get(slot) else { return };
        if epoch != one.epoch.wrapping_add(1) {
            return;
        }
        let IdEpoch { up, down } = IdEpoch::new(&one.secret, epoch);
        // With a chance of 1 in 2^64 the id belongs to another registration. The epoch then stays.
        if self.ids.contains_key(&up.id) {
            return;
        }
        self.ids.insert(up.id, slot);
        let Some(one) = self.get_mut(slot) else { return };
        let [current, oldest] = one.up;
        (one.epoch, one.up, one.down) = (epoch, [Some(up), current], down);
        if let Some(oldest) = oldest {
            self.ids.remove(&oldest.id);
        }
    }

    /// Places for registrations, taken or not.
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    /// The registrations in these places without a keep-alive for `lifetime`.
    pub(super) fn expired(
        &self,
        now: Duration,
        lifetime: Duration,
        places: core::ops::Range<usize>,
    ) -> Vec<RegistrationSlot> {
        let over = |one: &RelayRegistration| now >= one.last_keep_alive.saturating_add(lifetime);
        let slots = (0_u32..).zip(&self.slots).skip(places.start).take(places.len());
        let over = slots.filter(|(_, one)| one.as_deref().is_some_and(over));
        over.map(|(slot, _)| RegistrationSlot(slot)).collect()
    }

    fn forget_names(&mut self, slot: RegistrationSlot) {
        let names = self.get_mut(slot).map(|one| core::mem::take(&mut one.names));
        for name in names.unwrap_or_default() {
            drop_from(&mut self.names, &name, slot);
        }
    }

    /// Removes a registration. Its circuits have to be ended before.
    pub(super) fn remove(&mut self, slot: RegistrationSlot) {
        self.changes = self.changes.wrapping_add(1);
        self.forget_names(slot);
        let Some(one) = self.slots.get_mut(slot.0 as usize).and_then(Option::take) else { return };
        self.free.push(slot.0);
        self.crowd.remove(one.host, slot.0);
        drop_from(&mut self.keys, &one.key, slot);
        for head in one.up.iter().flatten() {
            self.ids.remove(&head.id);
        }
        if let Some(code) = one.code {
            self.codes.remove(&code);
        }
    }
}

fn drop_from(
    map: &mut HashMap<[u8; 32], Vec<RegistrationSlot>>,
    key: &[u8; 32],
    slot: RegistrationSlot,
) {
    let Some(slots) = map.get_mut(key) else { return };
    slots.retain(|one| *one != slot);
    if slots.is_empty() {
        map.remove(key);
    }
}
