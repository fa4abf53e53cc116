//! `xylem sync DIR [TICKET]`: a folder that several keep in step.

mod asking;
mod fetching;
mod history;
mod keeping;
mod lean;
mod member;
mod staged;

use crate::cli::Common;
use crate::exit::{Exit, Failure, exit_help};
use crate::finding::NearArgs;
use crate::meant;
use crate::output::{
    Out,
    text::{clean, count},
};
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::share::parse_identity;
use crate::stop;
use crate::values::{listen_at, read_text};
use clap::Args;
use keeping::{SyncEvent, SyncOptions};
use serde::Serialize;
use std::path::{Path, PathBuf};
use xylem_library::folder::{
    Home, HomeError, Invitation, InvitationError, LastRun, OWN, Role, RoleSchema,
};
use xylem_library::{canonical, keys};
use xylem_node::{Event, wall_clock};
use xylem_object::ticket::Address;

/// Keeps a folder in step among members: what one changes, the others get
///
/// Without TICKET a new group begins (or the folder's own goes on), and standard output has one line, the ticket with
/// which others join. Goes on until Ctrl-C; changes are seen as they happen, and what was changed meanwhile is when it
/// is run again. Only differences travel; what was renamed travels not at all.
///
/// Where two have changed a file neither knowing of the other, both are kept: the later change has the name, the other one is
/// beside it as NAME.conflict-WHO-HASH. A file that one has changed and another removed stays.
/// Lines of DIR/.xylemignore, with the rules of .gitignore, say what stays out of it. What another member replaces or removes is in
/// DIR/.xylem-sync/trash for a week.
///
/// The ticket is a secret: whoever has it is a member, until --remove closes the group or --schema says who is. --read-only, --remove and --allow are for
/// who began the group. Each member signs a history of its versions that others check; who rewrites it is found out.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem sync photos                        begins a group, prints its ticket
  xylem sync photos @ticket.txt --as bob   joins it
  xylem sync photos                        goes on
  xylem sync photos --remove bob           whatever bob changes from now on stays with bob
  xylem sync photos --history              what members have said, and since when
  xylem sync plans --schema plans.lvs --trust org.cert    members are those whom certificates make one
  xylem sync plans @ticket.txt --sign key:/org/alice      joins such a group

",
    exit_help!()
))]
pub(crate) struct SyncArgs {
    /// The folder
    folder: PathBuf,

    /// The group's ticket: as it is, from a file (@FILE) or standard input (-)
    ticket: Option<String>,

    /// What others call us: letters, digits, -, _ and @. It is remembered [default: as last time, at first USER@HOST]
    #[arg(long = "as", value_name = "NAME", value_parser = parse_member_name)]
    name: Option<String>,

    /// What this member changes stays with it, from now on: by name, or the beginning of its key. Ends at once
    #[arg(long, value_name = "WHO", conflicts_with_all = ["ticket", "remove", "allow"])]
    read_only: Option<String>,

    /// This one is no member any more; it keeps what it has. From then on the ticket alone makes nobody a member. Ends at once
    #[arg(long, value_name = "WHO", conflicts_with_all = ["ticket", "allow"])]
    remove: Option<String>,

    /// This one is an ordinary member (again): by name, the beginning of its key, or all of it. Ends at once
    #[arg(long, value_name = "WHO", conflicts_with = "ticket")]
    allow: Option<String>,

    /// Removes here what another member has removed all at once, more than half of the folder or 1,000 files: without this it stays. Ends at once
    #[arg(long, conflicts_with_all = ["ticket", "read_only", "remove", "allow"])]
    accept_removals: bool,

    /// Prints the versions that members have told, as kept here, and checks them. Ends at once
    #[arg(long, conflicts_with_all = ["ticket", "read_only", "remove", "allow"])]
    history: bool,

    /// From now on this trust schema (`xylem schema`) says who is a member and who may write, by the names in certificates whose
    /// chains end at --trust. For who began the group; given again it replaces the one before
    #[arg(long, value_name = "FILE", requires = "trust",
          conflicts_with_all = ["ticket", "read_only", "remove", "allow", "history"])]
    schema: Option<PathBuf>,

    /// With --schema: a certificate at which chains end; can be repeated
    #[arg(long, visible_alias = "anchor", value_name = "CERT", requires = "schema")]
    trust: Vec<PathBuf>,

    /// Where a schema says who is a member: be one as the owner of this key of `xylem key`, such as key:/org/alice. Its certificate goes
    /// with what this member says; later runs need not name it, but a new certificate is to be named
    #[arg(long, value_name = "key:NAME", value_parser = parse_identity)]
    sign: Option<String>,

    /// With --sign: a certificate between the key's own and those that the group trusts; can be repeated
    #[arg(long, value_name = "CERT", requires = "sign")]
    chain: Vec<PathBuf>,

    /// What another member replaces or removes is kept for so many days in DIR/.xylem-sync/trash/DAY; 0: not at all. The oldest goes sooner
    /// where all of it would take more than a tenth of the disk, or more than is left free
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    trash: u32,

    /// Where the encrypted link listens, as for `share`. It is remembered [default: as last time, at first all
    /// interfaces]
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        env = "XYLEM_LISTEN",
        hide_env_values = true
    )]
    listen: Vec<String>,

    /// How this machine is reached from elsewhere, HOST:PORT; can be repeated
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "XYLEM_ANNOUNCE",
        hide_env_values = true
    )]
    announce: Vec<Address>,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    near: NearArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

fn parse_member_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
    match !text.is_empty() && text.len() <= 64 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("a name is up to 64 bytes of letters, digits, -, _ and @".to_owned()),
    }
}

/// USER@HOST, as the system calls both: one person's machines have different names, and so have the people at one machine.
fn user_at_host() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("USERNAME"));
    named(user.ok().as_deref(), host().as_deref())
}

/// Of what is known and can be in a name; the host's is its first label.
fn named(user: Option<&str>, host: Option<&str>) -> String {
    let host = host.and_then(|host| host.split('.').next());
    let known = |name: Option<&str>| name.and_then(|name| parse_member_name(name).ok());
    let both = match (known(user), known(host)) {
        (Some(user), Some(host)) => known(Some(&format!("{user}@{host}"))).or(Some(user)),
        (user, host) => user.or(host),
    };
    both.unwrap_or_else(|| "member".to_owned())
}

#[cfg(unix)]
fn host() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// Runs `xylem sync`.
pub(crate) fn run(args: SyncArgs, common: &Common, out: &mut Out) -> Result<Exit, Failure> {
    let store = common.store()?;
    if !args.folder.is_dir() {
        let what = if meant::is_any_ticket(&args.folder.to_string_lossy()) {
            "the folder comes first: `xylem sync DIR TICKET`".to_owned()
        } else {
            format!("{}: no such folder; make it first", args.folder.display())
        };
        return Err(Failure::new(Exit::Usage, what));
    }
    if args.history {
        let home = Home::existing(&store, &canonical(&args.folder)?)?;
        return history::print(&home, out);
    }
    let roles = [
        (&args.read_only, Some(Role::ReadOnly)),
        (&args.remove, Some(Role::Removed)),
        (&args.allow, None),
    ];
    for (who, role) in roles {
        if let Some(who) = who {
            let home = Home::existing(&store, &canonical(&args.folder)?)?;
            let member = home.give_role(who, role, wall_clock().milliseconds())?;
            out.note(&format!(
                "Noted for {who} ({member}); members hear of it while `xylem sync` runs"
            ));
            return Ok(Exit::Done);
        }
    }
    if args.accept_removals {
        Home::existing(&store, &canonical(&args.folder)?)?.accept_removals()?;
        out.note("Noted: what others have removed goes here, too, while `xylem sync` runs");
        return Ok(Exit::Done);
    }
    lean::begin();
    let joins: Option<Invitation> = match &args.ticket {
        None => None,
        Some(text) => {
            let text = read_text(text)?;
            let invitation = text.parse().map_err(|wrong: InvitationError| {
                let what =
                    meant::no_invitation(&text).map_or_else(|| wrong.to_string(), str::to_owned);
                Failure::new(Exit::Usage, what)
            });
            Some(invitation?)
        }
    };
    let last = last_run(&args, &store)?;
    let options = SyncOptions {
        folder: args.folder.clone(),
        joins,
        name: last.name.clone().unwrap_or_else(user_at_host),
        schema: args
            .schema
            .as_deref()
            .map(|schema| role_schema(schema, &args.trust))
            .transpose()?,
        sign: args.sign.clone().map(|which| (which, args.chain.clone())),
        listen: listen_at(&last.listen)?,
        last,
        announce: args.announce.clone(),
        relays: args.relay.relays(common)?,
        links: args.shape.links(),
        beside: args.near.options(common)?,
        trash: args.trash,
        store,
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut broken = None;
    let done = keeping::sync(&options, &stop, &mut |event| {
        if let Err(failure) = told(event, out) {
            stop.raise();
            broken.get_or_insert(failure);
        }
    });
    out.take_broken()?;
    match broken {
        Some(failure) => Err(failure),
        None => Ok(done.map(|()| Exit::Done)?),
    }
}

/// What this run is asked for, or else the last one was.
fn last_run(args: &SyncArgs, store: &Path) -> Result<LastRun, Failure> {
    let before = match Home::existing(store, &canonical(&args.folder)?) {
        Ok(home) => home.last_run()?,
        Err(HomeError::NotYet(_)) => LastRun::default(),
        Err(e) => return Err(e.into()),
    };
    let name = args.name.clone().or(before.name);
    let listen = if args.listen.is_empty() { before.listen } else { args.listen.clone() };
    Ok(LastRun { name, listen })
}

fn role_schema(schema: &Path, trust: &[PathBuf]) -> Result<RoleSchema, Failure> {
    // Whatever an anchor vouches for of which no rule speaks would be refused, and nobody would see why.
    keys::anchors(trust, Some(schema))?;
    let anchors: Result<Vec<Vec<u8>>, _> =
        trust.iter().map(|path| keys::certificate(path)).collect();
    RoleSchema::new(&keys::schema(schema)?, &anchors?)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string()))
}

fn told(event: SyncEvent, out: &mut Out) -> Result<(), Failure> {
    let json = out.is_json();
    match event {
        SyncEvent::Ready { invitation, name, key } => {
            let ticket = invitation.to_string();
            if json {
                return out.json(&ReadyRow { ticket: &ticket, name: &name, key: &key });
            }
            out.line(&ticket)?;
            out.note(&clean(&format!(
                "In step as {name} until Ctrl-C; others join with xylem sync DIR TICKET"
            )));
        }
        SyncEvent::Member { name, key, up } => {
            if json {
                return out.json(&MemberRow { name: &name, key: &key, up });
            }
            let what = if up { "is here" } else { "is away" };
            out.note(&clean(&format!("{name} ({}) {what}", key.get(..16).unwrap_or(&key))));
        }
        SyncEvent::Took { name, put, gone, kept, conflicts, copies } => {
            let conflicts: Vec<String> =
                conflicts.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            if json {
                let copies: Vec<String> =
                    copies.iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect();
                let (conflicts, copies) = (&conflicts[..], &copies[..]);
                return out.json(&TookRow { name: &name, put, gone, kept, conflicts, copies });
            }
            let kept = match kept {
                0 => String::new(),
                _ => format!(" ({} in {OWN}/trash)", count(kept, "old file")),
            };
            out.note(&clean(&format!("From {name}: {put} new or changed, {gone} removed{kept}")));
            for path in conflicts {
                out.warn(&clean(&format!("{path}: changed by both; both are kept")));
            }
            for (path, whose) in copies {
                let path = path.display();
                out.note(&clean(&format!(
                    "{path}: {whose}'s version of what somebody else has changed, too"
                )));
            }
        }
        SyncEvent::InStep { state, members } => {
            if json {
                return out.json(&InStepRow { state: &state, members });
            }
            out.detail(&format!(
                "In step with {members} others ({})",
                state.get(..16).unwrap_or(&state)
            ));
        }
        SyncEvent::Rewrote { name, key, evidence } => {
            let evidence = evidence.to_string_lossy();
            if json {
                return out.json(&RewroteRow { name: &name, key: &key, evidence: &evidence });
            }
            let short = key.get(..16).unwrap_or(&key);
            out.warn(&clean(&format!(
                "{name} ({short}) has signed two histories: nothing of it is taken any more; both statements are in {evidence}"
            )));
        }
        SyncEvent::Unproven { name, key } => {
            if json {
                return out.json(&UnprovenRow { name: &name, key: &key });
            }
            let short = key.get(..16).unwrap_or(&key);
            out.warn(&clean(&format!(
                "{name} ({short}) does not show that its history goes on: nothing newer of it is taken until it does"
            )));
        }
        SyncEvent::Applies { name, key, why } => {
            if json {
                return out.json(&AppliesRow { name: &name, key: &key, why: &why });
            }
            out.note(&clean(&format!(
                "Somebody called {name} has the ticket and is no member: {why}. Who began the group makes it one with xylem sync DIR --allow {key}"
            )));
        }
        SyncEvent::Noted => {
            out.note("Noted; members hear of it from the `xylem sync` that runs");
        }
        SyncEvent::ReadOnly => {
            if json {
                return out.json(&ReadOnlyRow {});
            }
            out.warn("the group's founder says that this member only reads: what is changed here stays here");
        }
        // Each version that is fetched is a link that comes and goes.
        SyncEvent::Other(
            Event::PeerConnected { .. } | Event::PeerGone { .. } | Event::Fetched(_),
        ) if !json => {}
        SyncEvent::Other(event) => out.event(event),
    }
    Ok(())
}

/// Others can join.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_ready")]
struct ReadyRow<'a> {
    ticket: &'a str,
    name: &'a str,
    key: &'a str,
}

/// A member came or went.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_member")]
struct MemberRow<'a> {
    name: &'a str,
    key: &'a str,
    up: bool,
}

/// What a member has changed was taken over.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_took")]
struct TookRow<'a> {
    name: &'a str,
    put: u64,
    gone: u64,
    kept: u64,
    conflicts: &'a [String],
    copies: &'a [String],
}

/// All who are there have the same.
#[derive(Serialize)]
#[serde(tag = "event", rename = "in_step")]
struct InStepRow<'a> {
    state: &'a str,
    members: u64,
}

/// A member has signed two histories.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_rewrote")]
struct RewroteRow<'a> {
    name: &'a str,
    key: &'a str,
    evidence: &'a str,
}

/// A member does not show that its history goes on.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_unproven")]
struct UnprovenRow<'a> {
    name: &'a str,
    key: &'a str,
}

/// Who has the ticket and is no member.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_applies")]
struct AppliesRow<'a> {
    name: &'a str,
    key: &'a str,
    why: &'a str,
}

/// We only read.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_read_only")]
struct ReadOnlyRow {}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn a_member_is_called_what_the_system_calls_user_and_host() {
        let both = |user, host| named(user, host);
        assert_eq!(both(Some("alice"), Some("laptop.example.org")), "alice@laptop");
        assert_eq!(both(None, Some("laptop")), "laptop");
        assert_eq!(both(Some("alice"), None), "alice");
        // What can't be in a name is as if it were not known.
        assert_eq!(both(Some("DOM\\alice"), Some("laptop")), "laptop");
        assert_eq!(both(Some("alice"), Some("")), "alice");
        let long = "h".repeat(64);
        assert_eq!(both(Some("alice"), Some(&long)), "alice");
        assert_eq!(both(None, None), "member");
    }

    #[test]
    fn rows_are_documented() {
        let (name, key) = ("a", "00");
        assert_documented(&ReadyRow { ticket: "xylem-sync:", name, key });
        assert_documented(&MemberRow { name, key, up: true });
        assert_documented(&TookRow { name, put: 1, gone: 0, kept: 0, conflicts: &[], copies: &[] });
        assert_documented(&InStepRow { state: "00", members: 1 });
        assert_documented(&ReadOnlyRow {});
        assert_documented(&RewroteRow { name, key, evidence: "e" });
        assert_documented(&UnprovenRow { name, key });
        assert_documented(&AppliesRow { name, key, why: "" });
    }
}
