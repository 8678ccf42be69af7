//! Messages of the negotiation, as they are sent.

use hdfs::proto::{RpcSaslProto, SaslState};

pub(super) fn message(state: SaslState, token: Option<Vec<u8>>) -> RpcSaslProto {
    RpcSaslProto { version: None, state: state.into(), token: token.map(Into::into), auths: Vec::new() }
}
