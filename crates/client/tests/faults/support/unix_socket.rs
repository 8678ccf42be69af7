//! The Unix socket of a scripted datanode.

use super::Node;
use hdfs::proto::{BlockOpResponseProto, LocalReplicaProto, OpRequestShortCircuitAccessProto};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::{OpHeader, Status, delimited};

/// What it does when it is asked for descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Honest,
    Refuses,
    HangsUp,
    SendsNone,
    SendsOne,
    SendsFour,
    /// Of a file with a byte that is not the one that was written.
    SendsDamage,
    /// Says that there is more than the file has.
    SaysTooMuch,
}

/// Where the checksums begin.
const SUMS_OFFSET: u64 = 5;

impl Node {
    /// From now on it says that it has a socket, until the directory is dropped.
    pub(crate) fn listen(self: &Arc<Self>, way: Way) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        *self.socket_path.lock().unwrap() = Some(path.to_str().unwrap().to_owned());
        let node = Arc::clone(self);
        ::io::task::thread("scripted socket", move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                while node.pass(&mut socket, way).is_some() {}
            }
        })
        .unwrap();
        dir
    }

    /// Serves one request. `None`: the connection has ended.
    fn pass(&self, socket: &mut UnixStream, way: Way) -> Option<()> {
        let request = request(socket)?;
        assert!(request.as_stored(), "the form is ours");
        self.passed_count.fetch_add(1, Ordering::Relaxed);
        let mut data = self.book.state().blocks[&request.header.block.block_id].0.clone();
        let (mut sums, mut out) = (vec![0; SUMS_OFFSET as usize], Vec::new());
        self.spec.compute(&data, &mut sums);
        let mut said = LocalReplicaProto {
            len: Some(data.len() as u64),
            sums_offset: Some(SUMS_OFFSET),
            checksum_kind: Some(self.spec.kind as u32),
            chunk_len: Some(self.spec.chunk_len),
            ..LocalReplicaProto::default()
        };
        let mut status = Status::SUCCESS;
        match way {
            Way::Refuses => status = Status::ERROR_UNSUPPORTED,
            Way::HangsUp => return None,
            Way::SendsDamage => data[100] ^= 1,
            Way::SaysTooMuch => said.len = Some(data.len() as u64 + 1),
            Way::Honest | Way::SendsNone | Way::SendsOne | Way::SendsFour => {}
        }
        let (data, sums) = (file(&data), file(&sums));
        let (data, sums) = (data.as_fd(), sums.as_fd());
        let answer = BlockOpResponseProto { status: status.0.into(), local_replica: Some(said), ..Default::default() };
        delimited::put(&answer, &mut out);
        match way {
            Way::Refuses => socket.write_all(&out).ok()?,
            Way::SendsNone => socket.write_all(&[&out[..], &[0]].concat()).ok()?,
            Way::SendsOne => {
                socket.write_all(&out).ok()?;
                ::io::descriptors::send(&*socket, &[0], &[data]).ok()?;
            }
            Way::SendsFour => {
                ::io::descriptors::send(&*socket, &out, &[data, sums]).ok()?;
                ::io::descriptors::send(&*socket, &[0], &[data, sums]).ok()?;
            }
            _ => {
                socket.write_all(&out).ok()?;
                ::io::descriptors::send(&*socket, &[0], &[data, sums]).ok()?;
            }
        }
        Some(())
    }
}

fn request(socket: &mut UnixStream) -> Option<OpRequestShortCircuitAccessProto> {
    let mut came = Vec::new();
    loop {
        if let Some(message) = came.get(OpHeader::LEN..)
            && let Some((message, _)) = delimited::split(message, "op", 1 << 16).unwrap()
        {
            return Some(delimited::decode(message, "op").unwrap());
        }
        let mut byte = [0];
        socket.read_exact(&mut byte).ok()?;
        came.push(byte[0]);
    }
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}
