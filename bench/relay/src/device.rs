//! TUN devices: one packet at a time, without waiting.

use core::time::Duration;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Maximum number of packets taken from one device before packets that are due are sent.
pub(crate) const BURST: usize = 32;
/// Maximum sleep, after which a stop is noticed.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// Makes [take] return at once from now on.
pub(crate) fn unblock(device: BorrowedFd<'_>) -> std::io::Result<()> {
    Ok(fcntl_setfl(device, fcntl_getfl(device)? | OFlags::NONBLOCK)?)
}

/// Sleeps until a device has a packet, or `wait` (at most a [NAP]) is over, or a signal comes.
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

/// The next packet of a device, if there is one.
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

/// Sends a packet. If the kernel refuses it (the device is down, its queue full), it is lost.
pub(crate) fn give(device: BorrowedFd<'_>, packet: &[u8]) -> std::io::Result<()> {
    match rustix::io::write(device, packet) {
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
