//! Packets of data transfer, one after the other, as a datanode takes them from a socket.
#![no_main]

use wire::PacketFrame;
use wire::packet::Parsed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(parsed) = PacketFrame::parse(rest) {
        match parsed {
            Parsed::Whole(frame) => {
                assert!(frame.sums.end == frame.data.start && frame.data.end == frame.packet_len());
                rest = &rest[frame.packet_len()..];
            }
            Parsed::Needs(more) => {
                assert!(more > rest.len(), "asks for what is there");
                assert!(more <= types::limits::PACKET_LEN_MAX as usize + 2048, "asks for more than a packet can be");
                break;
            }
        }
    }
});
