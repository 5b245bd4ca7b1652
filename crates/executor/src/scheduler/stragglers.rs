//! Decides which running tasks take too long, compared with the finished tasks of their stage.

/// The number of durations of a stage that are remembered.
const WINDOW: usize = 256;
/// The smallest number of durations for a limit.
const MIN_DURATIONS: usize = 5;
/// A median absolute deviation of a normal distribution, in standard deviations.
const SIGMA: f64 = 1.4826;

/// How long the tasks of each stage took, counted from their own start.
pub(crate) struct Durations(Vec<Stage>);

#[derive(Default)]
struct Stage {
    ring: Vec<f64>,
    next: usize,
    /// Median and deviation. They are valid until the next duration arrives.
    found: Option<(f64, f64)>,
}

fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[n / 2] + sorted[(n - 1) / 2]) / 2.0
}

impl Durations {
    pub fn new(stages: usize) -> Durations {
        Durations((0..stages).map(|_| Stage::default()).collect())
    }

    pub fn add(&mut self, stage: usize, seconds: f64) {
        let s = &mut self.0[stage];
        s.found = None;
        if s.ring.len() < WINDOW {
            s.ring.push(seconds);
        } else {
            s.ring[s.next] = seconds;
            s.next = (s.next + 1) % WINDOW;
        }
    }

    /// The median of a stage, and how long one of its tasks may run before a second copy pays off: `k` deviations above the median, and at
    /// least one and a half medians and `least` seconds. Median and median absolute deviation are used because stragglers must not delay
    /// the detection of stragglers. `None` while too few tasks have ended.
    pub fn limit(&mut self, stage: usize, k: f64, least: f64) -> Option<(f64, f64)> {
        let s = &mut self.0[stage];
        if s.ring.len() < MIN_DURATIONS {
            return None;
        }
        if s.found.is_none() {
            let mut sorted = s.ring.clone();
            sorted.sort_by(f64::total_cmp);
            let m = median(&sorted);
            sorted.iter_mut().for_each(|t| *t = (*t - m).abs());
            sorted.sort_by(f64::total_cmp);
            let deviation = SIGMA * median(&sorted);
            s.found = Some((m, deviation));
        }
        s.found.map(|(m, deviation)| (m, (m + k * deviation).max(1.5 * m).max(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robust() {
        let mut d = Durations::new(2);
        (0..4).for_each(|_| d.add(0, 1.0));
        assert_eq!(d.limit(0, 5.0, 0.0), None);
        (0..50).for_each(|i| d.add(0, 1.0 + 0.001 * f64::from(i % 5)));
        let (m, limit) = d.limit(0, 5.0, 0.0).unwrap();
        assert!((1.0..1.01).contains(&m) && (1.4..1.6).contains(&limit), "{m} {limit}");
        // Even a third of stragglers hardly moves the limit.
        (0..20).for_each(|_| d.add(0, 100.0));
        assert!(d.limit(0, 5.0, 0.0).unwrap().1 < 2.0);
        assert_eq!(d.limit(0, 5.0, 9.0).unwrap().1, 9.0);
        assert_eq!(d.limit(1, 5.0, 0.0), None);
    }
}
