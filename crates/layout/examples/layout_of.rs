//! Prints the layout of files, as text that a test or a script can compare: `cargo run --example layout_of -- FILE...`
//! With `--count` only how much there is and what it costs to keep; with `--asked` only how much had to be read; with
//! `--columns=a,b` what it costs to send with the pieces of these alone.

use layout::{Answer, Layout, LayoutError, Want, Wanted, begin, encode};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Also how many bytes were read, and how often.
fn ask(file: &File) -> io::Result<(Result<Layout, LayoutError>, u64, u64)> {
    let (mut asked_len, mut question_count) = (0, 0);
    let mut answer = begin(file.metadata()?.len()).map(Answer::Ask);
    loop {
        match answer {
            Ok(Answer::Ask(inquiry)) => {
                let Want { offset, len } = inquiry.want();
                let mut bytes = vec![0; len as usize];
                file.read_exact_at(&mut bytes, offset)?;
                (asked_len, question_count) = (asked_len + len, question_count + 1);
                answer = inquiry.give(&bytes);
            }
            Ok(Answer::Done(layout)) => return Ok((Ok(layout), asked_len, question_count)),
            Err(error) => return Ok((Err(error), asked_len, question_count)),
        }
    }
}

fn main() -> io::Result<()> {
    let (options, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let has = |word: &str| options.iter().any(|option| option == word);
    let columns = options.iter().find_map(|option| option.strip_prefix("--columns="));
    let mut out = io::BufWriter::new(io::stdout().lock());
    for name in files {
        let (layout, asked_len, question_count) = ask(&File::open(&name)?)?;
        match layout {
            Ok(_) if has("--asked") => writeln!(out, "{name}: asked {asked_len} B in {question_count}")?,
            Ok(layout) if columns.is_some() => {
                let is_named = |name: &str| columns.is_some_and(|names| names.split(',').any(|wanted| wanted == name));
                let tables = layout.tables.iter().zip(0..);
                let all = tables.flat_map(|(table, number)| table.columns.iter().zip(0..).map(move |at| (number, at)));
                let named = all.filter(|(_, (column, _))| is_named(&column.name));
                let wanted = Wanted::Columns(named.map(|(table, (_, column))| (table, column)).collect());
                let record_len = encode(&layout.with_pieces_of(&wanted)).map_or(0, |record| record.len());
                writeln!(out, "{name}: record {record_len} B")?;
            }
            Ok(layout) if has("--count") => {
                let columns = layout.tables.iter().flat_map(|table| &table.columns);
                let piece_count: usize = columns.clone().map(|column| column.pieces.len()).sum();
                let record_len = encode(&layout).map_or(0, |record| record.len());
                write!(out, "{name}: {} tables, {} columns, ", layout.tables.len(), columns.count())?;
                writeln!(out, "{piece_count} pieces, record {record_len} B; asked {asked_len} B in {question_count}")?;
            }
            Ok(layout) => print(&layout, &mut out)?,
            Err(error) => writeln!(out, "{name}: {error}")?,
        }
    }
    Ok(())
}

fn print(layout: &Layout, out: &mut impl Write) -> io::Result<()> {
    for table in &layout.tables {
        writeln!(out, "table {:?} {}", table.name, table.entries)?;
        for column in &table.columns {
            writeln!(out, "column {:?}", column.name)?;
            for piece in &column.pieces {
                writeln!(out, "{} {} {}", piece.first, piece.offset, piece.len)?;
            }
        }
    }
    Ok(())
}
