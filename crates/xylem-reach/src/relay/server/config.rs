//! [`Config`]: what a relay gives to whom; [`Metrics`]: what it has done.

use core::time::Duration;

use crate::relay::rate::Allowance;
use crate::relay::wire::Refusal;

/// What a relay gives to whom. A host is an IPv4 address or the first 64 bits of an IPv6 address; a site has 24 or 48
/// bits in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Registrations at once, of all.
    pub registrations: usize,
    /// Of one link key; the oldest gives way.
    pub registrations_of_key: usize,
    /// Of one host; more are refused.
    pub registrations_of_host: usize,
    /// Of one site; the oldest gives way.
    pub registrations_of_site: usize,
    /// Pairs that were connected, of all; the oldest of the site that has asked for most gives way.
    pub circuits: usize,
    /// Pairs that one registration has asked for; the one that was silent for longest gives way.
    pub circuits_asked: usize,
    /// Pairs in which a registration was asked for; of the host that has most, the one that was silent for longest gives way.
    pub circuits_reached: usize,
    /// Registrations of one host a second, and ten seconds' worth of them at once; `None`: as many as it likes.
    pub registrations_per_second: Option<u64>,
    /// Peers that one host asks for a second, likewise.
    pub connects_per_second: Option<u64>,
    /// Bytes that are passed for one registration a second, from it and to it; `None`: what the network carries.
    pub bytes_per_second_of_key: Option<u64>,
    /// Bytes that are passed for one host a second.
    pub bytes_per_second_of_host: Option<u64>,
    /// How long a registration lives after its last keep-alive; at most 65,535 s.
    pub lifetime: Duration,
    /// Where the second port is.
    pub second_port: Option<u16>,
    /// What made-up addresses begin with.
    pub hidden: Option<[u8; 6]>,
}

impl Default for Config {
    /// A relay that everybody may use.
    fn default() -> Self {
        Self {
            registrations: 16_384,
            registrations_of_key: 16,
            registrations_of_host: 256,
            registrations_of_site: 1_024,
            circuits: 32_768,
            circuits_asked: 64,
            circuits_reached: 512,
            registrations_per_second: Some(8),
            connects_per_second: Some(16),
            bytes_per_second_of_key: None,
            bytes_per_second_of_host: None,
            lifetime: Duration::from_secs(120),
            second_port: None,
            hidden: None,
        }
    }
}

impl Config {
    /// What somebody gives beside something else, so that two who have reached it find each other: enough for handshakes and
    /// for what is said about addresses, too little for content.
    #[must_use]
    pub fn introducing() -> Self {
        Self {
            registrations: 512,
            registrations_of_key: 4,
            registrations_of_host: 32,
            registrations_of_site: 64,
            circuits: 1_024,
            circuits_asked: 32,
            circuits_reached: 32,
            registrations_per_second: Some(2),
            connects_per_second: Some(4),
            bytes_per_second_of_key: Some(16 << 10),
            bytes_per_second_of_host: Some(64 << 10),
            ..Self::default()
        }
    }

    pub(super) fn registering(&self) -> Option<Allowance> {
        allowance(self.registrations_per_second, 10)
    }

    pub(super) fn connecting(&self) -> Option<Allowance> {
        allowance(self.connects_per_second, 10)
    }

    pub(super) fn bytes_of_key(&self) -> Option<Allowance> {
        allowance(self.bytes_per_second_of_key, 2)
    }

    pub(super) fn bytes_of_host(&self) -> Option<Allowance> {
        allowance(self.bytes_per_second_of_host, 2)
    }
}

fn allowance(per_second: Option<u64>, seconds: u64) -> Option<Allowance> {
    per_second.map(|per_second| Allowance { per_second, burst: Duration::from_secs(seconds) })
}

/// What a relay has done, and what is there.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Registrations that live.
    pub registrations: usize,
    /// Pairs that are connected.
    pub circuits: usize,
    /// Registrations since the start.
    pub registered: u64,
    /// Pairs that were connected.
    pub connected: u64,
    /// Registrations whose time was over.
    pub expired: u64,
    /// Registrations that gave way.
    pub crowded_out: u64,
    /// Requests that found nobody.
    pub refused_not_here: u64,
    /// Requests that were too many.
    pub refused_quota: u64,
    /// Requests with a name that the publisher does not vouch for, or another's secret.
    pub refused_lies: u64,
    /// Requests of hosts that had lied or had sent garbage.
    pub refused_banned: u64,
    /// Lies and garbage.
    pub offences: u64,
    /// Keep-alives that were answered.
    pub keeps: u64,
    /// Keep-alives that were none, or had come before.
    pub refused_keeps: u64,
    /// Datagrams that were passed.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that were not passed: too many, or for nobody.
    pub dropped: u64,
    /// Datagrams of clients that a relay with this key had before, which were told so.
    pub resets: u64,
}

impl Metrics {
    pub(super) fn refused(&mut self, why: Refusal) {
        let count = match why {
            Refusal::NotHere => &mut self.refused_not_here,
            Refusal::Quota => &mut self.refused_quota,
            Refusal::NotVouched | Refusal::Taken => &mut self.refused_lies,
            Refusal::Banned => &mut self.refused_banned,
        };
        *count = count.saturating_add(1);
    }

    /// Each with a name, for whoever writes them down.
    #[must_use]
    pub fn each(&self) -> [(&'static str, u64); 17] {
        let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
        [
            ("registrations", count(self.registrations)),
            ("circuits", count(self.circuits)),
            ("registered", self.registered),
            ("connected", self.connected),
            ("expired", self.expired),
            ("crowded_out", self.crowded_out),
            ("refused_not_here", self.refused_not_here),
            ("refused_quota", self.refused_quota),
            ("refused_lies", self.refused_lies),
            ("refused_banned", self.refused_banned),
            ("offences", self.offences),
            ("keeps", self.keeps),
            ("refused_keeps", self.refused_keeps),
            ("datagrams", self.datagrams),
            ("bytes", self.bytes),
            ("dropped", self.dropped),
            ("resets", self.resets),
        ]
    }
}
