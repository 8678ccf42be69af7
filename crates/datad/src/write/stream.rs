//! One write stream, from the answer to its setup to its end: a thread around poll(2) of its sockets.
//!
//! What happens is decided by [`xfer::write::Relay`]; this file moves the bytes and asks the disk. Everything between
//! receiving a packet and the write of its bytes happens on one thread, from one buffer, while the bytes are in the
//! core's cache.

use super::above::Above;
use super::disk::Disk;
use super::writes::Writes;
use crate::budget::Reservation;
use crate::data_service::DataService;
use crate::socket::Socket;
use io::poll::{Ready, Watch, poll};
use sasl::IDLE_AFTER;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use types::BlockId;
use xfer::write::{BufferError, Ending, FLUSH, Gather, LINGER, Relay, Step};

/// One write stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) writes: Arc<Writes>,
    pub(super) block: BlockId,
    pub(super) relay: Relay<Reservation>,
    pub(super) above: Arc<Above>,
    /// Of the nodes below; gone once lost.
    pub(super) below: Vec<Option<Socket>>,
    pub(super) disk: Disk,
    pub(super) gather: Gather,
}

impl Stream {
    /// Serves the stream to its end, and says how that was. `None`: the node stops.
    pub(super) fn run(&mut self) -> Option<Ending> {
        let ending = self.serve();
        self.above.socket.set_low_water(1);
        flush_within(&self.writes.service, &self.above, FLUSH);
        if ending.is_some_and(Ending::lingers) {
            self.linger();
        }
        ending
    }

    fn serve(&mut self) -> Option<Ending> {
        loop {
            self.act();
            if !self.above.flush(self.writes.service.now()) {
                self.relay.on_above_closed();
                self.act();
            }
            if let Some(ending) = self.relay.ending() {
                return Some(ending);
            }
            if self.wait().is_stopping() {
                return None;
            }
        }
    }

    /// Does what the relay says, until something must happen first.
    fn act(&mut self) {
        loop {
            // Not locked while it is done: keepalives are sent meanwhile.
            let step = self.relay.step(self.writes.service.now(), &mut self.above.lock());
            let Some(step) = step else { return };
            match step {
                Step::Forward => self.forward(),
                Step::Store(store) => {
                    let stored = self.disk.store(&self.writes, &self.above, &store);
                    self.relay.on_stored(stored);
                }
                Step::Show(len) => self.disk.show(len),
                Step::BelowLost { place, why } => {
                    let socket = self.below[place].take();
                    if let Some(passed_over) = self.writes.service.log_limits.below_lost.due() {
                        let peer = socket.and_then(|socket| socket.peer_addr());
                        tracing::info!(block = %self.block, ?peer, reason = %why, passed_over, "downstream node lost");
                    }
                }
                Step::Unsound { offset } => {
                    if let Some(passed_over) = self.writes.service.log_limits.unsound.due() {
                        let block = self.block;
                        tracing::warn!(%block, offset, passed_over, "bytes that came do not match their checksum");
                    }
                }
                Step::Refused(error) => {
                    if let Some(passed_over) = self.writes.service.log_limits.packet_refused.due() {
                        let wrong = matches!(error, BufferError::Wire(_));
                        tracing::warn!(block = %self.block, %error, wrong, passed_over, "packet refused");
                    }
                }
            }
        }
    }

    /// Sends on what each socket takes now.
    fn forward(&mut self) {
        for place in 0..self.below.len() {
            self.send_below(place);
        }
    }

    fn send_below(&mut self, place: usize) {
        let Some(socket) = &self.below[place] else { return };
        loop {
            let out = self.relay.below_out(place);
            let is_last = out.is_empty();
            let sent = if is_last { socket.flush().map(|()| 0) } else { socket.send(out) };
            match sent {
                Ok(_) if is_last => return,
                Ok(len) => self.relay.on_below_sent(place, self.writes.service.now(), len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.relay.on_below_closed(place),
            }
        }
    }

    fn receive_below(&mut self, place: usize, now: Duration) {
        let Some(socket) = self.below[place].as_ref() else { return };
        let mut came = [0; 4096];
        match socket.receive(&mut came) {
            Ok(len @ 1..) => self.relay.on_below_received(place, now, &came[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => self.relay.on_below_closed(place),
        }
    }

    fn receive_above(&mut self) {
        match self.above.socket.receive(self.relay.room()) {
            Ok(len @ 1..) => {
                self.gather.on_received(len);
                self.relay.on_received(self.writes.service.now(), len);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => self.relay.on_above_closed(),
        }
    }

    /// Waits for bytes that are wanted, for sockets that can take some, and for the relay's time; and moves them.
    fn wait(&mut self) -> Woken {
        let (wants, pending, until) = {
            let above = self.above.lock();
            let pending = self.above.is_pending_locked(&above);
            (self.relay.wants_packets(&above), pending, self.relay.poll_timeout(&above))
        };
        let gathers = wants && !pending && self.gather.is_due() && !self.has_more_to_do();
        self.above.socket.set_low_water(if gathers { Gather::LEN.min(self.relay.room().len()) } else { 1 });
        if gathers {
            return self.gather(until);
        }
        // Left out where it could only say that it is gone, and that matters later.
        let heeds_above = pending || self.relay.heeds_above();
        let mut watches = vec![Watch { fd: self.writes.service.stop.as_fd(), read: true, write: false }];
        if heeds_above {
            watches.push(Watch { fd: self.above.socket.as_fd(), read: wants, write: pending });
        }
        for (place, socket) in self.below.iter().enumerate() {
            if let Some(socket) = socket {
                let write = socket.is_pending() || !self.relay.below_out(place).is_empty();
                watches.push(Watch { fd: socket.as_fd(), read: true, write });
            }
        }
        // Of what is here already, and of memory that nobody uses, poll tells nothing.
        let has_opened = |socket: &Socket| socket.has_opened();
        let above_opened = wants && self.above.socket.has_opened();
        let any_opened = above_opened || self.below.iter().flatten().any(has_opened);
        let sockets = || self.below.iter().flatten().chain([&self.above.socket]);
        let rests = !any_opened && sockets().any(Socket::is_roomy);
        let left = until.map(|until| until.saturating_sub(self.writes.service.now()));
        let limit =
            if any_opened { Some(Duration::ZERO) } else { left.into_iter().chain(rests.then_some(IDLE_AFTER)).min() };
        let ready = match poll(&watches, limit) {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(%error, "poll failed");
                return Woken::Stopping;
            }
        };
        if rests && ready.iter().all(|ready| *ready == Ready::default()) {
            sockets().for_each(Socket::rest);
        }
        let is_ready = |ready: &Ready| ready.readable || ready.closed;
        let mut ready = ready.into_iter();
        if ready.next().is_some_and(|stop| is_ready(&stop)) {
            return Woken::Stopping;
        }
        let above = if heeds_above { ready.next().unwrap_or_default() } else { Ready::default() };
        let now = self.writes.service.now();
        for place in 0..self.below.len() {
            let Some(ready) = self.below[place].as_ref().and_then(|_| ready.next()) else { continue };
            if is_ready(&ready) || self.below[place].as_ref().is_some_and(has_opened) {
                self.receive_below(place, now);
            }
            if ready.writable {
                self.send_below(place);
            }
        }
        self.relay.handle_timeout(now, &mut self.above.lock());
        if above.closed && !wants && self.relay.heeds_above() {
            self.relay.on_above_closed();
        }
        if above_opened || wants && is_ready(&above) {
            self.receive_above();
        }
        Woken::Otherwise
    }

    /// Bytes are here that poll knows nothing of, or some are still to be sent below.
    fn has_more_to_do(&self) -> bool {
        let is_below = |(place, socket): (usize, &Option<Socket>)| {
            let is_open = |socket: &Socket| socket.has_opened() || socket.is_pending();
            socket.as_ref().is_some_and(is_open) || !self.relay.below_out(place).is_empty()
        };
        self.above.socket.has_opened() || self.below.iter().enumerate().any(is_below)
    }

    /// Waits for several packets, and takes what came from below with them.
    fn gather(&mut self, until: Option<Duration>) -> Woken {
        let watches = [self.writes.service.stop.as_fd(), self.above.socket.as_fd()];
        let watches = watches.map(|fd| Watch { fd, read: true, write: false });
        let began = self.writes.service.now();
        let left = until.map(|until| until.saturating_sub(began));
        let came = match poll(&watches, left.into_iter().chain([self.gather.patience()]).min()).as_deref() {
            Ok([stop, above]) if *stop == Ready::default() => *above != Ready::default(),
            Ok(_) => return Woken::Stopping,
            Err(error) => {
                tracing::error!(%error, "poll failed");
                return Woken::Stopping;
            }
        };
        let now = self.writes.service.now();
        match came {
            true => self.gather.on_gathered(now.saturating_sub(began)),
            false => self.gather.on_pause(),
        }
        for place in 0..self.below.len() {
            self.receive_below(place, now);
        }
        self.relay.handle_timeout(now, &mut self.above.lock());
        if self.relay.wants_packets(&self.above.lock()) {
            self.receive_above();
        }
        Woken::Otherwise
    }

    /// Reads what the writer still sends, and drops it, until it has understood.
    fn linger(&mut self) {
        self.below.clear();
        self.above.socket.shut_down_sending();
        let until = self.writes.service.now() + LINGER;
        let mut dropped = vec![0; 64 << 10];
        loop {
            let left = until.saturating_sub(self.writes.service.now());
            let has_opened = self.above.socket.has_opened();
            let watches = [
                Watch { fd: self.above.socket.as_fd(), read: true, write: false },
                Watch { fd: self.writes.service.stop.as_fd(), read: true, write: false },
            ];
            match poll(&watches, Some(if has_opened { Duration::ZERO } else { left })).as_deref() {
                Ok([above, stop])
                    if !left.is_zero() && *stop == Ready::default() && (has_opened || *above != Ready::default()) => {}
                _ => return,
            }
            match self.above.socket.receive(&mut dropped) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Otherwise,
    Stopping,
}

impl Woken {
    fn is_stopping(self) -> bool {
        self == Self::Stopping
    }
}

/// Sends what is left for above, as long as somebody takes it.
pub(super) fn flush_within(service: &DataService, above: &Above, limit: Duration) {
    let until = service.now() + limit;
    above.flush(service.now());
    while above.is_pending() && service.now() < until {
        let watches = [
            Watch { fd: above.socket.as_fd(), read: false, write: true },
            Watch { fd: service.stop.as_fd(), read: true, write: false },
        ];
        match poll(&watches, Some(until.saturating_sub(service.now()))).as_deref() {
            Ok([_, stop]) if *stop == Ready::default() => _ = above.flush(service.now()),
            _ => return,
        }
    }
}
