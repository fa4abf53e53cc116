//! Discovery on the LAN, at the router and in the DHT, beyond the addresses of tickets: flags, settings, and `get
//! b3:HASH` and `get @PUBLISHER/NAME`.

use crate::cli::Common;
use crate::code::{self, CodeSource, FoundTicket};
use crate::exit::{CommandFailure, Exit};
use crate::get::ended;
use crate::output::Out;
use crate::settings;
use crate::shaping::ShapeArgs;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::time::Duration;
use xylem_base::Stop;
use xylem_files::LibraryEvent;
use xylem_hash::Hash;
use xylem_node::code::CodeDht;
use xylem_node::{
    AnnounceOptions, DhtStart, Event, PublicOptions, PublicSharer, PublicTarget, find_public,
};

/// How many sharers that the DHT names are given up, because they have nothing, before the search ends.
const MAX_FOUND: usize = 8;
/// Longest name of a publication in bytes that is looked up.
const MAX_NAME: usize = 1024;

/// Discovery flags of commands that look for peers.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FindArgs {
    #[command(flatten)]
    lan: LanArgs,

    #[command(flatten)]
    dht: CodeDhtArgs,
}

/// The LAN's flag.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LanArgs {
    /// Neither look for peers on the LAN nor announce anything on it [default: `lan` in the settings, else both]
    ///
    /// Both are by mDNS, under names that change every day and that only holders of the ticket, card or code can compute, so that
    /// peers find each other even if every address in the ticket is old. Other machines on the LAN see that this
    /// machine looks for or shares something, and at which port, but not what. Peers are looked for if none at the
    /// ticket's addresses has answered for 0.1 s; nothing is announced if --listen names loopback alone.
    #[arg(long, env = "XYLEM_NO_LAN", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_lan: bool,
}

/// The router's flag.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct MapArgs {
    /// Do not ask the router to forward the port [default: `map` in the settings, else it is asked]
    ///
    /// Uses PCP, NAT-PMP or UPnP with this machine's own router alone, if this machine has a private address and
    /// listens on all interfaces. The mapping is removed at the end. `get` asks for --seed alone.
    #[arg(long, env = "XYLEM_NO_MAP", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_map: bool,
}

impl MapArgs {
    /// Whether to ask the router.
    pub(crate) fn map(&self, common: &Common) -> Result<bool, CommandFailure> {
        Ok(!self.no_map && discovery_settings(common)?.map)
    }
}

impl LanArgs {
    /// Whether to look and announce on the LAN.
    pub(crate) fn lan(&self, common: &Common) -> Result<bool, CommandFailure> {
        Ok(!self.no_lan && discovery_settings(common)?.lan)
    }
}

/// Where to enter the DHT.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DhtArgs {
    /// Enter the mainline DHT here, for what is public and for codes; can be repeated [default: `bootstrap` under [dht] in the
    /// settings, else nodes met earlier, else those that BitTorrent programs use]
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "XYLEM_DHT_BOOTSTRAP",
        hide_env_values = true,
        hide_short_help = true,
        value_delimiter = ','
    )]
    dht_bootstrap: Vec<String>,
}

/// Flags of commands that show or take codes: whether in the DHT, and where to enter it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CodeDhtArgs {
    /// Neither list codes in the DHT of BitTorrent nor look for codes and sharers there [default: `dht` in the settings]
    ///
    /// A code is listed there by its number, for ten minutes, if no relay assigns one, and looked for if for half a
    /// second no peer on the LAN has an answer, and for 2.5 s no relay. The sharer of a ticket is looked for there if for 3 s
    /// no address and no relay of the ticket has answered. If there is no direct way, the two sides of either meet at a relay of
    /// a stranger that is listed there, if there is one (`volunteers` under [dht] in the settings). What is public (--public, b3:HASH,
    /// @PUBLISHER/NAME) is refused without the DHT. Nodes of the DHT see the addresses of both sides and the number, not the words.
    #[arg(
        long,
        env = "XYLEM_NO_DHT",
        hide_env_values = true,
        hide_short_help = true,
        value_parser = FalseyValueParser::new()
    )]
    no_dht: bool,

    #[command(flatten)]
    dht: DhtArgs,
}

/// Flags of commands that show no codes: whether to use the DHT, and where to enter it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServiceDhtArgs {
    /// Do not use the DHT of BitTorrent: --public, --volunteer and `net reach --dht` are refused [default: `dht` in the settings]
    #[arg(
        long,
        env = "XYLEM_NO_DHT",
        hide_env_values = true,
        hide_short_help = true,
        value_parser = FalseyValueParser::new()
    )]
    no_dht: bool,

    #[command(flatten)]
    dht: DhtArgs,
}

/// Flags of a relay: whether to list it in the DHT, and where to enter it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct VolunteerArgs {
    /// Serve strangers as well: list this relay in the DHT of BitTorrent, where peers find it that know no relay
    ///
    /// Two people with a code, both behind NATs that let no direct way be found, then meet here. Each client gets 512 KB/s, each
    /// host 1 MB/s and all together 10 GB an hour, if the settings ([node.relay]) have no other limits. All else is as with any
    /// relay. The machine needs an address that is reached from anywhere.
    #[arg(long)]
    volunteer: bool,

    #[command(flatten)]
    dht: ServiceDhtArgs,
}

impl VolunteerArgs {
    /// Where to list the relay; `None`: nowhere.
    pub(crate) fn start(&self, common: &Common) -> Result<Option<DhtStart>, CommandFailure> {
        self.volunteer.then(|| self.dht.start("--volunteer", common)).transpose()
    }
}

/// Flags of `net reach`: whether to try the DHT, and where to enter it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DhtTrialArgs {
    /// Try the BitTorrent DHT, too: which nodes answer, which addresses they see, whether it leads here, and whether it lists
    /// volunteer relays
    ///
    /// These are the steps of a code and of a public share. This machine is listed under a random key; the nodes that are asked
    /// see its address, and up to 24 listed relays for strangers are asked whether they are there.
    #[arg(long)]
    dht: bool,

    #[command(flatten)]
    nodes: ServiceDhtArgs,
}

impl DhtTrialArgs {
    /// Where to enter the DHT, and the store that knows nodes; `None`: it is not tried.
    pub(crate) fn start(&self, common: &Common) -> Result<Option<CodeDht>, CommandFailure> {
        if !self.dht {
            return Ok(None);
        }
        Ok(Some(CodeDht::new(self.nodes.start("--dht", common)?, &common.store()?)))
    }
}

impl ServiceDhtArgs {
    /// Where to enter the DHT for this flag, which needs it.
    fn start(&self, flag: &str, common: &Common) -> Result<DhtStart, CommandFailure> {
        let settings = discovery_settings(common)?;
        if self.no_dht || !settings.dht {
            let what = format!(
                "the DHT is turned off (--no-dht, XYLEM_NO_DHT or `dht = false` in the settings), and {flag} needs it"
            );
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        self.dht.start(&settings)
    }

    /// The flags as arguments for another run of this program.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&'static str, Option<String>)> {
        let off = self.no_dht.then_some(("--no-dht", None));
        let named = self.dht.dht_bootstrap.iter();
        off.into_iter().chain(named.map(|at| ("--dht-bootstrap", Some(at.clone()))))
    }
}

/// Discovery flags of commands that may announce in the DHT.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AnnounceArgs {
    /// Announce it in the public DHT of BitTorrent [default: `public` in the settings]
    ///
    /// `xylem get b3:HASH` and `xylem get @PUBLISHER/NAME` then find it without a ticket. A ticket outlives the addresses in
    /// it: if none of them answers, `xylem get TICKET` finds this machine there, behind most NATs as well, and
    /// behind the others at a relay of a stranger that is listed there, if there is one.
    #[arg(long, conflicts_with = "follow")]
    public: bool,

    #[command(flatten)]
    near: NearArgs,

    #[command(flatten)]
    dht: CodeDhtArgs,
}

/// Discovery flags of commands that serve: whether to announce on the LAN, and whether to ask the router to forward the
/// port.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NearArgs {
    #[command(flatten)]
    lan: LanArgs,

    #[command(flatten)]
    map: MapArgs,
}

/// The discovery part of the settings.
fn discovery_settings(common: &Common) -> Result<settings::DiscoverySettings, CommandFailure> {
    let wrong = |why| CommandFailure::new(Exit::Usage, why);
    common.settings().map_or(Ok(settings::DiscoverySettings::default()), |path| {
        settings::finding(&path).map_err(wrong)
    })
}

impl DhtArgs {
    fn start(&self, settings: &settings::DiscoverySettings) -> Result<DhtStart, CommandFailure> {
        let named = match &self.dht_bootstrap[..] {
            [] => settings.bootstrap.clone(),
            named => Some(named.to_vec()),
        };
        for node in named.iter().flatten() {
            let port = node.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none_or(|port| port == 0) {
                let what = format!("{node:?} is not the address of a DHT node: give HOST:PORT");
                return Err(CommandFailure::new(Exit::Usage, what));
            }
        }
        Ok(DhtStart { bootstrap: named, volunteers: settings.volunteers })
    }
}

impl CodeDhtArgs {
    /// How codes use the DHT; `None`: not at all.
    pub(crate) fn of_codes(&self, common: &Common) -> Result<Option<DhtStart>, CommandFailure> {
        let settings = discovery_settings(common)?;
        let wanted = !self.no_dht && settings.code_dht;
        wanted.then(|| self.dht.start(&settings)).transpose()
    }

    /// How what is public uses the DHT.
    fn of_public(&self, common: &Common) -> Result<DhtStart, CommandFailure> {
        let settings = discovery_settings(common)?;
        if self.no_dht || !settings.dht {
            let what = "the DHT is turned off (--no-dht, XYLEM_NO_DHT or `dht = false` in the settings), and --public, \
                        b3:HASH and @PUBLISHER/NAME need it";
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        self.dht.start(&settings)
    }

    /// The same as [`CodeDhtArgs::of_codes`], with the nodes that the store knows.
    pub(crate) fn with_store(&self, common: &Common) -> Result<Option<CodeDht>, CommandFailure> {
        let Some(start) = self.of_codes(common)? else { return Ok(None) };
        Ok(Some(CodeDht::new(start, &common.store()?)))
    }
}

impl NearArgs {
    /// What to announce nearby; nothing goes to the DHT.
    pub(crate) fn options(&self, common: &Common) -> Result<AnnounceOptions, CommandFailure> {
        let (lan, map) = (self.lan.lan(common)?, self.map.map(common)?);
        Ok(AnnounceOptions { lan, map, public: None })
    }

    /// The flags as arguments for another run of this program.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let Self { lan: LanArgs { no_lan }, map: MapArgs { no_map } } = *self;
        let given = [(no_lan, "--no-lan"), (no_map, "--no-map")];
        given.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

impl AnnounceArgs {
    /// The flags of the background node, which defines its own.
    pub(crate) fn of_service(public: bool, near: &NearArgs, dht: &ServiceDhtArgs) -> Self {
        let ServiceDhtArgs { no_dht, dht } = dht.clone();
        let dht = CodeDhtArgs { no_dht, dht };
        Self { public, near: near.clone(), dht }
    }

    /// The first flag given that applies to the whole process and not to a single share.
    pub(crate) fn for_all(&self, common: &Common) -> Result<Option<&'static str>, CommandFailure> {
        // Each share can have its own flags for the LAN and the router; `options` reads them.
        let Self { public, near: NearArgs { lan: _, map: _ }, dht } = self;
        // Codes are shown by this process in any case. The background node announces all shares if the settings do.
        let CodeDhtArgs { no_dht, dht: DhtArgs { dht_bootstrap } } = dht;
        let hides = *no_dht && discovery_settings(common)?.public;
        let asked = [
            (*public, "--public"),
            (hides, "--no-dht"),
            (!dht_bootstrap.is_empty(), "--dht-bootstrap"),
        ];
        Ok(asked.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag))
    }

    /// How codes use the DHT; `None`: not at all.
    pub(crate) fn of_codes(&self, common: &Common) -> Result<Option<DhtStart>, CommandFailure> {
        self.dht.of_codes(common)
    }

    /// What to announce, and where.
    pub(crate) fn options(&self, common: &Common) -> Result<AnnounceOptions, CommandFailure> {
        let Self { public, near, dht } = self;
        let settings = discovery_settings(common)?;
        // Turning the DHT off goes before this setting, and contradicts the flag.
        let public = *public || (settings.public && settings.dht && !dht.no_dht);
        let public = public.then(|| dht.of_public(common)).transpose()?;
        Ok(AnnounceOptions { public, ..near.options(common)? })
    }
}

/// The terms of a search.
pub(crate) struct FindTerms<'a> {
    /// Time without an answer after which it ends.
    pub(crate) give_up: Duration,
    pub(crate) shape: &'a ShapeArgs,
    pub(crate) stop: &'a Stop,
    /// Whether another sharer is looked up if one that the DHT names has nothing.
    pub(crate) again: bool,
    /// Whether no other peer is to learn this machine's address.
    pub(crate) hides: bool,
}

impl FindArgs {
    /// Whether to look on the LAN.
    pub(crate) fn lan(&self, common: &Common) -> Result<bool, CommandFailure> {
        self.lan.lan(common)
    }

    /// How to ask the DHT for a code.
    pub(crate) fn code_dht(&self, common: &Common) -> Result<Option<CodeDht>, CommandFailure> {
        self.dht.with_store(common)
    }

    /// How to search the DHT for the sharer of a ticket with silent addresses. Not if this fetch `hides` from other peers:
    /// the search shows its address.
    pub(crate) fn ticket_dht(
        &self,
        hides: bool,
        common: &Common,
    ) -> Result<Option<CodeDht>, CommandFailure> {
        let settings = discovery_settings(common)?;
        if hides || self.dht.no_dht || !settings.dht {
            return Ok(None);
        }
        Ok(Some(CodeDht::new(self.dht.dht.start(&settings)?, &common.store()?)))
    }

    /// How to announce a seed. It is announced in the DHT if it was looked up there.
    pub(crate) fn of_seed(
        &self,
        map: MapArgs,
        text: &str,
        common: &Common,
    ) -> Result<AnnounceOptions, CommandFailure> {
        let public = is_public(text).then(|| self.dht.of_public(common));
        let (lan, map) = (self.lan(common)?, map.map(common)?);
        Ok(AnnounceOptions { lan, map, public: public.transpose()? })
    }

    /// Runs `fetch` with the ticket that `text` is or stands for. A sharer that the DHT names may answer and have
    /// nothing: then another one is looked up, if `terms` allow it.
    pub(crate) fn each_found(
        &self,
        text: &str,
        whom: CodeSource,
        terms: &FindTerms<'_>,
        common: &Common,
        out: &mut Out,
        mut fetch: impl FnMut(FoundTicket, &mut Out) -> Result<Exit, CommandFailure>,
    ) -> Result<Exit, CommandFailure> {
        let again = terms.again && is_public(text);
        let (mut avoid, mut last): (Vec<[u8; 32]>, Option<CommandFailure>) = (Vec::new(), None);
        loop {
            let found = self.ticket(text, whom.clone(), terms, &avoid, common, out);
            let found = match (found, last.take()) {
                // There is no other sharer, and the failure of the last one says more than that.
                (Err(none), Some(last)) if none.exit == Exit::Unreachable => return Err(last),
                (found, _) => found?,
            };
            let ticket = &found.ticket;
            let (key, at) = (ticket.link_key, ticket.addresses.first().cloned());
            match fetch(found, out) {
                Err(failed)
                    if again && failed.exit == Exit::Unreachable && avoid.len() < MAX_FOUND =>
                {
                    let at = at.map_or_else(String::new, |at| format!(" at {at}"));
                    let why = &failed.message;
                    let what = format!("the peer found{at} failed: {why}; looking for another");
                    out.event(Event::Library(LibraryEvent::Warning { what }));
                    avoid.extend(key);
                    last = Some(failed);
                }
                done => return done,
            }
        }
    }

    /// The ticket that `text` is or stands for, and the peers to ask. The ticket comes from the DHT or from a code.
    /// Sharers with a link key in `avoid` were tried before and are skipped.
    fn ticket(
        &self,
        text: &str,
        whom: CodeSource,
        terms: &FindTerms<'_>,
        avoid: &[[u8; 32]],
        common: &Common,
        out: &mut Out,
    ) -> Result<FoundTicket, CommandFailure> {
        let FindTerms { give_up, shape, stop, hides, .. } = *terms;
        let Some(wanted) = wanted(text) else {
            return code::or_ticket(text, whom, give_up, stop, out);
        };
        let usage = |why: &str| CommandFailure::new(Exit::Usage, format!("{text}: {why}"));
        let wanted = wanted.map_err(|why| usage(&why))?;
        if !whom.from.is_empty() {
            return Err(usage(
                "its peers are found in the DHT; leave out --from, or give a ticket or a name",
            ));
        }
        let options = PublicOptions {
            wanted,
            dht: self.dht.of_public(common)?,
            links: shape.links(),
            give_up,
            store: common.store()?,
            avoid: avoid.to_vec(),
            punch: self.ticket_dht(hides, common)?,
        };
        let found = find_public(&options, stop, &mut |event| out.event(event));
        out.take_broken()?;
        let found = found.map_err(|error| ended(error, stop))?;
        let PublicSharer { ticket, port } = found;
        Ok(FoundTicket { ticket, from: whom.from, port })
    }
}

/// Whether `text` is looked up in the DHT.
fn is_public(text: &str) -> bool {
    wanted(text).is_some()
}

/// Parses `b3:HASH` and `@PUBLISHER/NAME`; `None` if `text` is neither.
fn wanted(text: &str) -> Option<Result<PublicTarget, String>> {
    if let Some(hex) = text.strip_prefix("b3:") {
        let root = Hash::from_hex(hex.to_ascii_lowercase());
        return Some(
            root.map(PublicTarget::Root)
                .map_err(|_| "expected b3: and 64 hexadecimal digits".to_owned()),
        );
    }
    // A user writes @./… for a file in a folder with such a name.
    let (publisher, name) = text.strip_prefix('@')?.split_once('/')?;
    let publisher = publisher.parse().ok()?;
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    Some(if fits {
        Ok(PublicTarget::Name(publisher, name.to_owned()))
    } else {
        Err(format!("expected @PUBLISHER/NAME, with a NAME of 1 to {MAX_NAME} bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_object::PublisherId;

    #[test]
    fn names_for_the_dht_are_parsed() {
        let hex = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        let root = PublicTarget::Root(Hash::from_hex(hex).unwrap());
        assert_eq!(wanted(&format!("b3:{hex}")), Some(Ok(root.clone())));
        assert_eq!(wanted(&format!("b3:{}", hex.to_uppercase())), Some(Ok(root)));
        assert!(matches!(wanted("b3:12"), Some(Err(_))));
        let publisher: PublisherId = hex.parse().unwrap();
        let named = |name: &str| wanted(&format!("@{hex}/{name}"));
        assert_eq!(named("a/b c"), Some(Ok(PublicTarget::Name(publisher, "a/b c".to_owned()))));
        assert!(matches!(named(""), Some(Err(_))));
        assert!(matches!(named(&"x".repeat(2000)), Some(Err(_))));
        for other in ["@ticket.txt", "@./x/y", "xylem:abc", "/a", "-", ""] {
            assert_eq!(wanted(other), None, "{other}");
        }
    }
}
