//! Bytes recorded between the Java client and real HDFS servers: each message is read, and written again as it was.
//!
//! That the bytes come out the same proves more than that they can be read: no field is missing from our .proto text,
//! and none has another number or type.

use bytes::{Buf, Bytes, BytesMut};
use hdfs::frame::{self, Answer, Delimited, check_header, put_frame};
use hdfs::opening::Opening;
use hdfs::proto::*;
use hdfs::{call_id, protocol};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Calls `$check` with the request and the response message of a method.
macro_rules! messages_of {
    ($method:expr, $check:ident($($argument:expr),*)) => {
        match $method {
            "getFileInfo" => $check::<GetFileInfoRequestProto, GetFileInfoResponseProto>($($argument),*),
            "getListing" => $check::<GetListingRequestProto, GetListingResponseProto>($($argument),*),
            "getBlockLocations" => {
                $check::<GetBlockLocationsRequestProto, GetBlockLocationsResponseProto>($($argument),*)
            }
            "getServerDefaults" => {
                $check::<GetServerDefaultsRequestProto, GetServerDefaultsResponseProto>($($argument),*)
            }
            "getContentSummary" => {
                $check::<GetContentSummaryRequestProto, GetContentSummaryResponseProto>($($argument),*)
            }
            "getFsStats" => $check::<GetFsStatusRequestProto, GetFsStatsResponseProto>($($argument),*),
            "mkdirs" => $check::<MkdirsRequestProto, MkdirsResponseProto>($($argument),*),
            "delete" => $check::<DeleteRequestProto, DeleteResponseProto>($($argument),*),
            "rename" => $check::<RenameRequestProto, RenameResponseProto>($($argument),*),
            "setPermission" => $check::<SetPermissionRequestProto, SetPermissionResponseProto>($($argument),*),
            "setTimes" => $check::<SetTimesRequestProto, SetTimesResponseProto>($($argument),*),
            "setReplication" => $check::<SetReplicationRequestProto, SetReplicationResponseProto>($($argument),*),
            "create" => $check::<CreateRequestProto, CreateResponseProto>($($argument),*),
            "append" => $check::<AppendRequestProto, AppendResponseProto>($($argument),*),
            "addBlock" => $check::<AddBlockRequestProto, AddBlockResponseProto>($($argument),*),
            "updateBlockForPipeline" =>
                $check::<UpdateBlockForPipelineRequestProto, UpdateBlockForPipelineResponseProto>($($argument),*),
            "updatePipeline" => $check::<UpdatePipelineRequestProto, UpdatePipelineResponseProto>($($argument),*),
            "complete" => $check::<CompleteRequestProto, CompleteResponseProto>($($argument),*),
            "fsync" => $check::<FsyncRequestProto, FsyncResponseProto>($($argument),*),
            "getReplicaVisibleLength" =>
                $check::<GetReplicaVisibleLengthRequestProto, GetReplicaVisibleLengthResponseProto>($($argument),*),
            other => panic!("{other} is not in the table"),
        }
    };
}

#[test]
fn java_is_read_and_written_again() {
    let mut methods = BTreeSet::new();
    let mut count = 0;
    for path in files(".client.bin") {
        let name = path.display().to_string();
        let called = check_client(&name, std::fs::read(&path).unwrap().into());
        let server = path.with_file_name(path.file_name().unwrap().to_str().unwrap().replace(".client.", ".server."));
        check_server(&name, &called, BytesMut::from(&std::fs::read(server).unwrap()[..]));
        methods.extend(called.into_values());
        count += 1;
    }
    assert!(count >= 19 && methods.len() >= 19, "{count} recordings of {methods:?}");
}

/// The Java classes that reach a client, from the recordings of failures.
#[test]
fn exceptions_have_javas_names() {
    let mut classes = BTreeSet::new();
    for path in files(".server.bin") {
        let mut bytes = BytesMut::from(&std::fs::read(path).unwrap()[..]);
        while let Some(frame) = frame::split(&mut bytes, 1 << 20).unwrap() {
            classes.extend(Answer::decode(frame).unwrap().header.exception_class_name);
        }
    }
    use hdfs::exception::{ACCESS_CONTROL, FILE_ALREADY_EXISTS, FILE_NOT_FOUND};
    for class in [ACCESS_CONTROL, FILE_ALREADY_EXISTS, FILE_NOT_FOUND] {
        assert!(classes.contains(class), "{classes:?}");
    }
}

proptest::proptest! {
    /// What Java said, with a few bytes of it turned: an error or a value, never a panic.
    #[test]
    fn damaged_recordings_do_no_harm(
        file in proptest::sample::select([files(".client.bin"), files(".server.bin")].concat()),
        damage in proptest::collection::vec((0usize..2000, 0u8..), 1..5),
    ) {
        let mut bytes = std::fs::read(&file).unwrap();
        for (place, byte) in damage {
            let len = bytes.len();
            bytes[place % len] = byte;
        }
        let mut bytes = BytesMut::from(&bytes[..]);
        if file.to_str().unwrap().ends_with(".client.bin") {
            let _ = Opening::decode(&bytes);
            bytes.advance(Opening::LEN);
        }
        while let Ok(Some(mut frame)) = frame::split(&mut bytes, 1 << 20) {
            let _ = Answer::decode(frame.clone());
            let _ = frame::take_message::<RpcRequestHeaderProto>(&mut frame, "header");
            let _ = frame::take_message::<RequestHeaderProto>(&mut frame, "call header");
            if let Ok(body) = frame::take(&mut frame, "request") {
                let _ = CreateResponseProto::decode(body.clone());
                let _ = GetListingResponseProto::decode(body.clone());
                let _ = AddBlockRequestProto::decode(body.clone());
                let _ = OpWriteBlockProto::decode(body);
            }
        }
    }
}

/// Which method each call id was used for.
fn check_client(name: &str, bytes: Bytes) -> BTreeMap<i32, String> {
    let opening = Opening::decode(&bytes);
    let Some(Opening::Rpc { auth, .. }) = opening else { panic!("{name}: {opening:?}") };
    assert_eq!(bytes[..Opening::LEN], Opening::encode(auth), "{name}");
    let mut bytes = BytesMut::from(&bytes[Opening::LEN..]);
    let mut called = BTreeMap::new();
    while let Some(whole) = frame::split(&mut bytes, 1 << 20).unwrap() {
        let mut frame = whole.clone();
        let header: RpcRequestHeaderProto = frame::take_message(&mut frame, "header").unwrap();
        assert_eq!(check_header(&header), Ok(()), "{name}");
        let again = match header.call_id {
            call_id::SASL => write(&[&header, &read::<RpcSaslProto>(&mut frame)]),
            call_id::CONTEXT => write(&[&header, &read::<IpcConnectionContextProto>(&mut frame)]),
            id => {
                let what: RequestHeaderProto = read(&mut frame);
                assert!([protocol::CLIENT, protocol::CLIENT_DATANODE].contains(&&*what.declaring_class_protocol_name));
                assert_eq!(what.client_protocol_version, protocol::VERSION);
                let body = frame::take(&mut frame, "request").unwrap();
                called.insert(id, what.method_name.clone());
                messages_of!(what.method_name.as_str(), write_call(&header, &what, body))
            }
        };
        assert!(!frame.has_remaining(), "{name}");
        assert_eq!(again.escape_ascii().to_string(), whole.escape_ascii().to_string(), "{name}: {header:?}");
    }
    assert!(bytes.is_empty(), "{name}");
    called
}

fn check_server(name: &str, called: &BTreeMap<i32, String>, mut bytes: BytesMut) {
    while let Some(whole) = frame::split(&mut bytes, 1 << 20).unwrap() {
        let answer = Answer::decode(whole.clone()).unwrap();
        let (id, response) = (answer.call_id(), answer.response.clone());
        let call = frame::Call {
            call_id: id,
            client_id: answer.header.client_id().to_vec().into(),
            retry_count: answer.header.retry_count(),
        };
        let again = match answer.header.status() {
            RpcStatusProto::Success => {
                let body = if id == call_id::SASL {
                    RpcSaslProto::decode(response).unwrap().encode_to_vec()
                } else {
                    messages_of!(called[&id].as_str(), write_response(response))
                };
                [&call.succeeded(body.len())[frame::LENGTH_LEN..], &body].concat()
            }
            _ => write(&[&answer.header]).to_vec(),
        };
        assert_eq!(again.escape_ascii().to_string(), whole.escape_ascii().to_string(), "{name}: {:?}", answer.header);
    }
    assert!(bytes.is_empty(), "{name}");
}

fn read<M: Message + Default>(frame: &mut Bytes) -> M {
    frame::take_message(frame, "message").unwrap()
}

fn write(messages: &[&dyn Delimited]) -> Bytes {
    let mut bytes = BytesMut::new();
    put_frame(messages, &mut bytes);
    bytes.freeze().slice(frame::LENGTH_LEN..)
}

#[expect(clippy::extra_unused_type_parameters, reason = "the table calls both with both")]
fn write_call<Q: Message + Default, A>(
    header: &RpcRequestHeaderProto,
    what: &RequestHeaderProto,
    body: Bytes,
) -> Bytes {
    write(&[header, what, &Q::decode(body).unwrap()])
}

#[expect(clippy::extra_unused_type_parameters, reason = "the table calls both with both")]
fn write_response<Q, A: Message + Default>(response: Bytes) -> Vec<u8> {
    A::decode(response).unwrap().encode_to_vec()
}

fn files(end: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_str().unwrap().ends_with(end));
    files.sort();
    files
}
