//! An open file of the disk in memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xylem_store::{FileTime, MediumFile, Meta};

use crate::disk::{Disk, DiskFault};

pub(crate) struct FaultFile {
    pub(crate) disk: Arc<Mutex<Disk>>,
    pub(crate) ino: u64,
    pub(crate) handle: u64,
}

impl FaultFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        if let Ok((.., lock)) = self.disk().file(self.ino) {
            lock.take_if(|holder| *holder == self.handle);
        }
    }
}

impl MediumFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        let end = offset + buf.len() as u64;
        let touched = |(ino, bad): &(u64, std::ops::Range<u64>)| {
            *ino == self.ino && bad.start < end && offset < bad.end
        };
        if disk.unreadable.iter().any(touched) {
            return Err(io::Error::other("a bad sector"));
        }
        disk.reads += 1;
        if disk.bad_read.is_some_and(|at| disk.reads > at) {
            disk.bad_read = None;
            return Err(io::Error::other("the disk can't read this"));
        }
        let (bytes, ..) = disk.file(self.ino)?;
        let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        let torn = matches!(disk.fault, Some((_, DiskFault::Torn)));
        let step = disk.step();
        let mut take = buf.len();
        match &step {
            Err(_) if torn && disk.fault.is_none() => take /= 2,
            Err(_) => take = 0,
            Ok(()) if disk.short && take > 1 => take /= 2,
            Ok(()) => {}
        }
        if let Some(capacity) = disk.capacity {
            let room = capacity.saturating_sub(disk.written);
            take = disk.fitting_len(self.ino, offset as usize, take, room as usize);
            if take == 0 && !buf.is_empty() && step.is_ok() {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        let end = offset + take as u64;
        let ino = self.ino;
        disk.unreadable.retain(|(at, bad)| *at != ino || bad.start < offset || end < bad.end);
        disk.count_written(self.ino, offset as usize, take);
        let mtime = disk.now();
        let (bytes, _, pending, _) = disk.file(self.ino)?;
        let at = offset as usize;
        if bytes.len() < at + take {
            bytes.resize(at + take, 0);
        }
        bytes[at..at + take].copy_from_slice(&buf[..take]);
        pending.push((at, buf[..take].to_vec()));
        disk.node(self.ino)?.mtime = mtime;
        step.map(|()| take)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let mtime = disk.now();
        disk.file(self.ino)?.0.resize(size as usize, 0);
        disk.node(self.ino)?.mtime = mtime;
        Ok(())
    }

    fn metadata(&self) -> io::Result<Meta> {
        self.disk().meta(self.ino)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.settable()?;
        disk.node(self.ino)?.mode = mode;
        Ok(())
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.settable()?;
        disk.node(self.ino)?.mtime = mtime;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        if disk.ignores_syncs {
            return Ok(());
        }
        let (bytes, durable, pending, _) = disk.file(self.ino)?;
        *durable = bytes.clone();
        pending.clear();
        Ok(())
    }

    fn is_locked(&self) -> io::Result<bool> {
        let mut disk = self.disk();
        let (.., lock) = disk.file(self.ino)?;
        Ok(lock.is_some_and(|holder| holder != self.handle))
    }

    /// Nothing waits in a test: a lock that is held is an error.
    fn lock(&self) -> io::Result<()> {
        if self.try_lock()? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut disk = self.disk();
        let (.., lock) = disk.file(self.ino)?;
        if lock.is_none_or(|holder| holder == self.handle) {
            *lock = Some(self.handle);
            return Ok(true);
        }
        Ok(false)
    }
}
