/// Bytes of the file that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    pub offset: u64,
    pub len: u64,
}

impl Want {
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// What a format does with the bytes it wanted.
#[derive(Debug)]
pub(crate) enum Next<S, T> {
    Ask(Want, S),
    Done(T),
}

impl<S, T> Next<S, T> {
    pub(crate) fn map<U>(self, make: impl FnOnce(S) -> U) -> Next<U, T> {
        match self {
            Self::Ask(want, state) => Next::Ask(want, make(state)),
            Self::Done(done) => Next::Done(done),
        }
    }
}
