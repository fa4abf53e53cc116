//! Runs a mount from its flags, until a signal or another program ends it.

use super::fs::{MountedTree, options};
use super::point::{MountPoint, unmount};
use super::{MountArgs, MountedRow};
use crate::cli::Common;
use crate::code::{CodeSource, FoundTicket};
use crate::exit::{CommandFailure, Exit};
use crate::finding::FindTerms;
use crate::get::ended;
use crate::meant;
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::stop;
use fuser::{BackgroundSession, Session};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use xylem_base::Stop;
use xylem_node::{Event, LinkOptions};
use xylem_reader::{Options, Reader};

/// How often signals and the state of the mount are polled.
const GLANCE: Duration = Duration::from_millis(100);
/// How long the kernel may take to end a mount.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn run(
    args: &MountArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    if meant::is_any_ticket(&args.dir.to_string_lossy()) {
        let what = "the ticket comes first: `xylem mount TICKET DIR`";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    // An unusable directory is reported before any peer is asked.
    let point = MountPoint::prepare(&args.dir, out)?;
    common.store()?;
    let give_up = args.timeout.or_seconds(30);
    let (shape, hides) = (&args.shape, args.shape.is_covered());
    let terms = FindTerms { give_up, shape, stop: &stop, again: true, hides };
    let lan = args.find.lan(common)?;
    let (relays, dht) = (args.relay.relays(common)?, args.find.code_dht(common)?);
    let whom = CodeSource { from: args.from.peers()?, relays, lan, dht };
    let mount = |found, out: &mut Out| by_ticket(found, args, &point, &stop, common, out);
    args.find.each_found(&args.ticket, whom, &terms, common, out, mount)
}

fn by_ticket(
    FoundTicket { ticket, from, port }: FoundTicket,
    args: &MountArgs,
    point: &MountPoint,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let options = Options {
        from,
        relays: args.relay.relays(common)?,
        limit_rate: args.limit.limit,
        links: LinkOptions { port, ..args.shape.links() },
        ask_who_answers: args.ask.ask_who_answers,
        timeout: args.timeout.or_seconds(30),
        lan: args.find.lan(common)?,
        dht: args.find.ticket_dht(args.shape.is_covered(), common)?,
        ..Options::new(ticket, common.store()?)
    };
    let opened = Reader::open_shown(options, stop, &mut |event| out.event(event));
    out.take_broken()?;
    let (reader, news) = opened.map_err(|error| ended(error, stop))?;
    let (manifest, root) = (reader.manifest().clone(), reader.manifest().root.to_hex().to_string());
    let session = Session::new(
        MountedTree::new(reader),
        point.path(),
        &self::options(&root, args.allow_other),
    )
    .and_then(Session::spawn)
    .map_err(|why| point.refused(&why))?;
    let shown = clean(&point.path().to_string_lossy()).into_owned();
    let name = String::from_utf8_lossy(&manifest.file_name).into_owned();
    if out.is_json() {
        let (bytes, files) = (manifest.total_size, manifest.file_count);
        out.json(&MountedRow { path: &shown, name: &name, root: &root, bytes, files })?;
    } else {
        out.line(&shown)?;
    }
    let what = format!("{} in {}", bytes(manifest.total_size), count(manifest.file_count, "file"));
    out.note(&clean(&format!("Mounted {name}, {what}, at {shown}, read-only, until Ctrl-C.")));
    while !stop.raised() && !session.guard.is_finished() {
        match news.wait(GLANCE) {
            Ok(event) => event.into_iter().for_each(|event| out.event(event)),
            // The reader's thread has ended. Programs can still read what is kept.
            Err(_) => thread::sleep(GLANCE),
        }
    }
    // `fusermount3 -u` has unmounted it already.
    let is_gone = session.guard.is_finished();
    let ended = end(session, is_gone, point, out);
    out.take_broken()?;
    ended
}

/// Unmounts. If programs still read, the mount is detached from them, with a warning. If another mount namespace (a
/// container, a service with mounts of its own) has a copy of the mount, the session continues there until this process
/// ends.
fn end(
    session: BackgroundSession,
    is_gone: bool,
    point: &MountPoint,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let nothing_there = |why: &io::Error| {
        matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound)
    };
    let (done, ended) = mpsc::channel();
    let ends = move || drop(done.send(session.umount_and_join()));
    let started = thread::Builder::new().name("unmount".into()).spawn(ends);
    started.map_err(|why| CommandFailure::new(Exit::Local, format!("cannot unmount: {why}")))?;
    let Ok(ended) = ended.recv_timeout(PATIENCE) else {
        let what = "another mount namespace, as of a container, still has the mount: it can't be read there any more";
        out.event(Event::warning(what));
        return Ok(Exit::Done);
    };
    match ended {
        Err(why) if is_gone && nothing_there(&why) => {
            out.note("Unmounted; what was read is kept for the next time.");
        }
        Ok(()) => out.note("Unmounted; what was read is kept for the next time."),
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => {
            unmount(point.path()).map_err(|why| {
                let what = format!("cannot unmount {}: {why}", point.path().display());
                CommandFailure::new(Exit::Local, what)
            })?;
            let what = "programs still had files of it open: it is unmounted, and their reads fail from now on";
            out.event(Event::warning(what));
        }
        Err(why) => {
            let what = format!("cannot unmount {}: {why}", point.path().display());
            return Err(CommandFailure::new(Exit::Local, what));
        }
    }
    Ok(Exit::Done)
}
