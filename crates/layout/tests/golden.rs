//! Files that uproot, ROOT, pyarrow and polars wrote, and what those say where the pieces are: `golden/make.py`.

use layout::{Answer, Layout, Want, begin, decode, encode};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A file, perhaps with holes: its parts, and how long it is.
struct Parts {
    parts: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl Parts {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        if path.extension().unwrap() != "parts" {
            return Self { len: bytes.len() as u64, parts: vec![(0, bytes)] };
        }
        let (mut parts, mut left) = (Vec::new(), &bytes[..]);
        while let Some((head, rest)) = left.split_at_checked(16) {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
            let (part, rest) = rest.split_at(number(8) as usize);
            parts.push((number(0), part.to_vec()));
            left = rest;
        }
        Self { len: parts.last().unwrap().0, parts }
    }

    /// The bytes, with zeros where there are none.
    fn get(&self, Want { offset, len }: Want) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        for (begin, part) in &self.parts {
            let from = offset.max(*begin);
            let to = (offset + len).min(begin + part.len() as u64);
            if from < to {
                let part = &part[(from - begin) as usize..(to - begin) as usize];
                bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        bytes
    }
}

fn ask(file: &Parts) -> Layout {
    let mut inquiry = begin(file.len).unwrap();
    loop {
        let bytes = file.get(inquiry.want());
        match inquiry.give(&bytes).unwrap() {
            Answer::Ask(more) => inquiry = more,
            Answer::Done(layout) => return layout,
        }
    }
}

fn text(layout: &Layout) -> String {
    let mut text = String::new();
    for table in &layout.tables {
        writeln!(text, "table {:?} {}", table.name, table.entries).unwrap();
        for column in &table.columns {
            writeln!(text, "column {:?}", column.name).unwrap();
            for piece in &column.pieces {
                writeln!(text, "{} {} {}", piece.first, piece.offset, piece.len).unwrap();
            }
        }
    }
    text
}

fn check(name: &str) {
    let layout = ask(&Parts::read(&golden().join(name)));
    let expected = fs::read_to_string(golden().join(format!("{}.txt", name.trim_end_matches(".parts")))).unwrap();
    assert_eq!(text(&layout), expected, "{name}");
    assert_eq!(decode(&encode(&layout).unwrap()).unwrap(), layout, "{name}, kept and read again");
}

#[test]
fn baskets_lie_where_uproot_put_them() {
    check("uproot-flat.root");
    check("uproot-nested.root");
}

/// Each with two trees that have branches in branches, and in a directory within another a tree of two cycles.
#[test]
fn baskets_lie_where_uproot_finds_them_in_files_of_root() {
    for method in ["zlib", "lzma", "lz4", "zstd"] {
        check(&format!("root-{method}.root"));
    }
}

#[test]
fn pages_of_ntuples_lie_where_uproot_finds_them() {
    check("uproot-ntuple.root");
    check("root-ntuple.root");
}

#[test]
fn buffers_of_arrow_lie_where_pyarrow_maps_them() {
    check("pyarrow.arrow");
    // Before 2020 unions had one buffer more.
    check("pyarrow-unions-v4.arrow");
    check("pyarrow-unions-v5.arrow");
}

#[test]
fn a_file_may_be_longer_than_four_gib() {
    check("root-long.root.parts");
}

#[test]
fn chunks_lie_where_pyarrow_says() {
    check("pyarrow-chunks.parquet");
}

#[test]
fn pages_lie_where_their_heads_are() {
    check("pyarrow-pages.parquet");
    check("polars.parquet");
}

/// Where pyarrow reads when it is asked for a column.
#[test]
fn streams_of_orc_lie_where_pyarrow_reads_them() {
    check("pyarrow-nested.orc");
    check("pyarrow-long.orc");
    for method in ["zlib", "snappy", "lz4", "zstd"] {
        check(&format!("pyarrow-{method}.orc"));
    }
}

/// Of each file the begin alone, as after an interrupted copy.
#[test]
fn what_is_cut_is_refused() {
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let is_file = |ending: &OsStr| ["root", "parquet", "arrow", "orc"].iter().any(|known| ending == *known);
        if !path.extension().is_some_and(is_file) {
            continue;
        }
        let whole = fs::read(&path).unwrap();
        let layout = layout::of_bytes(&whole);
        for len in (0..whole.len()).step_by(97).chain(whole.len() - 40..whole.len()) {
            let cut = layout::of_bytes(&whole[..len]);
            // The list of free places, which nobody needs, is at the end of ROOT's files.
            let is_needless = path.extension().unwrap() == "root" && cut == layout;
            assert!(cut.is_err() || is_needless, "{} of {}", len, path.display());
        }
    }
}
