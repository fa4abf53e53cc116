//! What is asked of the LAN, the router and the DHT, beside the addresses of tickets: the flags, the settings, and
//! `get b3:HASH`, `get @PUBLISHER/NAME`.

use crate::cli::Common;
use crate::code::{self, Whom};
use crate::exit::{Exit, Failure};
use crate::get::ended;
use crate::output::Out;
use crate::settings;
use crate::shaping::ShapeArgs;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::time::Duration;
use xylem_hash::Hash;
use xylem_library::{LibraryEvent, Stop};
use xylem_node::{AnnounceOptions, DhtStart, Event, Peer, PublicOptions, Wanted, find_public};
use xylem_object::Ticket;

/// Of those who are found in the DHT and turn out to have nothing, so many are left for another one.
const MAX_FOUND: usize = 8;
/// Longest name of a publisher's that is asked for.
const MAX_NAME: usize = 1024;

/// Of commands that look for others.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FindArgs {
    /// Do not ask the LAN [default: `lan` in the settings, else it is asked]
    ///
    /// While nobody has answered at a ticket's addresses for 0.1 s, its sharer is asked for by mDNS, under a name that
    /// changes every day and that only holders of the ticket can compute. Others on the LAN see that this machine
    /// looks for something, and not what.
    #[arg(long, env = "XYLEM_NO_LAN", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_lan: bool,

    /// With --seed: do not ask the router to forward the port [default: `map` in the settings, else it is asked]
    #[arg(long, env = "XYLEM_NO_MAP", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_map: bool,

    #[command(flatten)]
    dht: DhtArgs,
}

/// Of commands that may look for others on the LAN, or be looked for there, and never ask the router or the DHT.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LanArgs {
    /// Neither ask the LAN for anybody nor announce anything on it [default: `lan` in the settings, else by mDNS both]
    #[arg(long, env = "XYLEM_NO_LAN", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_lan: bool,
}

impl LanArgs {
    /// Whether the LAN may be asked and told.
    pub(crate) fn lan(&self, common: &Common) -> Result<bool, Failure> {
        Ok(!self.no_lan && found(common)?.lan)
    }
}

/// Where the DHT is entered.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DhtArgs {
    /// Where the mainline DHT is entered, for what is public; can be repeated [default: `bootstrap` under
    /// [dht] in the settings, else nodes met earlier, else those that BitTorrent programs use]
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "XYLEM_DHT_BOOTSTRAP",
        hide_env_values = true,
        value_delimiter = ','
    )]
    dht_bootstrap: Vec<String>,
}

/// Of commands that are to be found.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AnnounceArgs {
    /// Tell everybody: announce it in the mainline DHT, the one of BitTorrent, so that `xylem get b3:HASH` and
    /// `xylem get @PUBLISHER/NAME` find it with no ticket
    ///
    /// The DHT's nodes, and whoever asks them, then learn this machine's address and port, and a hash of the
    /// root; who knows the root, that it is served here, and by whom. What stands under a publisher's name is
    /// signed by it. Without this flag the DHT is never asked and never told anything.
    #[arg(long, conflicts_with = "follow")]
    public: bool,

    #[command(flatten)]
    near: NearArgs,

    #[command(flatten)]
    dht: DhtArgs,
}

/// Of commands that serve: whether those nearby are told, and asked to pass on.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NearArgs {
    /// Do not announce it on the LAN [default: `lan` in the settings, else it is announced]
    ///
    /// By mDNS, under a name that changes every day and that only holders of the ticket can compute, so that `xylem
    /// get` finds this machine where every address in the ticket is old. Others on the LAN see that something is
    /// shared here and at which port, and not what. Never where --listen names loopback alone.
    #[arg(long, env = "XYLEM_NO_LAN", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_lan: bool,

    /// Do not ask the router to forward the port [default: `map` in the settings, else it is asked]
    ///
    /// By PCP, NAT-PMP or UPnP, of this machine's own router alone, where this machine has a private address and
    /// listens on all interfaces; it is taken back at the end.
    #[arg(long, env = "XYLEM_NO_MAP", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_map: bool,
}

/// What the settings say.
fn found(common: &Common) -> Result<settings::Finding, Failure> {
    let wrong = |why| Failure::new(Exit::Usage, why);
    common
        .settings()
        .map_or(Ok(settings::Finding::default()), |path| settings::finding(&path).map_err(wrong))
}

impl DhtArgs {
    /// Nodes that were named.
    pub(crate) fn named(&self) -> &[String] {
        &self.dht_bootstrap
    }

    fn start(&self, settings: &settings::Finding) -> Result<DhtStart, Failure> {
        let named = match &self.dht_bootstrap[..] {
            [] => settings.bootstrap.clone(),
            named => Some(named.to_vec()),
        };
        for node in named.iter().flatten() {
            let port = node.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none_or(|port| port == 0) {
                let what = format!("{node:?} is not where the DHT is entered: give HOST:PORT");
                return Err(Failure::new(Exit::Usage, what));
            }
        }
        Ok(DhtStart { bootstrap: named })
    }
}

impl NearArgs {
    /// What is told nearby, and nobody else.
    pub(crate) fn options(&self, common: &Common) -> Result<AnnounceOptions, Failure> {
        let (settings, Self { no_lan, no_map }) = (found(common)?, self);
        let (lan, map) = (!no_lan && settings.lan, !no_map && settings.map);
        Ok(AnnounceOptions { lan, map, public: None })
    }

    /// As another run of this program takes them.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let Self { no_lan, no_map } = *self;
        let given = [(no_lan, "--no-lan"), (no_map, "--no-map")];
        given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

impl AnnounceArgs {
    /// Of the background node, which has these flags of its own.
    #[cfg(unix)]
    pub(crate) fn of_service(public: bool, near: &NearArgs, dht: &DhtArgs) -> Self {
        Self { public, near: near.clone(), dht: dht.clone() }
    }

    /// Which flag was given that is for the whole process and not for one share of it.
    pub(crate) fn for_all(&self) -> Option<&'static str> {
        // What is told nearby may be another of each share: `options` has it.
        let Self { public, near: NearArgs { no_lan: _, no_map: _ }, dht } = self;
        let DhtArgs { dht_bootstrap } = dht;
        let asked = [(*public, "--public"), (!dht_bootstrap.is_empty(), "--dht-bootstrap")];
        asked.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// What is told, and whom.
    pub(crate) fn options(&self, common: &Common) -> Result<AnnounceOptions, Failure> {
        let Self { public, near, dht } = self;
        let public = public.then(|| dht.start(&found(common)?)).transpose()?;
        Ok(AnnounceOptions { public, ..near.options(common)? })
    }
}

impl FindArgs {
    /// Whether the LAN may be asked.
    pub(crate) fn lan(&self, common: &Common) -> Result<bool, Failure> {
        Ok(!self.no_lan && found(common)?.lan)
    }

    /// How a seed is found: what was looked for in the DHT is announced there.
    pub(crate) fn of_seed(&self, text: &str, common: &Common) -> Result<AnnounceOptions, Failure> {
        let settings = found(common)?;
        Ok(AnnounceOptions {
            lan: !self.no_lan && settings.lan,
            map: !self.no_map && settings.map,
            public: is_public(text).then(|| self.dht.start(&settings)).transpose()?,
        })
    }

    /// Has `fetch` try with what `text` is or stands for. Whoever is found in the DHT may have nothing, although it answered:
    /// then another one is looked for, if it may be tried `again`.
    #[expect(clippy::too_many_arguments, reason = "what `ticket` takes, and two more")]
    pub(crate) fn each_found(
        &self,
        text: &str,
        whom: Whom,
        how: (Duration, &ShapeArgs, &Stop),
        again: bool,
        common: &Common,
        out: &mut Out,
        mut fetch: impl FnMut(Ticket, Vec<Peer>, &mut Out) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let again = again && is_public(text);
        let (mut avoid, mut last): (Vec<[u8; 32]>, Option<Failure>) = (Vec::new(), None);
        loop {
            let found = self.ticket(text, whom.clone(), how, &avoid, common, out);
            let (ticket, from) = match (found, last.take()) {
                // Nobody else: what became of the last one says more.
                (Err(none), Some(last)) if none.exit == Exit::Unreachable => return Err(last),
                (found, _) => found?,
            };
            let (key, at) = (ticket.link_key, ticket.addresses.first().cloned());
            match fetch(ticket, from, out) {
                Err(failed)
                    if again && failed.exit == Exit::Unreachable && avoid.len() < MAX_FOUND =>
                {
                    let at = at.map_or_else(String::new, |at| format!(" at {at}"));
                    let why = &failed.message;
                    let what = format!("who was found{at} ends it: {why}; looking for another");
                    out.event(Event::Library(LibraryEvent::Warning { what }));
                    avoid.extend(key);
                    last = Some(failed);
                }
                done => return done,
            }
        }
    }

    /// The ticket that `text` is or stands for, and whom to ask: the DHT leads to one, or a code to the other. Who has
    /// one of the keys of `avoid` was found before.
    fn ticket(
        &self,
        text: &str,
        whom: Whom,
        (give_up, shape, stop): (Duration, &ShapeArgs, &Stop),
        avoid: &[[u8; 32]],
        common: &Common,
        out: &mut Out,
    ) -> Result<(Ticket, Vec<Peer>), Failure> {
        let Some(wanted) = wanted(text) else {
            return code::or_ticket(text, whom, give_up, stop, out);
        };
        let usage = |why: &str| Failure::new(Exit::Usage, format!("{text}: {why}"));
        let wanted = wanted.map_err(|why| usage(&why))?;
        if !whom.from.is_empty() {
            return Err(usage(
                "whom to ask is found in the DHT; with --from give a ticket or a name",
            ));
        }
        let options = PublicOptions {
            wanted,
            dht: self.dht.start(&found(common)?)?,
            links: shape.links(),
            give_up,
            store: common.store()?,
            avoid: avoid.to_vec(),
        };
        let found = find_public(&options, stop).map_err(|error| ended(error, stop))?;
        Ok((found, whom.from))
    }
}

/// Whether what is asked for is looked for in the DHT.
fn is_public(text: &str) -> bool {
    wanted(text).is_some()
}

/// What is asked for that no ticket says; `None` if `text` is no such thing.
fn wanted(text: &str) -> Option<Result<Wanted, String>> {
    if let Some(hex) = text.strip_prefix("b3:") {
        let root = Hash::from_hex(hex.to_ascii_lowercase());
        return Some(
            root.map(Wanted::Root).map_err(|_| "b3: and 64 hexadecimal digits".to_owned()),
        );
    }
    // A file in a folder of such a name is reached as @./…
    let (publisher, name) = text.strip_prefix('@')?.split_once('/')?;
    let publisher = publisher.parse().ok()?;
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    Some(if fits {
        Ok(Wanted::Name(publisher, name.to_owned()))
    } else {
        Err("no name".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_object::PublisherId;

    #[test]
    fn what_the_dht_is_asked_for() {
        let hex = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        let root = Wanted::Root(Hash::from_hex(hex).unwrap());
        assert_eq!(wanted(&format!("b3:{hex}")), Some(Ok(root.clone())));
        assert_eq!(wanted(&format!("b3:{}", hex.to_uppercase())), Some(Ok(root)));
        assert!(matches!(wanted("b3:12"), Some(Err(_))));
        let publisher: PublisherId = hex.parse().unwrap();
        let named = |name: &str| wanted(&format!("@{hex}/{name}"));
        assert_eq!(named("a/b c"), Some(Ok(Wanted::Name(publisher, "a/b c".to_owned()))));
        assert!(matches!(named(""), Some(Err(_))));
        assert!(matches!(named(&"x".repeat(2000)), Some(Err(_))));
        for other in ["@ticket.txt", "@./x/y", "xylem:abc", "/a", "-", ""] {
            assert_eq!(wanted(other), None, "{other}");
        }
    }
}
