//! Delegation tokens and keys for data encryption. Without security none are needed, so none are issued.

use crate::caller::Session;
use crate::core::Core;
use hdfs::Exception;
use hdfs::exception::INVALID_TOKEN;
use hdfs::proto::*;

/// None is the sign to go on without.
pub(super) async fn get_delegation_token(
    _core: &Core,
    _session: &Session,
    _request: GetDelegationTokenRequestProto,
) -> Result<GetDelegationTokenResponseProto, Exception> {
    Ok(GetDelegationTokenResponseProto { token: None })
}

fn unknown() -> Exception {
    Exception::new(INVALID_TOKEN, "the token can't be found: this server gave none out")
}

pub(super) async fn renew_delegation_token(
    _core: &Core,
    _session: &Session,
    _request: RenewDelegationTokenRequestProto,
) -> Result<RenewDelegationTokenResponseProto, Exception> {
    Err(unknown())
}

pub(super) async fn cancel_delegation_token(
    _core: &Core,
    _session: &Session,
    _request: CancelDelegationTokenRequestProto,
) -> Result<CancelDelegationTokenResponseProto, Exception> {
    Err(unknown())
}

pub(super) async fn get_data_encryption_key(
    _core: &Core,
    _session: &Session,
    _request: GetDataEncryptionKeyRequestProto,
) -> Result<GetDataEncryptionKeyResponseProto, Exception> {
    Ok(GetDataEncryptionKeyResponseProto { data_encryption_key: None })
}
