//! Places that users take, so that no user keeps the others out.

/// One user has a quarter at most: on some stores all programs run as one or two users.
const OF_ONE: usize = 4;
/// So many are left to users who have few: an eighth.
const LEFT_TO_FEW: usize = 8;
/// Who has few: at most a 256th. So 32 users at least find room in that eighth.
const FEW: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) max: usize,
}

impl Places {
    /// Of one user.
    pub(crate) const fn of_one(self) -> usize {
        self.max / OF_ONE
    }

    /// Whether a user who has `own` of the `taken` ones may take `count` more.
    pub(crate) fn has_room(self, taken: usize, own: usize, count: usize) -> bool {
        let has_few = own + count <= self.max / FEW;
        let free_to_all = if has_few { self.max } else { self.max - self.max / LEFT_TO_FEW };
        own + count <= self.of_one() && taken + count <= free_to_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { max: 1024 };

    #[test]
    fn one_user_has_a_quarter_at_most() {
        assert!(PLACES.has_room(255, 255, 1) && !PLACES.has_room(256, 256, 1));
        assert!(PLACES.has_room(256, 0, 256) && !PLACES.has_room(256, 1, 256));
    }

    #[test]
    fn the_last_ones_are_for_who_has_few() {
        assert!(PLACES.has_room(895, 100, 1) && !PLACES.has_room(896, 100, 1));
        assert!(PLACES.has_room(896, 3, 1) && !PLACES.has_room(896, 4, 1));
        assert!(PLACES.has_room(1023, 0, 1) && !PLACES.has_room(1024, 0, 1));
    }
}
