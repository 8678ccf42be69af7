//! The calls of a connection: each is started as soon as there is room for it and for its answer.

use crate::call::{Call, Service, Untaken};
use crate::introduction::Introduced;
use crate::inward::Inward;
use crate::pending::{Charges, Pending};
use crate::reader::{Incoming, Place, Reader, SHORT_LEN_MAX};
use crate::session::{Event, Refusal, Request};
use crate::writer::Room;
use hdfs::frame;
use security::sasl::rpc::Refused;
use std::io;
use std::pin::pin;
use tokio::io::AsyncRead;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

impl<S: Service> Reader<S> {
    /// Reads until the client hangs up, or until it is refused and the last answer is on its way.
    pub(crate) async fn run<R: AsyncRead + Unpin>(mut self, socket: &mut Inward<R>) -> io::Result<()> {
        let mut opening_time = pin!(sleep(self.host.options.opening_time_max));
        let introduced = tokio::select! {
            introduced = self.introduce(socket) => introduced?,
            () = &mut opening_time => return Err(io::ErrorKind::TimedOut.into()),
        };
        let Some(session) = introduced else { return Ok(()) };
        if session.only.is_none() {
            return self.take_calls(socket, session).await;
        }
        // Who has proven nothing is given no more time for its calls.
        tokio::select! {
            ended = self.take_calls(socket, session) => ended,
            () = opening_time => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Reads from the context on.
    async fn take_calls<R: AsyncRead + Unpin>(
        mut self,
        socket: &mut Inward<R>,
        mut session: Introduced,
    ) -> io::Result<()> {
        let is_urgent = self.is_urgent(&session.on_frames);
        if is_urgent
            && let Some(user) = session.on_frames.user()
            && let Err(exception) = self.host.service.admit_urgent(self.peer, user).await
        {
            return self.refuse(&Refusal::of_connection(exception)).await;
        }
        loop {
            let permits = self.permits.clone();
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let Incoming { frame, place } = match self.frame(socket, &session.on_frames).await? {
                Some(Ok(incoming)) => incoming,
                Some(Err(refusal)) => return self.refuse(&refusal).await,
                None => return Ok(()),
            };
            match session.on_frames.on_frame(frame) {
                Ok(Event::Call(request)) if self.is_urgent_call(&request) != is_urgent => {
                    return self.refuse(&Refusal::other_lane(&request)).await;
                }
                Ok(Event::Call(request)) => {
                    if let Some((protocol, exception)) = &session.only
                        && request.what.declaring_class_protocol_name != *protocol
                    {
                        self.note_stranger(&Refused::from(exception.clone()));
                        return self.refuse(&Refusal::of_connection(exception.clone())).await;
                    }
                    if let Err(refusal) = self.start(*request, permit, place, is_urgent).await {
                        return self.refuse(&refusal).await;
                    }
                }
                Ok(Event::Sasl(call, message)) => {
                    if let Some(refusal) = self.on_sasl(socket, &mut session, call, message).await? {
                        return self.refuse(&refusal).await;
                    }
                }
                Ok(Event::Nothing) => {}
                Err(refusal) => return self.refuse(&refusal).await,
            }
        }
    }

    /// Starts a call as soon as there is room for the answer it is expected to have, and for the request.
    async fn start(
        &self,
        request: Request,
        permit: OwnedSemaphorePermit,
        place: Place,
        is_urgent: bool,
    ) -> Result<(), Refusal> {
        let request_guard = self.connection_permit.begin_request();
        let Request { header, what, body, user } = request;
        let expected_len = self.host.expected.of(&what.method_name);
        // First its own: who does not take its answers must not queue up for the memory of all.
        let own = match place.own {
            // Of which it may take more than it got: one call does, and the next long one waits for its answer.
            Some(mut own) => {
                own.resize(expected_len);
                own
            }
            None => self.answers.admit(expected_len).await,
        };
        let all = if is_urgent || expected_len <= SHORT_LEN_MAX {
            self.host.answers.count(expected_len)
        } else {
            self.host.answers.admit(expected_len).await
        };
        let answer = Room { _place: permit, own, all };
        // Last: it is little, and nobody who has it waits for anything but the service.
        let Some(held) = self.lane(&self.host, is_urgent).admit(place.grown, place.came).await else {
            return Err(Refusal::no_room(&header));
        };
        let charge = Charges { _held: held, _request: request_guard };
        let pending = Pending {
            call: frame::Call::of(&header),
            method: what.method_name.clone(),
            sender: self.sender.clone(),
            host: self.host.clone(),
            held: Some((answer, charge)),
        };
        let call = Call {
            protocol: what.declaring_class_protocol_name,
            method: what.method_name,
            version: what.client_protocol_version,
            body,
            user,
            client_id: header.client_id,
            call_id: header.call_id,
            retry_count: pending.call.retry_count,
            peer: self.peer,
            is_private: self.is_private,
            untaken: Untaken(self.host.answers.clone()),
        };
        let host = self.host.clone();
        ::io::task::begin("rpc call", async move {
            let outcome = host.service.call(call).await;
            pending.finish(outcome);
        });
        Ok(())
    }

    fn is_urgent_call(&self, request: &Request) -> bool {
        self.host.options.urgent_protocol == Some(request.what.declaring_class_protocol_name.as_str())
    }
}
