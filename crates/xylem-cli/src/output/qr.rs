//! A ticket as a QR code for a phone's camera.

use qrcode::{Color, EcLevel, QrCode};

/// Light modules around the code: half of the standard's four, which is enough for present cameras.
const MARGIN: usize = 2;

/// Draws a ticket as a QR code with two rows of modules per line; `None` if it does not fit into `columns` or is too
/// long for any code.
///
/// With `color` the contrast does not depend on the terminal's theme. The ticket is drawn in upper case, which is read
/// as well: a character then takes five and a half bits instead of eight.
pub(crate) fn draw(ticket: &str, columns: usize, color: bool) -> Option<String> {
    let text = ticket.to_ascii_uppercase();
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let width = code.width();
    let side = width + 2 * MARGIN;
    if side > columns {
        return None;
    }
    let modules = code.to_colors();
    let light = |x: usize, y: usize| {
        let inside = (MARGIN..MARGIN + width).contains(&x) && (MARGIN..MARGIN + width).contains(&y);
        // An odd side leaves an empty row below the last one.
        y < side && !(inside && modules[(y - MARGIN) * width + x - MARGIN] == Color::Dark)
    };
    let mut drawn = String::new();
    for y in (0..side).step_by(2) {
        if color {
            drawn.push_str("\x1b[97;40m");
        }
        for x in 0..side {
            drawn.push(match (light(x, y), light(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        drawn.push_str(if color { "\x1b[0m\n" } else { "\n" });
    }
    Some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket of some 180 characters took 33 lines and 65 columns.
    #[test]
    fn a_ticket_s_code_is_small() {
        let ticket = format!("xylem:{}", "a2".repeat(65));
        let drawn = draw(&ticket, 80, false).expect("it fits into 80 columns");
        assert_eq!(
            (drawn.lines().count(), drawn.lines().next().unwrap().chars().count()),
            (21, 41)
        );
    }

    #[test]
    fn keeps_to_the_width() {
        let drawn = draw("xylem:abc", 40, false).expect("a short text fits into 40 columns");
        let widths: Vec<usize> = drawn.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|w| *w == widths[0] && *w <= 40));
        assert_eq!(widths.len(), widths[0].div_ceil(2));
        assert!(drawn.starts_with('█'));
        assert_eq!(draw("xylem:abc", 10, false), None);
        assert_eq!(draw(&"x".repeat(5000), 1000, false), None);
    }
}
