//! `xylem-bench` as people and scripts use it: tables, events, exit codes.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xylem-bench"));
    command.args(args).stdin(Stdio::null()).output().expect("the program starts")
}

#[test]
fn wrong_usage_is_2_and_lists_the_tables() {
    for (args, part) in [
        (&[][..], "hash|ndn|link|transfer"),
        (&["hush"], "hash|ndn|link|transfer"),
        (&["hash", "doubles"], "single, busy, batches, blocks, large, streaming, cores"),
        (&["ndn", "single"], "producer, consumer, end-to-end, pipeline, parallel"),
    ] {
        let output = run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_table_is_markdown_for_people() {
    let output = run(&["hash", "streaming", "--quick"]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).expect("text");
    assert!(page.starts_with("Machine: "), "{page}");
    assert!(page.contains("\n## streaming: "), "{page}");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + 5, "{page}");
    let width = rows[0].chars().count();
    assert!(rows.iter().all(|row| row.chars().count() == width), "{page}");
    assert!(page.contains(" of 5 wanted ratios met."), "{page}");
}

#[test]
fn a_table_is_one_event_a_row_for_scripts() {
    let output = run(&["hash", "blocks", "--quick", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).expect("text");
    let events: Vec<Value> =
        page.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(events.iter().all(|event| event["event"] == "bench"), "{page}");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["report"].as_str()).collect();
    assert_eq!(kinds[..2], ["machine", "heading"]);
    assert!(kinds[2..].len() > 8 && kinds[2..].iter().all(|kind| *kind == "row"), "{page}");
    for row in &events[2..] {
        assert!(row["figures"][0]["nanoseconds"].as_f64() > Some(0.0), "{row}");
    }
    let page = include_str!("../../docs/spec/json-events.md");
    let documented = page.lines().find(|line| line.starts_with("| `bench` |")).expect("a row");
    for field in events.iter().flat_map(|event| event.as_object().expect("an object").keys()) {
        let known = field == "event" || documented.contains(&format!("`{field}`"));
        assert!(known, "{field} is not documented");
    }
}

#[test]
fn a_saved_run_is_compared_with_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let saved = dir.path().join("before");
    let saved = saved.to_str().expect("text");
    let output = run(&["hash", "streaming", "--quick", "--save", saved]);
    assert_eq!(output.status.code(), Some(0));
    let kept = std::fs::read_to_string(saved).expect("it was written");
    assert_eq!(kept.lines().filter(|line| line.contains(r#""report":"row""#)).count(), 5);

    let output = run(&["hash", "streaming", "--quick", "--against", saved]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).expect("text");
    let (_, compared) = page.split_once("\n## Against the saved report\n").expect("a table");
    assert!(!compared.contains("another machine"), "{page}");
    let rows: Vec<&str> =
        compared.lines().filter(|line| line.starts_with("| streaming, ")).collect();
    assert!(rows.len() >= 5 && rows.iter().all(|row| row.matches(" ± ").count() == 2), "{page}");
    assert!(compared.contains(&format!("{} figures in both: ", rows.len())), "{page}");

    let output = run(&["hash", "streaming", "--quick", "--json", "--against", saved]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).expect("text");
    let events = page.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let changes: Vec<Value> = events.filter(|event| event["report"] == "change").collect();
    assert_eq!(changes.len(), rows.len(), "{page}");
    let page = include_str!("../../docs/spec/json-events.md");
    let documented = page.lines().find(|line| line.starts_with("| `bench` |")).expect("a row");
    for change in &changes {
        let ratio = change["before"]["nanoseconds"].as_f64().expect("a median")
            / change["now"]["nanoseconds"].as_f64().expect("a median");
        assert!(
            (ratio / change["faster"].as_f64().expect("a ratio") - 1.0).abs() < 1e-9,
            "{change}"
        );
        for field in change.as_object().expect("an object").keys().filter(|field| *field != "event")
        {
            assert!(documented.contains(&format!("`{field}`")), "{field} is not documented");
        }
    }

    let output = run(&["hash", "streaming", "--against", "nothing/of the kind"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
