//! Ways to reach a peer without an address of its own: the protocol between a relay and its clients, and the exchange
//! between two peers that share a short code. Without sockets and clocks (docs/spec/reach.md).

pub mod code;
pub mod kind;
pub mod names;
pub mod relay;
pub mod volunteer;
