//! One file through FUSE, read from the file system below it without any other work: the baseline for `xylem mount`,
//! with the same library and the same options (`bench/mount.py`).
//!
//! `xylem-bench-passthrough FILE DIR` shows FILE in DIR until it is unmounted (`fusermount3 -u DIR`).

#[cfg(target_os = "linux")]
mod linux {
    use fuser::{
        Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
        KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
        ReplyOpen, Request,
    };
    use std::ffi::{OsStr, OsString};
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
    const ROOT: u64 = 1;

    struct Passthrough {
        file: File,
        name: OsString,
        size: u64,
    }

    impl Passthrough {
        fn attr(&self, ino: u64) -> FileAttr {
            let (kind, size, perm) = match ino {
                ROOT => (FileType::Directory, 0, 0o755),
                _ => (FileType::RegularFile, self.size, 0o644),
            };
            let now = SystemTime::UNIX_EPOCH;
            FileAttr {
                ino: INodeNo(ino),
                size,
                blocks: size.div_ceil(512),
                atime: now,
                mtime: now,
                ctime: now,
                crtime: now,
                kind,
                perm,
                nlink: 1,
                uid: 0,
                gid: 0,
                rdev: 0,
                blksize: 4096,
                flags: 0,
            }
        }
    }

    impl Filesystem for Passthrough {
        fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
            let _ = config.set_max_background(64);
            Ok(())
        }

        fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
            match name == self.name {
                true => reply.entry(&FOREVER, &self.attr(ROOT + 1), Generation(0)),
                false => reply.error(Errno::ENOENT),
            }
        }

        fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
            reply.attr(&FOREVER, &self.attr(ino.0));
        }

        fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }

        fn read(
            &self,
            _: &Request,
            _: INodeNo,
            _: FileHandle,
            offset: u64,
            size: u32,
            _: OpenFlags,
            _: Option<LockOwner>,
            reply: ReplyData,
        ) {
            let end = (offset + u64::from(size)).min(self.size);
            let mut bytes = vec![0; end.saturating_sub(offset) as usize];
            match self.file.read_exact_at(&mut bytes, offset) {
                Ok(()) => reply.data(&bytes),
                Err(_) => reply.error(Errno::EIO),
            }
        }
    }

    pub(crate) fn run() -> io::Result<()> {
        let mut arguments = std::env::args_os().skip(1);
        let (Some(path), Some(dir)) = (arguments.next(), arguments.next()) else {
            return Err(io::Error::other("usage: FILE DIR"));
        };
        let path = PathBuf::from(path);
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        let name = path.file_name().unwrap_or_default().to_owned();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::NoAtime];
        config.n_threads = Some(2);
        config.clone_fd = true;
        fuser::mount(Passthrough { file, name, size }, dir, &config)
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
