//! [`MountedTree`]: answers the kernel's requests (FUSE) from a reader's publication.
//!
//! The content never changes, so the kernel may cache all answers. An inode's number is the entry's number in the
//! listing plus a constant, so there is no table of inodes.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request, SessionACL,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use xylem_object::listing::EntryKind;
use xylem_reader::{File, PublicationEntry, Reader, ReaderError};

use super::point::SOURCE;

/// How long the kernel may cache an answer.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Inode of the root. Item 0 has the inode after it.
const ROOT: u64 = 1;
const FIRST: u64 = 2;
/// Offset of a directory's first entry: `.` and `..` come before it.
const FIRST_ENTRY: u64 = 2;
/// Requests such as reads ahead that the kernel may have under way in the background.
const MAX_BACKGROUND: u16 = 64;
/// Threads that answer from what is kept. A read that has to be fetched blocks none of them.
const THREADS: usize = 2;
/// Block size that `statfs` reports, in bytes.
const BLOCK: u32 = 4096;

/// The mount options.
pub(super) fn options(root: &str, allow_other: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::FSName(format!("{SOURCE}{}", root.get(..16).unwrap_or(root))),
        MountOption::Subtype("xylem".into()),
    ];
    config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// See the module's documentation.
pub(super) struct MountedTree {
    reader: Reader,
    open: Mutex<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
    uid: u32,
    gid: u32,
}

impl MountedTree {
    pub(super) fn new(reader: Reader) -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let (uid, gid) = (uid.as_raw(), gid.as_raw());
        Self { reader, open: Mutex::default(), next: AtomicU64::new(1), uid, gid }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<File>>> {
        // No code panics while it holds this lock and a change is incomplete.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn item(&self, ino: INodeNo) -> Result<PublicationEntry, Errno> {
        let number = ino.0.checked_sub(FIRST).ok_or(Errno::ENOENT)?;
        self.reader.item(number).map_err(failed)?.ok_or(Errno::ENOENT)
    }

    /// The path of a folder, without a slash at its end.
    fn folder(&self, ino: INodeNo) -> Result<Vec<u8>, Errno> {
        if ino.0 == ROOT {
            return Ok(Vec::new());
        }
        let item = self.item(ino)?;
        match item.entry.kind {
            EntryKind::Directory => Ok(item.entry.path),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The target of a hard link, or the item itself.
    fn resolved(&self, item: PublicationEntry) -> Result<PublicationEntry, Errno> {
        match &item.entry.kind {
            EntryKind::HardLink { target } => {
                self.reader.find(target).map_err(failed)?.ok_or(Errno::EIO)
            }
            _ => Ok(item),
        }
    }

    fn attributes(&self, item: &PublicationEntry) -> FileAttr {
        let entry = &item.entry;
        let (kind, size) = match &entry.kind {
            EntryKind::File { size, .. } => (FileType::RegularFile, *size),
            EntryKind::Symlink { target } => (FileType::Symlink, target.len() as u64),
            EntryKind::Directory | EntryKind::HardLink { .. } => (FileType::Directory, 0),
        };
        let mtime = time(entry.mtime_s, entry.mtime_ns);
        self.attr(item.number + FIRST, kind, size, entry.mode, mtime)
    }

    fn root(&self) -> FileAttr {
        let manifest = self.reader.manifest();
        let mtime = time(manifest.mtime_s, manifest.mtime_ns);
        let mode = if self.reader.is_directory() { manifest.mode } else { 0o555 };
        self.attr(ROOT, FileType::Directory, 0, mode, mtime)
    }

    fn attr(&self, ino: u64, kind: FileType, size: u64, mode: u32, mtime: SystemTime) -> FileAttr {
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: mtime,
            mtime,
            ctime: mtime,
            crtime: mtime,
            kind,
            perm: (mode & 0o777) as u16,
            // One link: for a directory this means that the number of its folders is not known.
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let mut path = self.folder(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let item = self.reader.find(&path).map_err(failed)?.ok_or(Errno::ENOENT)?;
        Ok(self.attributes(&self.resolved(item)?))
    }

    fn attributes_of(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        if ino.0 == ROOT {
            return Ok(self.root());
        }
        let item = self.item(ino)?;
        Ok(self.attributes(&self.resolved(item)?))
    }

    /// Adds the entries of a directory from `offset` on that fit into `reply`.
    fn list(&self, ino: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        let folder = self.folder(ino)?;
        let parent = match folder.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => {
                let above = self.reader.find(&folder[..slash]).map_err(failed)?;
                above.map_or(ROOT, |above| above.number + FIRST)
            }
            None => ROOT,
        };
        for (at, (of, name)) in [(ino.0, "."), (parent, "..")].into_iter().enumerate() {
            let next = at as u64 + 1;
            if offset < next && reply.add(INodeNo(of), next, FileType::Directory, name) {
                return Ok(());
            }
        }
        let mut from = offset.saturating_sub(FIRST_ENTRY);
        while let Some(item) = self.reader.next_in(&folder, from).map_err(failed)? {
            from = item.number + 1;
            let skipped = if folder.is_empty() { 0 } else { folder.len() + 1 };
            let name = OsStr::from_bytes(item.entry.path.get(skipped..).unwrap_or_default());
            let kind = match item.entry.kind {
                EntryKind::Directory => FileType::Directory,
                EntryKind::Symlink { .. } => FileType::Symlink,
                EntryKind::File { .. } | EntryKind::HardLink { .. } => FileType::RegularFile,
            };
            if reply.add(INodeNo(item.number + FIRST), from + FIRST_ENTRY, kind, name) {
                break;
            }
        }
        Ok(())
    }

    fn open_file(&self, ino: INodeNo) -> Result<u64, Errno> {
        let file = self.reader.open_item(&self.item(ino)?).map_err(failed)?;
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.files().insert(handle, Arc::new(file));
        Ok(handle)
    }
}

/// The error that a program gets if the listing cannot be read or a file cannot be opened.
fn failed(error: ReaderError) -> Errno {
    match error {
        ReaderError::NoFile(_) => Errno::EISDIR,
        ReaderError::NotThere(_) => Errno::ENOENT,
        error => {
            tracing::warn!(%error, "cannot answer the kernel: a program gets an input/output error");
            Errno::EIO
        }
    }
}

fn time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    let at = at.and_then(|at| at.checked_add(Duration::from_nanos(u64::from(nanos))));
    at.unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Filesystem for MountedTree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel may refuse this; it works without.
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_CACHE_SYMLINKS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes_of(ino) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.item(ino).map(|item| item.entry.kind) {
            Ok(EntryKind::Symlink { target }) => reply.data(&target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.files().get(&handle.0).cloned();
        let Some(file) = file else { return reply.error(Errno::EBADF) };
        file.read_then(offset, size as usize, move |read| match read {
            Ok(bytes) => reply.data(bytes),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files().remove(&handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let remembered = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(0), remembered);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(ino, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let manifest = self.reader.manifest();
        let blocks = manifest.total_size.div_ceil(u64::from(BLOCK));
        reply.statfs(blocks, 0, 0, manifest.file_count, 0, BLOCK, 255, BLOCK);
    }
}
