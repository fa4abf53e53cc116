//! TUN devices: a packet at a time, never waiting for one that is not there.

use core::time::Duration;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Packets taken from one device before packets that are due leave.
pub(crate) const BURST: usize = 32;
/// How long a stop may go unnoticed.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// From here on [take] returns at once.
pub(crate) fn unblock(device: BorrowedFd<'_>) -> std::io::Result<()> {
    Ok(fcntl_setfl(device, fcntl_getfl(device)? | OFlags::NONBLOCK)?)
}

/// Until a device has a packet, or `wait` (at most a [NAP]) is over, or a signal comes.
pub(crate) fn sleep(devices: &[BorrowedFd<'_>], wait: Duration) -> std::io::Result<()> {
    let seconds = i64::try_from(wait.as_secs()).expect("at most NAP");
    let wait = Timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().into() };
    let mut devices: Vec<_> =
        devices.iter().map(|device| PollFd::from_borrowed_fd(*device, PollFlags::IN)).collect();
    match poll(&mut devices, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A packet that waits in a device.
pub(crate) fn take<'a>(
    device: BorrowedFd<'_>,
    buffer: &'a mut [u8],
) -> std::io::Result<Option<&'a mut [u8]>> {
    match rustix::io::read(device, &mut *buffer) {
        Ok(len) => Ok(Some(&mut buffer[..len])),
        // EIO: the device is down.
        Err(Errno::AGAIN | Errno::INTR | Errno::IO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Where the kernel does not take a packet (the device is down, its queue full), it is lost.
pub(crate) fn give(device: BorrowedFd<'_>, packet: &[u8]) -> std::io::Result<()> {
    match rustix::io::write(device, packet) {
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
