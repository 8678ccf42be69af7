//! How a file is asked for its layout: whoever has the file gives the bytes that are wanted, until there is an answer.
//!
//! ```text
//!  begin(file_len) ──▶ Inquiry ── want(): offset, len
//!                        ▲   │
//!                        │   └── give(bytes) ──▶ Answer::Done(Layout), or a LayoutError
//!                        └──── Answer::Ask ◀──┘
//! ```
//!
//! Promise: a want lies within the file, each is bounded, and so is their number; what the bytes say can cost an error
//! and no more ([`Limits`]).

use crate::error::{LayoutError, Result};
use crate::limits::{Budget, Limits};
use crate::room::Room;
use crate::tables::Layout;
use crate::want::{Next, Want};
use crate::{arrow, orc, parquet, root};

/// A file that is being asked. It always wants something: what needs nothing more is an [`Answer::Done`].
#[derive(Debug)]
pub struct Inquiry {
    file_len: u64,
    want: Want,
    state: Box<State>,
    budget: Budget,
}

#[derive(Debug)]
enum State {
    /// What kind of file it is.
    Head,
    Parquet(parquet::Reading),
    Root(root::Reading),
    Arrow(arrow::Reading),
    Orc(orc::Reading),
}

/// What a file is by its first bytes, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Parquet,
    Root,
    Arrow,
    Orc,
}

impl Format {
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'A', b'R', b'1', ..] => Some(Self::Parquet),
            [b'r', b'o', b'o', b't', ..] => Some(Self::Root),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Self::Arrow),
            [b'O', b'R', b'C', ..] => Some(Self::Orc),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub enum Answer {
    Ask(Inquiry),
    Done(Layout),
}

/// Enough for any magic and for the header of a ROOT file with its first directory, whose names are mostly short.
pub const HEAD_LEN: u64 = 1024;

/// Begins to ask a file that ends as those of this format do. Of Parquet what the footer says is all that is asked for,
/// so pieces are column chunks: who reads from far away would pay for the lists of their pages with bytes, and its
/// reader takes chunks whole. What is made of the file is taken from `room`, as in [`begin_in_room`].
pub fn begin_at_end(format: Format, file_len: u64, limits: Limits, room: Box<dyn Room>) -> Result<Inquiry> {
    let budget = Budget::in_room(limits, room);
    let begun = match format {
        Format::Parquet => parquet::begin_of_chunks(file_len)?.map(State::Parquet),
        Format::Orc => orc::begin(file_len)?.map(State::Orc),
        Format::Root | Format::Arrow => return begin_with(file_len, budget),
    };
    match begun {
        Next::Ask(want, state) => Inquiry { file_len, want, state: Box::new(state), budget }.checked(),
        Next::Done(_) => Err(LayoutError::Unknown("it is empty")),
    }
}

/// Begins to ask a file of that length, within the usual limits.
pub fn begin(file_len: u64) -> Result<Inquiry> {
    begin_within(file_len, Limits::default())
}

pub fn begin_within(file_len: u64, limits: Limits) -> Result<Inquiry> {
    begin_with(file_len, Budget::new(limits))
}

/// As [`begin_within`], and what is made of the file is taken from `room` before it is made: not the bytes that are
/// given, which who gives them has counted.
pub fn begin_in_room(file_len: u64, limits: Limits, room: Box<dyn Room>) -> Result<Inquiry> {
    begin_with(file_len, Budget::in_room(limits, room))
}

fn begin_with(file_len: u64, budget: Budget) -> Result<Inquiry> {
    if file_len == 0 {
        return Err(LayoutError::Unknown("it is empty"));
    }
    let want = Want { offset: 0, len: HEAD_LEN.min(file_len) };
    Inquiry { file_len, want, state: Box::new(State::Head), budget }.checked()
}

impl Inquiry {
    /// The bytes that [`Self::give`] takes.
    pub fn want(&self) -> Want {
        self.want
    }

    /// What will be wanted after that, as far as it is known: who fetches it from far away fetches it together.
    pub fn coming(&self) -> impl Iterator<Item = Want> {
        let reading = if let State::Orc(reading) = &*self.state { Some(reading) } else { None };
        reading.into_iter().flat_map(orc::Reading::coming)
    }

    /// Where the last of what was known to be wanted ends, with what was given already; 0 if nothing was.
    pub fn coming_end(&self) -> u64 {
        if let State::Orc(reading) = &*self.state { reading.coming_end() } else { 0 }
    }

    /// Goes on with the bytes that were wanted, all of them.
    pub fn give(mut self, bytes: &[u8]) -> Result<Answer> {
        if bytes.len() as u64 != self.want.len {
            return Err(LayoutError::Damaged("it has fewer bytes than it had"));
        }
        let next = match *self.state {
            State::Head => match Format::of(bytes) {
                Some(Format::Parquet) => parquet::begin(self.file_len)?.map(State::Parquet),
                Some(Format::Root) => root::begin(bytes, self.file_len)?.map(State::Root),
                Some(Format::Arrow) => arrow::begin(self.file_len)?.map(State::Arrow),
                Some(Format::Orc) => orc::begin(self.file_len)?.map(State::Orc),
                None => return Err(LayoutError::Unknown("its first bytes are those of no known format")),
            },
            State::Parquet(reading) => reading.give(bytes, &mut self.budget)?.map(State::Parquet),
            State::Root(reading) => reading.give(bytes, &mut self.budget)?.map(State::Root),
            State::Arrow(reading) => reading.give(bytes, &mut self.budget)?.map(State::Arrow),
            State::Orc(reading) => reading.give(bytes, &mut self.budget)?.map(State::Orc),
        };
        match next {
            Next::Ask(want, state) => Ok(Answer::Ask(Self { want, state: Box::new(state), ..self }.checked()?)),
            Next::Done(layout) => Ok(Answer::Done(layout)),
        }
    }

    /// For fuzz targets: what these bytes hold, decompressed.
    pub(crate) fn object_of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match &*self.state {
            State::Root(reading) => reading.object_of(bytes),
            State::Head | State::Parquet(_) | State::Arrow(_) | State::Orc(_) => None,
        }
    }

    fn checked(mut self) -> Result<Self> {
        if self.want.end().is_none_or(|end| end > self.file_len) {
            return Err(LayoutError::Damaged("it points behind its own end"));
        }
        self.budget.ask(self.want.len)?;
        Ok(self)
    }
}

/// Asks a file whose bytes are at hand.
pub fn of_bytes(file: &[u8]) -> Result<Layout> {
    of_bytes_within(file, Limits::default())
}

pub fn of_bytes_within(file: &[u8], limits: Limits) -> Result<Layout> {
    let mut inquiry = begin_within(file.len() as u64, limits)?;
    loop {
        let Want { offset, len } = inquiry.want();
        let wanted = file.get(offset as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default();
        match inquiry.give(wanted)? {
            Answer::Ask(more) => inquiry = more,
            Answer::Done(layout) => return Ok(layout),
        }
    }
}
