//! The store on disks that work, fail, lie and lose power.
#![cfg(unix)]

mod atomic;
mod catalog;
mod collect;
mod every_step;
mod faults;
mod fetch;
mod layout;
mod medium;
mod objects;
mod old_format;
mod ordered;
mod power;
mod publish;
mod runs;
mod scrub;
mod serve;
mod staging;
mod support;
