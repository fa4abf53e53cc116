//! fib/…, cs/…, strategy-choice/….

use xylem_forward::{CsSettings, ForwardingStrategy};
use xylem_packet::Name;

use super::{Answer, ManagementCommand, cs_flags, malformed_command, route_refusal, switch};
use crate::{
    CommandRefusal, ControlParameters, CsStatus, Entry, FibEntry, ManagementHost, NextHopRecord,
    StrategyChoice, types,
};

/// Maximum number of Data that one cs/erase removes (as in NFD); a client repeats the command for more.
const ERASE_LIMIT: u64 = 256;

pub(super) fn fib(host: &impl ManagementHost) -> Vec<u8> {
    let mut content = Vec::new();
    host.forwarder_ref().for_each_route(&mut |prefix, hops| {
        let next_hops = hops
            .iter()
            .map(|hop| NextHopRecord { face_id: hop.face.0, cost: u64::from(hop.cost) })
            .collect();
        FibEntry { name: prefix.to_name(), next_hops }.write_entry(&mut content);
    });
    content
}

pub(super) fn add_next_hop<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let name = command.route_name()?;
    let face = command.known_face()?;
    let cost = command.parameters.cost.unwrap_or(0);
    let cost = u32::try_from(cost).map_err(|_| malformed_command("Cost is above 2^32 - 1"))?;
    command.host.forwarder().add_route(name.as_ref(), face, cost).map_err(route_refusal)?;
    command.host.vouch_for_face(face);
    Ok(ControlParameters {
        name: Some(name),
        face_id: Some(face.0),
        cost: Some(u64::from(cost)),
        ..ControlParameters::default()
    })
}

pub(super) fn remove_next_hop<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let (name, face) = (command.route_name()?, command.face());
    command.host.forwarder().remove_route(name.as_ref(), face);
    Ok(ControlParameters {
        name: Some(name),
        face_id: Some(face.0),
        ..ControlParameters::default()
    })
}

pub(super) fn cs_info(host: &impl ManagementHost) -> Vec<u8> {
    let info = host.forwarder_ref().cs();
    let mut content = Vec::new();
    CsStatus {
        capacity: info.capacity_packets as u64,
        flags: cs_flags(info.admit, info.serve),
        entries: info.packets as u64,
        hits: info.hits,
        misses: info.misses,
    }
    .write_entry(&mut content);
    content
}

pub(super) fn configure_cs<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let ManagementCommand { parameters, host, .. } = command;
    let capacity = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    host.forwarder().configure_cs(CsSettings {
        capacity_packets: parameters.capacity.map(capacity),
        capacity_bytes: None,
        admit: switch(&parameters, types::CS_ADMIT),
        serve: switch(&parameters, types::CS_SERVE),
    });
    let info = host.forwarder_ref().cs();
    Ok(ControlParameters {
        capacity: Some(info.capacity_packets as u64),
        flags: Some(cs_flags(info.admit, info.serve)),
        ..ControlParameters::default()
    })
}

/// Count in the answer is the number of removed Data; Capacity is present if the limit was reached.
pub(super) fn erase_cs<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let name = command.name()?;
    let wanted = command.parameters.count;
    if wanted == Some(0) {
        return Err(malformed_command("Count is 0"));
    }
    let limit = wanted.unwrap_or(u64::MAX).min(ERASE_LIMIT);
    let erased = command.host.forwarder().erase_cs(name.as_ref(), Some(limit));
    let cut = erased == ERASE_LIMIT && wanted != Some(ERASE_LIMIT);
    Ok(ControlParameters {
        name: Some(name),
        count: Some(erased),
        capacity: cut.then_some(ERASE_LIMIT),
        ..ControlParameters::default()
    })
}

fn strategy_name(strategy: ForwardingStrategy) -> Name {
    // A constant of the forwarder. If it were no URI, the answer would contain "/".
    Name::from_uri(&strategy.to_string()).unwrap_or_default()
}

pub(super) fn strategies(host: &impl ManagementHost) -> Vec<u8> {
    let mut content = Vec::new();
    host.forwarder_ref().for_each_strategy(&mut |prefix, strategy| {
        StrategyChoice { name: prefix.to_name(), strategy: strategy_name(strategy) }
            .write_entry(&mut content);
    });
    content
}

pub(super) fn set_strategy<H: ManagementHost>(
    command: ManagementCommand<'_, H>,
    max_choices: usize,
) -> Answer {
    let name = command.name()?;
    let wanted = command
        .parameters
        .strategy
        .as_ref()
        .ok_or_else(|| malformed_command("Strategy is missing"))?;
    let strategy = ForwardingStrategy::parse(wanted.as_ref())
        .ok_or_else(|| CommandRefusal::new(404, "there is no such strategy"))?;
    let (mut choices, mut known) = (0, false);
    command.host.forwarder_ref().for_each_strategy(&mut |prefix, _| {
        choices += 1;
        known |= prefix == name.as_ref();
    });
    if choices >= max_choices && !known {
        return Err(CommandRefusal::new(503, "the maximum number of strategy choices is reached"));
    }
    command.host.forwarder().set_strategy(name.as_ref(), strategy).map_err(route_refusal)?;
    Ok(ControlParameters {
        name: Some(name),
        strategy: Some(strategy_name(strategy)),
        ..ControlParameters::default()
    })
}

pub(super) fn unset_strategy<H: ManagementHost>(command: ManagementCommand<'_, H>) -> Answer {
    let name = command.name()?;
    if name.is_empty() {
        return Err(malformed_command("the strategy of / can be changed, not unset"));
    }
    command.host.forwarder().unset_strategy(name.as_ref());
    Ok(ControlParameters { name: Some(name), ..ControlParameters::default() })
}
