//! Results that Python reads where they are.

use chunkwise::kernels::Block;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};

/// Bytes that belong to the engine. NumPy takes them without a copy, by the buffer protocol.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
pub struct Buffer {
    bytes: *mut [u64],
    len: usize,
}

// SAFETY: the memory is owned by this object alone, and what reads or writes it through the buffer protocol keeps to the rules of Python.
unsafe impl Send for Buffer {}
// SAFETY: as above; Rust itself does not touch the bytes after the object is made.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes, aligned for every dtype, that `fill` writes.
    pub fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Buffer, E> {
        let mut words = vec![0u64; len.div_ceil(8).max(1)].into_boxed_slice();
        // SAFETY: any bytes are valid words, and `len` of them are inside the slice.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), len) };
        fill(bytes)?;
        Ok(Buffer { bytes: Box::into_raw(words), len })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `Box::into_raw` and is freed once: views keep the object alive.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (bytes, len) = (slf.get().bytes, slf.get().len as ffi::Py_ssize_t);
        // SAFETY: Python gives a valid view; the bytes live as long as the object, of which the view holds a reference.
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.cast::<c_void>(), len, 0, flags) };
        if failed == 0 { Ok(()) } else { Err(PyBufferError::new_err("the buffer cannot be given in this form")) }
    }
}

/// A block of the engine that Python reads where it is.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
pub struct View(Block);

impl View {
    /// The elements in C order; they are copied only if they lie in another order.
    pub fn of(block: &Block) -> View {
        View(block.contiguous())
    }
}

#[pymethods]
impl View {
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.0.shape()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().0.as_bytes().ok_or_else(|| PyBufferError::new_err("the block is not contiguous"))?;
        let (at, len) = (bytes.as_ptr().cast_mut().cast::<c_void>(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: Python gives a valid view. The block lives as long as the object, of which the view holds a reference, and it is read-only.
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at, len, 1, flags) };
        if failed == 0 { Ok(()) } else { Err(PyBufferError::new_err("the block can only be read")) }
    }
}
