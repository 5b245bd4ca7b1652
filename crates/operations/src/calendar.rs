//! CF time: numbers since a date, in the calendars of the CF conventions (section 4.4).

use std::collections::BTreeSet;

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct DateTime {
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: f64,
    /// From 1.
    pub dayofyear: u16,
}

impl DateTime {
    /// Year, month, day, hour, minute and second: what dates are ordered by.
    pub fn fields(&self) -> [f64; 6] {
        [self.year as f64, self.month.into(), self.day.into(), self.hour.into(), self.minute.into(), self.second]
    }
}

impl std::fmt::Display for DateTime {
    /// `1999-12-31`, and the time of day if it is not midnight.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)?;
        match (self.hour, self.minute, self.second) {
            (0, 0, 0.0) => Ok(()),
            (h, m, s) if s == s.trunc() => write!(f, " {h:02}:{m:02}:{s:02}"),
            (h, m, s) => write!(f, " {h:02}:{m:02}:{s:09.6}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Calendar {
    Standard,
    Gregorian,
    Julian,
    NoLeap,
    AllLeap,
    Days360,
}

const MONTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Calendar {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "" | "standard" | "gregorian" => Calendar::Standard,
            "proleptic_gregorian" => Calendar::Gregorian,
            "julian" => Calendar::Julian,
            "noleap" | "365_day" => Calendar::NoLeap,
            "all_leap" | "366_day" => Calendar::AllLeap,
            "360_day" => Calendar::Days360,
            _ => {
                return Err(format!(
                    "unknown calendar '{name}'; known are standard, proleptic_gregorian, julian, noleap, all_leap and 360_day"
                ));
            }
        })
    }

    fn leap(self, year: i64, julian: bool) -> bool {
        match self {
            Calendar::NoLeap | Calendar::Days360 => false,
            Calendar::AllLeap => true,
            _ if julian => year.rem_euclid(4) == 0,
            _ => year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0),
        }
    }

    fn month_days(self, year: i64, month: usize, julian: bool) -> i64 {
        match self {
            Calendar::Days360 => 30,
            _ => MONTHS[month] + i64::from(month == 1 && self.leap(year, julian)),
        }
    }

    /// Days before 1 January of a year, counted from year 0.
    fn year_start(self, year: i64, julian: bool) -> i64 {
        let before = year - 1;
        let leaps = before.div_euclid(4) + 1;
        match self {
            Calendar::Days360 => 360 * year,
            Calendar::NoLeap => 365 * year,
            Calendar::AllLeap => 366 * year,
            _ if julian => 365 * year + leaps - 2,
            _ => 365 * year + leaps - before.div_euclid(100) + before.div_euclid(400),
        }
    }

    /// The day number of a date; the standard calendar is Julian before 15 October 1582.
    fn day_number(self, year: i64, month: i64, day: i64) -> i64 {
        let julian = match self {
            Calendar::Standard => (year, month, day) < (1582, 10, 15),
            other => other == Calendar::Julian,
        };
        let months: i64 = (0..month as usize - 1).map(|m| self.month_days(year, m, julian)).sum();
        self.year_start(year, julian) + months + day - 1
    }

    fn date(self, number: i64) -> (i64, u8, u8, u16) {
        let julian = match self {
            Calendar::Standard => number < self.day_number(1582, 10, 15),
            other => other == Calendar::Julian,
        };
        let mut year = number.div_euclid(366);
        let step = (number - self.year_start(year, julian)) / 367;
        year += step;
        while self.year_start(year + 1, julian) <= number {
            year += 1;
        }
        while self.year_start(year, julian) > number {
            year -= 1;
        }
        let mut rest = number - self.year_start(year, julian);
        let mut dayofyear = rest as u16 + 1;
        if self == Calendar::Standard && !julian && year == 1582 {
            dayofyear -= 10;
            // Ten days were left out; the months before October were Julian, but as long.
        }
        let mut month = 0;
        while month < 11 && rest >= self.month_days(year, month, julian) {
            rest -= self.month_days(year, month, julian);
            month += 1;
        }
        (year, month as u8 + 1, rest as u8 + 1, dayofyear)
    }
}

/// `hours since 1900-01-01 06:00` as the seconds of a unit, the day number and the seconds of the start.
fn parse_units(units: &str, calendar: Calendar) -> Result<(f64, i64, f64), String> {
    let wrong = || format!("'{units}' is not a CF time unit; expected something like 'days since 1970-01-01'");
    let lower = units.trim().to_ascii_lowercase();
    let (unit, since) = lower.split_once(" since ").ok_or_else(wrong)?;
    let scale = match unit.trim() {
        "d" | "day" | "days" => 86400.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millisecond" | "milliseconds" => 1e-3,
        "us" | "microsecond" | "microseconds" => 1e-6,
        "ns" | "nanosecond" | "nanoseconds" => 1e-9,
        "months" | "month" | "years" | "year" => {
            return Err(format!("'{units}': months and years are not of equal length; use days, hours, minutes or seconds"));
        }
        _ => return Err(wrong()),
    };
    // The date and the time may be joined by a letter, as in 2000-01-01T00:00; UTC has one, too.
    let joins = |(i, c): (usize, char)| if c == 't' && since[..i].ends_with(|p: char| p.is_ascii_digit()) { ' ' } else { c };
    let since: String = since.char_indices().map(joins).collect();
    let mut words = since.split_whitespace();
    let date = words.next().ok_or_else(wrong)?;
    let (sign, date) = date.strip_prefix('-').map_or((1, date), |d| (-1, d));
    let parts: Vec<i64> = date.split('-').map(|p| p.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let [year, month, day] = parts[..] else { return Err(wrong()) };
    let year = sign * year;
    if !(1..=12).contains(&month)
        || day < 1
        || day > calendar.month_days(year, month as usize - 1, true).max(calendar.month_days(year, month as usize - 1, false))
        || year.abs() > 1_000_000
    {
        return Err(wrong());
    }
    let mut seconds = 0.0;
    let mut rest: Vec<&str> = words.collect();
    if rest.len() == 1
        && let Some(at) = rest[0].rfind(['+', '-'])
        && at > 0
    {
        let (time, zone) = rest[0].split_at(at);
        rest = vec![time, zone];
    }
    for (k, word) in rest.iter().enumerate() {
        if matches!(*word, "utc" | "z" | "gmt") {
            continue;
        }
        let zone = k == 1;
        let (sign, clock) = word.strip_prefix('-').map_or((1.0, word.strip_prefix('+').unwrap_or(word)), |w| (-1.0, w));
        let clock = clock.trim_end_matches('z');
        let fields: Vec<f64> = clock.split(':').map(|p| p.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        if k > 1 || fields.len() > 3 || fields.iter().any(|f| !(0.0..86400.0).contains(f)) {
            return Err(wrong());
        }
        let compact = fields.len() == 1 && fields[0] >= 100.0;
        let value: f64 = if compact {
            (fields[0] / 100.0).floor() * 3600.0 + fields[0] % 100.0 * 60.0
        } else {
            fields.iter().zip([3600.0, 60.0, 1.0]).map(|(f, s)| f * s).sum()
        };
        seconds += if zone { -sign * value } else { value };
    }
    Ok((scale, calendar.day_number(year, month, day), seconds))
}

/// The dates that numbers mean.
///
/// ```
/// let t = chunkwise_ops::calendar::decode(&[59.0], "days since 2001-01-01", "noleap")?;
/// assert_eq!((t[0].month, t[0].day, t[0].dayofyear), (3, 1, 60));
/// # Ok::<(), String>(())
/// ```
pub fn decode(values: &[f64], units: &str, calendar: &str) -> Result<Vec<DateTime>, String> {
    let calendar = Calendar::parse(calendar)?;
    let (scale, first, offset) = parse_units(units, calendar)?;
    let one = |(i, &v): (usize, &f64)| {
        let days = v * (scale / 86400.0);
        if days.is_nan() || days.abs() >= 4e8 {
            return Err(format!("the time at index {i} is {v}, which is no date"));
        }
        // Whole days apart, so that seconds keep their digits; then to the microsecond.
        let whole = days.floor();
        let micro = ((v * scale - whole * 86400.0 + offset) * 1e6).round();
        let day = micro.div_euclid(86400e6);
        let rest = (micro - day * 86400e6).max(0.0) as u64;
        let (year, month, dom, dayofyear) = calendar.date(first + whole as i64 + day as i64);
        let second = (rest % 60_000_000) as f64 / 1e6;
        let minutes = rest / 60_000_000;
        Ok(DateTime { year, month, day: dom, hour: (minutes / 60) as u8, minute: (minutes % 60) as u8, second, dayofyear })
    };
    values.iter().enumerate().map(one).collect()
}

/// The number that a date is: the inverse of [`decode`]. Of a date, the fields are year, month, day, hour, minute and second.
///
/// ```
/// use chunkwise_ops::calendar::{decode, encode};
/// let n = encode([2001.0, 3.0, 1.0, 6.0, 0.0, 0.0], "hours since 2001-01-01", "noleap")?;
/// assert_eq!(n, 59.0 * 24.0 + 6.0);
/// assert_eq!(decode(&[n], "hours since 2001-01-01", "noleap")?[0].month, 3);
/// # Ok::<(), String>(())
/// ```
pub fn encode(fields: [f64; 6], units: &str, calendar: &str) -> Result<f64, String> {
    let kind = Calendar::parse(calendar)?;
    let (scale, first, offset) = parse_units(units, kind)?;
    let [year, month, day, hour, minute, second] = fields;
    let (year, month, day) = (year as i64, month as i64, day as i64);
    let julian = kind == Calendar::Julian || kind == Calendar::Standard && (year, month, day) < (1582, 10, 15);
    if !(1..=12).contains(&month) || day < 1 || day > kind.month_days(year, month as usize - 1, julian) {
        let name = if calendar.is_empty() { "standard" } else { calendar };
        return Err(format!("the calendar '{name}' has no day {year:04}-{month:02}-{day:02}"));
    }
    let days = kind.day_number(year, month, day) - first;
    Ok((days as f64 * 86400.0 + (hour * 3600.0 + minute * 60.0 + second - offset)) / scale)
}

/// True if two calendars have the same days today: the Gregorian ones, and others of which the names mean the same.
pub fn alike(a: &str, b: &str) -> bool {
    let kind = |name: &str| Calendar::parse(name).ok().map(|c| if c == Calendar::Gregorian { Calendar::Standard } else { c });
    kind(a) == kind(b)
}

/// The seconds of one of the units, such as 3600 of `hours since 2000-01-01`.
///
/// # Errors
/// When the units are none.
pub fn seconds(units: &str, calendar: &str) -> Result<f64, String> {
    Ok(parse_units(units, Calendar::parse(calendar)?)?.0)
}

/// Times in some units told in others: the same dates, in the calendar of either.
pub fn convert(values: &[f64], units: &str, calendar: &str, to: &str, to_calendar: &str) -> Result<Vec<f64>, String> {
    decode(values, units, calendar)?.iter().map(|d| encode(d.fields(), to, to_calendar)).collect()
}

/// The parts of a date that can be grouped by.
pub const PARTS: &[&str] = &["year", "month", "day", "dayofyear", "season", "hour", "date"];

/// The labels of the times by a part of the date, and the sorted distinct values of the part: `values[labels[i]]` is the part of
/// time `i`. Seasons are 0 (DJF), 1 (MAM), 2 (JJA), 3 (SON); a date is `year * 10000 + month * 100 + day`.
///
/// ```
/// use chunkwise_ops::calendar::{decode, labels};
/// let t = decode(&[0.0, 31.0, 366.0], "days since 2000-01-01", "standard")?;
/// assert_eq!(labels(&t, "month")?, (vec![0, 1, 0], vec![1, 2]));
/// # Ok::<(), String>(())
/// ```
pub fn labels(times: &[DateTime], part: &str) -> Result<(Vec<i64>, Vec<i64>), String> {
    let of: fn(&DateTime) -> i64 = match part {
        "year" => |t| t.year,
        "month" => |t| t.month.into(),
        "day" => |t| t.day.into(),
        "dayofyear" => |t| t.dayofyear.into(),
        "season" => |t| i64::from(t.month % 12 / 3),
        "hour" => |t| t.hour.into(),
        "date" => |t| t.year * 10000 + i64::from(t.month) * 100 + i64::from(t.day),
        _ => return Err(format!("'{part}' is not a part of a date; known are {}", PARTS.join(", "))),
    };
    let values: Vec<i64> = times.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect();
    let label = |t| values.binary_search(&of(t)).map_or(-1, |i| i as i64);
    Ok((times.iter().map(label).collect(), values))
}
