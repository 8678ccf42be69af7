//! How a connection opens: the preamble of Hadoop RPC, or something else on our port.
//!
//! ```text
//! 0      4        5              6              7
//! ┌──────┬────────┬──────────────┬──────────────┐
//! │ hrpc │ 9  u8  │ service class│ auth         │     client → server, once, no answer
//! └──────┴────────┴──────────────┴──────────────┘
//! ```
//!
//! The client sends its context and first call behind it without waiting.

use crate::exception::{Exception, RPC_VERSION_MISMATCH};
use crate::proto::{RpcErrorCodeProto, RpcRequestHeaderProto};
pub use crate::version::VERSION;
use crate::{call_id, frame};
use bytes::Bytes;

const MAGIC: [u8; 4] = *b"hrpc";

/// A version that answered errors in a form of its own, without a frame.
const LEGACY: std::ops::RangeInclusive<u8> = 3..=8;

/// What Hadoop says to a browser, and to a tool that took this port for another.
pub const HTTP_ANSWER: &str = "HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n\
     It looks like you are making an HTTP request to a Hadoop IPC port. \
     This is not the correct port for the web interface on this daemon.\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The context follows at once.
    Simple,
    /// NEGOTIATE follows.
    Sasl,
}

impl Auth {
    const SIMPLE: u8 = 0;
    const SASL: u8 = 0xdf;
}

/// What the first bytes of a connection turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Rpc {
        service_class: u8,
        auth: Auth,
    },
    /// A version we do not speak: answer [`version_mismatch`] and close.
    OtherVersion(u8),
    /// Answer [`HTTP_ANSWER`] and close.
    Http,
    /// Close.
    Unknown,
}

impl Opening {
    /// Bytes of a preamble.
    pub const LEN: usize = 7;

    /// Looks at the first bytes of a connection. `None` means that more must come.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let shared = bytes.len().min(MAGIC.len());
        if bytes[..shared] != MAGIC[..shared] {
            let http = b"GET ";
            return match &bytes[..shared] {
                all if all == http => Some(Self::Http),
                some if http.starts_with(some) => None,
                _ => Some(Self::Unknown),
            };
        }
        match bytes.get(MAGIC.len()..)? {
            [version, ..] if *version != VERSION => Some(Self::OtherVersion(*version)),
            [_, service_class, Auth::SIMPLE, ..] => {
                Some(Self::Rpc { service_class: *service_class, auth: Auth::Simple })
            }
            [_, service_class, Auth::SASL, ..] => Some(Self::Rpc { service_class: *service_class, auth: Auth::Sasl }),
            [_, _, _, ..] => Some(Self::Unknown),
            _ => None,
        }
    }

    /// The preamble of our own client.
    pub const fn encode(auth: Auth) -> [u8; Self::LEN] {
        let [h, r, p, c] = MAGIC;
        let auth = match auth {
            Auth::Simple => Auth::SIMPLE,
            Auth::Sasl => Auth::SASL,
        };
        [h, r, p, c, VERSION, 0, auth]
    }
}

/// The answer to a client of another version, in the form that version understands.
pub fn version_mismatch(version: u8) -> Bytes {
    let message = format!("Server IPC version {VERSION} cannot communicate with client version {version}");
    if LEGACY.contains(&version) {
        // Call id and status −1, then class and message, each behind its length.
        let mut bytes = Vec::new();
        for number in [call_id::REFUSED, -1] {
            bytes.extend(number.to_be_bytes());
        }
        for text in [RPC_VERSION_MISMATCH, &message] {
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        return bytes.into();
    }
    let code = RpcErrorCodeProto::FatalVersionMismatch;
    let exception = Exception { code, ..Exception::new(RPC_VERSION_MISMATCH, message) };
    let nobody = RpcRequestHeaderProto { call_id: call_id::REFUSED, ..RpcRequestHeaderProto::default() };
    frame::Call::of(&nobody).refused(&exception)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_preamble_is_read_as_it_comes() {
        for auth in [Auth::Simple, Auth::Sasl] {
            let bytes = Opening::encode(auth);
            for short in 0..bytes.len() {
                assert_eq!(Opening::decode(&bytes[..short]), None);
            }
            assert_eq!(Opening::decode(&bytes), Some(Opening::Rpc { service_class: 0, auth }));
        }
        assert_eq!(Opening::encode(Auth::Sasl), *b"hrpc\x09\x00\xdf");
    }

    #[test]
    fn strangers_are_told_apart() {
        assert_eq!(Opening::decode(b"GE"), None);
        assert_eq!(Opening::decode(b"GET / HTTP/1.1"), Some(Opening::Http));
        assert_eq!(Opening::decode(b"GOT"), Some(Opening::Unknown));
        assert_eq!(Opening::decode(b"hrpc\x08"), Some(Opening::OtherVersion(8)));
        assert_eq!(Opening::decode(b"hrpc\x09\x00\x01"), Some(Opening::Unknown));
        assert_eq!(Opening::decode(b"\x16\x03\x01"), Some(Opening::Unknown), "TLS");
    }

    /// A client of version 4 reads call id, status, class, message; one of version 10 reads a frame.
    #[test]
    fn each_version_is_refused_in_its_own_form() {
        let old = version_mismatch(4);
        assert_eq!(old[..12], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 41]);
        assert_eq!(&old[12..53], RPC_VERSION_MISMATCH.as_bytes());
        assert!(old.ends_with(b"Server IPC version 9 cannot communicate with client version 4"));

        let mut young = bytes::BytesMut::from(&version_mismatch(10)[..]);
        let answer = frame::Answer::decode(frame::split(&mut young, 4096).unwrap().unwrap()).unwrap();
        assert_eq!(answer.header.call_id, u32::MAX);
        assert_eq!(answer.header.server_ipc_version_num, Some(9));
        assert_eq!(answer.header.error_detail(), RpcErrorCodeProto::FatalVersionMismatch);
    }

    proptest! {
        /// What is known of the first bytes stays true when more come.
        #[test]
        fn more_bytes_change_nothing(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..12),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(|end| [b"hrpc".to_vec(), end].concat()),
        ]) {
            let mut known = None;
            for len in 0..=bytes.len() {
                let now = Opening::decode(&bytes[..len]);
                prop_assert!(known.is_none() || now == known);
                known = now;
            }
            prop_assert!(known.is_some() || bytes.len() < Opening::LEN);
        }
    }
}
