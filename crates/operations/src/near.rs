//! "Did you mean": the name that is most like a word.

/// The candidate nearest to `name`, if one is near enough to be what was meant.
///
/// ```
/// assert_eq!(chunkwise_ops::suggest("meen", ["mean", "sum"]), Some("mean".to_string()));
/// assert_eq!(chunkwise_ops::suggest("zzz", ["mean", "sum"]), None);
/// ```
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    if length > 64 {
        return None;
    }
    let limit = (length / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| *c != name && c.len() <= 256 && c.chars().count().abs_diff(length) <= limit)
        .map(|c| (distance(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count().max(length).max(1))
        .min()
        .map(|(_, c)| c.to_string())
}

/// Edit distance in which exchanging two neighbours counts once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut d = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(before[j - 2] + 1);
            }
            row.push(d);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
