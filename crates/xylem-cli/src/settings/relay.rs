//! The table `[node.relay]`: the limits of a relay.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use xylem_node::{AllowedClients, MAX_TOKENS, RelayOptions, TeamTokenError};
use xylem_object::PublisherId;

use super::set;

/// Lifetimes of a registration in seconds. Keep-alives come each sixth of it, but at most every 5 s.
const LIFETIME: std::ops::RangeInclusive<u64> = 30..=65_535;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RelayTable {
    enabled: Option<bool>,
    announce: Option<Vec<String>>,
    second_port: Option<u16>,
    allow: Option<Vec<String>>,
    allow_file: Option<PathBuf>,
    tokens: Option<Vec<String>>,
    memory_bytes: Option<usize>,
    registrations: Option<usize>,
    registrations_of_key: Option<usize>,
    registrations_of_host: Option<usize>,
    registrations_of_site: Option<usize>,
    circuits: Option<usize>,
    circuits_asked: Option<usize>,
    circuits_reached: Option<usize>,
    registrations_per_second: Option<u64>,
    connects_per_second: Option<u64>,
    bytes_per_second_of_key: Option<u64>,
    bytes_per_second_of_host: Option<u64>,
    bytes_per_second: Option<u64>,
    bytes_per_hour: Option<u64>,
    lifetime_seconds: Option<u64>,
    report_seconds: Option<u64>,
}

/// The clients that the relay serves: `None` if no setting names any, which means all. The keys of a file are read later.
fn allowed(
    keys: Option<Vec<String>>,
    tokens: Option<Vec<String>>,
    has_file: bool,
) -> Result<Option<AllowedClients>, String> {
    if keys.is_none() && tokens.is_none() && !has_file {
        return Ok(None);
    }
    let mut clients = AllowedClients::default();
    for text in keys.unwrap_or_default() {
        let key: PublisherId =
            text.parse().map_err(|e| format!("relay allow: {text:?} is no link key: {e}"))?;
        clients.keys.insert(key.0);
    }
    let tokens = tokens.unwrap_or_default();
    if tokens.len() > MAX_TOKENS {
        return Err(format!("relay tokens: at most {MAX_TOKENS}"));
    }
    for text in tokens {
        // The message has no part of it.
        let token = text.parse().map_err(|e: TeamTokenError| format!("relay tokens: {e}"))?;
        clients.tokens.push(token);
    }
    Ok(Some(clients))
}

impl RelayTable {
    /// The options; `None` if the relay is switched off.
    pub(super) fn settings(self) -> Result<Option<RelayOptions>, String> {
        let mut options = RelayOptions::default();
        for text in self.announce.unwrap_or_default() {
            let address = text.parse().map_err(|e| format!("relay announce: {text}: {e}"))?;
            options.announce.push(address);
        }
        options.second_port = self.second_port;
        options.allowed = allowed(self.allow, self.tokens, self.allow_file.is_some())?;
        options.allow_file = self.allow_file;
        set(&mut options.report, self.report_seconds.map(|n| Duration::from_secs(n.max(1))));
        let limits = &mut options.limits;
        if let Some(bytes) = self.memory_bytes {
            limits.set_memory(bytes);
        }
        set(&mut limits.registrations, self.registrations);
        set(&mut limits.registrations_of_key, self.registrations_of_key);
        set(&mut limits.registrations_of_host, self.registrations_of_host);
        set(&mut limits.registrations_of_site, self.registrations_of_site);
        set(&mut limits.circuits, self.circuits);
        set(&mut limits.circuits_asked, self.circuits_asked);
        set(&mut limits.circuits_reached, self.circuits_reached);
        // 0 means no limit.
        let rate = |own: &mut Option<u64>, wanted: Option<u64>| {
            if let Some(wanted) = wanted {
                *own = (wanted != 0).then_some(wanted);
            }
        };
        rate(&mut limits.registrations_per_second, self.registrations_per_second);
        rate(&mut limits.connects_per_second, self.connects_per_second);
        // Here it also means none for a volunteer, which has limits by itself.
        let bytes = |own: &mut Option<u64>, wanted: Option<u64>| {
            *own = wanted.map(|wanted| if wanted == 0 { u64::MAX } else { wanted }).or(*own);
        };
        bytes(&mut limits.bytes_per_second_of_key, self.bytes_per_second_of_key);
        bytes(&mut limits.bytes_per_second_of_host, self.bytes_per_second_of_host);
        rate(&mut limits.bytes_per_second, self.bytes_per_second);
        bytes(&mut limits.bytes_per_hour, self.bytes_per_hour);
        if let Some(seconds) = self.lifetime_seconds {
            if !LIFETIME.contains(&seconds) {
                return Err(format!(
                    "lifetime_seconds has to be between 30 and 65535, not {seconds}"
                ));
            }
            limits.lifetime = Duration::from_secs(seconds);
        }
        Ok(self.enabled.unwrap_or(true).then_some(options))
    }

    /// Compiles only if it names every setting, as the test that calls this does.
    #[cfg(test)]
    pub(super) fn has_every_setting(self) {
        macro_rules! all {
            ($table:expr, $($field:ident),*) => {{
                let RelayTable { $($field),* } = $table;
                $(assert!($field.is_some(), "{} is missing", stringify!($field));)*
            }};
        }
        all!(
            self,
            enabled,
            announce,
            second_port,
            allow,
            allow_file,
            tokens,
            memory_bytes,
            registrations,
            registrations_of_key,
            registrations_of_host,
            registrations_of_site,
            circuits,
            circuits_asked,
            circuits_reached,
            registrations_per_second,
            connects_per_second,
            bytes_per_second_of_key,
            bytes_per_second_of_host,
            bytes_per_second,
            bytes_per_hour,
            lifetime_seconds,
            report_seconds
        );
    }
}
