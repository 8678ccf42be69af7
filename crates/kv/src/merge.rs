//! Several sorted runs of rows read as one: the first run that has a key decides what it says.

use crate::error::KvError;

/// A row, or the word that it is gone.
pub(crate) type Item<'a> = Result<(&'a [u8], Option<&'a [u8]>), KvError>;
pub(crate) type Run<'a> = Box<dyn Iterator<Item = Item<'a>> + 'a>;

/// Rows of all runs in one order, each key once, without those that are gone.
pub(crate) struct Merge<'a> {
    /// Topmost first.
    runs: Vec<std::iter::Peekable<Run<'a>>>,
    descending: bool,
}

impl<'a> Merge<'a> {
    pub(crate) fn ascending(runs: Vec<Run<'a>>) -> Self {
        Self { runs: runs.into_iter().map(Iterator::peekable).collect(), descending: false }
    }

    pub(crate) fn descending(runs: Vec<Run<'a>>) -> Self {
        Self { runs: runs.into_iter().map(Iterator::peekable).collect(), descending: true }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut first: Option<(usize, &'a [u8])> = None;
            for at in 0..self.runs.len() {
                match self.runs[at].peek() {
                    Some(Ok((key, _))) => {
                        let before = |best: &[u8]| if self.descending { *key > best } else { *key < best };
                        if first.is_none_or(|(_, best)| before(best)) {
                            first = Some((at, key));
                        }
                    }
                    Some(Err(_)) => return self.runs[at].next().map(|item| item.map(|(key, _)| (key, key))),
                    None => {}
                }
            }
            let (top, key) = first?;
            let mut found = None;
            for (at, run) in self.runs.iter_mut().enumerate() {
                let same = run.next_if(|item| matches!(item, Ok((other, _)) if *other == key));
                if let (Some(Ok((_, value))), true) = (same, at == top) {
                    found = value;
                }
            }
            if let Some(value) = found {
                return Some(Ok((key, value)));
            }
        }
    }
}
