//! What encoding with zstd takes.

/// Bytes that a compressor of zstd keeps for itself: its tables, which grow with the level, but not beyond what the chunk is worth. Up to level
/// 3 they are in the allowance.
///
/// The tables are those of the levels of zstd 1.5 (`clevels.h`): logarithms of the lengths of the chain and of the hash table.
pub(crate) fn encoding(level: i64, chunk: u64) -> u64 {
    const TABLES: [(u32, u32); 19] = [
        (18, 18),
        (18, 19),
        (18, 19),
        (19, 20),
        (19, 20),
        (20, 21),
        (21, 22),
        (21, 22),
        (22, 23),
        (22, 22),
        (22, 23),
        (23, 23),
        (22, 22),
        (23, 22),
        (23, 22),
        (24, 22),
        (25, 23),
        (26, 24),
        (27, 25),
    ];
    /// The sequences of a block, its literals, and the tables of entropy and of optimal parsing.
    const BESIDE: u64 = 4 << 20;
    let Some(index) = level.checked_sub(4).and_then(|n| usize::try_from(n).ok()) else { return 0 };
    let (chain, hash) = TABLES[index.min(TABLES.len() - 1)];
    let most = chunk.max(1).next_power_of_two().ilog2() + 1;
    // Some levels keep a byte or two more for each entry of the hash table.
    (4u64 << chain.min(most)) + (6u64 << hash.min(most)) + BESIDE
}
