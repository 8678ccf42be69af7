//! SASL as a server without security speaks it: "no need, go on as SIMPLE".
//!
//! ```text
//! client ── NEGOTIATE ──▶ server        RpcSaslProto under call id −33, both ways
//!        ◀── SUCCESS ────               without a token: hdfs-native takes one for a fault
//!        ── context, calls ──▶
//! ```
//!
//! This is common, not exotic: whoever holds any token opens so, which are Spark's tasks, and every reader that asks a
//! datanode for the length of an open block.

use crate::exception::{self, Exception};
use crate::proto::{RpcSaslProto, SaslState};

/// What to do with a SASL message.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Answer(RpcSaslProto),
    /// The client goes on without waiting.
    Silence,
}

/// The server's side of one connection's SASL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    #[default]
    Open,
    /// SIMPLE it is.
    Done,
}

impl Negotiation {
    /// Carries one message to its end. An error ends the connection.
    pub fn on_message(&mut self, message: &RpcSaslProto) -> Result<Step, Exception> {
        let state = SaslState::try_from(message.state);
        match (*self, state) {
            (Self::Open, Ok(SaslState::Negotiate)) => {
                *self = Self::Done;
                Ok(Step::Answer(RpcSaslProto { state: SaslState::Success.into(), ..RpcSaslProto::default() }))
            }
            // Chosen without being asked, or once more after our SUCCESS. Hadoop does not answer it either.
            (_, Ok(SaslState::Initiate)) => match &message.auths[..] {
                [auth] if auth.method == "SIMPLE" => {
                    *self = Self::Done;
                    Ok(Step::Silence)
                }
                [auth] => Err(Exception::unauthorized(
                    exception::ACCESS_CONTROL,
                    format!("{} authentication is not enabled.  Available:[SIMPLE]", auth.method),
                )),
                auths => Err(refused(format!("Client chose {} mechanisms at once", auths.len()))),
            },
            (Self::Done, Ok(state)) => {
                Err(refused(format!("SASL is over, yet the client sent {}", state.as_str_name())))
            }
            (Self::Open, Ok(state)) => {
                Err(refused(format!("Client sent unsupported state {} before NEGOTIATE", state.as_str_name())))
            }
            (_, Err(_unknown)) => Err(refused(format!("Client sent unknown state {}", message.state))),
        }
    }
}

fn refused(message: String) -> Exception {
    Exception::unauthorized(exception::SASL, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::SaslAuth;

    fn message(state: SaslState, methods: &[&str]) -> RpcSaslProto {
        let auth = |method: &&str| SaslAuth { method: (*method).to_owned(), ..SaslAuth::default() };
        let auths = methods.iter().map(auth).collect();
        RpcSaslProto { state: state.into(), auths, ..RpcSaslProto::default() }
    }

    #[test]
    fn negotiate_is_told_to_go_on_as_simple() {
        let mut negotiation = Negotiation::default();
        let Ok(Step::Answer(answer)) = negotiation.on_message(&message(SaslState::Negotiate, &[])) else { panic!() };
        assert_eq!((answer.state(), answer.token, answer.auths.len()), (SaslState::Success, None, 0));
        assert_eq!(negotiation.on_message(&message(SaslState::Initiate, &["SIMPLE"])), Ok(Step::Silence));
        assert!(negotiation.on_message(&message(SaslState::Negotiate, &[])).is_err());
    }

    #[test]
    fn a_client_may_choose_simple_unasked() {
        let mut negotiation = Negotiation::default();
        assert_eq!(negotiation.on_message(&message(SaslState::Initiate, &["SIMPLE"])), Ok(Step::Silence));
        assert_eq!(negotiation, Negotiation::Done);
    }

    #[test]
    fn all_else_is_fatal() {
        let wrong = [
            message(SaslState::Initiate, &["KERBEROS"]),
            message(SaslState::Initiate, &[]),
            message(SaslState::Response, &[]),
            message(SaslState::Wrap, &[]),
            RpcSaslProto { state: 77, ..RpcSaslProto::default() },
        ];
        for message in wrong {
            let refused = Negotiation::default().on_message(&message).unwrap_err();
            assert!(refused.is_fatal(), "{refused}");
        }
    }
}
