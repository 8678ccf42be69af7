//! `levada explain`

use super::explain_blocks;
use crate::shell::{Common, Failure, Session, Stop, size};
use client::layout::{Format, Layout, Table};
use client::{LayoutReport, LayoutWanted, LayoutWindow, Rehearsal};
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files and directories whose blocks are explained; patterns in quotes. `read` in front of them, alone: what is
    /// known of files that helps those who read columns of them
    #[arg(required = true, value_name = "[read] PATH")]
    paths: Vec<String>,
    /// Say as well how a program is read ahead of that reads these columns, piece by piece in the order of entries
    #[arg(long, value_delimiter = ',', value_name = "COLUMN,…")]
    columns: Vec<String>,
    /// How far away it is then: milliseconds of a round trip
    #[arg(long, default_value_t = 100, value_name = "MS", requires = "columns")]
    round_trip: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Args {
    /// Whether it is for those who read columns, and of what.
    fn asked(&self) -> Result<(bool, &[String]), Failure> {
        match self.paths.split_first() {
            Some((first, [])) if first == READ => {
                let failure = Failure::usage(READ, "no path is named behind it");
                Err(failure.advise("`levada explain read PATH`; a file that is called so is written ./read"))
            }
            Some((first, rest)) if first == READ => Ok((true, rest)),
            _ if self.columns.is_empty() => Ok((false, &self.paths)),
            _ => {
                let failure = Failure::usage("--columns", "is for those who read columns");
                Err(failure.advise("`levada explain read PATH --columns …`"))
            }
        }
    }
}

/// In front of the paths. A file of this name, if it is the first, is written `./read`.
const READ: &str = "read";

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Explained {
    path: String,
    len: u64,
    layout: Option<Shown>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of the columns that were named: a first run, and one with its profile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<ShownRun>,
}

#[derive(Debug, Serialize)]
struct ShownRun {
    round_trip_ms: u32,
    round_trips: u64,
    requests: u64,
    stalls: u64,
    asked_len: u64,
    wasted_len: u64,
    decisions: Vec<ShownDecision>,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct ShownDecision {
    /// Of the read at which it was taken; 0: at the opening.
    read: u64,
    decision: String,
}

#[derive(Debug, Serialize)]
struct Shown {
    format: &'static str,
    /// The datanode that said so.
    node: String,
    /// Bytes that it sent for all of it.
    record_len: u64,
    /// Bytes of the file that are no column's: headers, footers, gaps.
    header_len: u64,
    data_len: u64,
    tables: Vec<ShownTable>,
}

#[derive(Debug, Serialize)]
struct ShownTable {
    name: String,
    entries: u64,
    columns: Vec<ShownColumn>,
}

#[derive(Debug, Serialize)]
struct ShownColumn {
    name: String,
    piece_count: usize,
    len: u64,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let (is_of_readers, paths) = args.asked()?;
    for path in paths {
        for found in session.found(path).await? {
            if !is_of_readers {
                explain_blocks::run(found, session).await?;
                continue;
            }
            if found.status.is_dir() {
                session.report(&Failure::new(&found.target, "is a directory"));
                continue;
            }
            let asked = async {
                let reader = found.target.client.open(&found.target.path).await?;
                let mut head = [0; 6];
                let head_len = reader.read_at(0, &mut head).await?;
                let report = reader.layout_report(&LayoutWanted::All, LayoutWindow::default()).await?;
                Ok((reader.len(), head[..head_len].to_vec(), report))
            };
            let asked = asked.await.map_err(|error| Stop::Failed(found.target.failure(&error)));
            let Some((len, head, report)) = session.settle(asked)? else { continue };
            let mut runs = Vec::new();
            let (layout, reason) = match report {
                LayoutReport::Found { layout, node, record_len, .. } => {
                    let shown = Shown::of(&layout, &head, len, node.to_string(), record_len);
                    if !args.columns.is_empty() {
                        match ShownRun::both(layout, len, &args.columns, args.round_trip) {
                            Ok(both) => runs = both,
                            Err(name) => {
                                session.report(&Failure::new(&found.target, format!("has no column '{name}'")))
                            }
                        }
                    }
                    (Some(shown), None)
                }
                LayoutReport::None { reason } => (None, Some(reason)),
            };
            let explained = Explained { path: found.target.shown(), len, layout, reason, runs };
            if session.output.is_json() {
                session.output.json(&explained)?;
            } else {
                session.output.line(&explained.described())?;
            }
        }
    }
    Ok(())
}

/// By the first bytes, as the store does.
fn format(head: &[u8]) -> &'static str {
    match Format::of(head) {
        Some(Format::Parquet) => "Parquet",
        Some(Format::Root) => "ROOT",
        Some(Format::Arrow) => "Arrow",
        Some(Format::Orc) => "ORC",
        None => "other",
    }
}

impl Shown {
    fn of(layout: &Layout, head: &[u8], file_len: u64, node: String, record_len: u64) -> Self {
        let tables: Vec<_> = layout.tables.iter().map(ShownTable::of).collect();
        let columns = tables.iter().flat_map(|table| &table.columns);
        // A damaged file may count bytes twice.
        let data_len = columns.fold(0_u64, |sum, column| sum.saturating_add(column.len));
        let header_len = file_len.saturating_sub(data_len);
        Self { format: format(head), node, record_len, header_len, data_len, tables }
    }
}

impl ShownTable {
    fn of(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| ShownColumn {
            name: column.name.clone(),
            piece_count: column.pieces.len(),
            len: column.pieces.iter().map(|piece| u64::from(piece.len)).sum(),
        });
        Self { name: table.name.clone(), entries: table.entries, columns: columns.collect() }
    }
}

impl ShownRun {
    /// An error is the name of a column that is not there.
    fn both(layout: Layout, len: u64, columns: &[String], round_trip_ms: u32) -> Result<Vec<Self>, String> {
        let round_trip = Duration::from_millis(round_trip_ms.into());
        let Rehearsal { first, second } = Rehearsal::of(layout, len, columns, round_trip)?;
        let shown = [("first run", first), ("next run", second)].map(|(name, score)| {
            let decisions = score.decisions.iter();
            let decisions = decisions.map(|(read, one)| ShownDecision { read: *read, decision: one.to_string() });
            Self {
                round_trip_ms,
                round_trips: score.round_trips,
                requests: score.requests,
                stalls: score.stalls,
                asked_len: score.asked_len,
                wasted_len: score.wasted_len,
                decisions: decisions.collect(),
                text: format!("{name}, {round_trip_ms} ms away:\n{score}"),
            }
        });
        Ok(shown.into())
    }
}

impl Explained {
    fn described(&self) -> String {
        let line = |name: &str, text: &str| format!("{name:>12}  {text}");
        let length = |len: u64| format!("{len} ({})", size::human(len));
        let mut lines = vec![line("path", &self.path), line("length", &length(self.len))];
        lines.extend(self.reason.iter().map(|reason| line("layout", &format!("none: {reason}"))));
        if let Some(layout) = &self.layout {
            lines.push(line("format", layout.format));
            lines.push(line("layout", &format!("{} bytes, from {}", layout.record_len, layout.node)));
            lines.push(line("columns", &length(layout.data_len)));
            lines.push(line("headers", &length(layout.header_len)));
            for table in &layout.tables {
                let (name, entries) = (if table.name.is_empty() { "-" } else { &table.name }, table.entries);
                lines.push(line("table", &format!("{name}: {entries} entries, {} columns", table.columns.len())));
                for ShownColumn { name, piece_count, len } in &table.columns {
                    lines.push(line("column", &format!("{name}: {piece_count} pieces, {}", length(*len))));
                }
            }
        }
        lines.extend(self.runs.iter().map(|run| format!("\n{}", run.text)));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::failure::USAGE;
    use client::layout::{Column, Piece};

    #[test]
    fn columns_are_for_those_who_read() {
        let args = |paths: &[&str], columns: &[&str]| Args {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            round_trip: 100,
            common: Common::of("hdfs://h:1", "u"),
        };
        assert!(args(&["read", "/f"], &["a"]).asked().is_ok_and(|(is_of_readers, _)| is_of_readers));
        assert!(args(&["/f"], &[]).asked().is_ok_and(|(is_of_readers, _)| !is_of_readers));
        for wrong in [args(&["/f"], &["a"]), args(&["read"], &[])] {
            let refused = wrong.asked().unwrap_err();
            assert!(refused.exit_code() == USAGE && refused.to_string().contains("levada explain read"), "{refused}");
        }
    }

    #[test]
    fn a_layout_is_described() {
        let pieces = [(0, 4), (50, 14)].map(|(first, offset)| Piece { first, offset, len: 10 });
        let column = Column { name: "x".into(), pieces: pieces.into() };
        let layout = Layout { tables: vec![Table { name: String::new(), entries: 100, columns: vec![column] }] };
        let shown = Shown::of(&layout, b"PAR1", 1536, "10.0.0.1:9866".into(), 30);
        let runs = ShownRun::both(layout, 1536, &["x".to_owned()], 240).unwrap();
        let mut explained = Explained { path: "/f".into(), len: 1536, layout: Some(shown), reason: None, runs };
        let text = explained.described();
        for part in [
            "format  Parquet",
            "layout  30 bytes, from 10.0.0.1:9866",
            "columns  20 (20)",
            "headers  1516 (1.5 K)",
            "table  -: 100 entries, 1 columns",
            "column  x: 2 pieces, 20 (20)",
            "first run, 240 ms away:",
            "1 columns known from the profile",
            "20 bytes asked for, 0 of them in vain",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        explained.runs.clear();
        (explained.layout, explained.reason) = (None, Some("its first bytes …".into()));
        assert!(explained.described().ends_with("layout  none: its first bytes …"));
    }
}
