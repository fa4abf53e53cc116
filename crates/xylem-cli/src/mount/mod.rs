//! `xylem mount TICKET DIR`: what a ticket names, as a read-only file system.

#[cfg(all(target_os = "linux", feature = "mount"))]
mod fs;
#[cfg(all(target_os = "linux", feature = "mount"))]
mod point;
#[cfg(all(target_os = "linux", feature = "mount"))]
mod run;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::FindArgs;
use crate::flags::{FromArgs, LimitArgs, TimeoutArgs};
use crate::output::Out;
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::showing::AskArgs;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Mounts what a ticket names as files; fetches the data as it is read
///
/// A read-only file system (FUSE, Linux). Any program reads it like files on disk. Each block is fetched when it is
/// read, from all peers that have it, together with blocks that are likely to be read next, and is proven before the
/// program sees it. What was read is kept in the store: it is not fetched again, also not by later mounts, and needs no
/// peer. If no peer has a block, its reader gets an input/output error, and a line here names the block.
///
/// Stays until Ctrl-C, which unmounts it. The first line on standard output is DIR, as soon as it can be read. If a run
/// was killed, the next one at the same DIR removes its mount.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  mkdir data; xylem mount xylem:... data       then, elsewhere: ls data
  xylem mount @ticket.txt data                 a ticket from a file
  xylem mount xylem:... data --from HOST:7000  from that peer only
  xylem mount xylem:... data --timeout 5       a read fails after 5 s without anything
  python3 -c \"import numpy; print(numpy.memmap('data/x.f32', mode='r').mean())\"
  sqlite3 'file:data/x.db?immutable=1'         a database, without fetching all of it
  fusermount3 -u data                          ends it from elsewhere

",
    exit_help!()
))]
pub(crate) struct MountArgs {
    /// A ticket, or @FILE or - with one
    ///
    /// Also a code, b3:HASH or @PUBLISHER/NAME, as with `xylem get`.
    #[arg(value_name = "TICKET")]
    ticket: String,

    /// An empty directory, where it appears
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    #[command(flatten)]
    from: FromArgs,

    /// Let other users of this machine look into it, too (needs root, or `user_allow_other` in /etc/fuse.conf); modes
    /// are those that were published
    #[arg(long)]
    allow_other: bool,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    limit: LimitArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    find: FindArgs,

    #[command(flatten)]
    ask: AskArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem mount`.
#[cfg(all(target_os = "linux", feature = "mount"))]
pub(crate) fn run(args: MountArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    run::run(&args, common, out)
}

/// Other systems have FUSE, too, but mounts are not tested there.
#[cfg(not(all(target_os = "linux", feature = "mount")))]
pub(crate) fn run(_: MountArgs, _: &Common, _: &mut Out) -> Result<Exit, CommandFailure> {
    let what = "mount is not built into this program: it needs Linux and the feature `mount`; `xylem get` fetches \
         the same";
    Err(CommandFailure::new(Exit::Usage, what))
}

/// Event: the mount can be read.
#[derive(Serialize)]
#[serde(tag = "event", rename = "mounted")]
struct MountedRow<'a> {
    path: &'a str,
    name: &'a str,
    root: &'a str,
    bytes: u64,
    files: u64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&MountedRow { path: "/d", name: "a", root: "00", bytes: 1, files: 1 });
    }
}
