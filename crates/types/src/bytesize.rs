//! Sizes in bytes as people write them: `500MB`, `2GiB`.

/// A number of bytes that parses and prints with units. `kB`, `MB`, `GB`, `TB` are powers of 1000; `KiB` and so on of 1024.
///
/// ```
/// use chunkwise_types::ByteSize;
/// assert_eq!("1.5 GB".parse(), Ok(ByteSize(1_500_000_000)));
/// assert_eq!(ByteSize(2_000_000).to_string(), "2.0 MB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size; write a number with a unit, such as 500MB or 2GiB")]
pub struct ByteSizeError(pub String);

impl std::str::FromStr for ByteSize {
    type Err = ByteSizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let err = || ByteSizeError(text.to_string());
        let t = text.trim();
        let split = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
        let number: f64 = t[..split].parse().map_err(|_| err())?;
        let scale = match t[split..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1e3,
            "m" | "mb" => 1e6,
            "g" | "gb" => 1e9,
            "t" | "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1048576.0,
            "gib" => 1073741824.0,
            "tib" => 1099511627776.0,
            _ => return Err(err()),
        };
        let bytes = number * scale;
        if bytes.is_finite() && bytes < 9e18 { Ok(ByteSize(bytes as u64)) } else { Err(err()) }
    }
}

impl std::fmt::Display for ByteSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v = self.0 as f64;
        for (scale, unit) in [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")] {
            if v >= scale {
                return write!(f, "{:.1} {unit}", v / scale);
            }
        }
        write!(f, "{} B", self.0)
    }
}
