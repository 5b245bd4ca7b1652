//! Maps values to colours.

use colorgrad::Gradient;

pub(super) type Rgb = [u8; 3];

/// The names of the colour scales.
pub(crate) const SCALES: &[&str] = &["auto", "viridis", "magma", "cividis", "turbo", "greys", "blue-red"];

/// The colour of an element without a value: a grey that no scale contains.
pub(super) const MISSING: Rgb = [214, 208, 198];

/// A range of values with a colour for each.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    table: Vec<Rgb>,
}

/// The value below which this fraction of the values lies.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len().saturating_sub(1)) as f64;
    let (i, f) = (at.floor() as usize, at.fract());
    let a = sorted.get(i).copied().unwrap_or(f64::NAN);
    let b = sorted.get(i + 1).copied().unwrap_or(a);
    a + (b - a) * f
}

/// The range of values that is shown: all of them, or all without the 2 % at either end.
pub(super) fn range(values: &[f64], robust: bool) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    Some(if robust { (percentile(&sorted, 0.02), percentile(&sorted, 0.98)) } else { (first, last) })
}

impl Scale {
    /// A named scale. `auto` is blue to red around zero if many values lie on both sides of it and no range was chosen.
    pub fn new(name: &str, (low, high): (f64, f64), chosen: bool) -> Scale {
        let (mut low, mut high) = (low, high);
        let both = low < 0.0 && high > 0.0 && low.abs().min(high) >= 0.2 * low.abs().max(high);
        let diverging = name == "blue-red" || (name == "auto" && both);
        if diverging && both && !chosen {
            high = high.max(-low);
            low = -high;
        }
        let at = |t: f32| {
            let c = match name {
                _ if diverging => colorgrad::preset::rd_bu().at(1.0 - t),
                "magma" => colorgrad::preset::magma().at(t),
                "cividis" => colorgrad::preset::cividis().at(t),
                "turbo" => colorgrad::preset::turbo().at(t),
                "greys" => colorgrad::preset::greys().at(1.0 - t),
                _ => colorgrad::preset::viridis().at(t),
            };
            let [r, g, b, _] = c.to_rgba8();
            [r, g, b]
        };
        Scale { low, high, table: (0..256u16).map(|i| at(f32::from(i) / 255.0)).collect() }
    }

    /// The position of a value in the range, from 0 to 1.
    pub fn position(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let width = self.high - self.low;
        Some(if width > 0.0 { ((value - self.low) / width).clamp(0.0, 1.0) } else { 0.5 })
    }

    /// The colour at a position from 0 to 1.
    pub fn at(&self, position: f64) -> Rgb {
        let i = (position.clamp(0.0, 1.0) * 255.0).round() as usize;
        self.table.get(i).copied().unwrap_or(MISSING)
    }

    /// The colour of a value; `None` for NaN.
    pub fn of(&self, value: f64) -> Option<Rgb> {
        self.position(value).map(|p| self.at(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let mut values: Vec<f64> = (0..=100).map(f64::from).collect();
        values.extend([f64::NAN, f64::INFINITY]);
        assert_eq!(range(&values, false), Some((0.0, 100.0)));
        assert_eq!(range(&values, true), Some((2.0, 98.0)));
        assert_eq!(range(&[f64::NAN], true), None);
    }

    #[test]
    fn scales() {
        let s = Scale::new("auto", (-3.0, 5.0), false);
        assert_eq!((s.low, s.high), (-5.0, 5.0));
        let ([red, _, blue], [r, _, b]) = (s.at(0.0), s.at(1.0));
        assert!(blue > red && r > b, "blue is low and red is high");
        let s = Scale::new("auto", (1.0, 5.0), false);
        assert_eq!((s.of(f64::NAN), s.position(9.0), s.position(3.0)), (None, Some(1.0), Some(0.5)));
        assert_eq!(Scale::new("greys", (2.0, 2.0), false).position(2.0), Some(0.5));
    }
}
