//! What a connection's frames mean: who the client is, and then its calls. Pure.
//!
//! ```text
//! auth SASL ─▶ the exchange ──────┐
//! auth NONE ──────────────────────┴─▶ context (once) ─▶ call, call, …      pings at any time
//! ```

use crate::beside::{BESIDE_LEN_MAX, short_message};
use crate::exchange::Progress;
use crate::identity::{Identity, Proof};
use bytes::Bytes;
use hdfs::call_id;
use hdfs::exception::Exception;
use hdfs::frame::{self, FrameError};
use hdfs::opening::Auth;
use hdfs::proto::{
    IpcConnectionContextProto, RequestHeaderProto, RpcErrorCodeProto, RpcRequestHeaderProto, RpcSaslProto,
};
use security::node_name::Certified;
use std::sync::Arc;

/// Names of protocols that are remembered; HDFS's have some fifty letters.
const PROTOCOL_LEN_MAX: usize = 100;
/// A message of SASL. A ticket of Active Directory names the groups of its user: 48,000 bytes by default
/// (`MaxTokenSize`), and 65,535 where more are allowed.
const SASL_LEN_MAX: usize = 96 << 10;
/// Longest frame of who is not known yet.
pub(crate) const NAMELESS_LEN_MAX: u32 = (SASL_LEN_MAX + 2 * BESIDE_LEN_MAX) as u32;

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
    /// For the exchange, whose outcome goes to [`Session::on_progress`].
    Sasl(frame::Call, Box<RpcSaslProto>),
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
pub(crate) struct Session {
    stage: Stage,
    /// Whether SASL was announced: a client may say once more that it chose SIMPLE, at any time.
    has_sasl: bool,
}

#[derive(Debug)]
enum Stage {
    /// Who calls has yet to be proven.
    Sasl,
    /// The context must come next.
    Nameless(Proof),
    Known {
        user: Arc<Identity>,
        /// What the connection was opened for.
        protocol: Option<String>,
    },
}

impl Session {
    pub(crate) fn new(auth: Auth) -> Self {
        match auth {
            Auth::Simple => Self { stage: Stage::Nameless(Proof::Nothing), has_sasl: false },
            Auth::Sasl => Self { stage: Stage::Sasl, has_sasl: true },
        }
    }

    /// Of a node that its certificate names.
    pub(crate) fn of_node(node: Certified) -> Self {
        Self { stage: Stage::Nameless(Proof::Node(node)), has_sasl: false }
    }

    pub(crate) fn is_known(&self) -> bool {
        matches!(self.stage, Stage::Known { .. })
    }

    /// Whether nothing was proven yet, nor had to be.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Sasl)
    }

    /// Who calls, once that is known.
    pub(crate) fn user(&self) -> Option<&Arc<Identity>> {
        match &self.stage {
            Stage::Known { user, .. } => Some(user),
            Stage::Sasl | Stage::Nameless(_) => None,
        }
    }

    /// What the connection was opened for; its calls may be of others too.
    pub(crate) fn protocol(&self) -> Option<&str> {
        match &self.stage {
            Stage::Known { protocol, .. } => protocol.as_deref(),
            Stage::Sasl | Stage::Nameless(_) => None,
        }
    }

    /// Carries one frame, without its length, to its end. After an error the connection is closed.
    pub(crate) fn on_frame(&mut self, mut frame: Bytes) -> Result<Event, Refusal> {
        let header: RpcRequestHeaderProto =
            short_message(&mut frame, "request header", BESIDE_LEN_MAX).map_err(|error| Refusal::unreadable(&error))?;
        let call = frame::Call::of(&header);
        frame::check_header(&header)
            .and_then(|()| match header.call_id {
                0.. => self.on_call(header, frame),
                call_id::PING => Ok(Event::Nothing),
                call_id::CONTEXT => self.on_context(frame),
                call_id::SASL => self.on_sasl(call.clone(), frame),
                other => Err(invalid(format!("Unknown out of band call #{other}"))),
            })
            .map_err(|exception| Refusal { call, exception })
    }

    fn on_call(&self, header: RpcRequestHeaderProto, mut frame: Bytes) -> Result<Event, Exception> {
        let Stage::Known { user, .. } = &self.stage else { return Err(invalid("Connection context not established")) };
        let what = short_message(&mut frame, "call header", BESIDE_LEN_MAX).map_err(|error| unreadable(&error))?;
        // What follows the request is ignored, as in Hadoop.
        let body = frame::take(&mut frame, "request").map_err(|error| unreadable(&error))?;
        Ok(Event::Call(Box::new(Request { header, what, body, user: user.clone() })))
    }

    fn on_context(&mut self, mut frame: Bytes) -> Result<Event, Exception> {
        let proof = match &self.stage {
            Stage::Nameless(proof) => proof.clone(),
            Stage::Sasl => return Err(invalid("Connection header sent during SASL negotiation")),
            Stage::Known { .. } => return Err(invalid("Connection context already processed")),
        };
        let context: IpcConnectionContextProto =
            short_message(&mut frame, "connection context", BESIDE_LEN_MAX).map_err(|error| unreadable(&error))?;
        let named = context.user_info.unwrap_or_default();
        let user = Identity::of_context(proof, named.effective_user, named.real_user)?;
        let protocol = context.protocol.filter(|name| name.len() <= PROTOCOL_LEN_MAX);
        self.stage = Stage::Known { user: Arc::new(user), protocol };
        Ok(Event::Nothing)
    }

    fn on_sasl(&self, call: frame::Call, mut frame: Bytes) -> Result<Event, Exception> {
        if !self.has_sasl {
            return Err(invalid("SASL protocol not requested by client"));
        }
        let len_max = if self.is_known() { BESIDE_LEN_MAX } else { SASL_LEN_MAX };
        let message: RpcSaslProto =
            short_message(&mut frame, "SASL message", len_max).map_err(|error| unreadable(&error))?;
        Ok(Event::Sasl(call, Box::new(message)))
    }

    /// What the exchange made of a message.
    pub(crate) fn on_progress(&mut self, progress: &Progress) {
        let proof = match progress {
            Progress::Answer(_) => return,
            Progress::Simple(_) => Proof::Nothing,
            Progress::Accepted { proof, .. } => proof.clone(),
        };
        // Who chooses SIMPLE once more has got further already.
        if matches!(self.stage, Stage::Sasl) {
            self.stage = Stage::Nameless(proof);
        }
    }
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
    use crate::exchange::Exchange;
    use crate::options::Authentication;
    use bytes::BytesMut;
    use hdfs::frame::put_frame;
    use hdfs::proto::{OperationProto, RpcKindProto, UserInformationProto};
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
        assert_eq!(user_of(context("alice", "")), Identity::simple("alice", None));
        assert_eq!(user_of(context("alice", "oozie")), Identity::simple("alice", Some("oozie".into())));
    }

    /// It would take fifty times its length when it is decoded, before anybody has proven anything.
    #[test]
    fn a_message_with_many_fields_is_refused() {
        let many = RpcSaslProto { auths: vec![hdfs::proto::SaslAuth::default(); 1000], ..RpcSaslProto::default() };
        let refused = Session::new(Auth::Sasl).on_frame(frame(&[&header(call_id::SASL), &many])).unwrap_err();
        assert!(refused.exception.message.contains("fields"), "{}", refused.exception.message);
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
            let mut exchange = Exchange::new(&Authentication::default());
            for frame in frames {
                let known = session.is_known();
                match session.on_frame(frame) {
                    Ok(Event::Call(_)) => prop_assert!(known),
                    Ok(Event::Sasl(_, message)) => match exchange.on_message(&message, |_| panic!("no tokens here")) {
                        Ok(progress) => session.on_progress(&progress),
                        Err(refused) => prop_assert!(refused.told.is_fatal()),
                    },
                    Ok(Event::Nothing) => {}
                    Err(refusal) => prop_assert!(refusal.exception.is_fatal()),
                }
            }
        }
    }
}
