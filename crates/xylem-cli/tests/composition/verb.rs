//! Actions of a user, and how a sequence of them is drawn.

use xylem_sim::Rng;

/// Files of the sharer's folder `src`, by path: two small ones, one that a rule of [`EXCLUDES`] leaves
/// out, one of several segments, and one below another folder.
pub(crate) const FILES: [&str; 5] = ["a", "b.log", "d/secret.key", "large", "d/c"];

/// Rules given with `--exclude`.
pub(crate) const EXCLUDES: [&str; 2] = ["*.key", "/d"];

/// How many destinations the getter has.
pub(crate) const OUTS: usize = 3;

/// The part of the sharer's folder that is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The folder `src`.
    Folder,
    /// One of [`FILES`].
    File(usize),
}

/// How something is shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    pub(crate) target: Target,
    /// `--as`: one of two names, so that a path may have several shares.
    pub(crate) named: Option<u8>,
    /// `--exclude`, a rule of [`EXCLUDES`].
    pub(crate) exclude: Option<usize>,
    /// `--no-exclude`.
    pub(crate) no_exclude: bool,
    /// `--foreground`.
    pub(crate) foreground: bool,
    /// `--relay`, of a share in the foreground: the node uses the relays of its own settings.
    pub(crate) relayed: bool,
    /// `--strict` and `--portable`, which change nothing here: all files can be read, and all names are portable.
    pub(crate) strict: bool,
    pub(crate) portable: bool,
}

/// How something is fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Getting {
    pub(crate) out: usize,
    pub(crate) overwrite: bool,
    pub(crate) delete: bool,
    pub(crate) exclude: Option<usize>,
    /// `--like` the large file of the sharer.
    pub(crate) like: bool,
    /// Without `--no-serve`: what has come is served to others meanwhile.
    pub(crate) serves: bool,
    /// `--fsync`.
    pub(crate) durable: bool,
    /// `--dry-run`.
    pub(crate) dry: bool,
    /// The getter is killed after this many milliseconds.
    pub(crate) killed_after: Option<u64>,
}

/// How a process of the sharer ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Interrupted,
    Killed,
}

/// The store that a command uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Sharer,
    Getter,
}

/// One step. A share's number is taken modulo the number of shares of the sequence.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    /// A file of the sharer gets new content.
    Write {
        file: usize,
        len: usize,
        seed: u64,
    },
    /// Its content changes, its size and time do not.
    EditKeepingTime {
        file: usize,
    },
    /// It grows.
    Append {
        file: usize,
        len: usize,
    },
    Remove {
        file: usize,
    },
    Touch {
        file: usize,
    },
    Share(Sharing),
    UnsharePath(Target),
    UnshareId(usize),
    /// Starts the background node.
    Serve,
    EndService(End),
    EndForeground(usize, End),
    Get(usize, Getting),
    /// Changes or makes a file in a destination, as the user of the getter.
    EditCopy {
        out: usize,
        file: usize,
        seed: u64,
    },
    /// Fetches to standard output.
    Print(usize),
    /// Compares a destination with a share's ticket.
    Verify {
        share: usize,
        out: usize,
        /// `--allow-extra`.
        allow_extra: bool,
    },
    Scrub {
        side: Side,
        repair: bool,
    },
    Collect {
        side: Side,
    },
    CheckStore {
        side: Side,
    },
    /// Starts or ends `share --follow` of the log.
    Follow,
    EndFollow(End),
    AppendLog {
        len: usize,
    },
    /// `get` of the log's ticket without `--follow`.
    GetLog {
        out: usize,
        overwrite: bool,
    },
    /// `get --follow` of the log, killed after this many milliseconds.
    FollowLog {
        out: usize,
        killed_after: u64,
    },
}

/// The sequence of a seed.
pub(crate) fn sequence(seed: u64) -> Vec<Verb> {
    let mut rng = Rng::new(seed);
    let follows = rng.chance(0.2);
    let mut verbs = Vec::new();
    // Most sequences begin with a share that can be fetched.
    if rng.chance(0.7) {
        verbs.push(Verb::Serve);
    }
    verbs.push(Verb::Share(sharing(&mut rng)));
    if follows {
        verbs.push(Verb::Follow);
    }
    for _ in 0..3 + rng.index(8) {
        verbs.push(verb(&mut rng, follows));
    }
    verbs
}

fn verb(rng: &mut Rng, follows: bool) -> Verb {
    if follows && rng.chance(0.5) {
        return log_verb(rng);
    }
    let file = rng.index(FILES.len());
    match rng.below(100) {
        0..6 => Verb::Write { file, len: len(rng), seed: rng.next_u64() },
        6..12 => Verb::EditKeepingTime { file },
        12..16 => Verb::Append { file, len: 1 + rng.index(5000) },
        16..19 => Verb::Remove { file },
        19..21 => Verb::Touch { file },
        21..35 => Verb::Share(sharing(rng)),
        35..39 => Verb::UnsharePath(target(rng)),
        39..42 => Verb::UnshareId(rng.index(8)),
        42..47 => Verb::Serve,
        47..51 => Verb::EndService(end(rng)),
        51..53 => Verb::EndForeground(rng.index(8), end(rng)),
        53..74 => Verb::Get(rng.index(8), getting(rng)),
        74..76 => Verb::Print(rng.index(8)),
        76..82 => Verb::EditCopy { out: rng.index(OUTS), file, seed: rng.next_u64() },
        82..87 => {
            Verb::Verify { share: rng.index(8), out: rng.index(OUTS), allow_extra: rng.chance(0.3) }
        }
        87..93 => Verb::Scrub { side: side(rng), repair: rng.chance(0.6) },
        93..98 => Verb::Collect { side: side(rng) },
        _ => Verb::CheckStore { side: side(rng) },
    }
}

fn log_verb(rng: &mut Rng) -> Verb {
    match rng.below(10) {
        0 => Verb::Follow,
        1 => Verb::EndFollow(end(rng)),
        2..5 => Verb::AppendLog { len: 1 + rng.index(30_000) },
        5..8 => Verb::GetLog { out: rng.index(OUTS), overwrite: rng.chance(0.5) },
        _ => Verb::FollowLog { out: rng.index(OUTS), killed_after: rng.below(60) },
    }
}

fn len(rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => 0,
        1 => rng.index(100),
        2 => 8192 + rng.index(3) - 1,
        _ => rng.index(200_000),
    }
}

fn target(rng: &mut Rng) -> Target {
    if rng.chance(0.6) { Target::Folder } else { Target::File(rng.index(FILES.len())) }
}

fn sharing(rng: &mut Rng) -> Sharing {
    let target = target(rng);
    let exclude = (target == Target::Folder && rng.chance(0.2)).then(|| rng.index(EXCLUDES.len()));
    let foreground = rng.chance(0.15);
    Sharing {
        target,
        named: rng.chance(0.2).then(|| rng.below(2) as u8),
        exclude,
        no_exclude: exclude.is_none() && rng.chance(0.1),
        foreground,
        relayed: foreground && rng.chance(0.3),
        strict: rng.chance(0.1),
        portable: rng.chance(0.1),
    }
}

fn getting(rng: &mut Rng) -> Getting {
    let overwrite = rng.chance(0.5);
    Getting {
        out: rng.index(OUTS),
        overwrite,
        delete: overwrite && rng.chance(0.4),
        exclude: rng.chance(0.15).then(|| rng.index(EXCLUDES.len())),
        like: rng.chance(0.1),
        serves: rng.chance(0.2),
        durable: rng.chance(0.05),
        dry: rng.chance(0.1),
        killed_after: rng.chance(0.15).then(|| rng.below(40)),
    }
}

fn end(rng: &mut Rng) -> End {
    if rng.chance(0.5) { End::Interrupted } else { End::Killed }
}

fn side(rng: &mut Rng) -> Side {
    if rng.chance(0.5) { Side::Sharer } else { Side::Getter }
}
