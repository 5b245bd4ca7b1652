//! A block: the elements of one region of an array, in memory.
//!
//! Blocks share their buffer (`ArcArray`), so that slicing, transposing and broadcasting are views and copy nothing.

use crate::KernelError;
use bytes::Bytes;
use chunkwise_types::{DType, Region, Scalar};
use ndarray::{ArcArray, IxDyn, SliceInfoElem};
use num_complex::{Complex32, Complex64};

/// A dtype-tagged N-dimensional array.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Block {
    Bool(ArcArray<bool, IxDyn>),
    Int8(ArcArray<i8, IxDyn>),
    Int16(ArcArray<i16, IxDyn>),
    Int32(ArcArray<i32, IxDyn>),
    Int64(ArcArray<i64, IxDyn>),
    UInt8(ArcArray<u8, IxDyn>),
    UInt16(ArcArray<u16, IxDyn>),
    UInt32(ArcArray<u32, IxDyn>),
    UInt64(ArcArray<u64, IxDyn>),
    Float32(ArcArray<f32, IxDyn>),
    Float64(ArcArray<f64, IxDyn>),
    Complex64(ArcArray<Complex32, IxDyn>),
    Complex128(ArcArray<Complex64, IxDyn>),
}

/// A Rust type that is the element of a block.
pub trait BlockElement: Copy + Send + Sync + PartialEq + std::fmt::Debug + Default + 'static {
    /// Its dtype.
    const DTYPE: DType;
    /// Wraps an array.
    fn wrap(array: ArcArray<Self, IxDyn>) -> Block;
    /// Unwraps a block of this dtype; `None` for another dtype.
    fn unwrap(block: &Block) -> Option<&ArcArray<Self, IxDyn>>;
    /// Unwraps for good.
    fn unwrap_owned(block: Block) -> Option<ArcArray<Self, IxDyn>>;
    /// Unwraps for writing.
    fn unwrap_mut(block: &mut Block) -> Option<&mut ArcArray<Self, IxDyn>>;
}

macro_rules! elements {
    ($($t:ty, $v:ident);* $(;)?) => {$(
        impl BlockElement for $t {
            const DTYPE: DType = DType::$v;
            fn wrap(array: ArcArray<Self, IxDyn>) -> Block { Block::$v(array) }
            fn unwrap(block: &Block) -> Option<&ArcArray<Self, IxDyn>> { match block { Block::$v(a) => Some(a), _ => None } }
            fn unwrap_owned(block: Block) -> Option<ArcArray<Self, IxDyn>> { match block { Block::$v(a) => Some(a), _ => None } }
            fn unwrap_mut(block: &mut Block) -> Option<&mut ArcArray<Self, IxDyn>> { match block { Block::$v(a) => Some(a), _ => None } }
        }
    )*};
}
elements! { bool, Bool; i8, Int8; i16, Int16; i32, Int32; i64, Int64; u8, UInt8; u16, UInt16; u32, UInt32; u64, UInt64;
f32, Float32; f64, Float64; Complex32, Complex64; Complex64, Complex128 }

/// Runs `$body` with `$a` bound to the typed array of a block and `$T` to its element type.
#[macro_export]
macro_rules! with_block {
    ($block:expr, $a:ident => $body:expr) => {
        match $block {
            $crate::Block::Bool($a) => $body,
            $crate::Block::Int8($a) => $body,
            $crate::Block::Int16($a) => $body,
            $crate::Block::Int32($a) => $body,
            $crate::Block::Int64($a) => $body,
            $crate::Block::UInt8($a) => $body,
            $crate::Block::UInt16($a) => $body,
            $crate::Block::UInt32($a) => $body,
            $crate::Block::UInt64($a) => $body,
            $crate::Block::Float32($a) => $body,
            $crate::Block::Float64($a) => $body,
            $crate::Block::Complex64($a) => $body,
            $crate::Block::Complex128($a) => $body,
        }
    };
}

/// Runs `$body` with `$T` bound to the element type of a dtype.
#[macro_export]
macro_rules! with_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            chunkwise_types::DType::Bool => {
                type $T = bool;
                $body
            }
            chunkwise_types::DType::Int8 => {
                type $T = i8;
                $body
            }
            chunkwise_types::DType::Int16 => {
                type $T = i16;
                $body
            }
            chunkwise_types::DType::Int32 => {
                type $T = i32;
                $body
            }
            chunkwise_types::DType::Int64 => {
                type $T = i64;
                $body
            }
            chunkwise_types::DType::UInt8 => {
                type $T = u8;
                $body
            }
            chunkwise_types::DType::UInt16 => {
                type $T = u16;
                $body
            }
            chunkwise_types::DType::UInt32 => {
                type $T = u32;
                $body
            }
            chunkwise_types::DType::UInt64 => {
                type $T = u64;
                $body
            }
            chunkwise_types::DType::Float32 => {
                type $T = f32;
                $body
            }
            chunkwise_types::DType::Float64 => {
                type $T = f64;
                $body
            }
            chunkwise_types::DType::Complex64 => {
                type $T = num_complex::Complex32;
                $body
            }
            chunkwise_types::DType::Complex128 => {
                type $T = num_complex::Complex64;
                $body
            }
            _ => unreachable!("every dtype has a block"),
        }
    };
}

/// `shape` as ndarray wants it.
pub(crate) fn dims(shape: &[u64]) -> IxDyn {
    IxDyn(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

pub(crate) fn slice_of(region: &Region) -> Vec<SliceInfoElem> {
    (0..region.rank())
        .map(|i| SliceInfoElem::Slice { start: region.start[i] as isize, end: Some(region.end(i) as isize), step: 1 })
        .collect()
}

/// A type that takes the value of a scalar.
pub(crate) trait FromScalar: BlockElement {
    fn from_scalar(value: Scalar) -> Self;
}

macro_rules! from_scalar {
    ($($t:ty: |$v:ident| $e:expr;)*) => {$(
        impl FromScalar for $t { fn from_scalar($v: Scalar) -> Self { $e } }
    )*};
}
from_scalar! {
    bool: |v| v.as_bool();
    i8: |v| v.as_i128() as i8; i16: |v| v.as_i128() as i16; i32: |v| v.as_i128() as i32; i64: |v| v.as_i128() as i64;
    u8: |v| v.as_i128() as u8; u16: |v| v.as_i128() as u16; u32: |v| v.as_i128() as u32; u64: |v| v.as_i128() as u64;
    f32: |v| v.as_f64() as f32; f64: |v| v.as_f64();
    Complex32: |v| { let z = v.as_complex(); Complex32::new(z.re as f32, z.im as f32) };
    Complex64: |v| v.as_complex();
}

/// A contiguous block from the elements in C order, moved and not copied.
pub(crate) fn build<T: BlockElement>(shape: &[usize], data: Vec<T>) -> Result<Block, KernelError> {
    let array = ArcArray::from_shape_vec(IxDyn(shape), data).map_err(|e| KernelError::Invalid(e.to_string()))?;
    Ok(T::wrap(array))
}

impl Block {
    /// A block of zeros.
    pub fn zeros(dtype: DType, shape: &[u64]) -> Block {
        with_dtype!(dtype, T => T::wrap(ArcArray::from_elem(dims(shape), T::default())))
    }

    /// A block with the same value everywhere, converted to the dtype.
    pub fn splat(value: Scalar, dtype: DType, shape: &[u64]) -> Block {
        with_dtype!(dtype, T => T::wrap(ArcArray::from_elem(dims(shape), T::from_scalar(value))))
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        fn of<T: BlockElement>(_: &ArcArray<T, IxDyn>) -> DType {
            T::DTYPE
        }
        with_block!(self, a => of(a))
    }

    /// The shape.
    pub fn shape(&self) -> Vec<u64> {
        with_block!(self, a => a.shape().iter().map(|&n| n as u64).collect())
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> u64 {
        chunkwise_types::volume(&self.shape()).saturating_mul(self.dtype().size())
    }

    /// A view of a region, counted from this block's own first element.
    pub fn slice(&self, region: &Region) -> Block {
        fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>, s: &[SliceInfoElem]) -> Block {
            let mut v = a.clone();
            v.slice_collapse(s);
            T::wrap(v)
        }
        if region.shape[..] == self.shape()[..] {
            return self.clone();
        }
        let s = slice_of(region);
        with_block!(self, a => go(a, &s))
    }

    /// Copies `part` into the region of this block that starts at `start`.
    ///
    /// Both must have the same dtype; the parts of other dtypes are ignored (a bug that debug builds catch).
    pub fn assign(&mut self, region: &Region, part: &Block) {
        fn go<T: BlockElement>(a: &mut ArcArray<T, IxDyn>, s: &[SliceInfoElem], part: &Block) {
            let Some(p) = T::unwrap(part) else {
                debug_assert!(false, "assign {} into {}", part.dtype(), T::DTYPE);
                return;
            };
            a.slice_mut(s).assign(p);
        }
        let s = slice_of(region);
        with_block!(self, a => go(a, &s, part));
    }

    /// The block in C order and contiguous; itself if it already is.
    pub fn contiguous(&self) -> Block {
        fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>) -> Block {
            if a.is_standard_layout() { T::wrap(a.clone()) } else { T::wrap(a.as_standard_layout().to_owned().into_shared()) }
        }
        with_block!(self, a => go(a))
    }

    /// The same elements in C order under another shape; `None` unless the block is contiguous and of the same volume.
    pub fn reshaped(&self, shape: &[u64]) -> Option<Block> {
        fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>, shape: &[u64]) -> Option<Block> {
            if !a.is_standard_layout() {
                return None;
            }
            a.clone().into_shape_with_order(dims(shape)).ok().map(T::wrap)
        }
        with_block!(self, a => go(a, shape))
    }

    /// The bytes of the elements in C order, native endian; `None` if the block is not contiguous (see [`Block::contiguous`]).
    pub fn as_bytes(&self) -> Option<&[u8]> {
        fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>) -> Option<&[u8]> {
            let s = a.as_slice()?;
            // SAFETY: the elements are plain numbers (or bool) without padding, and the slice's lifetime is kept.
            Some(unsafe { std::slice::from_raw_parts(s.as_ptr().cast::<u8>(), std::mem::size_of_val(s)) })
        }
        with_block!(self, a => go(a))
    }

    /// The same elements, if their buffer has no other user, and then in one that holds nothing else; otherwise the block comes back as the error.
    ///
    /// # Errors
    /// The block, where it is not contiguous or others have views of its buffer.
    ///
    /// ```
    /// use chunkwise_kernels::Block;
    /// use chunkwise_types::{DType, Region};
    /// let block = Block::zeros(DType::Int16, &[4, 3]);
    /// let view = block.slice(&Region::new(&[1, 0], &[2, 3]));
    /// // The block and the view share a buffer, until one of them is gone.
    /// let view = view.sole().expect_err("the block is still there");
    /// drop(block);
    /// assert_eq!(view.sole().expect("the last one").bytes(), 12);
    /// ```
    pub fn sole(self) -> Result<Block, Block> {
        fn go<T: BlockElement>(a: ArcArray<T, IxDyn>) -> Result<Block, Block> {
            if !a.is_standard_layout() {
                return Err(T::wrap(a));
            }
            let (shape, n): (Vec<u64>, usize) = (a.shape().iter().map(|&n| n as u64).collect(), a.len());
            let (data, offset) = a.try_into_owned_nocopy().map_err(T::wrap)?.into_raw_vec_and_offset();
            let from = offset.unwrap_or(0);
            let data = if data.len() == n { data } else { data[from..from + n].to_vec() };
            Ok(T::wrap(from_vec(&shape, data)))
        }
        with_block!(self, a => go(a))
    }

    /// The bytes of [`Block::as_bytes`], which keep the buffer of the block; nothing is copied.
    ///
    /// ```
    /// use chunkwise_kernels::Block;
    /// use chunkwise_types::DType;
    /// let block = Block::zeros(DType::Int16, &[2, 3]);
    /// let bytes = block.shared_bytes().expect("it is contiguous");
    /// assert_eq!(block.as_bytes().map(<[u8]>::as_ptr), Some(bytes.as_ptr()));
    /// ```
    pub fn shared_bytes(&self) -> Option<Bytes> {
        struct Held(Block);
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                self.0.as_bytes().unwrap_or_default()
            }
        }
        self.as_bytes()?;
        Some(Bytes::from_owner(Held(self.clone())))
    }

    /// A contiguous block whose bytes `fill` writes; nothing is copied afterwards.
    ///
    /// For bool blocks, every byte other than 0 counts as true.
    pub fn from_bytes_with<E>(dtype: DType, shape: &[u64], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Block, E> {
        Block::refilled(None, dtype, shape, fill)
    }

    /// As [`Block::from_bytes_with`], in the buffer of a block of about that size that is not used any more: what it holds need not be
    /// cleared first, so `fill` must write every byte.
    pub fn refilled<E>(old: Option<Block>, dtype: DType, shape: &[u64], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Block, E> {
        if dtype == DType::Bool {
            let mut bytes = vec![0u8; chunkwise_types::volume(shape) as usize];
            fill(&mut bytes)?;
            let flags: Vec<bool> = bytes.into_iter().map(|b| b != 0).collect();
            return Ok(Block::Bool(from_vec(shape, flags)));
        }
        fn go<T: BlockElement, E>(old: Option<Block>, shape: &[u64], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Block, E> {
            let n = chunkwise_types::volume(shape) as usize;
            let data = old.and_then(buffer::<T>).filter(|v| v.capacity() >= n && v.capacity() <= n + n / 8);
            // A new buffer is made of zeros: pages of the system are zeros already.
            let mut data = data.unwrap_or_else(|| vec![T::default(); n]);
            data.resize(n, T::default());
            let len = std::mem::size_of_val(data.as_slice());
            // SAFETY: every bit pattern is a valid number, and bool was handled above.
            let bytes = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), len) };
            fill(bytes)?;
            Ok(T::wrap(from_vec(shape, data)))
        }
        with_dtype!(dtype, T => go::<T, E>(old, shape, fill))
    }
}

/// The buffer of a block that has no other user.
fn buffer<T: BlockElement>(block: Block) -> Option<Vec<T>> {
    let owned = T::unwrap_owned(block)?.try_into_owned_nocopy().ok()?;
    let (data, offset) = owned.into_raw_vec_and_offset();
    offset.is_none_or(|o| o == 0).then_some(data)
}

/// A contiguous array from a vector of exactly `shape`'s volume.
pub(crate) fn from_vec<T: BlockElement>(shape: &[u64], data: Vec<T>) -> ArcArray<T, IxDyn> {
    let want = dims(shape);
    debug_assert_eq!(data.len() as u64, chunkwise_types::volume(shape));
    ArcArray::from_shape_vec(want.clone(), data).unwrap_or_else(|_| ArcArray::from_elem(want, T::default()))
}
