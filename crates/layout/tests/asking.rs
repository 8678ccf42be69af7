//! How a file is asked: what is wanted, what is refused, and what no file may cost.

use layout::{
    Answer, Boundless, Column, Format, Inquiry, Layout, LayoutError, Limits, Piece, Room, Table, Want, What, begin,
    begin_at_end, begin_in_room, begin_within, decode_in_room, encode, of_bytes, of_bytes_within,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

/// What is wanted of a file, in this order.
fn wanted(file: &[u8]) -> Vec<Want> {
    asked(file, begin(file.len() as u64).unwrap()).0
}

fn asked(file: &[u8], mut inquiry: Inquiry) -> (Vec<Want>, Layout) {
    let mut wanted = Vec::new();
    loop {
        let Want { offset, len } = inquiry.want();
        wanted.push(inquiry.want());
        match inquiry.give(&file[offset as usize..][..len as usize]).unwrap() {
            Answer::Ask(more) => inquiry = more,
            Answer::Done(layout) => return (wanted, layout),
        }
    }
}

#[test]
fn a_file_of_one_table_is_asked_few_times() {
    // Its begin, its trailer, its footer.
    assert_eq!(wanted(&golden("pyarrow-chunks.parquet")).len(), 3);
    // And the lists of its pages, which are together.
    assert_eq!(wanted(&golden("pyarrow-pages.parquet")).len(), 4);
    // Its begin, its end, and the footer of each of its stripes, which are known together.
    let stripes = golden("pyarrow-nested.orc");
    assert_eq!(wanted(&stripes).len(), 2 + 3);
    let at_end = begin_at_end(Format::Orc, stripes.len() as u64, Limits::default(), Box::new(Boundless)).unwrap();
    let Want { offset, len } = at_end.want();
    let Answer::Ask(first) = at_end.give(&stripes[offset as usize..][..len as usize]).unwrap() else { panic!() };
    let all: Vec<Want> = std::iter::once(first.want()).chain(first.coming()).collect();
    assert_eq!(first.coming_end(), all.iter().map(|want| want.offset + want.len).max().unwrap());
    assert_eq!((asked(&stripes, first).0, all.len()), (all, 3));
    // Its begin, the keys, the streamers, the tree.
    assert_eq!(wanted(&golden("uproot-flat.root")).len(), 4);
}

/// Its reader asked for the end of the file, and has the rest of the footer with it.
#[test]
fn a_footer_alone_says_where_chunks_are() {
    let chunks = golden("pyarrow-chunks.parquet");
    let of_chunks = |file: &[u8]| {
        asked(file, begin_at_end(Format::Parquet, file.len() as u64, Limits::default(), Box::new(Boundless)).unwrap())
    };
    assert_eq!(of_chunks(&chunks).1, of_bytes(&chunks).unwrap());
    let paged = golden("pyarrow-pages.parquet");
    let ((wants, layout), by_pages) = (of_chunks(&paged), of_bytes(&paged).unwrap());
    assert_eq!(wants.len(), 2);
    let (chunks, pages) = (&layout.tables[0], &by_pages.tables[0]);
    assert_eq!(chunks.entries, pages.entries);
    for (chunks, pages) in chunks.columns.iter().zip(&pages.columns) {
        assert_eq!(chunks.name, pages.name);
        assert!(chunks.pieces.len() < pages.pieces.len());
        let len = |column: &layout::Column| column.pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
        assert_eq!(len(chunks), len(pages));
    }
    assert!(matches!(
        begin_at_end(Format::Parquet, 7, Limits::default(), Box::new(Boundless)),
        Err(LayoutError::Damaged(_))
    ));
}

#[test]
fn what_is_no_known_format_is_refused_at_once() {
    let refused = |file: &[u8]| matches!(of_bytes(file), Err(LayoutError::Unknown(_)));
    assert!(refused(b""));
    assert!(refused(b"PAR"));
    assert!(refused(b"garbage in a file that is called x.parquet"));
    let encrypted = [&b"PARE"[..], &[0; 100], b"PARE"].concat();
    assert!(refused(&encrypted));
}

#[test]
fn what_contradicts_itself_is_damaged() {
    let damaged = |file: &[u8]| matches!(of_bytes(file), Err(LayoutError::Damaged(_)));
    assert!(damaged(b"PAR1"));
    assert!(damaged(b"PAR1 and so on, without an end"));
    assert!(damaged(b"PAR1\xff\xff\xff\x7fPAR1"));
    assert!(damaged(b"root\0\0\0\0"));
    assert!(damaged(b"ARROW1\0\0"));
    assert!(damaged(b"ORC"));
    assert!(damaged(b"ORC and so on, without an end"));
}

/// The file became shorter, or the reader stopped.
#[test]
fn fewer_bytes_than_wanted_end_it() {
    let file = golden("polars.parquet");
    let inquiry = begin(file.len() as u64).unwrap();
    assert!(matches!(inquiry.give(&file[..10]), Err(LayoutError::Damaged(_))));
}

fn too_large(name: &str, limits: Limits) -> What {
    match of_bytes_within(&golden(name), limits) {
        Err(LayoutError::TooLarge { what, .. }) => what,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn each_limit_holds() {
    let usual = Limits::default();
    for name in ["root-zstd.root", "pyarrow-pages.parquet", "uproot-ntuple.root", "pyarrow.arrow", "pyarrow-nested.orc"]
    {
        assert_eq!(too_large(name, Limits { piece_count_max: 3, ..usual }), What::Pieces, "{name}");
        assert_eq!(too_large(name, Limits { column_count_max: 3, ..usual }), What::Columns, "{name}");
        assert_eq!(too_large(name, Limits { names_len_max: 3, ..usual }), What::Names, "{name}");
        assert_eq!(too_large(name, Limits { question_count_max: 2, ..usual }), What::Questions, "{name}");
        assert_eq!(too_large(name, Limits { asked_len_max: 1500, ..usual }), What::Asked, "{name}");
    }
    assert_eq!(too_large("root-zstd.root", Limits { object_len_max: 1000, ..usual }), What::Object);
    assert_eq!(too_large("root-zstd.root", Limits { objects_len_max: 30_000, ..usual }), What::Objects);
    // What is no object, and is looked at again for each batch of rows or group of pages.
    assert_eq!(too_large("pyarrow.arrow", Limits { objects_len_max: 3, ..usual }), What::Objects);
    assert_eq!(too_large("pyarrow-nested.orc", Limits { objects_len_max: 3, ..usual }), What::Objects);
    assert_eq!(too_large("pyarrow-zlib.orc", Limits { object_len_max: 1000, ..usual }), What::Object);
    assert_eq!(too_large("pyarrow-zlib.orc", Limits { objects_len_max: 5000, ..usual }), What::Objects);
    assert_eq!(too_large("pyarrow-pages.parquet", Limits { objects_len_max: 3, ..usual }), What::Objects);
}

/// A small file cannot say that its header is as long as the disk.
#[test]
fn what_is_wanted_lies_within_the_file() {
    let mut file = golden("uproot-flat.root");
    let keys = wanted(&file)[1];
    // The list of keys says of the tree that it has 2 GB.
    let at = (keys.offset as usize..file.len()).find(|at| file[*at..].starts_with(b"TTree")).unwrap();
    let begin = at - 35;
    file[begin..begin + 4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    assert!(matches!(of_bytes(&file), Err(LayoutError::Damaged(_))));
    assert!(begin_within(u64::MAX, Limits { asked_len_max: 10, ..Limits::default() }).is_err());
}

/// So many bytes are left.
#[derive(Clone, Debug)]
struct Left(Arc<AtomicU64>);

impl Room for Left {
    fn take(&mut self, len: u64) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(len)).is_ok()
    }
}

fn asked_in_room(file: &[u8], room: &Left) -> Result<Layout, LayoutError> {
    let mut inquiry = begin_in_room(file.len() as u64, Limits::default(), Box::new(room.clone()))?;
    loop {
        let Want { offset, len } = inquiry.want();
        match inquiry.give(&file[offset as usize..][..len as usize])? {
            Answer::Ask(more) => inquiry = more,
            Answer::Done(layout) => return Ok(layout),
        }
    }
}

#[test]
fn what_is_made_of_a_file_is_taken_from_its_room_before() {
    for name in [
        "pyarrow-pages.parquet",
        "polars.parquet",
        "pyarrow.arrow",
        "uproot-nested.root",
        "root-ntuple.root",
        "pyarrow-nested.orc",
        "pyarrow-zstd.orc",
    ] {
        let file = golden(name);
        let room = Left(Arc::new((1 << 30).into()));
        let layout = asked_in_room(&file, &room).unwrap();
        assert_eq!(layout, of_bytes(&file).unwrap());
        let of_column = |column: &Column| column.name.len() + column.pieces.len() * size_of::<Piece>();
        let made =
            layout.tables.iter().map(|table| size_of::<Table>() + table.columns.iter().map(of_column).sum::<usize>());
        let made_len: usize = made.sum();
        assert!(layout.memory_len() >= made_len as u64, "{name}: {} for {made_len}", layout.memory_len());
        let taken_len = (1 << 30) - room.0.load(Ordering::SeqCst);
        assert!(taken_len >= made_len as u64, "{name}: {taken_len} for {made_len}");
        let scarce = Left(Arc::new((taken_len - 1).into()));
        assert_eq!(asked_in_room(&file, &scarce), Err(LayoutError::NoRoom), "{name}");
        // A record of it may be made up as well.
        let record = encode(&layout).unwrap();
        let room = Left(Arc::new((1 << 30).into()));
        assert_eq!(decode_in_room(&record, Box::new(room.clone())), Ok(layout.clone()), "{name}");
        let taken_len = (1 << 30) - room.0.load(Ordering::SeqCst);
        assert!(taken_len >= made_len as u64, "{name}: {taken_len} for {made_len}");
        let scarce = Left(Arc::new((taken_len - 1).into()));
        assert!(decode_in_room(&record, Box::new(scarce)).is_err(), "{name}");
    }
}
