//! Files whose layout is asked for, and the records that layouts are kept as.

use layout::{Layout, LayoutError, Limits, decode, encode};
use prost::Message;
use std::fs;
use std::path::Path;
use wire::delimited;
use wire::layouts::{LayoutAnswer, LayoutBlock, RangesToken, ReadLayout, TEXT_LEN_MAX, Wish};

/// What is asked of any layout: it can be kept, and is read again as the same. Its pieces lie within the file.
fn check(layout: &Layout, file_len: Option<usize>) {
    let record = encode(layout).expect("what was found is within the limits");
    assert_eq!(decode(&record).as_ref(), Ok(layout));
    let Some(file_len) = file_len else { return };
    for column in layout.tables.iter().flat_map(|table| &table.columns) {
        assert!(column.pieces.is_sorted_by_key(|piece| piece.first), "{} is out of order", column.name);
        let is_within = column.pieces.iter().all(|piece| piece.offset + u64::from(piece.len) <= file_len as u64);
        assert!(is_within, "{} has pieces outside of the file", column.name);
    }
}

/// A file of any format, as its first bytes say.
pub(crate) fn file(bytes: &[u8]) {
    within_usual_limits(bytes);
    within_low_limits(bytes);
}

fn within_usual_limits(bytes: &[u8]) {
    match layout::of_bytes(bytes) {
        Ok(layout) => check(&layout, Some(bytes.len())),
        Err(LayoutError::TooLarge { what, asked, max }) => {
            // So few bytes can be too many only of what they blow up to.
            assert!(asked > max, "{what:?} {asked} is too large for {max}");
        }
        Err(LayoutError::Unknown(_) | LayoutError::Damaged(_)) => {}
        Err(LayoutError::NoRoom) => unreachable!("nobody counts"),
    }
}

/// The limits hold, whatever a file says: a fraction of the usual ones, so that small files meet them.
fn within_low_limits(bytes: &[u8]) {
    let limits = Limits { piece_count_max: 20, column_count_max: 10, names_len_max: 100, ..Limits::default() };
    if let Ok(layout) = layout::of_bytes_within(bytes, limits) {
        let columns = || layout.tables.iter().flat_map(|table| &table.columns);
        assert!(columns().count() <= 10 && columns().map(|column| column.pieces.len()).sum::<usize>() <= 20);
    }
}

/// A tree, with the streamers of a file of uproot.
pub(crate) fn root_tree(bytes: &[u8]) {
    thread_local! {
        static STREAMERS: Vec<u8> = root_objects("uproot-flat.root").remove(0);
    }
    if let Ok(table) = STREAMERS.with(|streamers| layout::fuzz::tree(streamers, bytes)) {
        check(&Layout { tables: vec![table] }, Some(1 << 20));
    }
}

/// How long an object is to be, then the object as it is stored.
pub(crate) fn root_object(bytes: &[u8]) {
    let Some((len, stored)) = bytes.split_first_chunk() else { return };
    let len = u32::from_be_bytes(*len).into();
    assert!(layout::fuzz::unzipped_len(stored, len).is_none_or(|found| found as u64 == len));
}

/// The first byte says whether the rest is a record as it is kept, or what is inflated of it.
pub(crate) fn record(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let decoded = if kind % 2 == 0 { decode(rest) } else { layout::fuzz::body(rest) };
    if let Ok(layout) = decoded {
        check(&layout, None);
    }
}

/// The first byte says whether the rest is a request or an answer: the message alone, as its length was seen to before.
pub(crate) fn asked(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        let Ok(request) = delimited::decode::<ReadLayout>(rest, "request") else { return };
        let Ok(wish) = request.checked() else { return };
        assert!(request.blocks.is_sorted_by(|one, next| one.end() <= next.offset), "blocks overlap");
        assert_eq!(request.blocks.last().map(LayoutBlock::end), Some(request.file_len));
        assert_eq!(request.clone().with_wish(&wish).checked(), Ok(wish));
    } else if let Ok(message) = delimited::decode::<LayoutAnswer>(rest, "answer")
        && let Ok(answer) = wire::layouts::Answer::of(message)
    {
        let is_long = rest.len() > TEXT_LEN_MAX;
        assert!(is_long || wire::layouts::Answer::of(answer.clone().into_message()) == Ok(answer));
    }
}

fn golden(name: &str) -> Vec<u8> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../layout/tests/golden").join(name);
    fs::read(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()))
}

/// The streamers first.
fn root_objects(name: &str) -> Vec<Vec<u8>> {
    layout::fuzz::objects_of(&golden(name))
}

const PARQUET: [&str; 3] = ["pyarrow-chunks.parquet", "pyarrow-pages.parquet", "polars.parquet"];
const ARROW: &str = "pyarrow.arrow";
const ORC: [&str; 6] = [
    "pyarrow-nested.orc",
    "pyarrow-long.orc",
    "pyarrow-zlib.orc",
    "pyarrow-snappy.orc",
    "pyarrow-lz4.orc",
    "pyarrow-zstd.orc",
];
const NTUPLES: [&str; 2] = ["uproot-ntuple.root", "root-ntuple.root"];
const ROOT: [&str; 6] =
    ["uproot-flat.root", "uproot-nested.root", "root-zlib.root", "root-lzma.root", "root-lz4.root", "root-zstd.root"];

pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    let trees = || ROOT.iter().flat_map(|name| root_objects(name).into_iter().skip(1));
    match name {
        "layouts_of_parquet" => PARQUET.map(golden).into(),
        "layouts_of_root" => ROOT.map(golden).into(),
        "layouts_of_ntuples" => NTUPLES.map(golden).into(),
        "layouts_of_arrow" => vec![golden(ARROW)],
        "layouts_of_orc" => ORC.map(golden).into(),
        "root_trees" => trees().collect(),
        "root_objects" => ROOT.iter().flat_map(|name| stored_objects(&golden(name))).collect(),
        "layout_records" => {
            let layouts =
                PARQUET.iter().chain(&ROOT).chain(&ORC).map(|name| layout::of_bytes(&golden(name)).expect("a layout"));
            let records: Vec<_> = layouts.map(|layout| encode(&layout).expect("a record")).collect();
            let kept = records.iter().map(|record| [&[0], &record[..]].concat());
            let bodies = records.iter().filter_map(|record| layout::fuzz::body_of(record));
            kept.chain(bodies.map(|body| [&[1], &body[..]].concat())).collect()
        }
        "layouts_asked" => {
            let block = |offset, len| LayoutBlock { offset, block: 7, generation: 1001, len, token: 0 };
            let tokens = vec![RangesToken { identifier: vec![1; 30].into(), password: vec![2; 32].into() }];
            let blocks = vec![block(0, 100), block(100, 50), block(1000, 1)];
            let request = ReadLayout { tokens, blocks, file_len: 1001, ..ReadLayout::default() };
            let wishes = [Wish::All, Wish::Columns(vec![(0, 5), (1, 300)]), Wish::At(vec![4, 1 << 40])];
            let requests = wishes.map(|wish| request.clone().with_wish(&wish).encode_to_vec());
            let found = wire::layouts::Answer::Found(vec![3; 20].into());
            let answers = [found, wire::layouts::Answer::NotHere { offset: 5, len: 9 }];
            let answers = answers.map(|answer| answer.into_message().encode_to_vec());
            let kinded = |kind: u8| move |message: Vec<u8>| [&[kind], &message[..]].concat();
            requests.into_iter().map(kinded(0)).chain(answers.into_iter().map(kinded(1))).collect()
        }
        _ => Vec::new(),
    }
}

/// Blocks of each method, as they are found by their heads, each with its length before it.
fn stored_objects(file: &[u8]) -> Vec<Vec<u8>> {
    let heads = file.windows(9).enumerate().filter(|(_, head)| {
        [&b"ZL\x08"[..], b"XZ\x00", b"L4\x01", b"ZS\x01"].iter().any(|magic| head.starts_with(magic))
    });
    heads
        .filter_map(|(at, head)| {
            let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            let (stored_len, len) = (number(&head[3..6]) as usize, number(&head[6..9]));
            Some([&len.to_be_bytes()[..], file.get(at..at + 9 + stored_len)?].concat())
        })
        .take(3)
        .collect()
}
