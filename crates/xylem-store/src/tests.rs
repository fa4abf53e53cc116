//! The store on disks that work, fail, lie and lose power.

mod catalog;
mod faults;
mod fetch;
mod layout;
mod publish;
mod scrub;
mod serve;
mod staging;
mod support;
