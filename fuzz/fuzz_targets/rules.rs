//! Files of rules in the form of `.gitignore`: no panic; an invalid line is named, and parsed rules parse the same
//! again.
#![no_main]
use xylem_files::{RulesError, read_rule, read_rules};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let lines = input.split(|byte| *byte == b'\n').count();
    match read_rules(input) {
        Ok(rules) => {
            assert!(rules.len() <= lines);
            for rule in rules {
                assert_eq!(read_rule(&rule).as_ref(), Ok(&rule));
            }
        }
        Err(RulesError::NotText { line } | RulesError::Pattern { line, .. }) => {
            assert!((1..=lines).contains(&line));
        }
    }
});
