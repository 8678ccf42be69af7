//! What a connection's frames mean: who the client is, and then its calls. Pure.
//!
//! ```text
//! auth SASL ─▶ NEGOTIATE/SUCCESS ─┐
//! auth NONE ──────────────────────┴─▶ context (once) ─▶ call, call, …      pings at any time
//! ```

use crate::call::Identity;
use bytes::Bytes;
use hdfs::call_id;
use hdfs::exception::{ACCESS_CONTROL, Exception};
use hdfs::frame::{self, FrameError};
use hdfs::opening::Auth;
use hdfs::proto::{
    IpcConnectionContextProto, RequestHeaderProto, RpcErrorCodeProto, RpcRequestHeaderProto, RpcSaslProto,
};
use hdfs::sasl::{Negotiation, Step};
use prost::Message;
use std::sync::Arc;

/// Names of protocols that are remembered; HDFS's have some fifty letters.
const PROTOCOL_LEN_MAX: usize = 100;
/// Of a user: no system has longer ones.
const USER_LEN_MAX: usize = 255;
/// A header, or a message beside calls: a context, or one of SASL's. They are decoded before a request's memory is
/// counted, and what a context says is kept as long as its connection. A guess; stock clients send a few hundred bytes.
const BESIDE_LEN_MAX: usize = 4 << 10;

/// A call as the frames tell it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) header: RpcRequestHeaderProto,
    pub(crate) what: RequestHeaderProto,
    pub(crate) body: Bytes,
    pub(crate) user: Arc<Identity>,
}

/// What a frame asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    Call(Box<Request>),
    /// Send this frame: head, then body.
    Answer(Bytes, Bytes),
    /// A ping, or the context: never answered.
    Nothing,
}

/// Why a connection ends: what to answer, and to which call.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) call: frame::Call,
    pub(crate) exception: Exception,
}

impl Refusal {
    /// When it cannot be told which call was meant.
    pub(crate) fn unreadable(error: &FrameError) -> Self {
        Self::of_connection(unreadable(error))
    }

    pub(crate) fn of_connection(exception: Exception) -> Self {
        // Java fails all calls of the connection at a FATAL answer, whichever call it names.
        let call = frame::Call { call_id: call_id::REFUSED, client_id: Bytes::new(), retry_count: -1 };
        Self { call, exception }
    }

    /// Too many long requests came before this one.
    pub(crate) fn no_room(header: &RpcRequestHeaderProto) -> Self {
        let message = "the server had no memory for this long request in time: ask for less at once, or again later";
        let exception = Exception::fatal(RpcErrorCodeProto::FatalDeserializingRequest, message);
        Self { call: frame::Call::of(header), exception }
    }

    /// A call of the urgent protocol over a usual connection, or another one over an urgent connection.
    pub(crate) fn other_lane(request: &Request) -> Self {
        let exception = Exception::fatal(
            RpcErrorCodeProto::FatalUnauthorized,
            format!(
                "{:.100} is not answered on this connection: open one for this protocol",
                request.what.declaring_class_protocol_name
            ),
        );
        Self { call: frame::Call::of(&request.header), exception }
    }
}

/// How far a connection has come.
#[derive(Debug)]
pub(crate) enum Session {
    /// SASL was announced.
    Sasl(Negotiation),
    /// The context must come next.
    Nameless { sasl: Option<Negotiation> },
    Known {
        user: Arc<Identity>,
        /// What the connection was opened for.
        protocol: Option<String>,
        sasl: Option<Negotiation>,
    },
}

impl Session {
    pub(crate) fn new(auth: Auth) -> Self {
        match auth {
            Auth::Simple => Self::Nameless { sasl: None },
            Auth::Sasl => Self::Sasl(Negotiation::default()),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Known { .. })
    }

    /// What the connection was opened for; its calls may be of others too.
    pub(crate) fn protocol(&self) -> Option<&str> {
        match self {
            Self::Known { protocol, .. } => protocol.as_deref(),
            Self::Sasl(_) | Self::Nameless { .. } => None,
        }
    }

    /// Carries one frame, without its length, to its end. After an error the connection is closed.
    pub(crate) fn on_frame(&mut self, mut frame: Bytes) -> Result<Event, Refusal> {
        let header: RpcRequestHeaderProto =
            short_message(&mut frame, "request header").map_err(|error| Refusal::unreadable(&error))?;
        let call = frame::Call::of(&header);
        frame::check_header(&header)
            .and_then(|()| match header.call_id {
                0.. => self.on_call(header, frame),
                call_id::PING => Ok(Event::Nothing),
                call_id::CONTEXT => self.on_context(frame),
                call_id::SASL => self.on_sasl(&call, frame),
                other => Err(invalid(format!("Unknown out of band call #{other}"))),
            })
            .map_err(|exception| Refusal { call, exception })
    }

    fn on_call(&self, header: RpcRequestHeaderProto, mut frame: Bytes) -> Result<Event, Exception> {
        let Self::Known { user, .. } = self else { return Err(invalid("Connection context not established")) };
        let what = short_message(&mut frame, "call header").map_err(|error| unreadable(&error))?;
        // What follows the request is ignored, as in Hadoop.
        let body = frame::take(&mut frame, "request").map_err(|error| unreadable(&error))?;
        Ok(Event::Call(Box::new(Request { header, what, body, user: user.clone() })))
    }

    fn on_context(&mut self, mut frame: Bytes) -> Result<Event, Exception> {
        let sasl = match self {
            Self::Nameless { sasl } => *sasl,
            Self::Sasl(_) => return Err(invalid("Connection header sent during SASL negotiation")),
            Self::Known { .. } => return Err(invalid("Connection context already processed")),
        };
        let context: IpcConnectionContextProto =
            short_message(&mut frame, "connection context").map_err(|error| unreadable(&error))?;
        let user = context.user_info.unwrap_or_default();
        let named = |name: Option<String>| name.filter(|name| !name.is_empty());
        // No user at all happens after SASL only; without security that is as good as any other.
        let effective = named(user.effective_user).unwrap_or_else(|| Identity::ANONYMOUS.to_owned());
        let real = named(user.real_user).filter(|real| *real != effective);
        if let Some(name) =
            [Some(&effective), real.as_ref()].into_iter().flatten().find(|name| name.len() > USER_LEN_MAX)
        {
            let message = format!("the name of a user has {} bytes: give one of 1 to {USER_LEN_MAX}", name.len());
            return Err(Exception::unauthorized(ACCESS_CONTROL, message));
        }
        let protocol = context.protocol.filter(|name| name.len() <= PROTOCOL_LEN_MAX);
        *self = Self::Known { user: Arc::new(Identity { effective, real }), protocol, sasl };
        Ok(Event::Nothing)
    }

    fn on_sasl(&mut self, call: &frame::Call, mut frame: Bytes) -> Result<Event, Exception> {
        let message: RpcSaslProto = short_message(&mut frame, "SASL message").map_err(|error| unreadable(&error))?;
        let negotiation = match self {
            Self::Sasl(negotiation)
            | Self::Nameless { sasl: Some(negotiation) }
            | Self::Known { sasl: Some(negotiation), .. } => negotiation,
            Self::Nameless { sasl: None } | Self::Known { sasl: None, .. } => {
                return Err(invalid("SASL protocol not requested by client"));
            }
        };
        let step = negotiation.on_message(&message)?;
        if matches!(self, Self::Sasl(Negotiation::Done)) {
            *self = Self::Nameless { sasl: Some(Negotiation::Done) };
        }
        match step {
            Step::Answer(message) => {
                let body = Bytes::from(message.encode_to_vec());
                Ok(Event::Answer(call.succeeded(body.len()), body))
            }
            Step::Silence => Ok(Event::Nothing),
        }
    }
}

/// As [`frame::take_message`], of one that may not be long.
fn short_message<M: Message + Default>(frame: &mut Bytes, what: &'static str) -> Result<M, FrameError> {
    let mut rest = frame.clone();
    let len = frame::take(&mut rest, what)?.len();
    if len > BESIDE_LEN_MAX {
        return Err(FrameError::Message { what, reason: format!("it has {len} bytes, {BESIDE_LEN_MAX} are allowed") });
    }
    frame::take_message(frame, what)
}

fn invalid(message: impl Into<String>) -> Exception {
    Exception::fatal(RpcErrorCodeProto::FatalInvalidRpcHeader, message)
}

fn unreadable(error: &FrameError) -> Exception {
    Exception::fatal(RpcErrorCodeProto::FatalDeserializingRequest, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use hdfs::frame::put_frame;
    use hdfs::proto::{OperationProto, RpcKindProto, SaslState, UserInformationProto};
    use proptest::prelude::*;

    fn header(call_id: i32) -> RpcRequestHeaderProto {
        RpcRequestHeaderProto {
            rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
            rpc_op: Some(OperationProto::RpcFinalPacket.into()),
            call_id,
            ..RpcRequestHeaderProto::default()
        }
    }

    fn frame(messages: &[&dyn frame::Delimited]) -> Bytes {
        let mut bytes = BytesMut::new();
        put_frame(messages, &mut bytes);
        bytes.freeze().slice(frame::LENGTH_LEN..)
    }

    fn context(effective: &str, real: &str) -> Bytes {
        let user_info = UserInformationProto {
            effective_user: Some(effective.to_owned()),
            real_user: (!real.is_empty()).then(|| real.to_owned()),
        };
        frame(&[&header(call_id::CONTEXT), &IpcConnectionContextProto { user_info: Some(user_info), protocol: None }])
    }

    fn user_of(context: Bytes) -> Identity {
        let mut session = Session::new(Auth::Simple);
        assert_eq!(session.on_frame(context), Ok(Event::Nothing));
        match session.on_frame(frame(&[&header(0), &RequestHeaderProto::default(), &()])) {
            Ok(Event::Call(request)) => Identity::clone(&request.user),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_context_says_who_calls() {
        let named = |effective: &str, real: Option<&str>| Identity {
            effective: effective.to_owned(),
            real: real.map(str::to_owned),
        };
        assert_eq!(user_of(context("alice", "")), named("alice", None));
        assert_eq!(user_of(context("alice", "oozie")), named("alice", Some("oozie")));
        assert_eq!(user_of(context("alice", "alice")), named("alice", None));
        assert_eq!(user_of(context("", "")), named("anonymous", None));
    }

    proptest! {
        /// Frames of any content and order end in an event or a refusal, and a refusal is always FATAL.
        #[test]
        fn no_frames_panic(
            auth in any::<bool>(),
            frames in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..60).prop_map(Bytes::from),
                    (any::<i32>(), proptest::collection::vec(any::<u8>(), 0..60))
                        .prop_map(|(id, rest)| [&frame(&[&header(id)])[..], &rest].concat().into()),
                    (-34i32..2).prop_map(|id| frame(&[&header(id), &RpcSaslProto::default(), &()])),
                    Just(context("a", "b")),
                    (0i32..6).prop_map(|state| frame(&[
                        &header(call_id::SASL),
                        &RpcSaslProto { state, ..RpcSaslProto::default() },
                    ])),
                ],
                0..8,
            ),
        ) {
            let mut session = Session::new(if auth { Auth::Sasl } else { Auth::Simple });
            for frame in frames {
                let known = session.is_known();
                match session.on_frame(frame) {
                    Ok(Event::Call(_)) => prop_assert!(known),
                    Ok(Event::Answer(head, body)) => {
                        let answer = frame::Answer::decode([&head[frame::LENGTH_LEN..], &body].concat().into()).unwrap();
                        prop_assert_eq!(RpcSaslProto::decode(answer.response).unwrap().state(), SaslState::Success);
                    }
                    Ok(Event::Nothing) => {}
                    Err(refusal) => prop_assert!(refusal.exception.is_fatal()),
                }
            }
        }
    }
}
