//! What is wanted of a record: the pieces of some columns, and the first bytes of these.
//!
//! Promise: a record is decoded once for both, and nothing is given that is longer than an answer may be. All of this
//! takes processor time, and [`MADE_FACTOR`] times the memory of the layout.

use super::made::Selection;
use super::window;
use bytes::Bytes;
use layout::Wanted;
use wire::layouts::{Answer, RECORD_LEN_MAX, ReadLayout, Wish};
use wire::ranges::ReadRanges;

/// What is taken to make a part, for each byte of the layout: vectors grow by doubling, and the list of the window or
/// the part's record is made beside it. A guess.
pub(super) const MADE_FACTOR: u64 = 4;

/// What is sent.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) answer: Answer,
    /// The bytes that follow, as if the reader had listed them; if there is a window.
    pub(super) ranges: Option<ReadRanges>,
}

impl Part {
    /// Bytes that it takes until it is sent.
    pub(super) fn len(&self) -> u64 {
        let record_len = match &self.answer {
            Answer::Found(record) => record.len(),
            _ => 0,
        };
        record_len as u64 + self.ranges.as_ref().map_or(0, |ranges| ranges.ranges.len() as u64)
    }
}

/// The record itself, if all of it is wanted and no window: nothing has to be made then.
pub(super) fn as_it_is(record: &Bytes, request: &ReadLayout, wish: &Wish) -> Option<Part> {
    let is_whole = matches!(wish, Wish::All) && request.window_len == 0;
    is_whole.then(|| Part { answer: within(record.clone()), ranges: None })
}

/// Takes processor time. An error is the answer.
pub(super) fn select(record: &Bytes, request: &ReadLayout, wish: &Wish) -> Result<Selection, Answer> {
    let wanted = match wish {
        Wish::All => Wanted::All,
        Wish::Columns(columns) => Wanted::Columns(columns.clone()),
        Wish::At(offsets) => Wanted::At(offsets.clone()),
    };
    let made = layout::decode(record).map_err(|error| error.to_string()).and_then(|layout| {
        if let Wanted::All = wanted {
            return Ok((record.clone(), layout));
        }
        let layout = layout.with_pieces_of(&wanted);
        let encoded = layout::encode(&layout).map_err(|error| error.to_string())?;
        Ok((Bytes::from(encoded), layout))
    });
    let (record, layout) = made.map_err(Answer::TooLarge)?;
    let pieces = window::pieces(request, &layout).into();
    Ok(Selection { record, pieces })
}

/// The record comes with the first part of a window alone.
pub(super) fn of_selection(selected: Result<Selection, Answer>, request: ReadLayout) -> Part {
    let Selection { record, pieces } = match selected {
        Ok(selected) => selected,
        Err(answer) => return Part { answer, ranges: None },
    };
    let answer = within(if request.part == 0 { record } else { Bytes::new() });
    let has_window = request.window_len > 0 && matches!(answer, Answer::Found(_));
    Part { answer, ranges: has_window.then(|| window::ranges(request, &pieces)) }
}

/// A part may be longer than the whole: the file chose the numbers, and a record says the difference of two.
fn within(record: Bytes) -> Answer {
    match record.len() {
        ..=RECORD_LEN_MAX => Answer::Found(record),
        len => Answer::TooLarge(format!("what is wanted of it takes {len} bytes, {RECORD_LEN_MAX} may be given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::{Column, Layout, Piece, Table};
    use wire::layouts::LayoutBlock;

    fn layout() -> Layout {
        let pieces = |at| (0..9).map(|n| Piece { first: n * 10, offset: at + n * 100, len: 50 }).collect();
        let columns = [0, 1000].map(|at| Column { name: format!("at {at}"), pieces: pieces(at) });
        Layout { tables: vec![Table { entries: 90, columns: columns.into(), ..Table::default() }] }
    }

    fn of_record(record: &Bytes, request: ReadLayout, wish: Wish) -> Part {
        of_selection(select(record, &request, &wish), request)
    }

    #[test]
    fn what_is_longer_than_an_answer_may_be_is_too_large() {
        let longest = within(vec![0; RECORD_LEN_MAX].into());
        assert_eq!(longest.into_message().record.len(), RECORD_LEN_MAX);
        let longer = within(vec![0; RECORD_LEN_MAX + 1].into());
        assert!(matches!(&longer, Answer::TooLarge(text) if text.contains("16777217")), "{longer:?}");
        assert!(longer.into_message().record.is_empty());
    }

    #[test]
    fn a_window_is_of_the_columns_that_are_sent() {
        let record = Bytes::from(layout::encode(&layout()).unwrap());
        let block = LayoutBlock { offset: 0, block: 1, generation: 1001, len: 5000, token: 0 };
        let request = ReadLayout { blocks: vec![block], file_len: 5000, window_len: 120, ..ReadLayout::default() };
        let part = of_record(&record, request.clone(), Wish::Columns(vec![(0, 1)]));
        let Answer::Found(sent) = &part.answer else { panic!("{part:?}") };
        // As the reader finds it, in what it got.
        let expected = window::ranges(request.clone(), &window::pieces(&request, &layout::decode(sent).unwrap()));
        assert_eq!((part.ranges.as_ref(), expected.blocks[0].range_count), (Some(&expected), 2));
        assert_eq!(part.len(), sent.len() as u64 + expected.ranges.len() as u64);
        let all = of_record(&record, request.clone(), Wish::All);
        assert_eq!(all.ranges.map(|ranges| ranges.blocks[0].range_count), Some(2));
        let second = ReadLayout { part_count: 2, part: 1, ..request.clone() };
        let second = of_record(&record, second, Wish::Columns(vec![(0, 1)]));
        assert_eq!(second.answer, Answer::Found(Bytes::new()), "the record comes with the first part");
        assert_eq!(second.ranges.map(|ranges| ranges.blocks[0].range_count), Some(1));
        assert!(as_it_is(&record, &request, &Wish::All).is_none(), "its window has to be found");
        let request = ReadLayout { window_len: 0, ..request };
        assert!(as_it_is(&record, &request, &Wish::Columns(Vec::new())).is_none());
        assert_eq!(as_it_is(&record, &request, &Wish::All).map(|part| part.answer), Some(Answer::Found(record)));
    }
}
