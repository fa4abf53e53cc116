//! The store on disks that work, fail, lie and lose power.

mod faults;
mod fetch;
mod layout;
mod publish;
mod runs;
mod serve;
mod staging;
mod support;
