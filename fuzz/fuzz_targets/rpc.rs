//! The opening of an RPC connection, and the frames that follow.
#![no_main]

use bytes::BytesMut;
use hdfs::frame;
use hdfs::opening::Opening;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Opening::decode(bytes);
    let mut stream = BytesMut::from(bytes);
    while let Ok(Some(frame)) = frame::split(&mut stream, 1 << 20) {
        let _ = frame::Answer::decode(frame.clone());
        let mut messages = frame;
        while frame::take(&mut messages, "message").is_ok_and(|message| !message.is_empty()) {}
    }
});
