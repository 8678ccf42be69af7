//! Columns that line up, for people.

use crate::shell::{Session, Stop};

/// Rows under a head. Columns whose head begins with `>` stand to the right.
pub(super) fn print<const COLUMNS: usize>(
    session: &Session,
    head: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> Result<(), Stop> {
    for line in lay_out(head, rows) {
        session.output.line(&line)?;
    }
    Ok(())
}

fn lay_out<const COLUMNS: usize>(head: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> Vec<String> {
    let right = head.map(|name| name.starts_with('>'));
    let names = head.map(|name| name.trim_start_matches('>').to_owned());
    let len = |text: &str| text.chars().count();
    let mut widths = [0; COLUMNS];
    for row in rows.iter().chain([&names]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = len(cell).max(*width);
        }
    }
    let line = |row: &[String; COLUMNS]| {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[column] - len(cell));
            let cells = if right[column] { [space.as_str(), cell] } else { [cell, space.as_str()] };
            cells.into_iter().for_each(|part| line.push_str(part));
            line.push_str("  ");
        }
        line.trim_end().to_owned()
    };
    std::iter::once(&names).chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |name: &str, count: &str| [name.to_owned(), count.to_owned()];
        let lines = lay_out(["NAME", ">COUNT"], &[row("a", "7"), row("longer ü", "1234567")]);
        assert_eq!(lines, ["NAME        COUNT", "a               7", "longer ü  1234567"]);
    }
}
