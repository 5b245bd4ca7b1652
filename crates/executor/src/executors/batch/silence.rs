//! How long an engine may leave its driver without an answer. This counts checks, not requests: one check makes many requests, and a
//! controller that is being restarted answers none of them.

/// The number of unanswered checks in a row that are tolerated. An engine may be away for a while during an upgrade.
const MAX_UNANSWERED: u32 = 60;

/// Counts unanswered checks.
#[derive(Default)]
pub(super) struct Silence {
    looks: u32,
    /// Of the present check: whether there was an answer, and why there was none.
    answered: bool,
    why: Option<String>,
}

impl Silence {
    /// A request was answered.
    pub fn answer(&mut self) {
        self.answered = true;
    }

    /// A request was not answered.
    pub fn no_answer(&mut self, why: String) {
        self.why.get_or_insert(why);
    }

    /// Ends a check.
    ///
    /// # Errors
    /// Why there are no answers, if this has gone on for too long.
    pub fn end(&mut self) -> Result<(), String> {
        let answered = std::mem::take(&mut self.answered);
        let why = self.why.take().filter(|_| !answered);
        self.looks = if why.is_some() { self.looks + 1 } else { 0 };
        why.filter(|_| self.looks > MAX_UNANSWERED).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_once() {
        let mut silence = Silence::default();
        let mut look = |answers: usize, none: usize| {
            (0..answers).for_each(|_| silence.answer());
            (0..none).for_each(|k| silence.no_answer(format!("refused {k}")));
            silence.end()
        };
        for _ in 0..MAX_UNANSWERED {
            assert_eq!(look(0, 1000), Ok(()));
        }
        assert_eq!(look(0, 1000), Err("refused 0".into()));
        // An engine that answers some requests is present.
        assert_eq!(look(1, 1000), Ok(()));
        for _ in 0..MAX_UNANSWERED {
            assert_eq!(look(0, 1), Ok(()));
        }
        assert_eq!(look(1, 0), Ok(()));
        for _ in 0..MAX_UNANSWERED {
            assert_eq!(look(0, 1), Ok(()));
        }
        assert!(look(0, 1).is_err());
    }
}
