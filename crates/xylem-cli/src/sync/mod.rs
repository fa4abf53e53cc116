//! `xylem sync DIR [TICKET]`: keeps a folder in step among several members.

mod accepting;
mod background;
mod history;
mod lean;
mod restore;
pub(crate) mod status;
mod telling;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::NearArgs;
use crate::flags::{AnnouncedArgs, LimitArgs, ListenArgs};
use crate::meant;
use crate::output::Out;
use crate::output::text::count;
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::share::parse_identity;
use crate::stop;
use crate::values::{read_text, stored_links};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use telling::EventPrinter;
use xylem_base::{Stop, canonical};
use xylem_folder::{
    HomeError, Invitation, InvitationError, LastRun, MemberRole, RoleSchema, SyncHome,
    VersionPolicy,
};
use xylem_node::wall_clock;
use xylem_sync::{StatusBoard, SyncOptions, is_member_name, usual_member_name};

/// Keeps a folder in step among members: each gets every change
///
/// Without TICKET a new group begins (or the folder's own group continues), and standard output has one line, the
/// ticket with which others join. It runs until Ctrl-C. Changes are noticed as they happen, and changes made while it
/// does not run when it runs again. Only differences are transferred; a renamed file is not transferred at all.
///
/// If two members change a file independently, both versions are kept: the later change has the name, and the other one
/// is beside it as NAME.conflict-WHO-HASH. A file that one member changes and another removes stays. Lines of
/// DIR/.xylemignore, with the rules of .gitignore, leave paths of this member out; that file is this member's alone. A
/// line `#include FILE` adds rules from a file of the folder that members share. What another member replaces or
/// removes is in DIR/.xylem-sync/trash for a week: --restore lists it and puts it back, --versions determines what else
/// is kept.
///
/// The ticket is a secret: anyone with it is a member, until --remove closes the group or --schema determines the
/// members. --read-only, --remove and --allow are for the group's founder. Each member signs a history of its versions
/// that others check, so a rewritten history is detected.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem sync photos                       begins a group, prints its ticket
  xylem sync photos @ticket.txt --as bob  joins it
  xylem sync photos                       continues
  xylem sync photos --remove bob          whatever bob changes from now on stays with bob
  xylem sync photos --history             what members have said, and since when
  xylem sync photos --status              members, what is missing and why; exit 1 if not in step
  xylem sync photos --restore a/b.jpg     versions of it; --restore a/b.jpg@TIME puts one back
  xylem sync photos --background          the background node does it, also after a restart
  xylem sync plans --schema plans.lvs --trust org.cert   members are those whom certificates make one
  xylem sync plans @ticket.txt --sign key:/org/alice   joins such a group

",
    exit_help!()
))]
pub(crate) struct SyncArgs {
    /// The folder
    #[arg(required_unless_present = "list")]
    folder: Option<PathBuf>,

    /// The group's ticket, or @FILE or - with it; without: a new group
    ticket: Option<String>,

    /// Your name in the group
    ///
    /// Letters, digits, -, _ and @. It is remembered. [default: as last time, at first USER@HOST]
    #[arg(long = "as", value_name = "NAME", value_parser = parse_member_name)]
    name: Option<String>,

    /// Keep the changes of this member out; ends at once
    ///
    /// MEMBER is its name or the beginning of its key. The member still receives what others change.
    #[arg(long, value_name = "MEMBER", group = "once", conflicts_with = "ticket")]
    read_only: Option<String>,

    /// Remove a member from the group; ends at once
    ///
    /// It keeps what it has. From then on the ticket alone gives no membership.
    #[arg(long, value_name = "MEMBER", group = "once", conflicts_with = "ticket")]
    remove: Option<String>,

    /// Make a member an ordinary one (again), by its name, the beginning of its key, or all of it. Ends at once
    #[arg(long, value_name = "MEMBER", group = "once", conflicts_with = "ticket")]
    allow: Option<String>,

    /// Carry out large removals by another member; ends at once
    ///
    /// If another member removes more than half of the files of a folder that has 20 or more, or more than 1,000 files,
    /// at once, they stay here without this.
    #[arg(long, group = "once", conflicts_with = "ticket")]
    accept_removals: bool,

    /// Put in force what other members have changed in files that DIR/.xylemignore includes; prints what will be
    /// shared, and what no more. Ends at once
    #[arg(long, group = "once", conflicts_with = "ticket")]
    accept_rules: bool,

    /// Print and check what members have announced
    ///
    /// These are the versions as stored here. Ends at once.
    #[arg(long, group = "once", conflicts_with = "ticket")]
    history: bool,

    /// Print members and what is missing
    ///
    /// Lists what cannot be brought in step, with the reason, and what is being fetched. Works also if no sync runs,
    /// and reports that. Ends at once.
    #[arg(long, group = "once", conflicts_with = "ticket")]
    status: bool,

    /// List old versions of PATH; PATH@TIME puts one back
    ///
    /// PATH is below the folder. With @TIME that version, or the newest before it, comes back; the present file becomes
    /// a version. For a directory (. is all) all versions below it are listed, or those whose paths are free now put
    /// back. Ends at once.
    #[arg(long, value_name = "PATH", group = "once", conflicts_with = "ticket")]
    restore: Option<String>,

    /// Publish and apply nothing until --resume, also after a restart; links stay. Ends at once
    #[arg(long, group = "once", conflicts_with = "ticket")]
    pause: bool,

    /// Go on after --pause. Ends at once
    #[arg(long, group = "once", conflicts_with = "ticket")]
    resume: bool,

    /// Have the background node do it, also after a restart
    ///
    /// The node is that of `xylem service`. Ends at once.
    #[arg(long, group = "once")]
    background: bool,

    /// Stop the background node from keeping it in step. Ends at once
    #[arg(long, group = "once", conflicts_with = "ticket")]
    stop: bool,

    /// List all folders that are kept in step with this store, with their status. Ends at once
    #[arg(long, group = "once", conflicts_with = "ticket")]
    list: bool,

    /// End when standard input does: the background node's process has ended
    #[arg(long, hide = true)]
    with_service: bool,

    /// Let this trust schema (`xylem ndn schema`) determine the members and their right to write from now on, by the names
    /// in certificates whose chains end at --trust. For the group's founder; a later one replaces it
    #[arg(long, value_name = "FILE", requires = "trust",
          conflicts_with_all = ["ticket", "once"])]
    schema: Option<PathBuf>,

    /// With --schema: a certificate at which chains end; can be repeated
    #[arg(long, value_name = "CERT", requires = "schema")]
    trust: Vec<PathBuf>,

    /// If a schema determines the members: be one as the owner of this key of `xylem key`, such as key:/org/alice. Its
    /// certificate is sent with this member's statements. Later runs need not name the key, but a new certificate has
    /// to be named
    #[arg(long, value_name = "KEY", value_parser = parse_identity)]
    sign: Option<String>,

    /// With --sign: a certificate between the key's own and those that the group trusts; can be repeated
    #[arg(long, value_name = "CERT", requires = "sign")]
    chain: Vec<PathBuf>,

    /// Which versions of what another member replaces or removes are kept in DIR/.xylem-sync/trash, in Syncthing's
    /// words: trash[:DAYS], all of them; simple:N, the newest of each file; staggered[:DAYS], one an hour for a day,
    /// one a day for 30 days, one a week then; none. More are removed if all would take more than a tenth of the disk,
    /// or more than is left free. It is remembered [default: as last time, at first trash:7]
    #[arg(long, value_name = "WHICH")]
    versions: Option<VersionPolicy>,

    /// As --versions trash:DAYS; 0: as --versions none
    #[arg(long, value_name = "DAYS", conflicts_with = "versions")]
    trash: Option<u32>,

    /// Exchange extended attributes of files and directories
    ///
    /// Attributes named user.NAME, up to 4 KiB for each file, travel among the members that have chosen this. Other
    /// members pass them on, and touch none. Attributes that the group has recorded replace the ones in this folder. It
    /// is remembered until --no-xattrs.
    #[arg(long)]
    xattrs: bool,

    /// Do not exchange extended attributes any more
    ///
    /// Files keep the attributes that they have. It is remembered.
    #[arg(long, conflicts_with = "xattrs")]
    no_xattrs: bool,

    #[command(flatten)]
    limit: LimitArgs,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    announced: AnnouncedArgs,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    near: NearArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

fn parse_member_name(text: &str) -> Result<String, String> {
    match is_member_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name is up to 64 bytes of letters, digits, -, _ and @".to_owned()),
    }
}

/// Runs `xylem sync`.
pub(crate) fn run(args: SyncArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let folder = args.folder.clone().filter(|_| !args.list);
    let Some(folder) = folder else { return background::list(common, out) };
    if let Some(done) = at_once(&args, &folder, common, out)? {
        return Ok(done);
    }
    lean::begin();
    let store = common.store()?;
    let joins = invitation(&args)?;
    let last = last_run(&args, &folder, &store)?;
    if args.background {
        return background::hand_over(&args, &folder, joins.as_ref(), &last, common, out);
    }
    let chosen = args.relay.chosen(common)?;
    let options = SyncOptions {
        folder,
        joins,
        name: Some(last.name.clone().unwrap_or_else(usual_member_name)),
        schema: args
            .schema
            .as_deref()
            .map(|schema| role_schema(schema, &args.trust))
            .transpose()?,
        sign: args.sign.clone().map(|which| (which, args.chain.clone())),
        listen: stored_links(&last.listen)?,
        versions: Some(last.versions.unwrap_or_default()),
        xattrs: Some(last.xattrs),
        remember: Some(last),
        announce: args.announced.announce.clone(),
        relays: chosen.relays,
        relay_list: chosen.list,
        links: args.shape.links(),
        beside: args.near.options(common)?,
        limit: args.limit.limit,
        board: StatusBoard::default(),
        store,
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    if args.with_service {
        ends_with_input(&stop)?;
    }
    let (mut broken, mut teller) = (None, EventPrinter::new());
    let done = xylem_sync::sync(&options, &stop, &mut |event| {
        if let Err(failure) = teller.print_event(event, out) {
            stop.raise();
            broken.get_or_insert(failure);
        }
    });
    teller.print_rest(out);
    out.take_broken()?;
    match broken {
        Some(failure) => Err(failure),
        None => Ok(done.map(|()| Exit::Done)?),
    }
}

/// Raises `stop` when standard input ends.
fn ends_with_input(stop: &Stop) -> Result<(), CommandFailure> {
    let stop = stop.clone();
    let read = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stop.raise();
    };
    thread::Builder::new()
        .name("input".into())
        .spawn(read)
        .map_err(|e| CommandFailure::no_thread(&e))?;
    Ok(())
}

/// Does the task of a flag that ends at once; `None`: the folder is to be kept in step.
fn at_once(
    args: &SyncArgs,
    folder: &Path,
    common: &Common,
    out: &mut Out,
) -> Result<Option<Exit>, CommandFailure> {
    if args.stop {
        return background::stop(folder, common, out).map(Some);
    }
    let store = common.store()?;
    if !folder.is_dir() {
        let what = if meant::is_any_ticket(&folder.to_string_lossy()) {
            "the folder comes first: `xylem sync DIR TICKET`".to_owned()
        } else {
            format!("{}: no such folder; make it first", folder.display())
        };
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let home = || -> Result<SyncHome, CommandFailure> {
        Ok(SyncHome::existing(&store, &canonical(folder)?)?)
    };
    if args.history {
        return history::print(&home()?, out).map(Some);
    }
    if args.status {
        let in_background = background::has(folder, &store)?;
        return status::print(&store, folder, in_background, out).map(Some);
    }
    if let Some(what) = &args.restore {
        return restore::run(folder, what, out).map(Some);
    }
    if args.pause || args.resume {
        xylem_sync::pause(&home()?, args.pause)?;
        match args.pause {
            true => out.note(&format!("Paused: {}", status::PAUSE_MEANS)),
            false => {
                out.note("Resumed: a running `xylem sync` continues now, otherwise the next one")
            }
        }
        return Ok(Some(Exit::Done));
    }
    if args.accept_rules {
        return accepting::accept(&canonical(folder)?, &home()?, out).map(Some);
    }
    if args.accept_removals {
        home()?.accept_removals()?;
        out.note("Accepted: a running `xylem sync`, otherwise the next one, removes here what others have removed");
        return Ok(Some(Exit::Done));
    }
    let roles = [
        (&args.read_only, Some(MemberRole::ReadOnly)),
        (&args.remove, Some(MemberRole::Removed)),
        (&args.allow, None),
    ];
    for (who, role) in roles {
        if let Some(who) = who {
            let given = home()?.give_role(who, role, wall_clock().milliseconds())?;
            out.note(&format!(
                "Saved for {who} ({}); `xylem sync` sends it to the members while it runs",
                given.member
            ));
            if given.left_out > 0 {
                out.warn(&format!(
                    "the group is closed now: {} that joined by the ticket, but never had a link to this machine, lost membership; \
                     `xylem sync DIR --allow KEY` restores it",
                    count(given.left_out as u64, "member")
                ));
            }
            return Ok(Some(Exit::Done));
        }
    }
    Ok(None)
}

/// The group to join.
fn invitation(args: &SyncArgs) -> Result<Option<Invitation>, CommandFailure> {
    let Some(text) = &args.ticket else { return Ok(None) };
    let text = read_text(text)?;
    let invitation = text.parse().map_err(|wrong: InvitationError| {
        let what = meant::invitation_hint(&text).map_or_else(|| wrong.to_string(), str::to_owned);
        CommandFailure::new(Exit::Usage, what)
    });
    Ok(Some(invitation?))
}

/// The settings of this run's flags, or else those of the last run.
fn last_run(args: &SyncArgs, folder: &Path, store: &Path) -> Result<LastRun, CommandFailure> {
    let before = match SyncHome::existing(store, &canonical(folder)?) {
        Ok(home) => home.last_run()?,
        Err(HomeError::NotYet(_)) => LastRun::default(),
        // A folder of another store joins anew by a ticket.
        Err(HomeError::Unknown(_)) if args.ticket.is_some() => LastRun::default(),
        Err(e) => return Err(e.into()),
    };
    let name = args.name.clone().or(before.name);
    let listen =
        if args.listen.listen.is_empty() { before.listen } else { args.listen.listen.clone() };
    let by_days = args.trash.map(|days| VersionPolicy::for_days(days.into()));
    let versions = args.versions.or(by_days).or(before.versions);
    let xattrs = !args.no_xattrs && (args.xattrs || before.xattrs);
    Ok(LastRun { name, listen, versions, xattrs })
}

fn role_schema(schema: &Path, trust: &[PathBuf]) -> Result<RoleSchema, CommandFailure> {
    // Check that a rule covers what each anchor certifies: otherwise it would be refused without a visible reason.
    xylem_keys::anchors(trust, Some(schema))?;
    let anchors: Result<Vec<Vec<u8>>, _> =
        trust.iter().map(|path| xylem_keys::certificate(path)).collect();
    RoleSchema::new(&xylem_keys::schema(schema)?, &anchors?)
        .map_err(|e| CommandFailure::new(Exit::Usage, e.to_string()))
}
