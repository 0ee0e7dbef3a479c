//! The decision as a bare WebAssembly module, without imports.
//!
//! The host writes into the memory that [`input`] gives it, calls [`configure`] once with policy and keys, then
//! [`decide`] for each request, and reads the answer at [`output`]. All texts are UTF-8.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use dlmalloc::GlobalDlmalloc;
use ropeline_decision::header::Field;
use ropeline_decision::{Policy, Request, Verdict};
use ropeline_token::KeySet;
use spin::Mutex;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Nothing here panics on purpose, and the message of one that did would double the module's size.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTPUT: Mutex<String> = Mutex::new(String::new());
static SETTINGS: Mutex<Option<(Policy, KeySet)>> = Mutex::new(None);

/// Memory for so many bytes, to be written by the host before the next call.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    let mut input = INPUT.lock();
    input.clear();
    input.resize(length, 0);
    input.as_mut_ptr()
}

/// Where the answer of the last [`decide`] is.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.lock().as_ptr()
}

/// Takes the policy, which is the first `policy_length` bytes of the input, and the key set, which is the rest.
/// Answers 0, or 1 if the policy is refused, or 2 if the keys are; then what was there before stays.
#[unsafe(no_mangle)]
pub extern "C" fn configure(policy_length: usize) -> u32 {
    let (input, mut settings) = (INPUT.lock(), SETTINGS.lock());
    let Some((policy, keys)) = input.split_at_checked(policy_length) else { return 1 };
    let Ok(policy) = Policy::from_json(policy) else { return 1 };
    let Ok(keys) = KeySet::from_jwks(keys) else { return 2 };
    *settings = Some((policy, keys));
    0
}

/// Decides on the request in the input at `now` (Unix seconds): lines of method, host and target, then two lines for
/// each field, name and value.
///
/// Answers the length of the output: a line that says `forward`, `wait`, `reject` or `api`; then the target, the sale
/// and the code and status of the refusal, the code and status of the rejection, or the path; for an admission the
/// fields to set follow. 0 means that there are no settings or the request is not in this form.
#[unsafe(no_mangle)]
pub extern "C" fn decide(now: u64) -> usize {
    let (input, mut output, settings) = (INPUT.lock(), OUTPUT.lock(), SETTINGS.lock());
    output.clear();
    let (Some((policy, keys)), Ok(text)) = (settings.as_ref(), core::str::from_utf8(&input)) else {
        return 0;
    };
    let mut lines = text.split('\n');
    let (Some(method), Some(host), Some(target)) = (lines.next(), lines.next(), lines.next()) else {
        return 0;
    };
    let mut headers: Vec<Field<'_>> = Vec::new();
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        headers.push((name, value.as_bytes()));
    }
    let mut say = |line: &str| {
        output.push_str(line);
        output.push('\n');
    };
    match ropeline_decision::decide(&Request { method, host, target, headers: &headers }, policy, keys, now) {
        Verdict::Forward(forward) => {
            say("forward");
            say(&forward.target);
            for (name, value) in forward.admission.iter().flat_map(|admission| admission.headers()) {
                say(name);
                say(value);
            }
        }
        Verdict::Wait(wait) => {
            say(if wait.page { "wait page" } else { "wait problem" });
            say(wait.sale.sale.as_str());
            say(wait.refusal.code());
            say(&three_digits(wait.status()));
        }
        Verdict::Reject(rejection) => {
            say("reject");
            say(rejection.code());
            say(&three_digits(rejection.status()));
        }
        Verdict::Api(path) => {
            say("api");
            say(&path);
        }
    }
    output.len()
}

/// A status in digits, without the formatter, which would be a twentieth of the module.
fn three_digits(status: u16) -> String {
    [100, 10, 1]
        .into_iter()
        .filter_map(|place| char::from_digit(u32::from(status / place % 10), 10))
        .collect()
}
