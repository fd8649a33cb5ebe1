//! What the fuzz targets share: requests made of arbitrary bytes, and what must hold of every one
//! of them.
//!
//! A target is one file in `src/bin`, one line in the table of `xtask/src/fuzz.rs`, and a few small
//! seeds in `corpus/<target>`. Deliberately absent: everything that is not a pure function of its
//! input and of the keys, which are new in every process.

mod answers;
mod credentials;
mod issuer;
mod model;
mod requests;
mod server;

pub use answers::check_answer;
pub use credentials::{
    NOW, NOW_TEXT, Opened, account_key, authenticate, check_refused, check_refused_in_words,
};
pub use issuer::SigningKey;
pub use model::Model;
pub use requests::{ACCOUNT, check_request, led_to_account, read_request, request};
pub use server::{Server, account_name, sign};
