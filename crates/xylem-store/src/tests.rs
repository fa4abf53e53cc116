//! The store on disks that work, fail, lie and lose power.

mod catalog;
mod collect;
mod faults;
mod fetch;
mod layout;
mod objects;
mod old_format;
mod publish;
mod runs;
mod serve;
mod staging;
mod support;
