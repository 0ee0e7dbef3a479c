//! What a component without the standard library must bring along.

use alloc::alloc::{Layout, alloc, handle_alloc_error, realloc};

use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Nothing here panics on purpose, and the message of one that did would double the component's size.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

// `memcmp` and its like, which the compiler expects of this target's C library.
#[link(name = "c")]
unsafe extern "C" {}

/// Memory for what the host hands over (Canonical ABI). It is freed by this component's allocator, so that of the C library
/// must not give it.
///
/// # Safety
/// As the Canonical ABI has it: `old` is what this function gave for `old_size` and `align`, or `old_size` is 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_size: usize, align: usize, new_size: usize) -> *mut u8 {
    if new_size == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    // SAFETY: the Canonical ABI asks for alignments that are powers of two, and for sizes within the memory; `old` is from
    // here, by this function's contract, and `new_size` is not 0.
    unsafe {
        let layout =
            Layout::from_size_align_unchecked(if old_size == 0 { new_size } else { old_size }, align);
        let new = if old_size == 0 { alloc(layout) } else { realloc(old, layout, new_size) };
        if new.is_null() {
            handle_alloc_error(layout);
        }
        new
    }
}
