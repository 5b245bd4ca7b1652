//! Index notation for sums of products (NumPy's `einsum`).
//!
//! Every axis carries a label. Labels that the output does not have are summed over as soon as no other operand has them. Two operands are
//! contracted at a time, those first that leave the smallest result. A pair that sums nothing is a broadcast product, and a pair whose labels are
//! all shared is a sum of such a product; only the others are matrix products.

use crate::align::agree;
use crate::coords::{Coord, Coords, Labels, merge};
use crate::elementwise::{astype, elementwise};
use crate::linalg::contract;
use crate::manipulate::{expand_dims, permute_dims, squeeze};
use crate::reduce::reduce;
use crate::{Array, OpError, create};
use chunkwise_kernels::{ElementOp, ReduceOp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels from here on are the axes that `...` stands for, counted from the last one.
const ELLIPSIS: u32 = 1 << 24;

fn bad<T>(problem: impl Into<String>) -> Result<T, OpError> {
    Err(OpError::new("einsum", problem))
}

/// An operand, a label for each of its axes.
struct Term {
    array: Array,
    labels: Vec<u32>,
}

/// The subscripts of one operand or of the output, in which `...` stands for `more` axes.
fn parse(text: &str, more: usize) -> Result<Vec<u32>, OpError> {
    let mut out = Vec::new();
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let letters = |part: &str, out: &mut Vec<u32>| match part.chars().find(|c| !c.is_ascii_alphabetic()) {
        Some(c) => {
            bad(format!("'{}' in '{text}' is no label; labels are letters, and '...' may stand once for further axes", c.escape_debug()))
        }
        None => {
            out.extend(part.chars().map(u32::from));
            Ok(())
        }
    };
    letters(before, &mut out)?;
    if let Some(after) = after {
        out.extend((0..more as u32).rev().map(|k| ELLIPSIS + k));
        letters(after, &mut out)?;
    }
    Ok(out)
}

fn name(label: u32) -> String {
    char::from_u32(label).filter(char::is_ascii_alphabetic).map_or_else(|| "...".into(), |c| c.to_string())
}

/// The labels of the operands and of the output.
fn labels(subscripts: &str, ranks: &[usize]) -> Result<(Vec<Vec<u32>>, Vec<u32>), OpError> {
    let text: String = subscripts.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = text.split_once("->").map_or((text.as_str(), None), |(l, r)| (l, Some(r)));
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != ranks.len() {
        return bad(format!("'{subscripts}' is about {} arrays, but {} are given", parts.len(), ranks.len()));
    }
    let mut inputs = Vec::new();
    for (i, (part, &rank)) in parts.iter().zip(ranks).enumerate() {
        let named = part.chars().filter(char::is_ascii_alphabetic).count();
        let open = part.contains("...");
        if named > rank || (!open && named != rank) {
            return bad(format!("'{part}' has {named} labels, but array {} has {rank} axes", i + 1));
        }
        inputs.push(parse(part, rank - named)?);
    }
    let all: Vec<u32> = inputs.concat();
    let more = all.iter().filter(|&&l| l >= ELLIPSIS).map(|&l| (l - ELLIPSIS) as usize + 1).max().unwrap_or(0);
    let out = match right {
        Some(text) => parse(text, more)?,
        None => {
            let mut once: Vec<u32> =
                all.iter().copied().filter(|&l| l < ELLIPSIS && all.iter().filter(|&&m| m == l).count() == 1).collect();
            once.sort_unstable();
            (0..more as u32).rev().map(|k| ELLIPSIS + k).chain(once).collect()
        }
    };
    for (i, l) in out.iter().enumerate() {
        if out[..i].contains(l) {
            return bad(format!("the label '{}' occurs twice in the output", name(*l)));
        }
        if !all.contains(l) {
            return bad(format!("the output has the label '{}', which no array has", name(*l)));
        }
    }
    if let Some(l) = all.iter().find(|&l| *l >= ELLIPSIS && !out.contains(l)) {
        return bad(format!("an array has axes '{}', so the output must have them too", name(*l)));
    }
    Ok((inputs, out))
}

impl Term {
    fn shape_of(&self, label: u32) -> Option<u64> {
        self.labels.iter().position(|&l| l == label).map(|i| self.array.shape()[i])
    }

    /// Axes with the same label made one: their diagonal.
    fn diagonal(mut self) -> Result<Term, OpError> {
        while let Some((i, j)) =
            (0..self.labels.len()).find_map(|j| self.labels[..j].iter().position(|&l| l == self.labels[j]).map(|i| (i, j)))
        {
            let (x, n) = (&self.array, self.array.shape()[i]);
            if x.shape()[j] != n {
                return bad(format!("the axes '{}' of one array have the lengths {n} and {}", name(self.labels[j]), x.shape()[j]));
            }
            let lengths = [x.chunks().0[i].max().max(1), x.chunks().0[j].max().max(1)];
            let mut eye = create::eye(n, n, 0, chunkwise_types::DType::Bool, Some(&lengths))?;
            for axis in (0..x.rank()).filter(|&k| k != i && k != j) {
                eye = expand_dims(&eye, axis)?;
            }
            let dtype = x.dtype();
            let kept = elementwise(ElementOp::Where, &[(&eye).into(), x.into(), crate::index::zero(x).into()])?;
            self.array = astype(&reduce(&kept, ReduceOp::Sum, Some(&[j]), false)?, dtype)?;
            self.labels.remove(j);
        }
        Ok(self)
    }

    /// The axes in the order of `labels`; a label that the term does not have becomes an axis of length 1.
    fn aligned(&self, labels: &[u32]) -> Result<Array, OpError> {
        let order: Vec<usize> = labels.iter().filter_map(|l| self.labels.iter().position(|m| m == l)).collect();
        let mut out = if order.iter().copied().eq(0..order.len()) { self.array.clone() } else { permute_dims(&self.array, &order)? };
        for (axis, l) in labels.iter().enumerate() {
            if !self.labels.contains(l) {
                out = expand_dims(&out, axis)?;
            }
        }
        Ok(out)
    }

    /// All labels summed over that are not among `keep`.
    fn summed(self, keep: &[u32]) -> Result<Term, OpError> {
        let axes: Vec<usize> = (0..self.labels.len()).filter(|&i| !keep.contains(&self.labels[i])).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let sum = reduce(&self.array, ReduceOp::Sum, Some(&axes), false)?;
        let array = astype(&sum, self.array.dtype())?;
        Ok(Term { array, labels: self.labels.into_iter().filter(|l| keep.contains(l)).collect() })
    }
}

/// The labels of both terms, and those of them that remain if `needed` is needed.
fn joined(a: &Term, b: &Term, needed: &dyn Fn(u32) -> bool) -> (Vec<u32>, Vec<u32>) {
    let mut all = a.labels.clone();
    all.extend(b.labels.iter().copied().filter(|l| !a.labels.contains(l)));
    let kept = all.iter().copied().filter(|&l| needed(l)).collect();
    (all, kept)
}

fn product(a: &Term, b: &Term, all: &[u32], kept: Vec<u32>) -> Result<Term, OpError> {
    let alone = |l: &u32| !(a.labels.contains(l) && b.labels.contains(l));
    // Rows or columns with something to sum over: a matrix product.
    if all.len() > kept.len() && all.iter().any(alone) {
        let array = contract(&a.array, &b.array, &a.labels, &b.labels, &kept, "einsum")?;
        return Ok(Term { array, labels: kept });
    }
    let array = elementwise(ElementOp::Multiply, &[(&a.aligned(all)?).into(), (&b.aligned(all)?).into()])?;
    Term { array, labels: all.to_vec() }.summed(&kept)
}

/// The coordinates of the axes that are left. Axes of one label must have the same.
fn labelled(operands: &[Array], inputs: &[Vec<u32>], out: &[u32], dims: &[Option<String>]) -> Result<Coords, OpError> {
    let mut known: BTreeMap<u32, Arc<Coord>> = BTreeMap::new();
    let mut lists: Vec<Coords> = Vec::new();
    for (array, labels) in operands.iter().zip(inputs) {
        for (i, l) in labels.iter().enumerate() {
            let index = array.dims()[i].as_deref().and_then(|d| array.index_of(d)).filter(|c| c.labels != Labels::Lost && c.len() != 1);
            let Some(c) = index else { continue };
            let first = known.entry(*l).or_insert_with(|| c.clone());
            if first.name == c.name {
                agree("einsum", first, c)?;
            }
        }
        let stays = |d: &String| {
            let here = |(i, l): (usize, &u32)| {
                array.dims()[i].as_ref() == Some(d) && out.iter().zip(dims).any(|(o, n)| o == l && n.as_ref() == Some(d))
            };
            labels.iter().enumerate().any(here)
        };
        lists.push(array.coords().iter().filter(|c| c.own_dims().iter().all(stays)).cloned().collect());
    }
    Ok(merge(&lists))
}

/// Sums of products in index notation, as `numpy.einsum`.
///
/// `subscripts` are the labels of every operand's axes, separated by commas, and after `->` those of the output; without `->` the
/// output has the labels that occur once, in alphabetical order. `...` stands for the axes that have no label, which broadcast. A
/// label that occurs twice on one operand takes its diagonal. An axis of length 1 broadcasts.
///
/// The dtype is the one in which the operands meet; sums have it too, so sums of small integers wrap.
///
/// ```
/// use chunkwise_ops::{create, einsum::einsum};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[4, 5], Scalar::Int(1), DType::Float64, None)?;
/// assert_eq!(einsum("ij,kj->ik", &[x.clone(), x.clone()])?.shape(), [4, 4]);
/// assert_eq!(einsum("ij->j", &[x])?.shape(), [5]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If the subscripts cannot be read or do not fit the operands, or if axes with the same label have different lengths.
pub fn einsum(subscripts: &str, operands: &[Array]) -> Result<Array, OpError> {
    let ranks: Vec<usize> = operands.iter().map(Array::rank).collect();
    let (inputs, out) = labels(subscripts, &ranks)?;
    let dtype = operands.iter().skip(1).try_fold(operands[0].dtype(), |d, a| d.promote(a.dtype()));
    let Some(dtype) = dtype else { return bad("the dtypes do not promote") };

    let (mut lengths, mut names): (BTreeMap<u32, u64>, BTreeMap<u32, String>) = Default::default();
    let mut terms = Vec::new();
    for (array, labels) in operands.iter().zip(inputs.clone()) {
        for (i, &l) in labels.iter().enumerate() {
            let n = array.shape()[i];
            let known = lengths.entry(l).or_insert(n);
            if *known == 1 {
                *known = n;
            } else if n != 1 && n != *known {
                return bad(format!("the axes '{}' have the lengths {} and {n}", name(l), *known));
            }
            if let Some(dim) = &array.dims()[i] {
                names.entry(l).or_insert_with(|| dim.clone());
            }
        }
        // Labels say which axes belong together, whatever their names.
        let plain = astype(array, dtype)?.with_dims(vec![None; array.rank()]);
        terms.push(Term { array: plain, labels }.diagonal()?);
    }
    for term in &mut terms {
        for axis in (0..term.labels.len()).rev() {
            if term.array.shape()[axis] == 1 && lengths[&term.labels[axis]] != 1 {
                term.array = squeeze(&term.array, axis)?;
                term.labels.remove(axis);
            }
        }
    }
    while terms.len() > 1 {
        let volume = |labels: &[u32]| labels.iter().map(|l| lengths[l]).fold(1u64, u64::saturating_mul);
        let mut best: Option<((u64, u64), usize, usize)> = None;
        for j in 1..terms.len() {
            for i in 0..j {
                let others =
                    |l: u32| out.contains(&l) || terms.iter().enumerate().any(|(k, t)| k != i && k != j && t.shape_of(l).is_some());
                let (all, kept) = joined(&terms[i], &terms[j], &others);
                let cost = (volume(&kept), volume(&all));
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, i, j));
                }
            }
        }
        let Some((_, i, j)) = best else { break };
        let (b, a) = (terms.remove(j), terms.remove(i));
        let (all, kept) = joined(&a, &b, &|l| out.contains(&l) || terms.iter().any(|t| t.shape_of(l).is_some()));
        terms.push(product(&a, &b, &all, kept)?);
    }
    let Some(last) = terms.pop() else { return bad("at least one array is needed") };
    let last = last.summed(&out)?;
    let array = last.aligned(&out)?;
    let mut dims: Vec<Option<String>> = Vec::new();
    for l in &out {
        let dim = names.get(l).cloned();
        dims.push(dim.filter(|d| !dims.iter().flatten().any(|x| x == d)));
    }
    let array = array.with_dims(dims.clone());
    let coords = labelled(operands, &inputs, &out, &dims)?;
    Ok(if coords.is_empty() { array } else { array.with_coords(coords) })
}
