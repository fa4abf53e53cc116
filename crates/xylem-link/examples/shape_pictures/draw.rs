//! Draws one picture of a level: sizes above, gaps below, one curve for each load.

use std::fmt::Write;

use xylem_link::Level;

use super::session::{Load, Seen};

/// Width of one bar of sizes, in bytes.
const BAR: usize = 16;
/// The largest size on the axis, in bytes.
const MAX_SIZE: usize = 1_472;
/// Decades of gaps: from 10 µs to 100 s.
const DECADES: (i32, i32) = (-5, 2);
/// Bars of one decade.
const PER_DECADE: usize = 12;
const WIDTH: f64 = 720.0;
const LEFT: f64 = 60.0;
const PANEL: f64 = 120.0;
/// Vertical positions of the lower edges of the two panels.
const FLOORS: [f64; 2] = [190.0, 380.0];
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// The share of `values` in each of `bars` bars.
fn histogram(values: impl Iterator<Item = usize>, bars: usize) -> Vec<f64> {
    let mut counts = vec![0.0; bars];
    let mut all = 0.0;
    for bar in values {
        counts[bar.min(bars - 1)] += 1.0;
        all += 1.0;
    }
    counts.iter_mut().for_each(|count| *count /= f64::max(all, 1.0));
    counts
}

fn sizes(seen: &Seen) -> Vec<f64> {
    histogram(seen.sizes.iter().map(|size| size / BAR), MAX_SIZE / BAR)
}

fn gaps(seen: &Seen) -> Vec<f64> {
    let bars = (DECADES.1 - DECADES.0) as usize * PER_DECADE;
    let bar = |seconds: f64| {
        let decades = seconds.max(1e-9).log10() - f64::from(DECADES.0);
        (decades * PER_DECADE as f64).max(0.0) as usize
    };
    histogram(seen.gaps().map(|gap| bar(gap.as_secs_f64())), bars)
}

/// The picture as SVG.
pub(crate) fn picture(level: Level, seen: &[Seen; 3]) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 430\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"800\" height=\"430\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">shaping: {level}</text>\n"
    );
    for (i, (load, colour)) in Load::ALL.iter().zip(COLOURS).enumerate() {
        let x = 400.0 + 110.0 * i as f64;
        let (name, count) = (load.name(), seen[i].sizes.len());
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"14\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"24\">{name} ({count})</text>",
            x + 14.0
        );
    }
    panel(
        &mut out,
        FLOORS[0],
        "share of datagrams by UDP payload, bytes",
        seen.each_ref().map(sizes),
    );
    for size in (0..=MAX_SIZE).step_by(256) {
        let x = LEFT + WIDTH * size as f64 / MAX_SIZE as f64;
        label(&mut out, x, FLOORS[0], &size.to_string());
    }
    panel(&mut out, FLOORS[1], "share of gaps between datagrams", seen.each_ref().map(gaps));
    let names = ["same moment", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"];
    for (i, name) in names.iter().enumerate() {
        label(&mut out, LEFT + WIDTH * i as f64 / (names.len() - 1) as f64, FLOORS[1], name);
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, floor: f64, title: &str, curves: [Vec<f64>; 3]) {
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{title}</text>", floor - PANEL - 14.0);
    for percent in [0, 50, 100] {
        let y = floor - PANEL * f64::from(percent) / 100.0;
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y}H{}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{percent} %</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            y + 4.0
        );
    }
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let step = WIDTH / curve.len() as f64;
        let mut path = format!("M{LEFT} {floor}");
        for (i, share) in curve.iter().enumerate() {
            let x = LEFT + step * (i + 1) as f64;
            let _ = write!(path, "V{:.1}H{x:.1}", floor - PANEL * share);
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}V{floor}\" fill=\"{colour}\" fill-opacity=\"0.25\" stroke=\"{colour}\"/>"
        );
    }
}

fn label(out: &mut String, x: f64, floor: f64, text: &str) {
    let y = floor + 16.0;
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
}
