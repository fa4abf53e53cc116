//! Calls of the driver: all of this crate's `unsafe` code.
//!
//! The kernels only read the bytes that they hash and only write to a buffer that is allocated here. They run on the
//! GPU, and its memory management checks all accesses: one to memory that has been freed, or that another process
//! owns, ends with an error of the driver. It can't reach memory of this process that is not registered with the driver.
//! So a wrong address can cause an error or a wrong value here, and no undefined behaviour.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use xylem_hash::CHUNK_LEN;
use xylem_hash::tree::ChainingValue;

use crate::{GpuError, GpuLevel, GpuPending, REGION_LEN, REGION_SEGMENTS, SEGMENT_LEN, values_in};

/// The kernel, for the driver's compiler.
const KERNEL: &str = include_str!("blake3.ptx");
/// Threads of a block of a kernel, and chunks that it hashes (`BLOCK` in blake3.cu).
const BLOCK: u64 = 256;
/// Bytes of one value.
const VALUE_LEN: u64 = 32;
/// Most bytes that are hashed before values are copied: a buffer for the values of their segments takes 16 MiB. Smaller
/// batches are slower: the GPU is not filled at the end of each.
const BATCH: u64 = 4 << 30;

fn driver(task: &'static str) -> impl FnOnce(DriverError) -> GpuError {
    move |why| match why.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => GpuError::NoDevice,
        _ => {
            let text = |text: Result<&CStr, DriverError>| {
                text.map_or_else(|_| "?".into(), CStr::to_string_lossy).into_owned()
            };
            let reason = format!("{} ({})", text(why.error_string()), text(why.error_name()));
            GpuError::Driver { task, reason }
        }
    }
}

/// Loads and starts the driver.
fn start() -> Result<(), GpuError> {
    static LOOKED: Once = Once::new();
    static FOUND: AtomicBool = AtomicBool::new(false);
    LOOKED.call_once(|| {
        // SAFETY: this loads the driver's library. Its initialisers may run at any time and on any thread.
        FOUND.store(unsafe { sys::is_culib_present() }, Ordering::Release);
    });
    // cudarc's functions panic without the library.
    if !FOUND.load(Ordering::Acquire) {
        return Err(GpuError::NoDriver);
    }
    result::init().map_err(driver("start"))
}

/// A device's primary context, which PyTorch, CuPy and others use too. It is the current one of the thread that made
/// this.
struct GpuContext(sys::CUdevice);

impl GpuContext {
    fn of(ordinal: c_int) -> Result<Self, GpuError> {
        let device = result::device::get(ordinal).map_err(driver("open the GPU"))?;
        // SAFETY: the driver has returned the device.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(driver("open a context"))?;
        let this = Self(device);
        // SAFETY: it is retained until `this` is dropped.
        unsafe { result::ctx::set_current(context) }.map_err(driver("use a context"))?;
        Ok(this)
    }
}

impl Drop for GpuContext {
    fn drop(&mut self) {
        // SAFETY: it was retained once for this value, and everything made in it is dropped before. An error leaves it
        // open.
        let _ = unsafe { result::primary_ctx::release(self.0) };
    }
}

/// A stream of our own.
struct GpuStream(sys::CUstream);

impl GpuStream {
    fn new() -> Result<Self, GpuError> {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        stream.map(Self).map_err(driver("open a stream"))
    }

    fn wait(&self) -> Result<(), GpuError> {
        // SAFETY: the stream is open.
        unsafe { result::stream::synchronize(self.0) }.map_err(driver("hash"))
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        // SAFETY: it is open, and not used again. Work on it ends before its memory is freed: see `GpuBytes`.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// Memory of the GPU that was allocated here.
struct GpuMemory(sys::CUdeviceptr);

impl GpuMemory {
    fn new(len: u64) -> Result<Self, GpuError> {
        // SAFETY: a context is current. The length is not 0. The bytes are written before they are read.
        let memory = unsafe { result::malloc_sync(len.max(1) as usize) };
        memory.map(Self).map_err(driver("allocate memory"))
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `malloc_sync`. The driver waits for work that uses it.
        let _ = unsafe { result::free_sync(self.0) };
    }
}

/// The compiled kernels.
struct GpuKernels {
    module: sys::CUmodule,
    aligned: sys::CUfunction,
    unaligned: sys::CUfunction,
    regions: sys::CUfunction,
}

impl GpuKernels {
    fn load() -> Result<Self, GpuError> {
        let text = CString::new(KERNEL).expect("PTX is text");
        // SAFETY: a context is current, and the text ends with a zero.
        let module = unsafe { result::module::load_data(text.as_ptr().cast()) };
        let module = module.map_err(driver("compile the kernel"))?;
        let null = std::ptr::null_mut();
        let mut this = Self { module, aligned: null, unaligned: null, regions: null };
        let find = |name: &CStr| {
            // SAFETY: the module is loaded.
            let function = unsafe { result::module::get_function(module, name.to_owned()) };
            function.map_err(driver("find the kernel"))
        };
        this.aligned = find(c"segments_aligned")?;
        this.unaligned = find(c"segments_unaligned")?;
        this.regions = find(c"regions")?;
        Ok(this)
    }
}

impl Drop for GpuKernels {
    fn drop(&mut self) {
        // SAFETY: the module is loaded, and its kernels have ended: see `GpuBytes`.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

/// Bytes in a GPU's memory, which are hashed there.
///
/// It belongs to the thread that made it. The device's primary context becomes that thread's current one. Each call
/// returns when the GPU has done its work. The caller keeps the memory allocated and unwritten until
/// then: else the values have no meaning.
pub struct GpuBytes {
    address: u64,
    len: u64,
    /// Dropped in this order. No call returns before its work has ended, unless the driver fails.
    on_device: Option<OnDevice>,
}

/// Everything that is open on the device.
struct OnDevice {
    /// Values of a batch's segments, and of its regions.
    segments: GpuMemory,
    regions: GpuMemory,
    kernels: GpuKernels,
    stream: GpuStream,
    _context: GpuContext,
}

impl std::fmt::Debug for GpuBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, len) = (self.address, self.len);
        f.debug_struct("GpuBytes").field("address", &address).field("len", &len).finish()
    }
}

/// An attribute of the allocation that an address lies in; `None` if the driver knows none.
fn attribute(address: u64, which: sys::CUpointer_attribute) -> Option<u64> {
    let mut value = 0_u64;
    // SAFETY: each attribute that is asked for here has 8 bytes or fewer, and `value` has 8. The driver only looks the
    // address up.
    let found = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), which, address) };
    found.result().ok().map(|()| value)
}

/// The device that all these bytes are on; `None` if there is none.
fn device_of(address: u64, len: u64) -> Option<c_int> {
    use sys::CUpointer_attribute as Attribute;
    let end = address.checked_add(len)?;
    let device = attribute(address, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?;
    let mut at = address;
    // Neighbouring ranges may have been mapped one by one, as PyTorch's expandable segments are.
    while at < end {
        let start = attribute(at, Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)?;
        let size = attribute(at, Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE)?;
        let of = attribute(at, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?;
        at = start.checked_add(size).filter(|next| *next > at && of == device)?;
    }
    c_int::try_from(device).ok()
}

impl GpuBytes {
    /// The `len` bytes at `address`, which the driver must know as memory of a GPU, allocated in this process by any
    /// library.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn new(address: u64, len: u64, pending: GpuPending) -> Result<Self, GpuError> {
        start()?;
        if len == 0 {
            return Ok(Self { address, len, on_device: None });
        }
        let device = device_of(address, len).ok_or(GpuError::NotThere { address, len })?;
        let context = GpuContext::of(device)?;
        if pending == GpuPending::Work {
            // A foreign stream's handle can't be checked, and a wrong one would crash the driver. So all streams are
            // waited for.
            result::ctx::synchronize().map_err(driver("wait for earlier work"))?;
        }
        let stream = GpuStream::new()?;
        let kernels = GpuKernels::load()?;
        let batch = len.min(BATCH);
        let segments = GpuMemory::new(batch / SEGMENT_LEN * VALUE_LEN)?;
        let regions = GpuMemory::new(batch / REGION_LEN * VALUE_LEN)?;
        let on_device = Some(OnDevice { segments, regions, kernels, stream, _context: context });
        Ok(Self { address, len, on_device })
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Checks that these bytes exist.
    fn within(&self, offset: u64, len: u64) -> Result<Option<&OnDevice>, GpuError> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if fits { Ok(self.on_device.as_ref()) } else { Err(GpuError::OutOfRange { offset, len }) }
    }

    /// Appends to `out` the values of the `len` bytes from `offset` on, a whole number of segments or regions. They
    /// begin with chunk `first_chunk` of their message: for regions a multiple of 4,096, for segments of 8.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn values(
        &self,
        offset: u64,
        len: u64,
        first_chunk: u64,
        level: GpuLevel,
        out: &mut Vec<ChainingValue>,
    ) -> Result<(), GpuError> {
        let chunks_each = level.bytes() / CHUNK_LEN as u64;
        if !len.is_multiple_of(level.bytes()) || !first_chunk.is_multiple_of(chunks_each) {
            return Err(GpuError::OutOfRange { offset, len });
        }
        let Some(device) = self.within(offset, len)? else { return Ok(()) };
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < len {
            let batch = (len - done).min(BATCH);
            let first = first_chunk.wrapping_add(done / CHUNK_LEN as u64);
            let values = device.hash(self.address + offset + done, batch, first, level)?;
            buffer.resize((batch / level.bytes() * VALUE_LEN) as usize, 0);
            device.copy(values, &mut buffer)?;
            out.extend(values_in(&buffer));
            done += batch;
        }
        Ok(())
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), GpuError> {
        match self.within(offset, out.len() as u64)? {
            Some(device) if !out.is_empty() => device.copy(self.address + offset, out),
            _ => Ok(()),
        }
    }
}

impl OnDevice {
    /// Queues the kernels for at most [`BATCH`] bytes. Returns the address of their values.
    fn hash(
        &self,
        address: u64,
        len: u64,
        first_chunk: u64,
        level: GpuLevel,
    ) -> Result<u64, GpuError> {
        let kernels = &self.kernels;
        let by_quads = address.is_multiple_of(16);
        let kernel = if by_quads { kernels.aligned } else { kernels.unaligned };
        let (mut address, mut first_chunk, mut chunks) =
            (address, first_chunk, len / CHUNK_LEN as u64);
        let (mut segments, mut regions, mut one) = (self.segments.0, self.regions.0, 1_u32);
        let mut arguments: [*mut c_void; 5] = [
            (&raw mut address).cast(),
            (&raw mut first_chunk).cast(),
            (&raw mut chunks).cast(),
            (&raw mut segments).cast(),
            (&raw mut one).cast(),
        ];
        // SAFETY: types and order of the arguments are those in blake3.cu, and the driver copies them before it returns.
        // The kernel reads `len` bytes from `address` on, which the driver knows as memory of this device, and from the
        // other address up to 15 more at either end, within 16 bytes that begin at a multiple of 16: on a page that is
        // mapped. It writes 32 bytes for each segment of at most a batch, for which `segments` has room.
        unsafe { self.launch(kernel, chunks.div_ceil(BLOCK), BLOCK, &mut arguments)? };
        if level == GpuLevel::Segments {
            return Ok(segments);
        }
        let mut arguments: [*mut c_void; 3] =
            [(&raw mut segments).cast(), (&raw mut regions).cast(), (&raw mut one).cast()];
        let threads = REGION_SEGMENTS / 2;
        // SAFETY: as above. Each block reads the values of 512 segments, which the kernel before it on the same stream
        // has written, and writes one to `regions`, which has room for those of a batch.
        unsafe { self.launch(kernels.regions, len / REGION_LEN, threads, &mut arguments)? };
        Ok(regions)
    }

    /// Queues one kernel.
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and what it reads and writes must exist.
    unsafe fn launch(
        &self,
        kernel: sys::CUfunction,
        blocks: u64,
        threads: u64,
        arguments: &mut [*mut c_void],
    ) -> Result<(), GpuError> {
        let (grid, block) = ((blocks as u32, 1, 1), (threads as u32, 1, 1));
        // SAFETY: the caller's promise.
        unsafe { result::launch_kernel(kernel, grid, block, 0, self.stream.0, arguments) }
            .map_err(driver("start the kernel"))
    }

    /// Copies from the device, after the work that is queued.
    fn copy(&self, address: u64, out: &mut [u8]) -> Result<(), GpuError> {
        // SAFETY: `out` lives until the stream has been waited for, below. The callers have checked the address.
        let queued = unsafe { result::memcpy_dtoh_async(out, address, self.stream.0) };
        let waited = self.stream.wait();
        queued.map_err(driver("copy from the GPU"))?;
        waited
    }
}

/// Memory of a GPU, for tests and measurements.
pub struct GpuBuffer {
    memory: GpuMemory,
    len: u64,
    context: GpuContext,
}

impl std::fmt::Debug for GpuBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl GpuBuffer {
    /// Allocates `len` bytes on the first GPU. They are zeros.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn new(len: u64) -> Result<Self, GpuError> {
        start()?;
        let context = GpuContext::of(0)?;
        let memory = GpuMemory::new(len)?;
        // SAFETY: the memory has that many bytes.
        unsafe { result::memset_d8_sync(memory.0, 0, len as usize) }.map_err(driver("write"))?;
        Ok(Self { memory, len, context })
    }

    /// The GPU's name.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn device(&self) -> Result<String, GpuError> {
        result::device::get_name(self.context.0).map_err(driver("name the GPU"))
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.0
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), GpuError> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if fits { Ok(()) } else { Err(GpuError::OutOfRange { offset, len }) }
    }

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.check(offset, bytes.len() as u64)?;
        // SAFETY: the memory has these bytes, and the call returns after the copy.
        unsafe { result::memcpy_htod_sync(self.memory.0 + offset, bytes) }.map_err(driver("write"))
    }

    /// Copies `len` bytes of `from`, from `offset` on, to the same place here.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn copy_from(&mut self, from: &Self, offset: u64, len: u64) -> Result<(), GpuError> {
        self.check(offset, len)?;
        from.check(offset, len)?;
        let (to, from) = (self.memory.0 + offset, from.memory.0 + offset);
        // SAFETY: both have these bytes, in different memory.
        unsafe { result::memcpy_dtod_sync(to, from, len as usize) }.map_err(driver("copy"))?;
        result::ctx::synchronize().map_err(driver("copy"))
    }
}
