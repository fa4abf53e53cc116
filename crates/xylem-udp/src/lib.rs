//! [`Udp`]: one UDP socket with batched system calls, GSO out, GRO and recvmmsg in, ECN both ways.
//!
//! Trains of datagrams come from the kernel and go to it. Whoever calls says when (the socket never
//! blocks), and gives received buffers back so that they are used again; nothing here knows what
//! datagrams say.

mod buffers;
mod udp;

pub use buffers::BufferPool;
pub use udp::{Ecn, Oversize, Received, Udp};
