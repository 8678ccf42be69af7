//! The bytes of headers, records and index rows: no change of them is made by accident.

use crate::header::{Kept, Stage, SumsHeader};
use crate::index::{self, ContainerRow, Place, Row, Totals};
use crate::record::{RecordHeader, Seat};
use crate::replica::Identity;
use crate::version::Salt;
use testkit::golden::Golden;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, InodeId};

const IDENTITY: Identity = Identity {
    block: BlockId(7 << 20 | 9),
    generation: Generation(1_001),
    file: InodeId(16_400),
    home: ContainerId(8),
    checksum: ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 },
};

#[test]
fn headers_and_rows() {
    let mut golden = Golden::default();
    let kept = Kept { len: 123_456_789, tail: 0x8765_4321 };
    for stage in [Stage::Open, Stage::Finalized, Stage::Copying] {
        golden.add(format!("sums.{stage:?}"), &SumsHeader { stage, identity: IDENTITY, kept }.encode());
    }
    let open = SumsHeader { stage: Stage::Open, identity: IDENTITY, kept };
    golden.add("slot", &open.encode_for_slot(&[1, 2, 3, 4]));
    let seat = Seat { salt: Salt([7; 16]), container: ContainerId(8), offset: 640 };
    for dead in [false, true] {
        let header = RecordHeader { identity: IDENTITY, data_len: 70_000, body_crc: 0x1234_5678, dead };
        golden.add(if dead { "record.dead" } else { "record" }, &header.encode(seat));
    }
    let (files, pack) = (Place::Files { shelf: ContainerId(8) }, Place::Pack { shelf: ContainerId(9), offset: 640 });
    golden.add("row.files", &index::encode(&Row::new(IDENTITY, 70_000, files)).unwrap());
    golden.add("row.pack", &index::encode(&Row::new(IDENTITY, 600, pack)).unwrap());
    golden.add("row.container", &index::encode(&ContainerRow { pack_known: 640, pack_live_count: 3 }).unwrap());
    golden.add("row.totals", &index::encode(&Totals { used: 70_600, count: 2 }).unwrap());
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden.txt"));
}
