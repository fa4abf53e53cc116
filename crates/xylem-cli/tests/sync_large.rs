//! A group of more members than have links to each other, as processes of their own.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, until, until_within};

/// More than the 17 of which each has a link to each other.
const MEMBERS: usize = 19;

fn group(base: &Path) -> Vec<Member> {
    let mut members: Vec<Member> =
        (0..MEMBERS).map(|n| Member::new(base, &format!("m{n:02}"))).collect();
    members[0].start(None);
    let ticket = members[0].ticket.clone();
    members[1..].iter_mut().for_each(|member| member.start(Some(&ticket)));
    members
}

/// The number of versions that each member has announced, by its name, as this one knows.
fn announced(by: &Member) -> Vec<(String, u64)> {
    let mut command = by.command();
    command.arg("--history");
    let output = finish(command);
    assert_exit(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_members = events.filter(|event| event["event"] == "sync_history");
    of_members
        .map(|event| {
            (event["name"].as_str().unwrap().to_owned(), event["length"].as_u64().unwrap())
        })
        .collect()
}

/// Links to members that were killed end within 30 seconds.
const LINKS_END: Duration = Duration::from_secs(60);

/// All have the file, and each reports that it is in step with its neighbours, in another state than `before`. Returns
/// the state.
fn in_step(members: &[&Member], path: &str, content: &str, before: Option<&str>) -> String {
    members.iter().for_each(|member| member.has(path, content));
    let mut first = None;
    until_within(LINKS_END, "all are in step", || {
        first = members[0].state().filter(|state| Some(state.as_str()) != before);
        first.is_some() && members.iter().all(|member| member.state() == first)
    });
    first.expect("a state")
}

#[test]
fn who_only_takes_over_a_change_signs_nothing() {
    let base = tempfile::tempdir().unwrap();
    let mut members = group(base.path());
    members[3].write("first", "1");
    let mut state = in_step(&members.iter().collect::<Vec<_>>(), "first", "1", None);
    let before = announced(&members[0]);
    for (n, (path, content)) in [("a", "2"), ("b", "3"), ("c", "4")].into_iter().enumerate() {
        members[5 + n].write(path, content);
        state = in_step(&members.iter().collect::<Vec<_>>(), path, content, Some(&state));
    }
    let total = |counts: &[(String, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    // Statements are written to the disk every five seconds.
    until("the three changes are in the history", || {
        total(&announced(&members[0])) >= total(&before) + 3
    });
    let (after, changes) = (announced(&members[0]), 3);
    assert!(
        total(&after) < total(&before) + 3 * changes,
        "with a statement of each they would be {}: {before:?}, {after:?}",
        MEMBERS as u64 * changes
    );

    // What such a member has is fetched from it: those that wrote are gone when new members join.
    members[5..8].iter_mut().for_each(Member::stop);
    members[3].stop();
    let ticket = members[10].ticket.clone();
    members[0].stop();
    let mut late = Member::new(base.path(), "late");
    late.start(Some(&ticket));
    let here: Vec<&Member> =
        members.iter().filter(|member| member.running.is_some()).chain([&late]).collect();
    assert_eq!(in_step(&here, "c", "4", None), state);
    drop(here);
    // One that comes back takes part as before, and a change by one that has only followed reaches all.
    members[5].start(None);
    members[12].write("d", "5");
    let here: Vec<&Member> =
        members.iter().filter(|member| member.running.is_some()).chain([&late]).collect();
    in_step(&here, "d", "5", Some(&state));
}
