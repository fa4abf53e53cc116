//! The conditions of a network, and when they change: the figures of the command line.

use core::str::FromStr;
use core::time::Duration;

use clap::Args;
use xylem_sim::Conditions;

/// One direction's figures; both directions have the same ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathFigures {
    /// One-way delay, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "0")]
    pub delay: Duration,
    /// Percentage of packets that take longer, so that they are overtaken
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0")]
    pub late: f64,
    /// Maximum additional delay of those, in milliseconds, uniformly distributed
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "0")]
    pub late_by: Duration,
    /// Packets lost at random, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0")]
    pub loss: f64,
    /// Packets that arrive twice, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0")]
    pub duplicate: f64,
    /// Megabits a second, headers of IP included; 0: no limit
    #[arg(long, value_name = "MBIT", value_parser = megabits, default_value = "0")]
    pub rate: u64,
    /// Bytes that can wait for the rate; packets beyond that are dropped
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub queue: u64,
    /// Waiting bytes above which packets of senders with ECN are marked; 0: none are
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub mark: u64,
    /// Largest IP packet that passes; larger ones are dropped silently
    #[arg(long, value_name = "BYTES", default_value_t = 65_535)]
    pub mtu: usize,
}

impl PathFigures {
    /// The conditions of a path with these figures.
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            delay: self.delay,
            loss: self.loss,
            duplicate: self.duplicate,
            mtu: self.mtu,
            rate: bytes_a_second(self.rate),
            queue: self.queue,
            mark_above: if self.mark == 0 { u64::MAX } else { self.mark },
            ..Conditions::PERFECT.late(self.late, self.late_by)
        }
    }
}

/// Bytes a second for a number of bits a second; 0: no limit.
fn bytes_a_second(bits: u64) -> f64 {
    if bits == 0 { f64::INFINITY } else { bits as f64 / 8.0 }
}

/// A change at a stated time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// The largest packet that passes, in bytes.
    Mtu(usize),
    /// The share of packets lost, 0 to 1.
    Loss(f64),
    /// Bits a second.
    Rate(u64),
    /// Whether all packets are dropped.
    Cut(bool),
    /// From now on the left side's UDP ports are translated to other ones on the right.
    Rebind,
}

/// `SECONDS:CHANGE`, counted from the first packet. A cut of so many seconds is two changes.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledChanges(pub Vec<(Duration, Change)>);

impl FromStr for ScheduledChanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (time, what) = text.split_once(':').ok_or("write SECONDS:WHAT")?;
        let time = seconds(time)?;
        let (name, value) = what.split_once('=').unwrap_or((what, ""));
        let change = match name {
            "mtu" => Change::Mtu(value.parse().map_err(|_| "mtu=BYTES")?),
            "loss" => Change::Loss(share(value)?),
            "rate" => Change::Rate(megabits(value)?),
            "rebind" if value.is_empty() => Change::Rebind,
            "cut" => {
                let end = time.checked_add(seconds(value)?).ok_or("too long")?;
                return Ok(Self(vec![(time, Change::Cut(true)), (end, Change::Cut(false))]));
            }
            _ => return Err("unknown change: use mtu, loss, rate, cut or rebind".to_owned()),
        };
        Ok(Self(vec![(time, change)]))
    }
}

impl Change {
    /// Applies the change to conditions, if it belongs to the path itself.
    pub(crate) fn apply(self, conditions: &mut Conditions) {
        match self {
            Self::Mtu(mtu) => conditions.mtu = mtu,
            Self::Loss(loss) => conditions.loss = loss,
            Self::Rate(rate) => conditions.rate = bytes_a_second(rate),
            Self::Cut(cut) => conditions.cut = cut,
            Self::Rebind => {}
        }
    }
}

fn number(text: &str, most: f64) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=most).contains(&value) { Ok(value) } else { Err(format!("0 to {most}")) }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs_f64(number(text, 60_000.0)? / 1e3))
}

fn seconds(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs_f64(number(text, 86_400.0)?))
}

fn share(text: &str) -> Result<f64, String> {
    Ok(number(text, 100.0)? / 100.0)
}

fn megabits(text: &str) -> Result<u64, String> {
    Ok((number(text, 1e6)? * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_nonsense_is_refused() {
        let at = |text: &str| text.parse::<ScheduledChanges>().map(|at| at.0);
        let s = Duration::from_secs;
        assert_eq!(at("2:mtu=1280"), Ok(vec![(s(2), Change::Mtu(1280))]));
        let cut = vec![(s(1), Change::Cut(true)), (s(5), Change::Cut(false))];
        assert_eq!(at("1:cut=4"), Ok(cut));
        assert_eq!(at("0.5:rebind").unwrap()[0].1, Change::Rebind);
        assert_eq!(at("3:loss=5").unwrap()[0].1, Change::Loss(0.05));
        for bad in ["", "1", "1:", "x:cut=1", "1:cut", "1:loss=101", "-1:rebind", "1:rebind=2"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}
