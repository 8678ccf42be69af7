//! Numbers of delegation tokens: each is given out once.

/// Those that this leader gave out; those of earlier leaders are in the rows.
#[derive(Debug, Default)]
pub struct TokenNumbers {
    last: u32,
}

impl TokenNumbers {
    /// A number for a new token. `last` is the last one in the rows, which may lag behind those given out here.
    pub fn next(&mut self, last: u32) -> u32 {
        self.last = self.last.max(last).saturating_add(1);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let mut numbers = TokenNumbers::default();
        assert_eq!([numbers.next(0), numbers.next(0), numbers.next(1), numbers.next(9)], [1, 2, 3, 10]);
    }
}
