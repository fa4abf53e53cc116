//! [`svg`]: the tables as a picture, with a panel for each and bars in the order of its rows.
//!
//! The bars are the rows' figures in the table's unit. In a table with a unit for each column they are the ratios, with
//! a line at 1. Where the longest bar is far longer than the shortest, the axis is logarithmic and labelled so.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::report::{Heading, Report, Row, Unit};

/// Width of the picture, and of the labels left of the bars, in pixels.
const WIDTH: u32 = 960;
const LABELS: u32 = 240;
/// Height of a bar, of the gap between two rows, and of the rest of a panel, in pixels.
const BAR: u32 = 11;
const GAP: u32 = 9;
const AROUND: u32 = 96;
/// Factor between bars above which the axis is logarithmic.
const FAR_APART: f64 = 30.0;

/// Colours that people with colour blindness can distinguish (Okabe and Ito, 2008), dark enough for white paper.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// One table.
struct Panel<'r> {
    heading: &'r Heading,
    rows: Vec<&'r Row>,
}

impl<'r> Panel<'r> {
    /// Whether ratios are drawn: figures of several units have no common axis.
    fn of_ratios(&self) -> bool {
        self.heading.unit == Unit::InColumns
    }

    /// Names of the bars of a row.
    fn names(&self) -> &'r [String] {
        if self.of_ratios() { &self.heading.ratios } else { &self.heading.figures }
    }

    /// The bars of a row, in the order of the names; `None` for those that were not measured or can't be drawn.
    fn values(&self, row: &Row) -> Vec<Option<f64>> {
        let value = |name: &String| {
            let found = if self.of_ratios() {
                row.ratios.iter().find(|ratio| ratio.name == *name).map(|ratio| ratio.value)
            } else {
                row.figures.iter().find(|figure| figure.name == *name).map(|figure| figure.value)
            };
            found.filter(|value| value.is_finite() && *value > 0.0)
        };
        self.names().iter().map(value).collect()
    }

    fn height(&self) -> u32 {
        let bars = u32::try_from(self.names().len()).unwrap_or(u32::MAX);
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        rows.saturating_mul(bars.saturating_mul(BAR).saturating_add(GAP)).saturating_add(AROUND)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), DrawError> {
        let values: Vec<_> = self.rows.iter().map(|row| self.values(row)).collect();
        let all = || values.iter().flatten().flatten().copied();
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let far = most > least * FAR_APART;
        let (first, last) = if far { (least / 1.5, most * 1.5) } else { (0.0, most * 1.08) };
        if far {
            self.bars(area, &values, (first..last).log_scale(), first, "logarithmic")
        } else {
            self.bars(area, &values, first..last, first, "")
        }
    }

    fn bars<X>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        values: &[Vec<Option<f64>>],
        axis: X,
        first: f64,
        scale: &str,
    ) -> Result<(), DrawError>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let Heading { table, title, unit, .. } = self.heading;
        let counted = if self.of_ratios() { "ratios" } else { unit.name() };
        let comma = if scale.is_empty() { "" } else { ", " };
        let caption = format!("{table}: {title} ({counted}{comma}{scale})");
        area.draw(&Text::new(caption, (12, 12), ("sans-serif", 15)))?;
        let mut x = LABELS;
        for (name, colour) in self.names().iter().zip(COLOURS.iter().cycle()) {
            let at = i32::try_from(x).unwrap_or(i32::MAX);
            area.draw(&Rectangle::new([(at, 38), (at + 10, 48)], colour.filled()))?;
            area.draw(&Text::new(name.clone(), (at + 14, 37), ("sans-serif", 12)))?;
            x += 30 + 7 * u32::try_from(name.chars().count()).unwrap_or(0);
        }
        let rows = self.rows.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .margin_top(56)
            .margin_right(20)
            .margin_left(LABELS)
            .x_label_area_size(28)
            .build_cartesian_2d(axis, rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_labels(8)
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 11))
            .x_label_formatter(&|value| short(*value))
            .draw()?;
        let bars = self.names().len() as f64;
        // A row has height one; gaps have the same share of it as in pixels.
        let thick = f64::from(BAR) / (bars * f64::from(BAR) + f64::from(GAP));
        for (number, (row, values)) in self.rows.iter().zip(values).enumerate() {
            let top = number as f64 + (1.0 - thick * bars) / 2.0;
            let (_, y) = chart.backend_coord(&(first, number as f64 + 0.5));
            let (left, above) = area.get_base_pixel();
            let label = Text::new(
                row.label.clone(),
                (i32::try_from(LABELS).unwrap_or(0) - 8 - left, y - above - 6),
                ("sans-serif", 12).into_text_style(area).pos(right_aligned()),
            );
            area.draw(&label)?;
            for (i, (value, colour)) in values.iter().zip(COLOURS.iter().cycle()).enumerate() {
                let Some(value) = value else { continue };
                let top = top + i as f64 * thick;
                let bar = [(first, top), (*value, top + thick * 0.9)];
                chart.draw_series([Rectangle::new(bar, colour.filled())])?;
            }
        }
        if self.of_ratios() {
            chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, rows)], BLACK)])?;
        }
        Ok(())
    }
}

fn right_aligned() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Right, VPos::Top)
}

/// A number with no more digits than an axis needs.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}").trim_end_matches(".0").to_owned(),
        0.0 => "0".to_owned(),
        v => format!("{v:.3}").trim_end_matches('0').to_owned(),
    }
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// The tables of `reports` as one SVG picture; `None` if there is nothing in them to draw.
#[must_use]
pub fn svg(reports: &[Report]) -> Option<String> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    let mut machine = None;
    for report in reports {
        match report {
            Report::Machine(m) => {
                machine = Some(format!("{}, {} cores, {}", m.processor, m.cores, m.date))
            }
            Report::Heading(heading) => panels.push(Panel { heading, rows: Vec::new() }),
            Report::Row(row) => {
                let Some(panel) = panels.last_mut() else { continue };
                if panel.values(row).iter().any(Option::is_some) {
                    panel.rows.push(row);
                }
            }
            Report::Absent(_) => {}
        }
    }
    panels.retain(|panel| !panel.rows.is_empty());
    if panels.is_empty() {
        return None;
    }
    let foot = 24;
    let height = panels.iter().fold(foot, |sum: u32, panel| sum.saturating_add(panel.height()));
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let drawn = || -> Result<(), DrawError> {
            root.fill(&WHITE)?;
            let mut rest = root.clone();
            for panel in &panels {
                let (area, after) = rest.split_vertically(panel.height());
                panel.draw(&area)?;
                rest = after;
            }
            rest.draw(&Text::new(machine.unwrap_or_default(), (12, 2), ("sans-serif", 11)))?;
            root.present()
        };
        // Writing to a string can't fail.
        drawn().ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figure, Ratio};

    fn heading(unit: Unit) -> Report {
        Report::Heading(Heading {
            table: "single".into(),
            title: "ours & <theirs>".into(),
            unit,
            label: "length".into(),
            figures: vec!["xylem".into(), "official".into()],
            ratios: vec!["xylem / official".into()],
            notes: vec![],
        })
    }

    fn row(label: &str, values: [f64; 2]) -> Report {
        let [ours, theirs] = values;
        Report::Row(Row {
            table: "single".into(),
            label: label.into(),
            bytes: 64,
            figures: vec![Figure::quoted("xylem", ours), Figure::quoted("official", theirs)],
            ratios: vec![Ratio::new("xylem / official", ours, theirs, None)],
        })
    }

    /// Lengths of bars, without the background and the two of the legend.
    fn bars(svg: &str) -> Vec<f64> {
        let width = |rect: &str| {
            let (_, rest) = rect.split_once("width=\"")?;
            rest.split_once('"')?.0.parse::<f64>().ok()
        };
        svg.split("<rect").skip(1).filter_map(width).skip(3).collect()
    }

    #[test]
    fn a_bar_for_each_figure_as_long_as_it_is_large() {
        let svg = svg(&[heading(Unit::Nanoseconds), row("64 B", [10.0, 20.0])]).expect("a table");
        let bars = bars(&svg);
        assert_eq!(bars.len(), 2, "{svg}");
        assert!((bars[1] / bars[0] - 2.0).abs() < 0.05, "{bars:?}");
        for text in ["64 B", "official", "ours &amp; &lt;theirs&gt;"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
    }

    #[test]
    fn distant_and_absent_figures_are_drawn() {
        let reports =
            [heading(Unit::Nanoseconds), row("a", [1.0, 5000.0]), row("b", [f64::NAN, 70.0])];
        let svg = svg(&reports).expect("a table");
        assert!(svg.contains("logarithmic"), "{svg}");
        assert_eq!(bars(&svg).len(), 3);
    }

    #[test]
    fn ratios_stand_for_figures_of_several_units() {
        let svg = svg(&[heading(Unit::InColumns), row("a", [1.0, 2.0])]).expect("a table");
        assert!(svg.contains("xylem / official"), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_no_picture() {
        assert_eq!(svg(&[]), None);
        assert_eq!(svg(&[heading(Unit::Cycles)]), None);
        assert_eq!(svg(&[heading(Unit::Cycles), row("a", [0.0, f64::INFINITY])]), None);
        assert_eq!(svg(&[row("a", [1.0, 1.0])]), None, "a row of no table");
    }
}
