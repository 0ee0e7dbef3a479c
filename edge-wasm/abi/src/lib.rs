//! An edge as a bare WebAssembly module, without imports.
//!
//! The host writes into the memory that [`input`] gives it, calls [`configure`] once with the settings that the gateway
//! exports, and again whenever it has newer ones; then [`plan`] for each request; and reads what they have to say at
//! [`output`].
//!
//! A call that does not come back, because it trapped or was interrupted, leaves the module in a state that nobody knows:
//! every call after it traps at once. The host drops the instance then, and makes another.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use rlsf::SmallGlobalTlsf;
use ropeline_edge::{Field, Request, Settings};
use spin::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Nothing here panics on purpose, and the message of one that did would double the module's size.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTPUT: Mutex<String> = Mutex::new(String::new());
static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

/// What only one call at a time may have. One that still has it will not give it back: nothing here runs beside it.
fn held<T>(by_one: &Mutex<T>) -> MutexGuard<'_, T> {
    match by_one.try_lock() {
        Some(guard) => guard,
        None => core::arch::wasm32::unreachable(),
    }
}

/// Memory for so many bytes, to be written by the host before the next call.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    let mut input = held(&INPUT);
    input.clear();
    input.resize(length, 0);
    input.as_mut_ptr()
}

/// Where the output of the last call is. It is UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    held(&OUTPUT).as_ptr()
}

/// Takes the input as settings, a JSON document, and answers 0. If they are refused, those that were there before stay,
/// and the answer is the length of the output, which is the stable code of the reason.
#[unsafe(no_mangle)]
pub extern "C" fn configure() -> usize {
    let (input, mut output) = (held(&INPUT), held(&OUTPUT));
    output.clear();
    match Settings::from_json(&input) {
        Ok(settings) => *held(&SETTINGS) = Some(settings),
        Err(refused) => output.push_str(refused.code()),
    }
    output.len()
}

/// What to do with the request in the input at `now` (Unix seconds): lines of method, host and target, then two lines
/// for each field, name and value. All but the values, which may be any bytes without a line feed, are UTF-8.
///
/// Answers the length of the output, a plan in JSON. 0 means that there are no settings or the request is not in this
/// form.
#[unsafe(no_mangle)]
pub extern "C" fn plan(now: u64) -> usize {
    let (input, mut output, settings) = (held(&INPUT), held(&OUTPUT), held(&SETTINGS));
    output.clear();
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut text = || core::str::from_utf8(lines.next()?).ok();
    let (Some(settings), Some(method), Some(host), Some(target)) =
        (settings.as_ref(), text(), text(), text())
    else {
        return 0;
    };
    let mut headers: Vec<Field<'_>> = Vec::new();
    while let Some(name) = lines.next() {
        let (Ok(name), Some(value)) = (core::str::from_utf8(name), lines.next()) else { return 0 };
        headers.push((name, value));
    }
    let request = Request { method, host, target, headers: &headers };
    *output = settings.plan(&request, now).to_json();
    output.len()
}
