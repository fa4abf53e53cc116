//! The comparison of traces, by valgrind's tool `lackey`, which prints every access to memory.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Error};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use super::subjects::{Subject, all};

/// The flag of the process under valgrind.
pub(crate) const INSIDE: &str = "--inside";
/// The prefix of that process's line with the address of [`MARK`], in hexadecimal digits.
const MARKED_BY: &str = "marked by ";

/// Number of calls with each input. One of them has to match the first input's call: now and then the allocator tidies
/// up, whatever the input is.
const CALLS: usize = 3;
/// Written before and after each call under test. The trace contains the writes, whatever symbols the program has.
static MARK: AtomicU64 = AtomicU64::new(0);

/// Runs each subject over all its inputs.
pub(crate) fn inside() {
    println!("{MARKED_BY}{:x}", (&raw const MARK).addr());
    for subject in all() {
        // All inputs use the same buffer, so that its address makes no difference.
        let mut input = subject.classes[0][0].clone();
        // Warms up state that is set up once, and the allocator's lists.
        for _ in 0..8 {
            (subject.run)(black_box(&input));
        }
        for one in subject.classes.iter().flatten() {
            input.copy_from_slice(one);
            for _ in 0..CALLS {
                MARK.store(1, Ordering::Relaxed);
                (subject.run)(black_box(&input));
                MARK.store(2, Ordering::Relaxed);
            }
        }
    }
}

/// The trace of a subject's first call, and whether it did the same with every input.
#[derive(Default)]
struct Compared {
    first: Vec<String>,
    calls: usize,
    /// The first difference of the present call.
    differs: Option<String>,
    /// Whether a call with the present input did the same.
    agrees: bool,
    leak: Option<String>,
}

impl Compared {
    /// Takes line `at` of the present call's trace, or its end.
    fn take(&mut self, at: usize, line: Option<&str>) {
        if self.calls == 1 {
            self.first.extend(line.map(str::to_owned));
        } else if self.differs.is_none() && self.first.get(at).map(String::as_str) != line {
            let [first, here] = [self.first.get(at).map(String::as_str), line]
                .map(|line| line.unwrap_or("the end").trim());
            self.differs = Some(format!("step {at}, {first} | {here}"));
        }
        if line.is_none() {
            let differs = self.differs.take();
            self.agrees |= differs.is_none();
            if self.calls.is_multiple_of(CALLS) {
                let input = self.calls / CALLS;
                let how = differs.filter(|_| !self.agrees);
                self.leak = self.leak.take().or(how.map(|how| format!("{how} with input {input}")));
                self.agrees = false;
            }
        }
    }

    /// Prints the result; returns whether it is as expected.
    fn report(&self, subject: &Subject) -> bool {
        let executed = self.first.iter().filter(|line| line.starts_with('I')).count();
        let (good, said) = match (&self.leak, subject.leaks) {
            (None, false) => (true, "the same".to_owned()),
            (Some(_), true) => (true, "differs, as it should".to_owned()),
            (None, true) => (false, "NOT SEEN, and it leaks".to_owned()),
            (Some(how), false) => (false, format!("DIFFERS at {how}")),
        };
        let inputs = self.calls / CALLS;
        println!("{executed:>9} instructions, {inputs} inputs: {said}: {}", subject.name);
        good
    }
}

/// Traces, compares and prints; returns whether all results are as expected.
pub(crate) fn run() -> Result<bool, Error> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("constant time: no valgrind; SKIPPED");
        return Ok(true);
    }
    let mut process = Command::new("valgrind")
        // The trace goes to the process's own output, so that the two are in order.
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--log-fd=1"])
        .arg(std::env::current_exe()?)
        .arg(INSIDE)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::with_capacity(1 << 20, process.stdout.take().expect("piped"));
    let mut subjects = all().into_iter().peekable();
    let (mut compared, mut good, mut line) = (Compared::default(), true, String::new());
    // The trace line of a write to the mark, once it is known; position in the trace of an input.
    let (mut mark, mut at): (Option<String>, Option<usize>) = (None, None);
    while {
        line.clear();
        lines.read_line(&mut line)?
    } > 0
    {
        if let Some((_, address)) = line.split_once(MARKED_BY) {
            let address = u64::from_str_radix(address.trim(), 16).map_err(Error::other)?;
            mark = Some(format!("{address:08x},8"));
            continue;
        }
        let Some(mark) = &mark else { continue };
        // "I  address,size" for an instruction; " L", " S" and " M" for loads, stores and modifications.
        let Some((kind, place)) = line.split_at_checked(3) else { continue };
        if !matches!(kind, "I  " | " L " | " S " | " M ") {
            continue;
        }
        let is_mark = kind == " S " && place.trim_end() == mark;
        match (at, is_mark) {
            (None, false) => {}
            (None, true) => {
                compared.calls += 1;
                at = Some(0);
            }
            (Some(step), false) => {
                compared.take(step, Some(&line));
                at = Some(step + 1);
            }
            (Some(step), true) => {
                compared.take(step, None);
                at = None;
                let calls = |subject: &Subject| CALLS * subject.classes.iter().flatten().count();
                if subjects.peek().map(calls) == Some(compared.calls) {
                    let subject = subjects.next().expect("peeked");
                    good &= std::mem::take(&mut compared).report(&subject);
                }
            }
        }
    }
    let status = process.wait()?;
    if !status.success() || subjects.peek().is_some() {
        return Err(Error::other(format!("valgrind ended too early, {status}")));
    }
    Ok(good)
}
