//! Operations of data transfer and their answers, recorded between the Java client and real datanodes: each message is
//! read, and written again as it was. The recordings lie with the packets, in the wire crate.

use bytes::Bytes;
use hdfs::frame;
use hdfs::proto::*;
use prost::Message;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[test]
fn operations_are_read_and_written_again() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden");
    let mut ops = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if !name.ends_with(".client.bin") {
            continue;
        }
        let client = Bytes::from(std::fs::read(&path).unwrap());
        assert_eq!(client[..2], [0, 28], "{name}: the version of data transfer");
        let mut rest = client.slice(3..);
        match client[2] {
            80 => again::<OpWriteBlockProto>(&name, &mut rest),
            81 => again::<OpReadBlockProto>(&name, &mut rest),
            85 => again::<OpBlockChecksumProto>(&name, &mut rest),
            other => panic!("{name}: op {other}"),
        }
        let mut server = Bytes::from(std::fs::read(name.replace(".client.", ".server.")).unwrap());
        again::<BlockOpResponseProto>(&name, &mut server);
        // After the answer to a write come nothing but acks.
        while client[2] == 80 && !server.is_empty() {
            again::<PipelineAckProto>(&name, &mut server);
        }
        ops.insert(client[2]);
    }
    assert_eq!(ops, [80, 81, 85].into());
}

fn again<M: Message + Default>(name: &str, rest: &mut Bytes) {
    let message = frame::take(rest, "message").unwrap();
    let again = M::decode(message.clone()).unwrap().encode_to_vec();
    assert_eq!(again.escape_ascii().to_string(), message.escape_ascii().to_string(), "{name}");
}
