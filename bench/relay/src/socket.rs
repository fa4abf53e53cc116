//! The socket for commands to the network: messages, of which one may have a device beside it.

use core::mem::MaybeUninit;
use std::io::IoSliceMut;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

/// The next message, with the device beside it; an empty one when the other side has closed.
pub(crate) fn receive<'a>(
    socket: BorrowedFd<'_>,
    buffer: &'a mut [u8],
) -> std::io::Result<Option<(&'a [u8], Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let len = match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut beside, flags) {
        Ok(message) => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let device = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(Some((&buffer[..len], device)))
}

/// Sends one message back.
pub(crate) fn answer(socket: BorrowedFd<'_>, text: &str) -> std::io::Result<()> {
    send(socket, text.as_bytes(), SendFlags::empty())?;
    Ok(())
}
