//! Any request with its body, from its address to what it asks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tavola_fuzz::{check_request, led_to_account, read_request};

fuzz_target!(|data: &[u8]| {
    let request = read_request(data);
    let Ok((led, _)) = led_to_account(request.clone()) else { return };
    if led.uri() != request.uri() {
        check_request(request);
    }
    check_request(led);
});
