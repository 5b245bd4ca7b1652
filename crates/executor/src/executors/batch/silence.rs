//! How long an engine may leave its driver without an answer. Looks are counted, not questions: a look at many jobs asks about many of them, and a
//! controller that is restarted leaves all the questions unanswered.

/// Looks in a row that may go unanswered: an engine that is upgraded is away for a while.
const MAX_UNANSWERED: u32 = 60;

/// The looks that went unanswered.
#[derive(Default)]
pub(super) struct Silence {
    looks: u32,
    /// Of the look that goes on: an answer has come, and why one did not.
    answered: bool,
    why: Option<String>,
}

impl Silence {
    /// A question was answered.
    pub fn answer(&mut self) {
        self.answered = true;
    }

    /// A question was not answered.
    pub fn no_answer(&mut self, why: String) {
        self.why.get_or_insert(why);
    }

    /// Ends a look.
    ///
    /// # Errors
    /// Why nothing is answered, if that has gone on for too long.
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
        // An engine that answers some questions is there.
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
