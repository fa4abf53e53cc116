//! Reaching a peer that has no address of its own: what a relay and those that it serves say to each other, and what
//! two people with a short code say to each other over it. No socket, no clock (docs/spec/reach.md).

pub mod code;
pub mod names;
pub mod relay;
