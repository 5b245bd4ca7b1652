//! Which machine this is.

use std::sync::OnceLock;

/// Where process ids mean something: the name of this machine, this start of it, and the namespace of its process ids. On a filesystem that many
/// nodes share, or many containers whose processes are all number 1, an id alone says little.
pub fn machine() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let space = std::fs::read_link("/proc/self/ns/pid").map(|p| p.display().to_string()).unwrap_or_default();
        format!("{} {} {space}", read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"))
    })
}

/// The name of this machine, for messages.
pub(crate) fn in_words() -> String {
    match machine().split(' ').next() {
        None | Some("") => "this machine".into(),
        Some(name) => format!("the machine '{name}'"),
    }
}
