//! What this crate reads from its files, as functions of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::header::SumsHeader;
use crate::index::{self, ContainerRow, Row, Totals};
use crate::layout::Layout;
use crate::pack;
use crate::record::{RecordHeader, Seat};
use crate::version::{Salt, VolumeIdentity};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use types::{ChecksumKind, ContainerId};

/// The header of a checksum file, as it is and with a checksum that fits.
pub fn header(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    for bytes in [*bytes, sealed(*bytes, 0)] {
        if let Some(header) = SumsHeader::decode(&bytes) {
            assert_eq!(SumsHeader::decode(&header.encode()), Some(header));
        }
    }
}

/// The header of a record in a pack, as it is and with a checksum that fits.
pub fn record(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    for bytes in [*bytes, sealed(*bytes, 0)] {
        if let Some(header) = RecordHeader::decode(&bytes, seat(0)) {
            assert_eq!(RecordHeader::decode(&header.encode(seat(0)), seat(0)), Some(header));
            let len = header.record_len();
            assert!(
                len.is_multiple_of(RecordHeader::ALIGN) && len >= header.data_offset() + u64::from(header.data_len)
            );
        }
    }
}

/// A pack in `file`, which is emptied. Bytes that look like a record's header get a checksum that fits if `seal` says
/// so.
pub fn pack(bytes: &[u8], seal: bool, file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut bytes = bytes.to_vec();
    if seal {
        for place in (0..bytes.len()).step_by(RecordHeader::ALIGN as usize) {
            if let Some(header) = bytes[place..].first_chunk_mut::<{ RecordHeader::LEN }>()
                && header.starts_with(b"LVPK")
            {
                *header = sealed(*header, place as u64);
            }
        }
    }
    file.set_len(0)?;
    file.write_all_at(&bytes, 0)?;
    let mut end = 0;
    let scanned = pack::scan(file, bytes.len() as u64, seat(0), |at, header| {
        assert!(at >= end, "records overlap");
        end = at + header.record_len();
        let body = &bytes[(at + header.sums_offset()) as usize..end as usize];
        let body = &body[..(header.sums_len() + u64::from(header.data_len)) as usize];
        assert!(
            header.dead || ChecksumKind::Crc32c.of(body) == header.body_crc,
            "a torn record is taken for a whole one"
        );
    })?;
    assert!(scanned.end == end && end <= bytes.len() as u64 && scanned.unreadable.is_none());
    Ok(())
}

/// The rows of a volume's index.
pub fn row(bytes: &[u8]) {
    again::<Row>(bytes);
    again::<ContainerRow>(bytes);
    again::<Totals>(bytes);
}

fn again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(row) = index::decode::<T>(bytes) {
        let written = index::encode(&row).expect("rows are plain data");
        let again = index::decode::<T>(&written).expect("what was written is read");
        assert_eq!(index::encode(&again).ok(), Some(written));
    }
}

/// The file that says whose volume it is, with its salt.
pub fn identity(bytes: &[u8]) {
    let layout = Layout { dir: "/volume".into() };
    let parse = |text: &str| VolumeIdentity::parse(text, &layout.version(), &layout);
    if let Ok(identity) = parse(&String::from_utf8_lossy(bytes)) {
        assert_eq!(parse(&identity.text()).ok(), Some(identity));
    }
}

fn seat(offset: u64) -> Seat {
    Seat { salt: Salt([0; 16]), container: ContainerId(0), offset }
}

/// With the sum that both kinds of header end with; a record's is taken with a 0 for its mark.
fn sealed(mut bytes: [u8; 64], place: u64) -> [u8; 64] {
    let mark = bytes[5];
    let sum = if bytes.starts_with(b"LVPK") {
        bytes[5] = 0;
        seat(place).sum(&bytes)
    } else {
        ChecksumKind::Crc32c.of(&bytes[..60])
    };
    bytes[60..].copy_from_slice(&sum.to_be_bytes());
    bytes[5] = mark;
    bytes
}
