//! What the Java client sent to real HDFS servers, sent to ours: every call is answered, under its number.

use crate::support::{Raw, SOON};
use bytes::{Bytes, BytesMut};
use hdfs::frame::{self, Answer};
use hdfs::proto::{RpcStatusProto, SaslState};
use hdfs::{call_id, proto};
use prost::Message;
use rpc::{Call, Exception, Server, ServerOptions, Service};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::timeout;

/// Answers everything with nothing.
struct Yes;

impl Service for Yes {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        assert!(!call.method.is_empty() && call.client_id.len() == 16 && call.version == 1);
        Ok(Bytes::new())
    }
}

#[tokio::test]
async fn recorded_clients_are_answered() {
    let server = Server::bind("127.0.0.1:0", ServerOptions::default(), Arc::new(Yes)).await.unwrap();
    let mut count = 0;
    for (client, recorded) in recordings() {
        let name = client.display().to_string();
        let mut raw = Raw::connect(&server).await;
        raw.send(&std::fs::read(client).unwrap()).await;
        let mut wanted: Vec<i32> = answers(&std::fs::read(recorded).unwrap()).iter().map(Answer::call_id).collect();
        let mut had = vec![];
        for _ in &wanted {
            let answer = timeout(SOON, raw.answer()).await.unwrap().unwrap_or_else(|| panic!("{name}: cut off"));
            assert_eq!(answer.header.status(), RpcStatusProto::Success, "{name}");
            if answer.call_id() == call_id::SASL {
                let message = proto::RpcSaslProto::decode(answer.response.clone()).unwrap();
                assert_eq!((message.state(), message.token), (SaslState::Success, None), "{name}");
            }
            had.push(answer.call_id());
        }
        wanted.sort_unstable();
        had.sort_unstable();
        assert_eq!(had, wanted, "{name}");
        raw.hears_nothing().await;
        count += 1;
    }
    assert!(count >= 19, "{count} recordings");
}

fn recordings() -> Vec<(PathBuf, PathBuf)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../hdfs/tests/golden");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".client.bin")?.to_owned())).collect();
    names.sort();
    let pair = |name: String| (folder.join(format!("{name}.client.bin")), folder.join(format!("{name}.server.bin")));
    names.into_iter().map(pair).collect()
}

fn answers(bytes: &[u8]) -> Vec<Answer> {
    let mut bytes = BytesMut::from(bytes);
    let mut answers = vec![];
    while let Some(frame) = frame::split(&mut bytes, 1 << 20).unwrap() {
        answers.push(Answer::decode(frame).unwrap());
    }
    answers
}
