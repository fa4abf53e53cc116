//! [`MountPoint`]: checks the directory before a mount, and removes the mount of a killed run.

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xylem_node::Event;

/// Prefix of the root in the source name of a mount.
pub(super) const SOURCE: &str = "xylem:";
/// The kernel's table of mounts (proc(5)).
const MOUNTS: &str = "/proc/self/mountinfo";
const DEVICE: &str = "/dev/fuse";

/// A directory that was empty when it was checked, by its absolute path.
pub(super) struct MountPoint {
    path: PathBuf,
}

/// The topmost mount at a place.
struct Mounted {
    kind: String,
    /// The source as the table names it.
    source: String,
    /// Options of the file system itself.
    options: String,
}

fn usage(dir: &Path, why: &str) -> CommandFailure {
    CommandFailure::new(Exit::Usage, format!("{}: {why}", dir.display()))
}

impl MountPoint {
    /// Checks `dir`, and removes the mount that an earlier run of this program has left there.
    pub(super) fn prepare(dir: &Path, out: &mut Out) -> Result<Self, CommandFailure> {
        let absolute = std::path::absolute(dir).map_err(|why| usage(dir, &why.to_string()))?;
        // A mount without a living process cannot be resolved itself, so resolve its parent.
        let path = match (absolute.parent().map(fs::canonicalize), absolute.file_name()) {
            (Some(Ok(parent)), Some(name)) => parent.join(name),
            _ => absolute,
        };
        // The kernel may have cached the attributes of a directory whose process is gone, but not its entries.
        let looked = fs::metadata(&path).and_then(|_| fs::read_dir(&path));
        if let Err(why) = looked
            && why.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error())
        {
            Self::clear(&path, out)?;
        }
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(usage(dir, "is not a directory; mount needs an empty one")),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(usage(dir, "there is no such directory; make it first, with mkdir"));
            }
            Err(why) => {
                return Err(CommandFailure::new(Exit::Local, format!("{}: {why}", dir.display())));
            }
        }
        let path = path.canonicalize().unwrap_or(path);
        if mounted_at(&path).is_some_and(|there| there.is_ours()) {
            let what = "a ticket is mounted there already; end that one first, with Ctrl-C or fusermount3 -u";
            return Err(usage(dir, what));
        }
        let mut inside = fs::read_dir(&path)
            .map_err(|why| CommandFailure::new(Exit::Local, format!("{}: {why}", dir.display())))?;
        if inside.next().is_some() {
            return Err(usage(dir, "is not empty; mount needs an empty directory"));
        }
        if !Path::new(DEVICE).exists() {
            let what = "FUSE is not available (no /dev/fuse): run `modprobe fuse` as root, or start the container with --device /dev/fuse; \
                        `xylem get` needs none";
            return Err(CommandFailure::new(Exit::Local, what));
        }
        Ok(Self { path })
    }

    /// The absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a mount whose process was killed.
    fn clear(path: &Path, out: &mut Out) -> Result<(), CommandFailure> {
        let left = mounted_at(path);
        if !left.is_some_and(|left| left.is_ours() && left.is_by_us()) {
            let what = "a mount without a living process is there, made by another program or user; unmount it first, \
                        with fusermount3 -u, or umount as root";
            return Err(usage(path, what));
        }
        unmount(path).map_err(|why| {
            let what =
                format!("{}: cannot unmount what an earlier run left there: {why}", path.display());
            CommandFailure::new(Exit::Local, what)
        })?;
        let what = "unmounted what an earlier run, which was killed, had left mounted there";
        out.event(Event::warning(what));
        Ok(())
    }

    /// The failure if mounting was refused.
    pub(super) fn refused(&self, why: &io::Error) -> CommandFailure {
        let why = why.to_string();
        let mend = "; users other than root need fusermount3 (package fuse3)";
        let what = format!("cannot mount at {}: {}{mend}", self.path.display(), why.trim_end());
        CommandFailure::new(Exit::Local, what)
    }
}

impl Mounted {
    fn is_ours(&self) -> bool {
        // The type is `fuse.xylem` if fusermount3 has mounted it.
        self.kind.starts_with("fuse") && self.source.starts_with(SOURCE)
    }

    fn is_by_us(&self) -> bool {
        let own = format!("user_id={}", rustix::process::geteuid().as_raw());
        self.options.split(',').any(|option| option == own)
    }
}

/// The mount at `path`; the last one if there are several.
fn mounted_at(path: &Path) -> Option<Mounted> {
    let table = fs::read(MOUNTS).ok()?;
    let mut lines = table.split(|byte| *byte == b'\n').rev();
    lines
        .find_map(|line| mount_line(line).filter(|(at, _)| at == path.as_os_str()))
        .map(|(_, mounted)| mounted)
}

/// Parses a line of the table: `36 35 98:0 /root /at options optional... - kind source options`.
fn mount_line(line: &[u8]) -> Option<(OsString, Mounted)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = unescaped(fields.nth(4)?);
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let (kind, source) = (text(behind.next()?), text(behind.next()?));
    let options = text(behind.next()?);
    Some((OsString::from_vec(at), Mounted { kind, source, options }))
}

/// Decodes the octal escapes that stand for blanks and backslashes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(value.unwrap_or(*first));
        rest = if value.is_some() { &behind[3..] } else { behind };
    }
    path
}

/// Unmounts `path` lazily, even if programs have files of it open.
pub(super) fn unmount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => {}
        done => return Ok(done?),
    }
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(path).stdin(Stdio::null()).stdout(Stdio::null());
    let done = helper.output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(done.stderr.trim_ascii()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_line_of_the_table_of_mounts() {
        let line = b"98 30 0:52 / /mnt/a\\040b\\134c ro,nosuid shared:1 - fuse.xylem xylem:00 ro,user_id=7,group_id=0";
        let (at, mounted) = mount_line(line).unwrap();
        assert_eq!(at.as_bytes(), b"/mnt/a b\\c");
        assert!(mounted.is_ours());
        assert_eq!(mounted.options, "ro,user_id=7,group_id=0");
        assert!(mount_line(b"").is_none() && mount_line(b"1 2 3 4 5 6 - x").is_none());
    }
}
